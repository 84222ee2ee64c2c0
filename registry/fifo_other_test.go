//go:build !unix

package registry

import "errors"

func makeFIFO(string) error { return errors.ErrUnsupported }
