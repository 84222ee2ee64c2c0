//go:build unix && !linux

package worker_test

import "errors"

// liar has no memory to lie about.
func liar() error { return errors.New("no memory is shared here") }
