//go:build unix

package experiment

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grouped starts the process in a new process group. Canceling the context sends SIGTERM to
// the group.
func grouped(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}

// endGroup sends SIGTERM to the rest of the group, and SIGKILL after grace. The group ID is
// not reused while the group has members.
func endGroup(cmd *exec.Cmd, grace time.Duration) {
	if cmd.Process == nil {
		return
	}
	group := -cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // the group may be gone
	for waited := time.Duration(0); waited < grace; waited += groupPoll {
		if syscall.Kill(group, 0) != nil {
			return
		}
		time.Sleep(groupPoll)
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
}

// groupPoll is the interval at which a group is checked.
const groupPoll = 10 * time.Millisecond
