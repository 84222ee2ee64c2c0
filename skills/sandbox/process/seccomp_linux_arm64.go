package process

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

// archCalls are those that this architecture names otherwise.
var archCalls = []uint32{unix.SYS_NEWFSTATAT}
