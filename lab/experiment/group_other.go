//go:build !unix

package experiment

import (
	"os/exec"
	"time"
)

// grouped does nothing: there are no groups of processes, and the end of the
// context ends the process alone.
func grouped(*exec.Cmd) {}

func endGroup(*exec.Cmd, time.Duration) {}
