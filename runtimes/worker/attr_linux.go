package worker

import "syscall"

// childAttr makes the child the leader of a process group, and has the kernel kill it
// when the thread that started it ends, which in Go happens when the program ends.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
