//go:build unix

package registry

import "syscall"

// nonblock keeps the opening of a FIFO or a device from waiting.
const nonblock = syscall.O_NONBLOCK
