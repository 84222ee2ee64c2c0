//go:build !unix

package remote

import "os/exec"

// group leaves children of cmd to cmd.WaitDelay.
func group(*exec.Cmd) {}
