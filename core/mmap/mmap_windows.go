package mmap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapBytes(f *os.File, size int) ([]byte, func() error, error) {
	hi, lo := uint32(uint64(size)>>32), uint32(uint64(size))
	mapping, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, hi, lo, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateFileMapping", err)
	}
	// A view keeps its mapping alive, so the handle can be closed here.
	defer windows.CloseHandle(mapping)
	addr, err := windows.MapViewOfFile(mapping, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, nil, os.NewSyscallError("MapViewOfFile", err)
	}
	// The view is outside the Go heap; reading the address through a pointer to
	// it satisfies vet's unsafe-pointer rule.
	data := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size)
	return data, func() error { return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(addr)) }, nil
}

// willNeed does nothing: Windows reads ahead by itself.
func willNeed([]byte) {}

// release does nothing: Windows trims working sets by itself.
func release([]byte) {}
