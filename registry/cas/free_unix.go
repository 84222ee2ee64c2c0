//go:build linux || darwin

package cas

import (
	"math"
	"syscall"
)

// Free returns the bytes that this user may still write on the file system of path.
func Free(path string) (int64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, false
	}
	free := float64(st.Bavail) * float64(st.Bsize)
	return int64(min(free, math.MaxInt64/2)), true
}
