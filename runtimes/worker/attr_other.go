//go:build unix && !linux

package worker

import "syscall"

// childAttr makes the child the leader of a process group. It ends when its input
// does.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
