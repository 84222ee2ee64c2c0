//go:build unix

package home

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckOwner refuses a file that another user could have written: one that
// another user owns, or whose folder another user owns or all users may write
// to. The superuser's files are accepted.
func CheckOwner(file string) error {
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if why := foreign(info); why != "" {
			return fmt.Errorf("%s is not used: %s %s", file, path, why)
		}
	}
	return nil
}

// Writable returns why others can change a file; "" if they cannot.
func Writable(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return foreign(info)
}

// Readable reports whether others can read a file.
func Readable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().Perm()&0o044 != 0
}

func foreign(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("belongs to another user (%d)", st.Uid)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return "may be written to by everybody"
	}
	return ""
}
