//go:build unix && !linux

package worker_test

import "errors"

// liar returns an error: memory is shared on Linux only.
func liar() error { return errors.New("no memory is shared here") }
