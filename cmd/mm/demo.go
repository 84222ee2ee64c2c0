package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/eval/demo"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

func (p *program) demo(c *cli.Context) error {
	opt := demo.Options{Graph: c.String("graph"), Prompt: c.String("prompt"), Seed: c.Uint64("seed"), Dir: c.String("keep")}
	var err error
	if opt.Out, err = filepath.Abs(c.String("out")); err != nil {
		return err
	}
	if err := makeFolder(opt.Out); err != nil {
		return err
	}
	if opt.Dir == "" {
		if opt.Dir, err = fsx.MkdirTemp("mm-demo-*"); err != nil {
			return err
		}
		defer fsx.RemoveAll(opt.Dir)
	}
	opt.MM = func(ctx context.Context, home string, args ...string) ([]byte, error) {
		defer demo.SetHome(home, passwordEnv)()
		p.Note("$ mm %s", strings.ReplaceAll(strings.Join(args, " "), opt.Dir+string(filepath.Separator), ""))
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
		return diag.Hinted(err, "run it in a checkout of mm, or name mm-catalog.zip of a release with --from")
	}
	if err != nil {
		return err
	}
	defer closeSource()
	opt.Source = source
	r, err := demo.Run(c.Context, opt)
	if unknown := (*demo.GraphError)(nil); errors.As(err, &unknown) {
		return diag.Usage(err)
	}
	if err != nil {
		return err
	}
	return p.PrintOr(r, func() error { return r.WriteText(p.Stdout) })
}

// makeFolder creates a folder, unless it exists.
func makeFolder(path string) error {
	d, err := fsx.Create(path, 0o755, fsx.Options{})
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return d.Close()
}
