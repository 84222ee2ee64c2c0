package coreml

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Extension is that of the folder of a package.
const Extension = ".mlpackage"

// Package describes a package on disk.
type Package struct {
	Model
	Size    int64            // of the model file and the weights, in bytes
	Weights map[string]int64 // bytes by type
	Count   int64            // of the parameters in the file of weights
}

// Open describes the package in a folder.
func Open(dir string) (p *Package, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	text, err := read(root, manifestPath, maxManifest)
	if err != nil {
		return nil, err
	}
	where, err := modelOf(text)
	if err != nil {
		return nil, err
	}
	spec, err := read(root, where, maxSpec)
	if err != nil {
		return nil, err
	}
	m, err := parse(spec)
	if err != nil {
		return nil, err
	}
	p = &Package{Model: *m, Size: int64(len(spec)), Weights: map[string]int64{}}
	return p, p.weigh(root, path.Join(path.Dir(where), "weights/weight.bin"))
}

// read reads a file of the package. Links that leave the package are refused.
func read(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, malformed("%s: %v: got %d bytes, the limit is %d", name, fsx.ErrTooLarge, info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// modelOf returns the path of the model that a manifest names.
func modelOf(text []byte) (string, error) {
	var l listing
	if err := json.Unmarshal(text, &l); err != nil {
		return "", malformed("%s: %v", manifestPath, err)
	}
	entry, ok := l.Items[l.Root]
	if !ok {
		return "", malformed("%s: no entry for the model %q", manifestPath, l.Root)
	}
	where := path.Join("Data", entry.Path)
	if !strings.HasPrefix(where, "Data/") || !filepath.IsLocal(where) {
		return "", malformed("%s: the model's path %q leaves the package", manifestPath, entry.Path)
	}
	return where, nil
}

// weigh checks the constants in the file of weights and counts their bytes.
func (p *Package) weigh(root *os.Root, name string) error {
	if len(p.Constants) == 0 {
		return nil
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p.Size += info.Size()
	seen := map[uint64]bool{} // functions share constants
	for _, c := range p.Constants {
		n, err := c.blob(f, info.Size())
		if err != nil {
			return err
		}
		if seen[c.Offset] {
			continue
		}
		seen[c.Offset] = true
		p.Weights[c.Type.DType.String()] += n
		if bits := c.Type.DType.bits(); bits > 0 {
			p.Count += n * 8 / int64(bits)
		}
	}
	return nil
}
