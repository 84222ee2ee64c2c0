package qnnlib

import "github.com/ebitengine/purego"

// giveBack makes libc's malloc return large blocks to the system when they are freed. By default
// the library's blocks of 5 MB raise its threshold, and it keeps blocks of that size for each
// thread: a process with a small context then has 105 MB instead of 70. Other libcs than GNU's
// lack the setting.
func giveBack() {
	const mmapThreshold, bytes = ^uintptr(2), 128 << 10 // M_MMAP_THRESHOLD is -3, with its initial value
	if at, err := purego.Dlsym(purego.RTLD_DEFAULT, "mallopt"); err == nil {
		purego.SyscallN(at, mmapThreshold, bytes)
	}
}
