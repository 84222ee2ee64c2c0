//go:build unix

package experiment_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/lab/experiment"
)

// A step's child processes end with it, at a timeout and when the run is interrupted, also
// if they ignore SIGTERM or have closed their output.
func TestChildrenEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script, timeout string
		interrupt       bool
	}{
		"timeout":      {`sleep 600 & echo $! >PID; wait`, "1s", false},
		"interrupt":    {`sleep 600 & echo $! >PID; wait`, "10m", true},
		"ignores TERM": {`(trap "" TERM; exec sleep 600) >/dev/null 2>&1 & echo $! >PID; wait`, "1s", false},
		"orphan":       {`sleep 600 & echo $! >PID`, "10m", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, dir := newKey(t), t.TempDir()
			file := filepath.Join(dir, "pid")
			p := readPlan(t, "name: a\niterations: 1\nsteps:\n  - {name: s, timeout: "+tc.timeout+", command: [sh, -c, '"+strings.ReplaceAll(tc.script, "PID", file)+"']}\n")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			opt := experiment.Machine(experiment.Options{Dir: filepath.Join(dir, "run"), Key: key, Verifier: key.Public(), Grace: 300 * time.Millisecond}, experiment.Functions())
			done := make(chan error, 1)
			go func() {
				_, err := experiment.Run(ctx, p, opt)
				done <- err
			}()
			var pid int
			for pid == 0 {
				text, _ := os.ReadFile(file) // missing at first
				pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				time.Sleep(5 * time.Millisecond)
			}
			if tc.interrupt {
				cancel()
			}
			if err := <-done; err != nil && !tc.interrupt {
				t.Fatal(err)
			}
			for i := 0; running(pid); i++ {
				if i == 100 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					t.Fatal("the child is still running")
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
