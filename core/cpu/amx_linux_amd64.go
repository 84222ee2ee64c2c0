//go:build !purego

package cpu

import "golang.org/x/sys/unix"

// asm/prctl.h of Linux 5.16 and later, and the number of the state.
const (
	archReqXcompPerm = 0x1023
	xfeatureTileData = 18
)

// tilesPermitted asks the kernel for the registers of AMX, which a process has
// for the asking, all its threads at once. A kernel that does not know them
// says EINVAL, one that has them switched off EOPNOTSUPP. From then on a frame
// of a signal may take 11 KiB; Go's stacks for signals have 32.
func tilesPermitted() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archReqXcompPerm, xfeatureTileData, 0)
	return errno == 0
}
