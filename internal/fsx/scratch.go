package fsx

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const scratchLock = ".lock"

// Scratch makes a folder below d that is the caller's alone until done is
// called, which removes it with all that lies in it. Folders of processes that
// died are removed on the way: nobody holds their lock any more.
func (d *Dir) Scratch(ctx context.Context) (dir *Dir, done func() error, err error) {
	d.sweep(ctx)
	name := rand.Text()
	lock, err := d.Lock(ctx, name+scratchLock)
	if err != nil {
		return nil, nil, err
	}
	keep, err := Open(d.path, Options{Hook: d.hook})
	if err != nil {
		return nil, nil, errors.Join(err, lock.RemoveUnlock())
	}
	lock.d = keep
	fail := func(err error) error { return errors.Join(err, lock.RemoveUnlock(), keep.Close()) }
	if err := d.MkdirAll(name, 0o700); err != nil {
		return nil, nil, fail(err)
	}
	if dir, err = Open(d.join(name), Options{Hook: d.hook}); err != nil {
		return nil, nil, fail(err)
	}
	return dir, func() error {
		return fail(errors.Join(dir.Close(), RemoveAll(keep.join(name))))
	}, nil
}

// sweep removes scratch folders without an owner. What it cannot remove stays
// for the next one.
func (d *Dir) sweep(ctx context.Context) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), scratchLock)
		if !ok {
			continue
		}
		lock, err := d.TryLock(ctx, e.Name())
		if err != nil {
			continue
		}
		RemoveAll(d.join(name))
		lock.RemoveUnlock()
	}
}

// RemoveAll removes the folder at path with all that lies in it, read-only
// folders included. A path that is not there is no error.
func RemoveAll(path string) error {
	filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(p, 0o755)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// CopyFS copies the files of from below the folder at path, which is made
// where missing; files that are there are an error.
func CopyFS(path string, from fs.FS) error { return os.CopyFS(path, from) }

// MkdirTemp makes a new folder in the system's place for temporary files, for
// the caller to remove with [RemoveAll].
func MkdirTemp(pattern string) (string, error) { return os.MkdirTemp("", pattern) }
