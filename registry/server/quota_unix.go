//go:build unix

package server

import "syscall"

const quotaExceeded = syscall.EDQUOT
