//go:build !linux

package worker

// newShared returns nil: shared memory is used on Linux only.
func newShared() *shared { return nil }
