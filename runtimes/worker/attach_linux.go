package worker

import (
	"golang.org/x/sys/unix"

	"mm-abi.org/mm/runtimes/worker/wire"
)

// attach maps the shared memory that the parent offers, or returns nil: tensors then
// use the pipe.
func attach(size int64) []byte {
	unix.CloseOnExec(wire.SharedFile)
	var info unix.Stat_t
	if err := unix.Fstat(wire.SharedFile, &info); err != nil || info.Size != size || int64(int(size)) != size {
		return nil
	}
	b, err := unix.Mmap(wire.SharedFile, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return b
}
