package main

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/workspace"
)

// toolOptions returns the skills that the model may call: nil for all; with
// --no-tools, none.
func toolOptions(c *cli.Context) ([]string, error) {
	if c.Bool("no-tools") {
		if c.IsSet("tools") {
			return nil, diag.Usagef("--tools and --no-tools exclude each other")
		}
		return []string{}, nil
	}
	if !c.IsSet("tools") {
		return nil, nil
	}
	var names []string
	for _, name := range strings.Split(c.String("tools"), ",") {
		if name = strings.TrimSpace(name); name == "" {
			return nil, diag.Usagef("--tools %q: want NAME or NAME,NAME", c.String("tools"))
		}
		names = append(names, name)
	}
	return names, nil
}

// granting is the flag --allow.
type granting struct{ list *[]modules.Grant }

// Set implements cli.Generic.
func (g *granting) Set(text string) error {
	one, err := modules.ParseGrant(text)
	if err == nil {
		*g.list = append(*g.list, one)
	}
	return err
}

// String implements cli.Generic; the default is empty.
func (*granting) String() string { return "" }

// equip sets up the skills of a build and records each call in the audit log.
func (p *program) equip(ctx context.Context, w *workspace.Workspace, b *builds.Build, opt *runner.Options) error {
	if err := skills.CheckGrants(b.Assembly, p.skills.Grants); err != nil {
		return diag.Usagef("--allow: %w", err)
	}
	if len(b.Assembly.Skills) == 0 {
		return nil
	}
	var err error
	if opt.Skills, err = p.skillOptions(ctx, w); err != nil {
		return err
	}
	opt.Called = func(ctx context.Context, c runner.CallRecord) { w.Record(ctx, c.AuditEntry()) }
	return nil
}

// skillOptions returns the executors of skills, which are created on first use.
func (p *program) skillOptions(ctx context.Context, w *workspace.Workspace) (skills.Options, error) {
	if p.skillCloser == nil {
		var err error
		if p.skills.Executors, p.skillCloser, err = executors(ctx, w); err != nil {
			return skills.Options{}, err
		}
		grants, err := w.Grants()
		if err != nil {
			return skills.Options{}, err
		}
		p.skills.Grants = append(p.skills.Grants, grants...)
		p.skills.Warn = func(text string) { p.Note("warning: %s", text) }
		inner := p.skills
		inner.Executors = maps.Clone(p.skills.Executors)
		p.skills.Executors["agent"] = p.agents(w, inner)
	}
	return p.skills, nil
}

// agents returns the executor of skills that are builds in the store, with their
// own skills. Their calls are recorded in the audit log, too.
func (p *program) agents(w *workspace.Workspace, opt skills.Options) *runner.AgentExecutor {
	return runner.NewAgentExecutor(runner.AgentOptions{
		Open: w.Agent, Skills: opt,
		Runner: runner.Options{
			Engines: p.engines, Revision: p.revision, Sequences: 1, Now: p.now,
			Called: func(ctx context.Context, c runner.CallRecord) { w.Record(ctx, c.AuditEntry()) },
		},
	})
}

// known refuses names in --tools that are not skills of the build. Those in a
// request file, which may be written for several builds, are only reported.
func (p *program) known(b *builds.Build, names []string, flag bool) error {
	for _, name := range names {
		err := skills.CheckName(b.Assembly, name)
		if err != nil && flag {
			return diag.Usage(fmt.Errorf("--tools: %w", err))
		} else if err != nil {
			p.Note("tools_allowed: unknown skill %s", name)
		}
	}
	return nil
}
