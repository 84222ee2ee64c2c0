package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/spell"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/workspace"
)

// toolOptions are the skills that the model may call: nil for all, and none of
// them for --no-tools.
func toolOptions(c *cli.Context) ([]string, error) {
	if c.Bool("no-tools") {
		if c.IsSet("tools") {
			return nil, usageError{errors.New("--tools beside --no-tools")}
		}
		return []string{}, nil
	}
	if !c.IsSet("tools") {
		return nil, nil
	}
	var names []string
	for _, name := range strings.Split(c.String("tools"), ",") {
		if name = strings.TrimSpace(name); name == "" {
			return nil, usageError{fmt.Errorf("--tools is %q, wanted NAME or NAME,NAME", c.String("tools"))}
		}
		names = append(names, name)
	}
	return names, nil
}

// equip readies what runs the skills of a build, and has each call written to
// the audit log.
func (p *program) equip(ctx context.Context, w *workspace.Workspace, b *builds.Build, opt *runner.Options) error {
	if len(b.Assembly.Skills) == 0 {
		return nil
	}
	var err error
	if opt.Skills, err = p.skillOptions(ctx, w); err != nil {
		return err
	}
	opt.Called = func(ctx context.Context, c runner.CallRecord) { w.Record(ctx, entry(c)) }
	return nil
}

// skillOptions is what runs skills, made ready when it is first needed.
func (p *program) skillOptions(ctx context.Context, w *workspace.Workspace) (skills.Options, error) {
	if p.skilled == nil {
		var err error
		if p.skills.Executors, p.skilled, err = executors(ctx, w); err != nil {
			return skills.Options{}, err
		}
		p.skills.Executors["agent"] = p.agents(w, maps.Clone(p.skills.Executors))
	}
	return p.skills, nil
}

// agents runs the skills that are builds of the store, with the skills of theirs;
// each call of those is written to the audit log too.
func (p *program) agents(w *workspace.Workspace, others map[string]sandbox.Executor) *runner.AgentExecutor {
	return runner.NewAgentExecutor(runner.AgentOptions{
		Open: w.Agent, Executors: others,
		Runner: runner.Options{
			Engines: p.engines, Revision: p.revision, Sequences: 1,
			Called: func(ctx context.Context, c runner.CallRecord) { w.Record(ctx, entry(c)) },
		},
	})
}

// maxRef bounds what the log tells of a tool that is none: it is the model's
// text, and a line of the log has a limit.
const maxRef = 128

// entry is a call as the audit log tells of it: what was called, within which
// limits, and hashes of what went in and came out, not the words themselves.
func entry(c runner.CallRecord) audit.Entry {
	e := audit.Entry{
		Action: "call", Ref: strings.ToValidUTF8(c.Call.Name[:min(len(c.Call.Name), maxRef)], ""), Digest: c.Skill.Digest, Result: c.Answer.Kind(),
		Args: c.Answer.Args, Answer: c.Answer.Result,
	}
	if c.Skill.Name != "" {
		e.Ref = c.Skill.Name + "@" + c.Skill.Version
		e.Limits = c.Skill.Limits.String()
	}
	return e
}

// called is a call as --json tells of it.
type called struct {
	runner.CallRecord
	Version  string  `json:"version,omitempty"`
	Digest   string  `json:"digest,omitempty"`
	Engine   string  `json:"engine,omitempty"`
	By       string  `json:"by,omitempty"` // what ran it in the engine's place, and why
	Limits   string  `json:"limits,omitempty"`
	Outcome  string  `json:"outcome"`
	Args     string  `json:"args_sha256"`
	Result   string  `json:"result_sha256"`
	Log      string  `json:"log,omitempty"` // what the guest wrote for people
	TookMS   float64 `json:"took_ms"`
	GuestMS  float64 `json:"guest_ms"`
	PeakByte int64   `json:"memory_bytes,omitempty"`
}

func calledOf(list []runner.CallRecord) []called {
	var out []called
	for _, c := range list {
		e := called{
			Called: c, Version: c.Skill.Version, Digest: c.Skill.Digest, Engine: c.Skill.Engine, Outcome: c.Answer.Kind(),
			Args: c.Answer.Args, Result: c.Answer.Result, Log: strings.ToValidUTF8(string(c.Answer.Log), "\uFFFD"),
			TookMS: ms(c.Took), GuestMS: ms(c.Answer.Usage.Time), PeakByte: c.Answer.Usage.Memory,
			By: c.Answer.Usage.By,
		}
		if c.Skill.Name != "" {
			e.Limits = c.Skill.Limits.String()
		}
		out = append(out, e)
	}
	return out
}

// sayCalls tells which tools were called, what came of it, and which calls of
// the model nobody has made.
func (p *program) sayCalls(a *runner.Answer) {
	for _, c := range a.Called {
		name, args := c.Call.Name, string(c.Call.Arguments)
		if c.Call.Fault != "" {
			name, args = "no tool", c.Call.Block
		}
		p.say("%s %s → %s (%.1f ms)", name, args, c.Line, ms(c.Took))
		if by := c.Answer.Usage.By; by != "" {
			p.say("%s was run by %s", name, by)
		}
	}
	if a.Unheld != "" {
		p.say("calls were checked when they were written: %s", a.Unheld)
	}
	switch a.Stop {
	case runner.StopRounds:
		p.say("the model goes on calling tools; it may do so %s", count(len(a.Called), "time"))
	case runner.StopLoop:
		p.say("the model makes the same call over and over")
	}
	for _, c := range a.Calls {
		if c.Fault != "" {
			p.say("the model calls a tool and is not understood: %s: %q", c.Fault, c.Block)
			continue
		}
		p.say("the model calls %s %s", c.Name, c.Arguments)
	}
}

// printPositions prints what the core read and wrote, a line for each token; the
// vectors of an input are one.
func (p *program) printPositions(all []part.Position) error {
	if len(all) == 0 {
		return nil
	}
	tab := tabwriter.NewWriter(p.stderr, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tab, "AT\tTOKEN\tTEXT\tHOW\tALLOWED")
	for i := 0; i < len(all); i++ {
		at, n := all[i], 1
		for at.From == part.FromInput && i+1 < len(all) && all[i+1] == at {
			i, n = i+1, n+1
		}
		switch {
		case at.From == part.FromInput:
			fmt.Fprintf(tab, "%d\t\t%d vectors of input %d\t%s\t\n", i+1-n, n, at.ID, at.From)
		case at.Allowed == 0:
			fmt.Fprintf(tab, "%d\t%d\t%s\t%s\t\n", i, at.ID, diag.Printable(fmt.Sprintf("%q", at.Piece)), at.From)
		default:
			fmt.Fprintf(tab, "%d\t%d\t%s\t%s\t%d\n", i, at.ID, diag.Printable(fmt.Sprintf("%q", at.Piece)), at.From, at.Allowed)
		}
	}
	return tab.Flush()
}

// known refuses names of --tools that are no skills of the build; those of a
// request, which may have been written for many builds, are told.
func (p *program) known(b *builds.Build, names []string, flag bool) error {
	var have []string
	for _, s := range b.Assembly.Skills {
		have = append(have, s.Name)
	}
	for _, name := range names {
		if slices.Contains(have, name) {
			continue
		}
		if !flag {
			p.say("tools_allowed names %s, which is no skill of the build", name)
			continue
		}
		hint := "the build has no skills"
		if len(have) > 0 {
			hint = "the build has " + strings.Join(have, ", ")
		}
		if near, ok := spell.Nearest(name, have); ok {
			hint = "did you mean " + near + "?"
		}
		return usageError{hinted{fmt.Errorf("--tools: there is no skill %q", name), hint}}
	}
	return nil
}
