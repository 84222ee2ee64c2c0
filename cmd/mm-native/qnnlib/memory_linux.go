package qnnlib

import "github.com/ebitengine/purego"

// giveBack has libc's malloc give large blocks back to the system as soon as they
// are freed. It else learns from the library's own, of 5 MB, to keep blocks of
// that size for each of its threads: a process with a small context has 70 MB
// in place of 105. Another libc than GNU's has no such setting.
func giveBack() {
	const mmapThreshold, bytes = ^uintptr(2), 128 << 10 // M_MMAP_THRESHOLD is -3, and what malloc begins with
	if at, err := purego.Dlsym(purego.RTLD_DEFAULT, "mallopt"); err == nil {
		purego.SyscallN(at, mmapThreshold, bytes)
	}
}
