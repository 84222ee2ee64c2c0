package modules

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// The file that keeps git from changing line ends on checkout, and so digests. It is not a
// file of a module.
const (
	GitFile       = ".gitattributes"
	GitAttributes = "# Modules are identified by their digests: git must not convert line endings.\n* -text\n"
)

// Create creates the module folder dir. fill writes the files, including
// module.yaml, to a temporary folder next to it, which is renamed to dir after the
// manifest was read back without a fault. If anything fails, nothing remains. dir
// may exist with other files, but must not contain a module or a file that fill
// writes. Warnings are returned with the manifest.
func Create(dir string, fill func(d *fsx.Dir) error) (*Manifest, diag.List, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, FileName)); err == nil {
		return nil, nil, fmt.Errorf("%s already contains a module", dir)
	}
	name := filepath.Base(full)
	parent, err := fsx.Create(filepath.Dir(full), 0o755, fsx.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer parent.Close()
	temp := "." + name + ".new-" + rand.Text()[:8]
	if err := parent.MkdirAll(temp, 0o755); err != nil {
		return nil, nil, err
	}
	list, err := prepare(filepath.Join(parent.Path(), temp), dir, fill)
	if err == nil {
		err = settle(parent, temp, name)
	}
	if err = errors.Join(err, parent.Root().RemoveAll(temp)); err != nil {
		return nil, nil, err
	}
	m, _ := Load(dir)
	return m, list, nil
}

// prepare fills the folder temp and reads the module back. Faults are reported with
// the path dir.
func prepare(temp, dir string, fill func(d *fsx.Dir) error) (diag.List, error) {
	d, err := fsx.Open(temp, fsx.Options{})
	if err != nil {
		return nil, err
	}
	err = fill(d)
	if _, there := os.Lstat(filepath.Join(dir, GitFile)); err == nil && there != nil {
		err = d.WriteFile(GitFile, []byte(GitAttributes), 0o644)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	_, list := Load(temp)
	if list.Failed() { // no file remains for the position of a fault
		for i := range list {
			list[i].Pos = diag.Pos{}
			list[i].Detail += "; the module " + dir + " was not created"
		}
		return list, list.Err()
	}
	for i := range list {
		if rel, err := filepath.Rel(temp, list[i].Pos.File); err == nil {
			list[i].Pos.File = filepath.Join(dir, rel)
		}
	}
	return list, list.Err()
}

// settle renames the folder temp to name. If name exists, it moves the files there,
// module.yaml last, since that makes a folder a module.
func settle(parent *fsx.Dir, temp, name string) error {
	if _, err := parent.Root().Lstat(name); errors.Is(err, fs.ErrNotExist) {
		if err := parent.Rename(temp, name); err != nil {
			return err
		}
		return parent.SyncDir(".")
	}
	entries, err := os.ReadDir(filepath.Join(parent.Path(), temp))
	if err != nil {
		return err
	}
	var files []string
	for _, e := range entries {
		if _, err := parent.Root().Lstat(filepath.Join(name, e.Name())); err == nil {
			return fmt.Errorf("%s exists", filepath.Join(parent.Path(), name, e.Name()))
		}
		if e.Name() != FileName {
			files = append(files, e.Name())
		}
	}
	for i, f := range append(slices.Clone(files), FileName) {
		if err := parent.Rename(temp+"/"+f, name+"/"+f); err != nil {
			for _, moved := range files[:i] {
				err = errors.Join(err, parent.Root().RemoveAll(filepath.Join(name, moved)))
			}
			return err
		}
	}
	return parent.SyncDir(name)
}
