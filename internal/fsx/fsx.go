// Package fsx is the only way mm writes to disk.
//
// A [Dir] is a folder opened through [os.Root]: every name given to it is relative and
// cannot leave it, whatever links it contains. Its operations are those of crash-safe
// software: create a new file that must not exist, write, sync, rename, link, remove, sync
// a directory, lock. [Dir.WriteFile] combines them into the atomic replacement of a file;
// [WriteFile] does so for a plain path.
//
// The order that makes a change survive a crash at any point is always temporary file →
// write → Sync → Close → Rename → SyncDir. Only then may another file refer to the new one.
//
// Each operation can be intercepted: a [Hook] of the Dir is called before the operating
// system and may refuse, shorten or record the operation. Package fsxtest implements three
// kinds of failures with it (the Nth call fails, the process dies at the Nth call, a power
// failure loses what was not synced). Without a hook an operation costs one nil check.
//
// [ParseSize] and [FormatSize] convert sizes of files, and [Sniff] recognizes kinds of files
// by their first bytes.
package fsx

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Kind is an operation of this package.
type Kind uint8

// The operations, in the usual order.
const (
	OpLock Kind = iota + 1
	OpMkdir
	OpCreate
	OpAppend
	OpWrite
	OpTruncate
	OpChmod
	OpSync
	OpClose
	OpLink
	OpRename
	OpTouch
	OpRemove
	OpSyncDir
)

// String returns the operation in lower case.
func (k Kind) String() string {
	names := [...]string{"", "lock", "mkdir", "create", "append", "write", "truncate", "chmod",
		"sync", "close", "link", "rename", "touch", "remove", "syncdir"}
	if int(k) < len(names) {
		return names[k]
	}
	return "op" + strconv.Itoa(int(k))
}

// Op is an operation, as passed to a [Hook].
type Op struct {
	Kind Kind
	Root string      // the Dir's path
	Name string      // the name acted on, slash separated, relative to Root
	To   string      // the new name of a rename or link
	From string      // the path outside Root that a link comes from
	File *File       // the open file of create, append, write, truncate, sync and close
	Data []byte      // what a write writes; a hook may shorten it
	Size int64       // the length a truncate leaves
	Perm fs.FileMode // of create, mkdir, chmod
}

// Hook is called instead of each operation of a Dir. It calls do to execute the operation,
// and returns the result. It is for tests.
type Hook func(op *Op, do func() error) error

// Options for [Open]. The zero value writes straight through.
type Options struct {
	Hook Hook // for tests, may be nil
}

// Dir is an open, writable folder. It is safe for concurrent use.
type Dir struct {
	root *os.Root
	path string
	hook Hook
}

// Open opens the folder at path, which must exist.
func Open(path string, opt Options) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Dir{root: root, path: path, hook: opt.Hook}, nil
}

// Create durably creates the folder at path and its parents if missing, and opens it.
func Create(path string, perm fs.FileMode, opt Options) (*Dir, error) {
	if err := mkdirAll(path, perm, opt.Hook); err != nil {
		return nil, err
	}
	return Open(path, opt)
}

// Path returns the path that the Dir was opened with.
func (d *Dir) Path() string { return d.path }

// Root returns the folder for reading.
func (d *Dir) Root() *os.Root { return d.root }

// Close releases the folder. Files opened through it stay open.
func (d *Dir) Close() error { return d.root.Close() }

// run executes op, through the hook if any.
func (d *Dir) run(op Op, do func() error) error {
	named := func() error { return d.named(do()) }
	if d.hook == nil {
		return named()
	}
	op.Root = d.path
	return d.hook(&op, named)
}

// named adds the folder's path to the names in an error of [os.Root], whose calls end in "at".
func (d *Dir) named(err error) error {
	var one *fs.PathError
	var two *os.LinkError
	switch {
	case errors.As(err, &one):
		if call, ok := strings.CutSuffix(one.Op, "at"); ok && !strings.HasSuffix(call, "st") { // not stat
			one.Op, one.Path = call, d.join(one.Path)
		}
	case errors.As(err, &two):
		if call, ok := strings.CutSuffix(two.Op, "at"); ok {
			two.Op, two.Old, two.New = call, d.join(two.Old), d.join(two.New)
		}
	}
	return err
}

// MkdirAll creates the folder name and its missing parents, and syncs each folder that got
// a new entry.
func (d *Dir) MkdirAll(name string, perm fs.FileMode) error {
	if name == "." {
		return nil
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrInvalid}
	}
	if fi, err := d.root.Stat(name); err == nil {
		if !fi.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: d.join(name), Err: fs.ErrExist}
		}
		return nil
	}
	parent := path.Dir(name)
	if err := d.MkdirAll(parent, perm); err != nil {
		return err
	}
	err := d.run(Op{Kind: OpMkdir, Name: name, Perm: perm}, func() error { return d.root.Mkdir(name, perm) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.SyncDir(parent)
}

// Create creates the file name for writing; it must not exist.
func (d *Dir) Create(name string, perm fs.FileMode) (*File, error) {
	return d.open(OpCreate, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

// Append opens the file name for appending and creates it if missing.
func (d *Dir) Append(name string, perm fs.FileMode) (*File, error) {
	return d.open(OpAppend, name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, perm)
}

// CreateTemp creates a file in the folder dir whose name begins with prefix, and opens it
// for writing.
func (d *Dir) CreateTemp(dir, prefix string, perm fs.FileMode) (*File, error) {
	for try := 0; ; try++ {
		name := path.Join(dir, prefix+strconv.FormatUint(rand.Uint64(), 36))
		f, err := d.Create(name, perm)
		if errors.Is(err, fs.ErrExist) && try < 100 {
			continue
		}
		return f, err
	}
}

// Rename renames a file and replaces the target if it exists.
func (d *Dir) Rename(from, to string) error {
	return d.run(Op{Kind: OpRename, Name: from, To: to}, func() error {
		return retrySharing(func() error { return d.root.Rename(from, to) })
	})
}

// Remove deletes the file or empty folder name.
func (d *Dir) Remove(name string) error {
	return d.run(Op{Kind: OpRemove, Name: name}, func() error { return d.root.Remove(name) })
}

// Chmod sets the permission bits of name.
func (d *Dir) Chmod(name string, perm fs.FileMode) error {
	return d.run(Op{Kind: OpChmod, Name: name, Perm: perm}, func() error { return d.root.Chmod(name, perm) })
}

// SyncDir makes the entries of the folder name durable. On Windows, which has no such call,
// it does nothing.
func (d *Dir) SyncDir(name string) error {
	return d.run(Op{Kind: OpSyncDir, Name: name}, func() error {
		if runtime.GOOS == "windows" {
			return nil
		}
		f, err := d.root.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// join returns the path of name, for messages and for calls that take paths.
func (d *Dir) join(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// mkdirAll is MkdirAll for a plain path, whose parents may not exist yet.
func mkdirAll(dir string, perm fs.FileMode, hook Hook) error {
	if fi, err := os.Stat(dir); err == nil {
		if !fi.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
		}
		return nil
	}
	parent, base := filepath.Dir(dir), filepath.Base(dir)
	if parent == dir {
		return fmt.Errorf("mkdir %s: %w", dir, fs.ErrNotExist)
	}
	if err := mkdirAll(parent, perm, hook); err != nil {
		return err
	}
	d, err := Open(parent, Options{Hook: hook})
	if err != nil {
		return err
	}
	defer d.Close()
	return d.MkdirAll(base, perm)
}
