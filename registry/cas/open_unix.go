//go:build unix

package cas

import "syscall"

// nonblock makes opening a FIFO or a device return at once.
const nonblock = syscall.O_NONBLOCK
