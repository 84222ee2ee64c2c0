//go:build unix

package wasm

import "golang.org/x/sys/unix"

// reserve makes a memory of size bytes outside of Go's heap, so that growing it
// moves nothing and its end gives it back at once.
func reserve(size int64) (*memory, error) {
	data, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	return &memory{data: data, free: func() { _ = unix.Munmap(data) }}, nil // it cannot fail for what Mmap gave
}
