//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// Private refuses a folder that is another user's, or that others may write to
// or look into; what it holds is told to whoever reads the error.
func Private(dir, what string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return Refuse("%s is no folder", dir)
	}
	if int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return Refuse("%s holds %s, and is not this user's alone (%v): chmod 700, or remove it", dir, what, info.Mode().Perm())
	}
	return nil
}
