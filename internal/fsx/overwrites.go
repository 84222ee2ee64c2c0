package fsx

import (
	"os"
	"path/filepath"
)

// Overwrites reports whether the path written is the path read, or is in the
// folder read.
func Overwrites(written, read string) bool {
	info, err := os.Stat(read)
	if err != nil {
		return false
	}
	old, err := os.Stat(written)
	if err != nil {
		return false
	}
	folder, err := os.Stat(filepath.Dir(written))
	return os.SameFile(old, info) || err == nil && os.SameFile(folder, info)
}
