package worker

import "syscall"

// childAttr adds nothing: the child ends when its input does.
func childAttr() *syscall.SysProcAttr { return nil }

// killGroup does nothing: Windows has no process groups of this kind.
func killGroup(int) {}
