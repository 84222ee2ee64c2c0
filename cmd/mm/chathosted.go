package main

import (
	"context"
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/hosted"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/workspace"
)

// hostedOptions reads hostedFlags; without --provider the form is empty.
func (p *program) hostedOptions(c *cli.Context) (hosted.Options, error) {
	opt := hosted.Options{Form: hosted.Form(c.String("provider")), URL: c.String("url"), Model: c.String("model"), Env: os.Getenv, Say: func(text string) { p.Note("%s", text) }}
	if opt.Form == "" {
		if err := refuseOptions(c, "--%s requires --provider", "url", "model"); err != nil {
			return opt, err
		}
		if c.NArg() == 0 {
			return opt, diag.Usage(diag.Hinted(errors.New("no model: want a build, or --provider"), "usage: mm chat "+c.Command.ArgsUsage))
		}
		return opt, nil
	}
	if err := refuseOptions(c, "--%s and --provider exclude each other", "asset", "raw", "special", "backend", "threads"); err != nil {
		return opt, err
	}
	if _, err := hosted.New(opt); err != nil {
		return opt, diag.Usage(err)
	}
	return opt, nil
}

// converseHosted chats with a model of another server, which may call the skills of a build.
func (p *program) converseHosted(ctx context.Context, w *workspace.Workspace, u use, opt hosted.Options, talk *runner.Conversation, system string) (err error) {
	if u.arg != "" {
		set, rounds, err := p.skillsOf(ctx, w, u, talk.ToolsAllowed)
		if err != nil {
			return err
		}
		defer set.Close()
		opt.Tools = runner.NewToolTable(set, nil, nil)
		opt.Loop = runner.ToolOptions{Rounds: rounds, Record: func(ctx context.Context, c runner.CallRecord) { w.Record(ctx, c.AuditEntry()) }}
	}
	m, err := hosted.New(opt)
	if err != nil {
		return err
	}
	talk.Runner = m
	p.Note("the conversation is sent to %s (%s)", m.Host(), opt.Model)
	err = p.hold(ctx, w, u, talk, system, opt.Model, opt.Model+" at "+m.Host())
	w.Record(ctx, audit.Entry{Action: "run", Ref: opt.Model + " at " + m.Host() + " (chat)", Result: workspace.Outcome(err)})
	return err
}

// skillsOf opens the skills of a build, and returns the limit of their calls.
func (p *program) skillsOf(ctx context.Context, w *workspace.Workspace, u use, names []string) (*skills.Set, int, error) {
	var opt runner.Options
	b, err := w.Runnable(ctx, u.arg, u.runnable(opt))
	if err == nil {
		err = p.equip(ctx, w, b, &opt)
	}
	if err == nil {
		err = p.known(b, names, true)
	}
	if err != nil {
		return nil, 0, err
	}
	set, err := skills.Open(ctx, b, opt.Skills)
	if err != nil || b.Assembly.Router == nil {
		return set, 0, err
	}
	return set, b.Assembly.Router.MaxCalls, nil
}
