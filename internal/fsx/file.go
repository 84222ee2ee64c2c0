package fsx

import (
	"io"
	"io/fs"
	"os"
)

// File is an open file of a [Dir]. It is not safe for concurrent use.
type File struct {
	f    *os.File
	d    *Dir
	name string
}

// open opens name with the flags.
func (d *Dir) open(kind Kind, name string, flag int, perm fs.FileMode) (*File, error) {
	file := &File{d: d, name: name}
	err := d.run(Op{Kind: kind, Name: name, File: file, Perm: perm}, func() (err error) {
		file.f, err = d.root.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		if file.f != nil {
			file.f.Close()
		}
		return nil, err
	}
	return file, nil
}

// Name returns the name relative to the Dir.
func (f *File) Name() string { return f.name }

// Stat returns the file's information.
func (f *File) Stat() (fs.FileInfo, error) { return f.f.Stat() }

// Write writes p.
func (f *File) Write(p []byte) (n int, err error) {
	if f.d.hook == nil {
		return f.f.Write(p)
	}
	op := Op{Kind: OpWrite, Root: f.d.path, Name: f.name, File: f, Data: p}
	err = f.d.hook(&op, func() (err error) {
		n, err = f.f.Write(op.Data)
		return err
	})
	return n, err
}

// ReadFrom writes all of r. If r is a file, the kernel copies the bytes (copy_file_range,
// or a shared extent where supported).
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	if f.d.hook == nil {
		return f.f.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{f}, r)
}

// Truncate cuts the file to size bytes.
func (f *File) Truncate(size int64) error {
	return f.d.run(Op{Kind: OpTruncate, Name: f.name, File: f, Size: size}, func() error { return f.f.Truncate(size) })
}

// Sync makes the file's bytes durable.
func (f *File) Sync() error {
	return f.d.run(Op{Kind: OpSync, Name: f.name, File: f}, f.f.Sync)
}

// Close closes the file. The descriptor is released even if a hook refuses.
func (f *File) Close() error {
	closed := false
	err := f.d.run(Op{Kind: OpClose, Name: f.name, File: f}, func() error {
		closed = true
		return f.f.Close()
	})
	if !closed {
		f.f.Close()
	}
	return err
}
