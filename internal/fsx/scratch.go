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

// Scratch creates a folder below d for the caller alone, until done removes it with its
// contents. It also removes folders of processes that died, whose locks are free.
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

// sweep removes scratch folders without an owner. It leaves those that it cannot remove.
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

// RemoveAll removes the folder at path with its contents, including read-only folders. A
// missing path is not an error.
func RemoveAll(path string) error {
	filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(p, 0o755)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// CopyFS copies the files of from below the folder at path, which is created if missing;
// existing files are errors.
func CopyFS(path string, from fs.FS) error { return os.CopyFS(path, from) }

// MkdirTemp creates a folder for temporary files; the caller removes it with [RemoveAll].
func MkdirTemp(pattern string) (string, error) { return os.MkdirTemp("", pattern) }
