package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/workspace"
)

// keepFlag continues a conversation of earlier processes.
func keepFlag() cli.Flag {
	return &cli.StringFlag{Name: "keep", Usage: "continue the conversation `NAME` and keep it (MM_HOME/chats); a path, or a name in .json, is a file of your own"}
}

// keeping is a conversation that outlives the process, which has it alone.
type keeping struct {
	name, base string
	dir        *fsx.Dir
	lock       *fsx.Lock
}

// keep opens the conversation that --keep names.
func (p *program) keep(ctx context.Context, w *workspace.Workspace, name string) (*keeping, error) {
	file, err := name, error(nil)
	if !strings.ContainsAny(name, `/\`) && filepath.Ext(name) != ".json" {
		if file, err = w.ChatFile(name); err != nil {
			return nil, usageError{fmt.Errorf("--keep: %w", err)}
		}
	}
	k := &keeping{name: name, base: filepath.Base(file)}
	if k.dir, err = fsx.Create(filepath.Dir(file), 0o700, fsx.Options{}); err != nil {
		return nil, fmt.Errorf("--keep %s: %w", name, err)
	}
	if k.lock, err = k.dir.TryLock(ctx, k.base+".lock"); err != nil {
		if errors.Is(err, fsx.ErrLocked) {
			err = hinted{errors.New("the conversation is in use by another process"), "end that process, or keep this conversation under another name"}
		}
		return nil, errors.Join(fmt.Errorf("--keep %s: %w", name, err), k.dir.Close())
	}
	return k, nil
}

// Close frees the conversation for other processes.
func (k *keeping) Close() error { return errors.Join(k.lock.RemoveUnlock(), k.dir.Close()) }

// load restores the conversation, if it was kept. It reports whether it was, and the model
// that answered.
func (k *keeping) load(talk *runner.Conversation) (found bool, model string, err error) {
	f, err := fsx.OpenRegular(filepath.Join(k.dir.Path(), k.base))
	if errors.Is(err, fs.ErrNotExist) {
		return false, "", nil
	}
	if err == nil {
		defer f.Close()
		model, err = talk.RestoreFrom(f)
	}
	if err != nil {
		return false, "", hinted{fmt.Errorf("--keep %s: %w", k.name, err), "the file was not changed; move " + filepath.Join(k.dir.Path(), k.base) + " away to begin anew"}
	}
	return true, model, nil
}

// save replaces the kept conversation.
func (k *keeping) save(talk *runner.Conversation) error {
	var b bytes.Buffer
	err := talk.Save(&b)
	if err == nil {
		err = k.dir.WriteFile(k.base, b.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("--keep %s: %w", k.name, err)
	}
	return nil
}

// resume restores a kept conversation, and reports another model that answered so far.
func (p *program) resume(k *keeping, talk *runner.Conversation, model string) error {
	talk.Model = model
	found, was, err := k.load(talk)
	switch {
	case err != nil || !found:
		return err
	case was != model:
		p.say("conversation %s was answered by %s so far; %s reads its text anew", k.name, was, model)
	}
	p.say("conversation %s goes on after %d turns", k.name, len(talk.Messages()))
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
	report := func(err error) { fmt.Fprintf(p.stderr, "mm: %v\n", err) }
	if opt.Kept, err = runner.OpenSequenceCache(t.dir, secret, t.limit, report); err != nil {
		return err
	}
	defer opt.Kept.Close()
	return use()
}
