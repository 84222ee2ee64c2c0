//go:build unix

package wasm

import "golang.org/x/sys/unix"

// reserve returns a memory of size bytes outside of Go's heap: growing it
// moves nothing, and it is released at once.
func reserve(size int64) (*memory, error) {
	data, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	return &memory{data: data, free: func() { _ = unix.Munmap(data) }}, nil // it cannot fail for a mapping of Mmap
}
