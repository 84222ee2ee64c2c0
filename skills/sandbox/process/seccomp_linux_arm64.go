package process

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

// archCalls lists calls with another name on this architecture.
var archCalls = []uint32{unix.SYS_NEWFSTATAT}
