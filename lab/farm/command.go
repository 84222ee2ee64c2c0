package farm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/schemas"
)

// Command executes jobs as child processes of mm.
type Command struct {
	Queue   *Queue
	Program string // path of mm
	Dir     string // folder of the worker alone
	Room    Room   // of kept folders
}

// grace is the time that a child has to end after a signal.
const grace = 10 * time.Second

// Execute implements [Executor].
func (c Command) Execute(ctx context.Context, id string, j Job) (out Outcome, err error) {
	name := keptDir + "/" + j.Keep
	if j.Keep == "" {
		name = onceDir + "/" + id
		defer func() { err = errors.Join(err, fsx.RemoveAll(filepath.Join(c.Dir, onceDir, id))) }()
	}
	d, err := fsx.Create(c.Dir, 0o700, fsx.Options{})
	if err != nil {
		return out, err
	}
	defer d.Close()
	if j.Keep != "" {
		if err := c.use(ctx, d, j.Keep); err != nil {
			return out, err
		}
	}
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
		if folder, ok := strings.CutSuffix(path, "/"); ok {
			if !holds(j.Inputs, path) {
				err = fsx.RemoveAll(filepath.Join(dir, filepath.FromSlash(folder)))
			}
		} else if err = d.Remove(name + "/" + path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return out, err
		}
	}
	if out.Tail, err = c.run(ctx, dir, j); err != nil {
		return out, err
	}
	out.Outputs, err = c.store(ctx, dir, j.Outputs)
	return out, err
}

// holds reports whether a folder has an input.
func holds(inputs map[string]string, folder string) bool {
	for path := range inputs {
		if strings.HasPrefix(path, folder) {
			return true
		}
	}
	return false
}

// store stores the outputs of a job: files, and all files of folders.
func (c Command) store(ctx context.Context, dir string, outputs []string) (map[string]string, error) {
	all, err := outputFiles(dir, outputs)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, path := range all {
		if sums[path], err = c.Queue.PutFile(ctx, filepath.Join(dir, filepath.FromSlash(path))); err != nil {
			return nil, fmt.Errorf("output %s: %w", path, err)
		}
	}
	return sums, nil
}

// outputFiles lists the files of outputs. A folder has regular files only; the state of mm
// in it stays.
func outputFiles(dir string, outputs []string) (all []string, err error) {
	for _, path := range outputs {
		folder, ok := strings.CutSuffix(path, "/")
		if !ok {
			all = append(all, path)
			continue
		}
		err := filepath.WalkDir(filepath.Join(dir, filepath.FromSlash(folder)), func(at string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() {
				if e.Name() == ".mm" { // state of a store, which mm makes anew
					return fs.SkipDir
				}
				return nil
			}
			rel, err := filepath.Rel(dir, at)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			if !e.Type().IsRegular() || !schemas.ValidPath(rel) || len(all) == maxFiles {
				return fmt.Errorf("%s: want at most %d regular files with portable names", rel, maxFiles)
			}
			all = append(all, rel)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", path, err)
		}
	}
	return all, nil
}

// run runs mm in dir and returns the end of its output.
func (c Command) run(ctx context.Context, dir string, j Job) (string, error) {
	tail := &diag.Tail{Limit: maxTail}
	cmd := exec.CommandContext(ctx, c.Program, j.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, tail, tail
	if j.Home != "" {
		home, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(j.Home)))
		if err != nil {
			return "", err
		}
		cmd.Env = append(os.Environ(), "MM_HOME="+home)
	}
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
