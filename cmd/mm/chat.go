package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
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
	assets, err := assetOptions(c)
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
	t := &chat{program: p, in: console.NewTurns(p.stdin, p.stderr), talk: talk, keep: func() error { return nil }}
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
		p.say("%s; /help lists the commands, Ctrl-D ends", name)
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
			if t.command(text) {
				return nil
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
		_, written = io.WriteString(t.stdout, s)
		return written
	})
	if written == nil {
		_, written = fmt.Fprintln(t.stdout)
	}
	switch {
	case written != nil:
		return written
	case ctx.Err() != nil:
		t.say("(interrupted)")
	case errors.Is(err, runtimes.ErrFull):
		fmt.Fprintf(t.stderr, "mm: the conversation exceeds the context of the model; /reset starts over (%v)\n", err)
	case err != nil:
		fmt.Fprintf(t.stderr, "mm: %v\n", err)
		var h interface{ Hint() string }
		if errors.As(err, &h) && h.Hint() != "" {
			fmt.Fprintf(t.stderr, "mm: hint: %s\n", h.Hint())
		}
	}
	if answer != nil {
		t.sayCalls(answer)
	}
	return nil
}

// chatHelp is the output of /help.
const chatHelp = `/help         show this list
/reset        clear the conversation
/system TEXT  set the system prompt; without TEXT, remove it
/image FILE   attach an image to the next turn; also /audio and /video
/save FILE    save the conversation to FILE
/load FILE    load a conversation from FILE
/bye          end
//TEXT        a turn that starts with a slash`

// command runs a slash command. It reports whether the chat ends.
func (t *chat) command(line string) (last bool) {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	arg = strings.TrimSpace(arg)
	var err error
	switch name {
	case "/help", "/?":
		fmt.Fprintln(t.stderr, chatHelp)
	case "/bye", "/exit", "/quit":
		return true
	case "/reset":
		t.talk.Reset()
	case "/system":
		t.talk.System(arg)
	case "/image", "/audio", "/video":
		err = t.show(abi.Modality(name[1:]), arg)
	case "/save":
		err = t.save(arg)
	case "/load":
		err = t.load(arg)
	default:
		err = fmt.Errorf("unknown command %s; /help lists them", name)
	}
	if err != nil {
		fmt.Fprintf(t.stderr, "mm: %v\n", err)
	}
	return false
}

// show attaches a file to the next turn.
func (t *chat) show(in abi.Modality, file string) error {
	if file == "" {
		return fmt.Errorf("/%s: missing file name", in)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil {
		return err
	} else if info.IsDir() != (in == abi.Video) && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", file)
	}
	t.talk.Show(talk.Part{Type: in, Path: path})
	t.say("%s is attached to the next turn", filepath.Base(path))
	return nil
}

func (t *chat) save(file string) error {
	if file == "" {
		return errors.New("/save: missing file name")
	}
	if err := fsx.Replace(file, 0o600, t.talk.Save); err != nil {
		return err
	}
	t.say("saved %d turns to %s", len(t.talk.Messages()), file)
	return nil
}

func (t *chat) load(file string) error {
	if file == "" {
		return errors.New("/load: missing file name")
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.talk.Restore(f); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	t.say("loaded %d turns from %s", len(t.talk.Messages()), file)
	return nil
}
