package testfiles

import (
	"os"
	"syscall"
	"testing"
)

// enough is the free space in bytes that a folder in memory needs.
const enough = 2 << 30

// InMemory runs the tests of a package with temporary folders in memory where /dev/shm has
// space, because every write of a store waits for the disk. It returns the exit status.
func InMemory(m *testing.M) int {
	var fs syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &fs) != nil || uint64(fs.Bsize)*fs.Bavail < enough {
		return m.Run()
	}
	dir, err := os.MkdirTemp("/dev/shm", "mm-test-")
	if err != nil {
		return m.Run()
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return m.Run()
	}
	return m.Run()
}
