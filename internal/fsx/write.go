package fsx

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"time"
)

// TempPrefix starts the names of the files that WriteFile writes before it
// renames them. One is left behind only by a crash.
const TempPrefix = ".tmp-"

// WriteFile replaces the file at path with data, durably: after a crash the
// file holds either what it held before or all of data. On an error nothing
// has changed and no temporary file is left.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	d, err := Open(filepath.Dir(path), Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	return d.WriteFile(filepath.Base(path), data, perm)
}

// Replace replaces the file at path with what write writes, as WriteFile does
// with data. The folder is made where there is none.
func Replace(path string, perm fs.FileMode, write func(io.Writer) error) error {
	return put(path, perm, write, (*Dir).Rename)
}

// Place is Replace where there is no file yet: of two at once one puts its file
// there, and the error of the other is [fs.ErrExist], as it is where one lies
// there already.
func Place(path string, perm fs.FileMode, write func(io.Writer) error) error {
	return put(path, perm, write, func(d *Dir, from, to string) error {
		err := d.LinkFrom(d.join(from), to)
		if err == nil {
			return d.Remove(from)
		}
		if errors.Is(err, fs.ErrExist) || !cannotLink(err) {
			return err
		}
		// An empty file keeps the name for this one; a crash may leave it.
		f, err := d.Create(to, perm)
		if err != nil {
			return err
		}
		if err = errors.Join(f.Close(), d.Rename(from, to)); err != nil {
			return errors.Join(err, d.Remove(to))
		}
		return nil
	})
}

// put writes a file under a name of its own and has publish give it the path's.
func put(path string, perm fs.FileMode, write func(io.Writer) error, publish func(d *Dir, from, to string) error) error {
	d, err := Create(filepath.Dir(path), 0o755, Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	f, err := d.CreateTemp(".", TempPrefix, perm)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	name := filepath.Base(f.Name())
	if err == nil {
		err = publish(d, name, filepath.Base(path))
	}
	if err != nil {
		return errors.Join(err, d.Remove(name))
	}
	return d.SyncDir(".")
}

// WriteFile replaces the file name with data, durably.
func (d *Dir) WriteFile(name string, data []byte, perm fs.FileMode) error {
	if err := d.replace(name, data, perm, true); err != nil {
		return err
	}
	return d.SyncDir(path.Dir(name))
}

// WriteCache replaces the file name with data, all or nothing for other
// processes but not for a power cut, which may leave it empty or torn. It is
// for files whose loss costs time only and whose content checks itself.
func (d *Dir) WriteCache(name string, data []byte, perm fs.FileMode) error {
	return d.replace(name, data, perm, false)
}

func (d *Dir) replace(name string, data []byte, perm fs.FileMode, sync bool) error {
	f, err := d.CreateTemp(path.Dir(name), TempPrefix, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, d.Remove(f.Name()))
	}
	return nil
}

// Touch sets the modification time of name to now, creating an empty file
// where there is none. It is not durable.
func (d *Dir) Touch(name string, perm fs.FileMode) error {
	return d.run(Op{Kind: OpTouch, Name: name, Perm: perm}, func() error {
		now := time.Now()
		err := d.root.Chtimes(name, now, now)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return d.root.WriteFile(name, nil, perm)
	})
}

// Writable reports why no file can be made in the folder at path; nil where one
// can.
func Writable(path string) error {
	d, err := Open(path, Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	f, err := d.CreateTemp(".", TempPrefix, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), d.Remove(f.Name()))
}
