package registry

import (
	"fmt"
	"syscall"
)

func mountTmpfs(dir string, size int) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
}

func unmount(dir string) { syscall.Unmount(dir, syscall.MNT_DETACH) }
