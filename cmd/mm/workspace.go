package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
)

// workspaceOptions reads the flags above, as far as a command has them. mm.yaml is
// searched for from anchor.
func workspaceOptions(c *cli.Context, anchor string) workspace.Options {
	return workspace.Options{
		Dir: workspace.Anchor(anchor), Trust: c.String("trust"), Keys: c.StringSlice("key"), Layout: c.String("layout"),
		Offline: c.Bool("offline"), PlainHTTP: c.StringSlice("plain-http"),
	}
}

// remoteOptions reads remoteFlags as well.
func remoteOptions(c *cli.Context, anchor string) workspace.Options {
	opt := workspaceOptions(c, anchor)
	opt.Parallel, opt.TLSLoopback, opt.CAFile, opt.Timeout = c.Int("parallel"), c.Bool("tls"), c.String("ca-file"), c.Duration("timeout")
	return opt
}

// claimOptions reads how strictly to verify an artifact.
func claimOptions(c *cli.Context) workspace.Claim {
	return workspace.Claim{Skip: c.Bool("insecure-skip-verify"), Expect: c.String("expect")}
}

// open opens a workspace that reports to this program's user.
func (p *program) open(opt workspace.Options) (*workspace.Workspace, error) {
	if opt.Trust != "" {
		if _, err := os.Stat(opt.Trust); errors.Is(err, fs.ErrNotExist) {
			return nil, diag.Usagef("missing trust file %s", opt.Trust)
		}
	}
	opt.Version = built().Version
	opt.Say = func(s string) { p.Note("mm: %s", s) }
	return workspace.Open(opt)
}

// inWorkspace opens a workspace for fn.
func (p *program) inWorkspace(opt workspace.Options, fn func(*workspace.Workspace) error) error {
	w, err := p.open(opt)
	if err != nil {
		return err
	}
	defer w.Close()
	return fn(w)
}

// workspaceAction is the action of a command that needs a workspace.
type workspaceAction func(*cli.Context, *workspace.Workspace) error

// atHome runs an action in the user's home, without the settings of a project.
func (p *program) atHome(do workspaceAction) cli.ActionFunc {
	return func(c *cli.Context) error {
		return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error { return do(c, w) })
	}
}

// inFolder runs an action with the settings of the current folder.
func (p *program) inFolder(do workspaceAction) cli.ActionFunc {
	return func(c *cli.Context) error {
		return p.inWorkspace(workspaceOptions(c, "."), func(w *workspace.Workspace) error { return do(c, w) })
	}
}

// atArgument runs an action with the settings of the folder of the first argument.
func (p *program) atArgument(do workspaceAction) cli.ActionFunc {
	return func(c *cli.Context) error {
		return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error { return do(c, w) })
	}
}

// onArtifact runs an action on the artifact that the first argument names in the store or,
// with --remote, at its registry.
func (p *program) onArtifact(do func(*cli.Context, *workspace.Workspace, *workspace.Located) error) cli.ActionFunc {
	return p.atArgument(func(c *cli.Context, w *workspace.Workspace) error {
		find := w.Find
		if c.Bool("remote") {
			find = w.FindPublished
		}
		at, err := find(c.Context, c.Args().First())
		if err != nil {
			return err
		}
		return do(c, w, at)
	})
}

// atRegistry runs an action with the connection to a registry.
func (p *program) atRegistry(do workspaceAction) cli.ActionFunc {
	return func(c *cli.Context) error {
		return invalidReference(p.inWorkspace(remoteOptions(c, "."), func(w *workspace.Workspace) error { return do(c, w) }))
	}
}
