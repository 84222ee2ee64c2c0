package cas

import (
	"io/fs"
	"syscall"
)

// KeyOfInfo returns the key of the file that fi describes.
func KeyOfInfo(fi fs.FileInfo) (Key, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Key{}, false
	}
	return Key{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, true
}
