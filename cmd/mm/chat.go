package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/hosted"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/workspace"
)

func (p *program) chat(c *cli.Context) error {
	opt, err := p.runOptions(c)
	if err != nil {
		return err
	}
	prefs, err := preferenceOptions(c)
	if err != nil {
		return err
	}
	allowed, err := toolOptions(c)
	if err != nil {
		return err
	}
	assets, err := runner.ParseAssets(c.StringSlice("asset"))
	if err != nil {
		return err
	}
	away, err := p.hostedOptions(c)
	if err != nil {
		return err
	}
	u := useOptions(c)
	u.skills = true
	talk := &runner.Conversation{Preferences: prefs, ToolsAllowed: allowed, Assets: assets}
	return p.inWorkspace(p.pulling(workspaceOptions(c, u.arg)), func(w *workspace.Workspace) error {
		if away.Form != "" {
			return p.converseHosted(c.Context, w, u, away, talk, c.String("system"))
		}
		return p.cached(w, c.Bool("no-cache"), texts{home: u.keep != ""}, &opt, func() error {
			return p.converse(c.Context, w, u, opt, talk, c.String("system"))
		})
	})
}

func (p *program) converse(ctx context.Context, w *workspace.Workspace, u use, opt runner.Options, talk *runner.Conversation, system string) error {
	r, err := p.runner(ctx, w, u, opt)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := p.known(r.Build(), talk.ToolsAllowed, true); err != nil {
		return err
	}
	if err := r.Load(ctx); err != nil { // report a model that cannot be loaded before the first turn
		return err
	}
	talk.Runner = r
	err = p.hold(ctx, w, u, talk, system, r.Build().Assembly.Core.ID(), modelOf(r))
	w.Record(ctx, audit.Entry{Action: "run", Ref: u.arg + " (chat)", Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	return err
}

// hold chats with a model, which it names on a terminal, and keeps the conversation if u names one.
func (p *program) hold(ctx context.Context, w *workspace.Workspace, u use, talk *runner.Conversation, system, name, model string) error {
	t := &chat{program: p, in: console.NewTurns(p.stdin, p.Stderr), talk: talk, keep: func() error { return nil }}
	if u.keep != "" {
		k, err := p.keep(ctx, w, u.keep)
		if err != nil {
			return err
		}
		defer k.Close()
		if err := p.resume(k, talk, model); err != nil {
			return err
		}
		t.keep = func() error { return keepError(u.keep, k.Save(talk.Save)) }
	}
	if system != "" {
		talk.System(system)
	}
	if t.in.Edited() {
		p.Note("%s; /help lists the commands, Ctrl-D ends", name)
	}
	return t.hold(ctx)
}

// chat is a conversation in a terminal.
type chat struct {
	*program
	in   *console.Turns
	talk *runner.Conversation
	keep func() error // after each turn or command
}

// hold reads and answers turns until the input ends.
func (t *chat) hold(ctx context.Context) error {
	// An interrupt ends the program's context. In a chat it only stops the answer.
	ctx = context.WithoutCancel(ctx)
	for {
		text, err := t.in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a turn: %w", err)
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		if strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
			note, last, err := t.talk.Command(text)
			switch {
			case last:
				return nil
			case err != nil:
				fmt.Fprintf(t.Stderr, "mm: %v\n", err)
			case note == runner.ChatHelp:
				fmt.Fprintln(t.Stderr, note)
			case note != "":
				t.Note("%s", note)
			}
		} else if err := t.ask(ctx, strings.TrimPrefix(text, "/")); err != nil {
			return err
		}
		if err := t.keep(); err != nil {
			return err
		}
	}
}

// ask answers a turn. A failed answer is reported; only failed output is an error.
func (t *chat) ask(ctx context.Context, text string) error {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt)
	defer cancel()
	var written error
	answer, err := t.talk.Ask(ctx, text, func(s string) error {
		_, written = io.WriteString(t.Stdout, s)
		return written
	})
	if written == nil {
		_, written = fmt.Fprintln(t.Stdout)
	}
	switch {
	case written != nil:
		return written
	case ctx.Err() != nil:
		t.Note("(interrupted)")
	case errors.Is(err, runtimes.ErrFull):
		fmt.Fprintf(t.Stderr, "mm: the conversation exceeds the context of the model; /reset starts over (%v)\n", err)
	case err != nil:
		fmt.Fprintf(t.Stderr, "mm: %v\n", err)
		var h interface{ Hint() string }
		if errors.As(err, &h) && h.Hint() != "" {
			fmt.Fprintf(t.Stderr, "mm: hint: %s\n", h.Hint())
		}
	}
	if answer != nil {
		t.sayCalls(answer)
	}
	return nil
}

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
