package loose

import (
	"io/fs"
	"syscall"
)

// stateOf returns the file's identity and time of change.
func stateOf(info fs.FileInfo) (fileState, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileState{Size: info.Size()}, false
	}
	return fileState{Device: uint64(s.Dev), Inode: s.Ino, Size: info.Size(), Changed: s.Ctim.Nano()}, true
}
