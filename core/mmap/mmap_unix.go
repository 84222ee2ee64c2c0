//go:build unix

package mmap

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapBytes(f *os.File, size int) ([]byte, func() error, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return data, func() error { return os.NewSyscallError("munmap", unix.Munmap(data)) }, nil
}

// release drops the pages from memory; they are read again on access. The kernel
// may refuse, which costs memory only.
func release(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) }

// willNeed requests the pages; if the kernel refuses, they are read on first
// access.
func willNeed(data []byte) { _ = unix.Madvise(data, unix.MADV_WILLNEED) }
