package farm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Command executes jobs as child processes of mm.
type Command struct {
	Queue   *Queue
	Program string // path of mm
	Dir     string // folder of the worker alone
}

// grace is the time that a child has to end after a signal.
const grace = 10 * time.Second

// Execute implements [Executor].
func (c Command) Execute(ctx context.Context, id string, j Job) (out Outcome, err error) {
	name := "kept/" + j.Keep
	if j.Keep == "" {
		name = "once/" + id
		defer func() { err = errors.Join(err, fsx.RemoveAll(filepath.Join(c.Dir, "once", id))) }()
	}
	d, err := fsx.Create(c.Dir, 0o700, fsx.Options{})
	if err != nil {
		return out, err
	}
	defer d.Close()
	if err := d.MkdirAll(name, 0o700); err != nil {
		return out, err
	}
	dir := filepath.Join(c.Dir, filepath.FromSlash(name))
	for path, sum := range j.Inputs {
		if err := c.Queue.GetFile(ctx, sum, dir, path); err != nil {
			return out, fmt.Errorf("input %s: %w", path, err)
		}
	}
	for _, path := range j.Outputs {
		if err := d.Remove(name + "/" + path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return out, err
		}
	}
	if out.Tail, err = c.run(ctx, dir, j.Args); err != nil {
		return out, err
	}
	out.Outputs = map[string]string{}
	for _, path := range j.Outputs {
		if out.Outputs[path], err = c.Queue.PutFile(ctx, filepath.Join(dir, filepath.FromSlash(path))); err != nil {
			return out, fmt.Errorf("output %s: %w", path, err)
		}
	}
	return out, nil
}

// run runs mm in dir and returns the end of its output.
func (c Command) run(ctx context.Context, dir string, args []string) (string, error) {
	tail := &diag.Tail{Limit: maxTail}
	cmd := exec.CommandContext(ctx, c.Program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, tail, tail
	cmd.SysProcAttr = attached()
	cmd.Cancel = func() error { return interrupt(cmd.Process) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	text := tail.String()
	if err != nil {
		return text, fmt.Errorf("%w: %s", err, strings.TrimSpace(text))
	}
	return text, nil
}
