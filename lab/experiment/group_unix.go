//go:build unix

package experiment

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grouped puts the process into a group of its own, with all that it starts, and
// has the end of the context ask the whole group to end.
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

// endGroup asks what is left of the group to end, and kills it after a moment. The group's number is nobody else's as long as there is one of it.
func endGroup(cmd *exec.Cmd, moment time.Duration) {
	if cmd.Process == nil {
		return
	}
	group := -cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // there may be nothing left
	for waited := time.Duration(0); waited < moment; waited += groupPoll {
		if syscall.Kill(group, 0) != nil {
			return
		}
		time.Sleep(groupPoll)
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
}

// groupPoll is how often a group is looked at.
const groupPoll = 10 * time.Millisecond
