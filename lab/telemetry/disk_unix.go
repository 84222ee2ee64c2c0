//go:build linux || darwin

package telemetry

import "syscall"

// freeMiB returns the space at dir that is available to users.
func freeMiB(dir string) (float64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return float64(st.Bavail) * float64(st.Bsize) / (1 << 20), true
}
