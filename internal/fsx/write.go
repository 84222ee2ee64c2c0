package fsx

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// TempPrefix is the prefix of the temporary files of WriteFile. Only a crash leaves them.
const TempPrefix = ".tmp-"

// WriteFile durably replaces the file at path with data: after a crash the file holds its
// old content or all of data. On an error nothing has changed and no temporary file is
// left.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	d, err := Open(filepath.Dir(path), Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	return d.WriteFile(filepath.Base(path), data, perm)
}

// Replace is WriteFile with the output of write. It creates the folder if missing.
func Replace(path string, perm fs.FileMode, write func(io.Writer) error) error {
	return put(path, perm, write, (*Dir).Rename)
}

// Place is Replace for a file that must not exist. If it exists, or a concurrent call
// creates it first, the error is [fs.ErrExist].
func Place(path string, perm fs.FileMode, write func(io.Writer) error) error {
	return put(path, perm, write, func(d *Dir, from, to string) error {
		err := d.LinkFrom(d.join(from), to)
		if err == nil {
			return d.Remove(from)
		}
		if errors.Is(err, fs.ErrExist) || !cannotLink(err) {
			return err
		}
		// An empty file reserves the name; a crash may leave it.
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

// put writes a file under a temporary name and calls publish to rename it.
func put(path string, perm fs.FileMode, write func(io.Writer) error, publish func(d *Dir, from, to string) error) error {
	d, err := Create(filepath.Dir(path), 0o755, Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	f, err := d.CreateTemp(".", TempPrefix, perm)
	if err != nil {
		return naming(path, err)
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

// naming replaces the name of a temporary file in an error with that of the file to
// write.
func naming(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) && strings.HasPrefix(filepath.Base(p.Path), TempPrefix) {
		return &fs.PathError{Op: "write", Path: path, Err: p.Err}
	}
	return err
}

// WriteFile replaces the file name with data, durably.
func (d *Dir) WriteFile(name string, data []byte, perm fs.FileMode) error {
	if err := d.replace(name, perm, true, writing(data)); err != nil {
		return err
	}
	return d.SyncDir(path.Dir(name))
}

// WriteCache replaces the file name with data, atomically for other processes but not
// durably: a power failure may leave it empty or torn. It is for caches whose content is
// verified when read.
func (d *Dir) WriteCache(name string, data []byte, perm fs.FileMode) error {
	return d.replace(name, perm, false, writing(data))
}

// writing returns a function that writes data.
func writing(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// replace replaces the file name with the output of write.
func (d *Dir) replace(name string, perm fs.FileMode, sync bool, write func(io.Writer) error) error {
	f, err := d.CreateTemp(path.Dir(name), TempPrefix, perm)
	if err != nil {
		return naming(d.join(name), err)
	}
	err = naming(d.join(name), write(f))
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

// Touch sets the modification time of name to now and creates an empty file if missing. It
// is not durable.
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

// Writable returns an error if no file can be created in the folder at path.
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
