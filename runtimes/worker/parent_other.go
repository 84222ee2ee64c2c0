//go:build !linux

package worker

import "syscall"

// withParent adds nothing: the child ends when its input does.
func withParent() *syscall.SysProcAttr { return nil }
