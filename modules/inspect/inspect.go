// Package inspect compares the weight files of a module with its manifest. Neither
// a graph, a core nor an engine is required.
//
// [Check] opens the exported files and reports differences in ports, dimensions,
// vocabulary, special tokens and related files. It reads only headers, whatever the
// size of a file. [Weights] lists the files of each format, which must be shipped
// together. [Locate] finds files; [Folder] is for the folder of a module.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/mmap"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

// Locate returns the path of a module's file on disk and its size in bytes; ok is
// false if the module does not contain it.
type Locate func(path string) (file string, size int64, ok bool)

// Folder locates files in the module's folder. It does not find links that leave
// it, or files that are not regular.
func Folder(m *modules.Manifest) Locate {
	return func(path string) (string, int64, bool) {
		root, err := os.OpenRoot(m.Dir())
		if err != nil {
			return "", 0, false
		}
		defer root.Close()
		info, err := root.Stat(filepath.FromSlash(path))
		if err != nil || !info.Mode().IsRegular() {
			return "", 0, false
		}
		return filepath.Join(m.Dir(), filepath.FromSlash(path)), info.Size(), true
	}
}

// Check reports all differences between m and the files that it exports as GGUF or
// ONNX.
func Check(m *modules.Manifest, locate Locate) diag.List {
	c := &checker{m: m, locate: locate}
	for _, format := range []abi.Format{abi.GGUF, abi.ONNX} {
		entry := m.Entry(format)
		if entry == "" || !c.present(m.Export[format]) {
			continue
		}
		if format == abi.GGUF {
			c.gguf(entry)
		} else {
			c.onnx(entry)
		}
	}
	c.list.Sort()
	return c.list
}

// Module loads and checks the module in a folder: the manifest, the declared files
// and their contents. The manifest is nil if it cannot be read.
func Module(ctx context.Context, dir string) (*modules.Manifest, diag.List) {
	m, list := modules.Load(dir)
	if m == nil {
		return nil, list
	}
	faults := m.CheckFiles(ctx)
	if list = append(list, faults...); !faults.Failed() {
		list = append(list, Check(m, Folder(m))...)
	}
	list.Sort()
	return m, list
}

// checker collects the faults of a module.
type checker struct {
	m      *modules.Manifest
	locate Locate
	list   diag.List
}

// present reports missing files of an export.
func (c *checker) present(e modules.Export) bool {
	before := len(c.list)
	for _, p := range e.Files() {
		if _, _, ok := c.locate(p); !ok {
			c.list.Add(diag.FileMissing, c.m.PathPos(p), fmt.Sprintf("%s does not contain %q", c.m.ID(), p), "add the file or correct the name")
		}
	}
	return len(c.list) == before
}

// fault reports a difference at a JSON pointer of the manifest.
func (c *checker) fault(ptr, detail string) {
	c.list.Add(diag.WeightsFault, c.m.Pos(ptr), c.m.ID()+": "+detail, "correct the manifest, or export the weights again")
}

// Weights lists the files of every exported format, the entry first: the export's
// files, the external data of an ONNX model, and files whose names extend the
// entry's (enc.onnx.data). A file that cannot be read has no external data.
func Weights(m *modules.Manifest, locate Locate) map[abi.Format][]string {
	out := map[abi.Format][]string{}
	for format, e := range m.Export {
		files := e.Files()
		add := func(p string) {
			if _, _, ok := locate(p); ok && !slices.Contains(files, p) {
				files = append(files, p)
			}
		}
		if format == abi.ONNX {
			for _, p := range externals(e.Path, locate) {
				add(p)
			}
		}
		for _, p := range append(m.LabelFiles(), m.BlockFiles()...) { // values cannot be converted without them
			add(p)
		}
		for _, p := range m.Paths() {
			if rest, ok := strings.CutPrefix(p, e.Path); ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "_")) {
				add(p)
			}
		}
		out[format] = files
	}
	return out
}

// externals returns the paths of the external data of the ONNX model at entry.
func externals(entry string, locate Locate) []string {
	file, _, ok := locate(entry)
	if !ok {
		return nil
	}
	model, closer, err := openONNX(file)
	if err != nil {
		return nil
	}
	defer closer()
	var out []string
	for _, location := range model.Externals() {
		out = append(out, beside(entry, location))
	}
	return out
}

// beside returns the path of a location in the model at entry: locations are
// relative to its folder.
func beside(entry, location string) string { return path.Join(path.Dir(entry), location) }

// openONNX maps and parses a model. Its errors omit the path on disk, which may be
// an opaque blob.
func openONNX(file string) (*onnx.Model, func() error, error) {
	data, err := mmap.Open(file)
	if err != nil {
		return nil, nil, reason(err)
	}
	model, err := onnx.Parse(data.Data)
	if err != nil {
		return nil, nil, errors.Join(err, data.Close())
	}
	return model, data.Close, nil
}

// reason returns an error without the path on disk.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
