package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// ErrChatName reports an invalid name of a conversation.
var ErrChatName = errors.New("bad conversation name")

// Chat is a kept conversation, which one process holds at a time.
type Chat struct {
	Name string
	base string
	dir  *fsx.Dir
	lock *fsx.Lock
}

// OpenChat opens a conversation of the home. A path, or a name in .json, is a file of the
// user.
func (w *Workspace) OpenChat(ctx context.Context, name string) (*Chat, error) {
	file, err := name, error(nil)
	if !strings.ContainsAny(name, `/\`) && filepath.Ext(name) != ".json" {
		if file, err = w.ChatFile(name); err != nil {
			return nil, err
		}
	}
	c := &Chat{Name: name, base: filepath.Base(file)}
	if c.dir, err = fsx.Create(filepath.Dir(file), 0o700, fsx.Options{}); err != nil {
		return nil, err
	}
	if c.lock, err = c.dir.TryLock(ctx, c.base+".lock"); err != nil {
		if errors.Is(err, fsx.ErrLocked) {
			err = diag.Hinted(errors.New("the conversation is in use by another process"), "end that process, or keep this conversation under another name")
		}
		return nil, errors.Join(err, c.dir.Close())
	}
	return c, nil
}

// Close frees the conversation for other processes.
func (c *Chat) Close() error { return errors.Join(c.lock.RemoveUnlock(), c.dir.Close()) }

// Load passes the conversation to restore, if it was kept. It reports whether it was, and
// the result of restore, the model that answered.
func (c *Chat) Load(restore func(io.Reader) (string, error)) (found bool, model string, err error) {
	f, err := fsx.OpenRegular(filepath.Join(c.dir.Path(), c.base))
	if errors.Is(err, fs.ErrNotExist) {
		return false, "", nil
	}
	if err == nil {
		defer f.Close()
		model, err = restore(f)
	}
	if err != nil {
		return false, "", diag.Hinted(err, "the file was not changed; move "+filepath.Join(c.dir.Path(), c.base)+" away to begin anew")
	}
	return true, model, nil
}

// Save replaces the kept conversation by the output of write.
func (c *Chat) Save(write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return c.dir.WriteFile(c.base, b.Bytes(), 0o600)
}
