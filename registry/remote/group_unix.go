//go:build unix

package remote

import (
	"os/exec"
	"syscall"
)

// group makes the end of cmd's context kill its children, too.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
