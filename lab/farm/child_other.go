//go:build !linux

package farm

import (
	"os"
	"syscall"
)

// attached returns the default: a child whose parent is killed continues to its end, and
// its result is discarded.
func attached() *syscall.SysProcAttr { return nil }

// interrupt ends a process.
func interrupt(p *os.Process) error { return p.Kill() }
