package worker

import (
	"os"

	"golang.org/x/sys/unix"
)

// newShared creates shared memory of a sealed size, or returns nil if the system
// refuses.
func newShared() *shared {
	fd, err := unix.MemfdCreate("mm-tensors", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "shared memory")
	err = unix.Ftruncate(fd, sharedBytes)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil
	}
	return &shared{file: f}
}
