package process

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

// archCalls lists calls with older names. Calls of the x32 ABI have other
// numbers and are not allowed.
var archCalls = []uint32{
	unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_GETDENTS, unix.SYS_DUP2, unix.SYS_PIPE,
	unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_TIME,
	unix.SYS_GETPGRP, unix.SYS_ARCH_PRCTL,
}
