package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/mcpclient"
	"mm-abi.org/mm/skills/sandbox/process"
	"mm-abi.org/mm/skills/sandbox/python"
	"mm-abi.org/mm/skills/standard"
	"mm-abi.org/mm/workspace"
)

// micropython is the skill that runs Python skills.
const micropython = "micropython"

func (p *program) skillInstallAction(c *cli.Context) error {
	if name := c.Args().First(); name != micropython {
		return diag.Usage(diag.Hinted(fmt.Errorf("unknown skill %q", name), "known: "+micropython))
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
		p.Note("fetching %s with npm", python.Package)
		if from, err = native.Pack(ctx, python.Package, dir); err != nil {
			return err
		}
	}
	archive, err := fsx.OpenRegular(from)
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

func (p *program) skillNew(c *cli.Context) error {
	if !slices.Contains(standard.Languages(), c.String("lang")) {
		return diag.Usage(diag.Hinted(fmt.Errorf("--lang %q: unknown template", c.String("lang")), "known: "+strings.Join(standard.Languages(), ", ")))
	}
	opt := standard.Template{Name: c.Args().First(), Language: c.String("lang"), Version: c.String("version"), License: c.String("license")}
	if err := checkIdentity(opt.Name, opt.Version); err != nil {
		return err
	}
	dir := cmp.Or(c.String("dir"), opt.Name)
	if err := standard.WriteTemplate(dir, opt); err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(struct {
			Dir   string `json:"dir"`
			Build string `json:"build,omitempty"`
		}{dir, opt.Command()})
	}
	p.Line("%s", dir)
	if build := opt.Command(); build != "" {
		p.Line("build with: (cd %s && %s)", dir, build)
	}
	return nil
}

func (p *program) skillImage(c *cli.Context, w *workspace.Workspace) error {
	got, err := w.Image(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	return p.PrintLine(map[string]string{"container": got.Ref}, "%s", got.Ref)
}

func (p *program) skillTools(c *cli.Context) error {
	dir := c.Args().First()
	m, list := modules.Load(dir)
	if list.Failed() {
		return list.Err()
	}
	if m.Runtime == nil || m.Runtime.MCP == nil {
		return diag.Usagef("%s: not a skill with runtime: {mcp: …}", m.ID())
	}
	spec := m.Runtime.MCP
	code, err := fsx.ReadFile(filepath.Join(dir, filepath.FromSlash(spec.Command)), sandbox.MaxCode)
	if err != nil {
		return fmt.Errorf("reading the server: %w", err)
	}
	program := sandbox.Program{Name: m.Name, Code: code, Args: spec.Args, Limits: m.Runtime.Limits.Effective(), MCP: spec}
	program.Allow = p.skills.Granted(m, code)
	l, err := mcpclient.Executor{Programs: process.New()}.Tools(c.Context, program)
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(struct {
			Tools  []string `json:"tools"`
			SHA256 string   `json:"tools_sha256"`
		}{listed(l.Names), l.SHA256})
	}
	for _, name := range l.Names {
		p.Line("%s", name)
	}
	fmt.Fprintf(p.Stdout, "tools_sha256: %s\n", l.SHA256)
	return nil
}
