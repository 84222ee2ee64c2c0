package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/bytesize"
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
	data, err := fsx.ReadFile(filepath.Join(k.dir.Path(), k.base), runner.MaxConversation)
	if errors.Is(err, fs.ErrNotExist) {
		return false, "", nil
	}
	if err == nil {
		model, err = talk.RestoreFrom(bytes.NewReader(data))
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

// resume restores a kept conversation, and says if another model answered so far.
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

// sequences opens a folder of kept sequences. If dir is empty, the result is nil.
func (p *program) sequences(w *workspace.Workspace, dir string, limit int64) (*runner.SequenceCache, error) {
	if dir == "" {
		return nil, nil
	}
	secret, err := w.Secret(runner.SecretSize)
	if err != nil {
		return nil, err
	}
	return runner.OpenSequenceCache(dir, secret, limit, func(err error) { fmt.Fprintf(p.stderr, "mm: %v\n", err) })
}

// keptTexts opens the folder of --keep of mm serve.
func (p *program) keptTexts(c *cli.Context, w *workspace.Workspace) (*runner.SequenceCache, error) {
	limit := int64(0)
	if text := c.String("keep-size"); text != "" {
		var err error
		if limit, err = bytesize.Parse(text); err != nil {
			return nil, usageError{fmt.Errorf("--keep-size: %w", err)}
		}
		if c.String("keep") == "" {
			return nil, usageError{errors.New("--keep-size requires --keep")}
		}
	}
	return p.sequences(w, c.String("keep"), limit)
}

// keepSequences adds the sequences of the home to the options of a runner, if a conversation is
// kept. The caller calls done after the runner was closed.
func (p *program) keepSequences(w *workspace.Workspace, name string, opt *runner.Options) (done func(), err error) {
	done = func() {}
	if name == "" {
		return done, nil
	}
	c, err := p.sequences(w, w.SequenceDir(), 0)
	if err == nil && c != nil {
		opt.Kept, done = c, func() { _ = c.Close() }
	}
	return done, err
}

// checkKeep refuses what --keep cannot continue.
func checkKeep(c *cli.Context, set ...string) error {
	for _, name := range set {
		if c.String("keep") != "" && c.IsSet(name) {
			return usageError{fmt.Errorf("--keep and --%s exclude each other", name)}
		}
	}
	if c.IsSet("keep") && c.String("keep") == "" {
		return usageError{errors.New("--keep: missing name of the conversation")}
	}
	if info, err := os.Stat(c.String("keep")); err == nil && info.IsDir() && strings.ContainsAny(c.String("keep"), `/\`) {
		return usageError{fmt.Errorf("--keep %s: is a folder, want a file", c.String("keep"))}
	}
	return nil
}
