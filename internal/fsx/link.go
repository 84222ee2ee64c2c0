package fsx

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// LinkFrom gives the file at the path from, which may lie outside the Dir, the
// further name to inside it. A symbolic link at from is followed. Both must be
// on one file system. The error is [fs.ErrExist] where to is taken.
func (d *Dir) LinkFrom(from, to string) error {
	return d.run(Op{Kind: OpLink, From: from, To: to}, func() error {
		parent, err := d.root.Open(path.Dir(to))
		if err != nil {
			return err
		}
		defer parent.Close()
		if err := linkat(from, parent, path.Base(to)); err != nil {
			return &os.LinkError{Op: "link", Old: from, New: d.join(to), Err: err}
		}
		return nil
	})
}

// CopyFrom copies the file at the path from to the new file to, durably but
// for the folder entry. On an error no file is left.
func (d *Dir) CopyFrom(from, to string, perm fs.FileMode) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := d.Create(to, perm)
	if err != nil {
		return err
	}
	if _, err = dst.ReadFrom(src); err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return errors.Join(err, d.Remove(to))
	}
	return nil
}

// LinkOrCopy links the file at the path from as to, or copies it where the
// file system cannot link (another device, no hard links, too many links, not
// permitted). It reports whether it linked.
func (d *Dir) LinkOrCopy(from, to string, perm fs.FileMode) (linked bool, err error) {
	err = d.LinkFrom(from, to)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || !cannotLink(err) {
		return false, err
	}
	return false, d.CopyFrom(from, to, perm)
}

// Freeze takes the write permissions off the open file f and makes its bytes
// durable, before a link to it counts as stored. thaw gives the permissions
// back. It is not a seam: the file is the user's and lies outside any Dir.
func Freeze(f *os.File) (thaw func() error, err error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	perm := fi.Mode().Perm()
	thaw = func() error {
		if perm&0o222 == 0 {
			return nil
		}
		return f.Chmod(perm)
	}
	if perm&0o222 != 0 {
		if err := f.Chmod(perm &^ 0o222); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, errors.Join(err, thaw())
	}
	return thaw, nil
}
