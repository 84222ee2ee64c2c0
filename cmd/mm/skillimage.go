package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/mcpclient"
	"mm-abi.org/mm/skills/sandbox/process"
	"mm-abi.org/mm/workspace"
)

func (p *program) skillImageAction(c *cli.Context) error {
	return p.inWorkspace(remoteOptions(c, "."), func(w *workspace.Workspace) error {
		got, err := w.Image(c.Context, c.Args().First())
		if err != nil {
			return err
		}
		if p.json {
			return p.printJSON(struct {
				Container string `json:"container"`
			}{got.Ref})
		}
		err = p.line("%s", got.Ref)
		return err
	})
}

func (p *program) skillToolsAction(c *cli.Context) error {
	return p.skillTools(c.Context, c.Args().First())
}

func (p *program) skillTools(ctx context.Context, dir string) error {
	m, list := modules.Load(dir)
	if list.Failed() {
		if err := p.tell(p.stderr, list); err != nil {
			return err
		}
		return reported{list.Err()}
	}
	if m.Runtime == nil || m.Runtime.MCP == nil {
		return usageError{fmt.Errorf("%s: not a skill with runtime: {mcp: …}", m.ID())}
	}
	spec := m.Runtime.MCP
	code, err := fsx.ReadFile(filepath.Join(dir, filepath.FromSlash(spec.Command)), sandbox.MaxCode)
	if err != nil {
		return fmt.Errorf("reading the server: %w", err)
	}
	program := sandbox.Program{Name: m.Name, Code: code, Args: spec.Args, Limits: m.Runtime.Limits.Effective(), MCP: spec}
	program.Allow = p.skills.Granted(m, code)
	l, err := mcpclient.Executor{Programs: process.New()}.Tools(ctx, program)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(struct {
			Tools  []string `json:"tools"`
			SHA256 string   `json:"tools_sha256"`
		}{listed(l.Names), l.SHA256})
	}
	for _, name := range l.Names {
		p.line("%s", name)
	}
	fmt.Fprintf(p.stdout, "tools_sha256: %s\n", l.SHA256)
	return nil
}
