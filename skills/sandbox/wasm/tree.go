package wasm

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// openTree opens a folder, or a file as the only one of a folder, for reading.
// Links do not lead out of it.
func openTree(path string) (fs.FS, io.Closer, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	dir, only := path, ""
	if !st.IsDir() {
		dir, only = filepath.Split(path)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	return &tree{root, only}, root, nil
}

// tree serves regular files and folders below a folder. Opening a pipe would
// wait for a writer, and devices are refused.
type tree struct {
	root *os.Root
	only string // if not "", "." is this file of the folder
}

// Open implements fs.FS.
func (t *tree) Open(name string) (fs.File, error) {
	if t.only != "" {
		if name != "." {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		name = t.only
	}
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &readOnly{f}, nil
}

// readOnly hides the write methods of a file.
type readOnly struct{ f *os.File }

// Stat implements fs.File.
func (r *readOnly) Stat() (fs.FileInfo, error) { return r.f.Stat() }

// Read implements fs.File.
func (r *readOnly) Read(p []byte) (int, error) { return r.f.Read(p) }

// ReadAt implements io.ReaderAt.
func (r *readOnly) ReadAt(p []byte, off int64) (int, error) { return r.f.ReadAt(p, off) }

// Seek implements io.Seeker.
func (r *readOnly) Seek(off int64, whence int) (int64, error) { return r.f.Seek(off, whence) }

// ReadDir implements fs.ReadDirFile.
func (r *readOnly) ReadDir(n int) ([]fs.DirEntry, error) { return r.f.ReadDir(n) }

// Close implements fs.File.
func (r *readOnly) Close() error { return r.f.Close() }
