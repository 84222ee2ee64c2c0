package main

import (
	"context"
	"errors"
	"fmt"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/workspace"
)

// input reads the standard input and the terminal.
func (p *program) input() console.Input { return console.Input{In: p.stdin, Out: p.Stderr} }

// keep opens the conversation that --keep names.
func (p *program) keep(ctx context.Context, w *workspace.Workspace, name string) (*workspace.Chat, error) {
	k, err := w.OpenChat(ctx, name)
	if errors.Is(err, workspace.ErrChatName) {
		return nil, diag.Usagef("--keep: %w", err)
	}
	return k, keepError(name, err)
}

// keepError adds the flag to an error of a kept conversation.
func keepError(name string, err error) error {
	if err != nil {
		err = fmt.Errorf("--keep %s: %w", name, err)
	}
	return err
}

// resume restores a kept conversation, and reports another model that answered so far.
func (p *program) resume(k *workspace.Chat, talk *runner.Conversation, model string) error {
	talk.Model = model
	found, was, err := k.Load(talk.RestoreFrom)
	switch {
	case err != nil || !found:
		return keepError(k.Name, err)
	case was != model:
		p.Note("conversation %s was answered by %s so far; %s reads its text anew", k.Name, was, model)
	}
	p.Note("conversation %s goes on after %d turns", k.Name, len(talk.Messages()))
	return nil
}

// modelOf names the model of a runner in a kept conversation.
func modelOf(r *runner.Runner) string {
	if b := r.Build(); b.Digest != "" {
		return b.Assembly.Name + "@" + b.Digest
	}
	return r.Build().Assembly.Core.ID()
}

// texts describes where a runner keeps sequences.
type texts struct {
	home  bool   // in the home
	dir   string // otherwise; empty: nowhere
	limit int64  // bytes; 0: the default
}

// cached calls use while the caches of encoded inputs and of sequences, which opt refers to, are
// open.
func (p *program) cached(w *workspace.Workspace, off bool, t texts, opt *runner.Options, use func() error) error {
	if opt.Features = p.features(w, off); opt.Features != nil {
		defer opt.Features.Close()
	}
	if t.home {
		t.dir = w.SequenceDir()
	}
	if t.dir == "" {
		return use()
	}
	secret, err := w.Secret(runner.SecretSize)
	if err != nil {
		return err
	}
	report := func(err error) { fmt.Fprintf(p.Stderr, "mm: %v\n", err) }
	if opt.Kept, err = runner.OpenSequenceCache(t.dir, secret, t.limit, report); err != nil {
		return err
	}
	defer opt.Kept.Close()
	return use()
}
