//go:build unix

package oci

import (
	"os"
	"syscall"

	"mm-abi.org/mm/skills/sandbox"
)

// private refuses a folder that is another user's, or that others may write to
// or look into.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return sandbox.Refuse("%s is no folder", dir)
	}
	if int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return sandbox.Refuse("%s holds programs, and is not this user's alone (%v): chmod 700, or remove it", dir, info.Mode().Perm())
	}
	return nil
}
