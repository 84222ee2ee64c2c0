package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/eval/demo"
	"mm-abi.org/mm/internal/fsx"
)

func (p *program) demo(c *cli.Context) error {
	opt := demo.Options{Graph: c.String("graph"), Prompt: c.String("prompt"), Seed: c.Uint64("seed"), Dir: c.String("keep")}
	var err error
	if opt.Out, err = filepath.Abs(c.String("out")); err != nil {
		return err
	}
	out, err := fsx.Create(opt.Out, 0o755, fsx.Options{})
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if opt.Dir == "" {
		if opt.Dir, err = fsx.MkdirTemp("mm-demo-*"); err != nil {
			return err
		}
		defer fsx.RemoveAll(opt.Dir)
	}
	opt.MM = func(ctx context.Context, home string, args ...string) ([]byte, error) {
		restore := setHome(home)
		defer restore()
		p.say("$ mm %s", strings.ReplaceAll(strings.Join(args, " "), opt.Dir+string(filepath.Separator), ""))
		var out, errs bytes.Buffer
		if code := run(ctx, append([]string{"mm"}, args...), p.stdin, &out, &errs); code != exitOK {
			return nil, fmt.Errorf("mm %s failed with exit code %d:\n%s%s", args[0], code, errs.String(), out.String())
		}
		return out.Bytes(), nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	source, closeSource, err := demo.Source(c.String("from"), dir, executable)
	if errors.Is(err, demo.ErrNoSource) {
		return hinted{err, "run it in a checkout of mm, or name mm-catalog.zip of a release with --from"}
	}
	if err != nil {
		return err
	}
	defer closeSource()
	opt.Source = source
	r, err := demo.Run(c.Context, opt)
	if unknown := (*demo.GraphError)(nil); errors.As(err, &unknown) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(r)
	}
	return p.printDemo(r)
}

// setHome points mm at the home of a demo: a key with an empty password, without
// the logins of the user.
func setHome(dir string) (restore func()) {
	var undo []func()
	for name, value := range map[string]string{"MM_HOME": dir, passwordEnv: "", "DOCKER_CONFIG": filepath.Join(dir, "docker")} {
		if old, ok := os.LookupEnv(name); ok {
			undo = append(undo, func() { os.Setenv(name, old) })
		} else {
			undo = append(undo, func() { os.Unsetenv(name) })
		}
		os.Setenv(name, value)
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}

func (p *program) printDemo(r *demo.Result) error {
	rows := rowsOf(r.Steps, func(s demo.Step) []string {
		bytes := ""
		if s.Bytes > 0 {
			bytes = size(s.Bytes)
		}
		return []string{s.Step, fmt.Sprintf("%.0f ms", s.MS), bytes, short(s.Digest), s.Note}
	})
	fmt.Fprintln(p.stdout)
	if err := p.printTable([]string{"STEP", "TIME", "SIZE", "DIGEST", ""}, rows); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "\n%s%s\n\n", r.Prompt, r.Text)
	rows = nil
	var untrained []string
	right, judged := 0, 0
	for _, i := range r.Shown {
		said, file := i.Said, ""
		if said != "" {
			said = fmt.Sprintf("%q", said)
		}
		if i.File != "" {
			file = filepath.Base(i.File)
		}
		rows = append(rows, []string{i.What, file, i.Ask, said, i.Verdict()})
		if i.Right != nil {
			if judged++; *i.Right {
				right++
			}
		}
		untrained = append(untrained, i.Untrained...)
	}
	if err := p.printTable([]string{"SHOWN", "FILE", "ASKED", "SAID", ""}, rows); err != nil {
		return err
	}
	if judged > 0 {
		fmt.Fprintf(p.stdout, "\n%d of %d right; images, sounds and trace.svg are in %s\n", right, judged, r.Folder)
	}
	slices.Sort(untrained)
	if untrained = slices.Compact(untrained); len(untrained) > 0 {
		fmt.Fprintf(p.stdout, "%s: placeholders with random weights; results that involve them mean nothing.\n", strings.Join(untrained, ", "))
	}
	return nil
}
