package fsx

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// LinkFrom creates the hard link to inside the Dir to the file at the path from, which may
// be outside of it. A symbolic link at from is followed. Both must be on one file system.
// If to exists, the error is [fs.ErrExist].
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

// CopyFrom copies the file at the path from to the new file to and syncs it, but not the
// folder. On an error it leaves no file.
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

// LinkOrCopy links the file at the path from to to, or copies it if the file system cannot
// link (another device, no hard links, too many links, not permitted). It reports whether
// it linked.
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

// Freeze removes the write permissions of the open file f and syncs it, before a link to it
// counts as stored; thaw restores the permissions. Hooks do not see it, since the file
// belongs to the user and is outside of any Dir.
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
