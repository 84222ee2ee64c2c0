package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/skills/sandbox/python"
	"mm-abi.org/mm/workspace"
)

// micropython is the skill that runs Python skills.
const micropython = "micropython"

func (p *program) skillInstallAction(c *cli.Context) error {
	if name := c.Args().First(); name != micropython {
		return usageError{hinted{fmt.Errorf("unknown skill %q", name), "known: " + micropython}}
	}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		return p.skillInstall(c.Context, w, c.String("from"), c.String("sign"))
	})
}

func (p *program) skillInstall(ctx context.Context, w *workspace.Workspace, from, key string) (err error) {
	dir, err := fsx.MkdirTemp("mm-skill-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fsx.RemoveAll(dir)) }()
	if from == "" {
		p.say("fetching %s with npm", python.Package)
		if from, err = native.Pack(ctx, python.Package, dir); err != nil {
			return err
		}
	}
	archive, err := os.Open(from)
	if err != nil {
		return err
	}
	defer archive.Close()
	module := filepath.Join(dir, micropython)
	if err := python.Write(module, archive); err != nil {
		return err
	}
	return p.moduleAdd(ctx, w, module, key, false)
}
