//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// Private refuses a folder that another user owns or that others can read or
// write. The error names the folder and what, its contents.
func Private(dir, what string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return Refuse("%s is not a folder", dir)
	}
	if int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return Refuse("%s holds %s and is accessible to others (%v): chmod 700, or remove it", dir, what, info.Mode().Perm())
	}
	return nil
}
