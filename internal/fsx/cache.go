package fsx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// leftover is the age at which files of interrupted writers are removed.
const leftover = time.Hour

// Cache is a folder of files that may disappear: those used last, within a limit of bytes.
// Several processes may use one concurrently; files are replaced atomically, and a reader
// must verify them. It is safe for concurrent use.
type Cache struct {
	dir    *Dir
	suffix string
	limit  int64

	mu   sync.Mutex
	room int64 // bytes that Put may write before it lists the folder again
}

// OpenCache opens a folder, or creates it with access for its user only. The names of its files
// end in suffix; other files of the folder remain.
func OpenCache(path, suffix string, limit int64) (*Cache, error) {
	dir, err := Create(path, 0o700, Options{})
	if err != nil {
		return nil, err
	}
	info, err := dir.Root().Stat(".")
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = dir.Chmod(".", 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &Cache{dir: dir, suffix: suffix, limit: limit}, nil
}

// Close closes the folder.
func (c *Cache) Close() error { return c.dir.Close() }

// Limit returns the limit of bytes.
func (c *Cache) Limit() int64 { return c.limit }

// Open opens a regular file of at most limit bytes and returns its size. A link is not followed,
// and no writer of a pipe is waited for.
func (c *Cache) Open(name string, limit int64) (*os.File, int64, error) {
	info, err := c.dir.Root().Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	refuse := func(info fs.FileInfo) error {
		switch {
		case !info.Mode().IsRegular():
			return &fs.PathError{Op: "read", Path: name, Err: ErrIrregular}
		case info.Size() > limit:
			return &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: got %d bytes, limit %d", ErrTooLarge, info.Size(), limit)}
		}
		return nil
	}
	if err := refuse(info); err != nil {
		return nil, 0, err
	}
	f, err := c.dir.Root().OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	if info, err = f.Stat(); err == nil { // the file may have been replaced
		err = refuse(info)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Used makes a file one of those used last. It is best effort.
func (c *Cache) Used(name string) { _ = c.dir.Touch(name, 0o600) }

// Put replaces a file with the output of write, and removes the files used least recently over
// the limit. If the output exceeds the limit, nothing is written and ok is false. The folder is
// listed only after half of the room that the last listing left was written, so other processes
// that write at the same time can exceed the limit by a half of it each.
func (c *Cache) Put(name string, write func(io.Writer) error) (ok bool, err error) {
	out := &bounded{left: c.limit}
	err = c.dir.replace(name, 0o600, false, func(w io.Writer) error {
		out.w = w
		return write(out)
	})
	switch {
	case out.over:
		return false, nil
	case err != nil:
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room -= c.limit - out.left; c.room >= 0 {
		return true, nil
	}
	size, err := c.trim()
	c.room = (c.limit - size) / 2
	return true, err
}

// bounded writes at most left bytes.
type bounded struct {
	w    io.Writer
	left int64
	over bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.over = b.over || int64(len(p)) > b.left; b.over {
		return 0, ErrTooLarge
	}
	n, err := b.w.Write(p)
	b.left -= int64(n)
	return n, err
}

// Remove removes a file, which another process may remove as well.
func (c *Cache) Remove(name string) error {
	if err := c.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Names returns the names of the files in an undefined order.
func (c *Cache) Names() ([]string, error) {
	list, err := c.dir.Root().Open(".")
	if err != nil {
		return nil, err
	}
	defer list.Close()
	names, err := list.Readdirnames(-1)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, c.suffix) }), err
}

// cached is a file of a Cache.
type cached struct {
	name string
	size int64
	used time.Time
}

// list returns the files, least recently used first, and those of interrupted writers.
func (c *Cache) list() (all []cached, left []cached, err error) {
	list, err := fs.ReadDir(c.dir.Root().FS(), ".")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() { // removed meanwhile
			continue
		}
		one := cached{e.Name(), info.Size(), info.ModTime()}
		switch {
		case strings.HasSuffix(e.Name(), c.suffix):
			all = append(all, one)
		case strings.HasPrefix(e.Name(), TempPrefix):
			left = append(left, one)
		}
	}
	slices.SortFunc(all, func(a, b cached) int {
		if c := a.used.Compare(b.used); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return all, left, nil
}

// trim returns the bytes of all files. If they exceed the limit, it removes files first, up to a
// sixteenth more than necessary, so that a full cache is not listed at each Put.
func (c *Cache) trim() (total int64, err error) {
	all, left, err := c.list()
	if err != nil {
		return c.limit, err
	}
	for _, e := range all {
		total += e.size
	}
	least := c.limit
	if total > c.limit {
		least -= c.limit / 16
	}
	for _, e := range all {
		if total <= c.limit && total-e.size < least {
			break
		}
		total -= e.size
		if err := c.Remove(e.name); err != nil {
			return total, err
		}
	}
	for _, e := range left {
		if time.Since(e.used) > leftover {
			if err := c.Remove(e.name); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// Clear removes all files, or only counts them if dry.
func (c *Cache) Clear(dry bool) (files int, size int64, err error) {
	all, left, err := c.list()
	if err != nil {
		return 0, 0, err
	}
	for _, e := range append(all, left...) {
		files, size = files+1, size+e.size
		if !dry {
			if err := c.Remove(e.name); err != nil {
				return files, size, err
			}
		}
	}
	return files, size, nil
}
