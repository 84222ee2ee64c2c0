package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
)

// root is the folder that contains every path of a call.
type root struct {
	dir       string // absolute, without links
	separator string
	in        *os.Root
}

func openRoot(dir string) (*root, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	in, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &root{dir, string(filepath.Separator), in}, nil
}

// Close frees the folder.
func (r *root) Close() error { return r.in.Close() }

// outsideError reports a path outside the root folder.
type outsideError struct{ path string }

func (e outsideError) Error() string { return fmt.Sprintf("%q is not below the root folder", e.path) }

// Hint names the flag that changes the root folder.
func (outsideError) Hint() string {
	return "paths are relative to the root folder; links that lead out of it, and absolute ones, are not followed"
}

// path returns the absolute path that a call names, and whether it exists. No component may
// leave the folder, by dots or by links. A process that can write to the folder may still
// replace a file by a link during a call.
func (r *root) path(name string) (abs string, there bool, err error) {
	if strings.ContainsRune(name, 0) {
		return "", false, outsideError{name}
	}
	local := filepath.FromSlash(name)
	if filepath.IsAbs(local) {
		if local, err = filepath.Rel(r.dir, local); err != nil {
			return "", false, outsideError{name}
		}
	}
	local = filepath.Clean(local)
	if !filepath.IsLocal(local) {
		return "", false, outsideError{name}
	}
	_, err = r.in.Stat(local)
	switch {
	case err == nil:
		return filepath.Join(r.dir, local), true, nil
	case errors.Is(err, fs.ErrNotExist):
		return filepath.Join(r.dir, local), false, nil
	case errors.Is(err, fs.ErrPermission):
		return "", false, fmt.Errorf("%s: %w", name, fs.ErrPermission)
	}
	return "", false, outsideError{name}
}

// existing is path for a path that must exist.
func (r *root) existing(name string) (string, error) {
	abs, there, err := r.path(name)
	if err == nil && !there {
		err = fmt.Errorf("no file or folder %q below the root folder", name)
	}
	return abs, err
}

// artifact returns the workspace's name of a build that a call names: a path below the folder,
// or a reference that cannot be mistaken for a path.
func (r *root) artifact(name string) (string, error) {
	if strings.HasPrefix(name, "oci:") {
		return "", fmt.Errorf("%q: name a layout by its folder", name)
	}
	path, version, versioned := strings.Cut(name, "@")
	abs, there, err := r.path(path)
	if err == nil && there {
		if versioned {
			abs += "@" + version
		}
		return abs, nil
	}
	// A reference has no component of dots and is not absolute; no file of that name
	// may exist in the working folder.
	if _, bad := abi.ParseRef(name); bad != nil || err != nil {
		if err == nil {
			err = fmt.Errorf("%q: want a path below the root folder or a reference", name)
		}
		return "", err
	}
	first, _, _ := strings.Cut(path, "/")
	if _, there, err := r.path(first); err != nil || there {
		return "", fmt.Errorf("no file or folder %q below the root folder", name)
	}
	if _, err := os.Lstat(first); err == nil {
		return "", outsideError{name}
	}
	return name, nil
}

// clientPath returns a path relative to the root, with slashes.
func (r *root) clientPath(path string) string {
	if rest, ok := strings.CutPrefix(path, r.dir+r.separator); ok {
		return filepath.ToSlash(rest)
	}
	return path
}

// open opens a regular file below the folder for reading.
func (r *root) open(name string) (*os.File, int64, error) {
	abs, err := r.existing(name)
	if err != nil {
		return nil, 0, err
	}
	f, err := fsx.OpenRegular(abs)
	if err != nil {
		return nil, 0, fmt.Errorf("opening %s: %w", name, err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, st.Size(), nil
}
