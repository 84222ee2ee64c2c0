//go:build !purego

package cpu

import "golang.org/x/sys/unix"

// From asm/prctl.h of Linux 5.16 and later; the number is that of the tile
// data.
const (
	archReqXcompPerm = 0x1023
	xfeatureTileData = 18
)

// tilesPermitted requests the AMX registers, which the kernel grants to a whole
// process with all its threads. It reports EINVAL if it predates them and
// EOPNOTSUPP if they are disabled. After that, a signal frame may take 11 KiB;
// Go's signal stacks have 32.
func tilesPermitted() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archReqXcompPerm, xfeatureTileData, 0)
	return errno == 0
}
