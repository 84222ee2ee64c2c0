package worker

import "syscall"

// withParent has the kernel kill the child when the thread that started it
// ends, which in a Go program is when the program does.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
