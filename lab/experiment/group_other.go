//go:build !unix

package experiment

import (
	"os/exec"
	"time"
)

// grouped does nothing: without process groups, canceling the context ends the process
// only.
func grouped(*exec.Cmd) {}

func endGroup(*exec.Cmd, time.Duration) {}
