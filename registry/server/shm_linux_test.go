package server

import (
	"os"
	"syscall"
)

// memoryTemp puts the tests' temporary folders into memory if there is room: a
// sync to disk for each blob is most of their time and proves nothing here.
func memoryTemp() (remove func()) {
	var fs syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &fs) != nil || uint64(fs.Bsize)*fs.Bavail < 2<<30 {
		return func() {}
	}
	dir, err := os.MkdirTemp("/dev/shm", "mm-test-")
	if err != nil {
		return func() {}
	}
	os.Setenv("TMPDIR", dir)
	return func() { os.RemoveAll(dir) }
}
