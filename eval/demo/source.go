package demo

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ArchiveName is the file with the reference modules and graphs that releases put
// next to the program.
const ArchiveName = "mm-catalog.zip"

// maxSource bounds the bytes of the reference modules and graphs.
const maxSource = 256 << 20

// ErrNoSource reports that the reference modules were not found.
var ErrNoSource = errors.New("reference modules not found")

// Source opens the reference modules and graphs, folders catalog and builds: the
// folder or zip archive from, or, if from is empty, the nearest checkout of mm at
// or above dir, or [ArchiveName] next to the program or in ../share/mm. The
// closer may be nil.
func Source(from, dir, program string) (fs.FS, func() error, error) {
	none := func() error { return nil }
	if from != "" {
		if info, err := os.Stat(from); err != nil {
			return nil, nil, err
		} else if info.IsDir() {
			if !isSource(from) {
				return nil, nil, fmt.Errorf("%w in %s: no folder catalog or no builds/playbook.graph.yaml", ErrNoSource, from)
			}
			return os.DirFS(from), none, nil
		}
		return openArchive(from)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if isSource(at) {
			return os.DirFS(at), none, nil
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	beside := filepath.Dir(program)
	for _, file := range []string{filepath.Join(beside, ArchiveName), filepath.Join(beside, "..", "share", "mm", ArchiveName)} {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return openArchive(file)
		}
	}
	return nil, nil, ErrNoSource
}

// isSource reports whether dir is a checkout of mm.
func isSource(dir string) bool {
	for _, file := range []string{"catalog/core-llm/module.yaml", "builds/playbook.graph.yaml"} {
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file))); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// openArchive opens a zip archive. Its reader refuses paths that leave it, and
// contents longer than announced.
func openArchive(file string) (fs.FS, func() error, error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", file, err)
	}
	var total uint64
	for _, f := range z.File {
		if total += f.UncompressedSize64; total > maxSource || f.UncompressedSize64 > maxSource {
			return nil, nil, errors.Join(fmt.Errorf("%s: more than %d bytes of modules", file, maxSource), z.Close())
		}
	}
	return z, z.Close, nil
}

// copySource copies the modules and graphs into dir: modules/NAME/…, builds/….
func copySource(source fs.FS, dir string, copyFS func(string, fs.FS) error) error {
	modules, err := fs.Sub(source, "catalog")
	if err != nil {
		return err
	}
	if err := copyFS(filepath.Join(dir, "modules"), modules); err != nil {
		return fmt.Errorf("copying the reference modules: %w", err)
	}
	graphs, err := fs.Sub(source, "builds")
	if err != nil {
		return err
	}
	return copyFS(filepath.Join(dir, "builds"), yamlFiles{graphs})
}

// yamlFiles shows the YAML files at the top of a file system.
type yamlFiles struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (y yamlFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(y.FS, name)
	var files []fs.DirEntry
	for _, e := range all {
		if !e.IsDir() && filepath.Ext(e.Name()) == ".yaml" {
			files = append(files, e)
		}
	}
	return files, err
}
