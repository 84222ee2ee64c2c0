// Package inspect compares a module's weight files with its manifest, from the
// files alone: no graph, no core, no engine is needed.
//
// [Check] opens what the manifest exports and reports what does not agree:
// ports, dimensions, vocabulary, special tokens, files that belong together.
// Only headers are read; a file of any size costs the same. [Weights] says
// which files belong to which format, so that they are shipped together or not
// at all. Where the files lie is the caller's business ([Locate]): [Folder] is
// for a module's own folder.
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

// Locate tells where a file of a module lies on disk and its size in bytes;
// false for a file that the module does not hold.
type Locate func(path string) (file string, size int64, ok bool)

// Folder locates the files in the module's own folder. What leads out of it,
// or is no regular file, is not there.
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

// Check reports every difference between the files that m exports as GGUF or
// ONNX and what m says of them.
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

// Module loads the module in a folder and checks the whole of it: the manifest
// by itself, the files it declares, and what is in them. The manifest is nil
// when it cannot be read.
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

// checker collects what is wrong with one module.
type checker struct {
	m      *modules.Manifest
	locate Locate
	list   diag.List
}

// present reports the export's files that are not there.
func (c *checker) present(e modules.Export) bool {
	before := len(c.list)
	for _, p := range e.Files() {
		if _, _, ok := c.locate(p); !ok {
			c.list.Add(diag.FileMissing, c.m.PathPos(p), fmt.Sprintf("%s does not hold %q", c.m.ID(), p), "add the file or correct the name")
		}
	}
	return len(c.list) == before
}

// fault reports a difference at a JSON pointer of the manifest.
func (c *checker) fault(ptr, detail string) {
	c.list.Add(diag.WeightsFault, c.m.Pos(ptr), c.m.ID()+": "+detail, "correct the manifest, or export the weights again")
}

// Weights lists the files of every format that m exports, the entry first:
// the export's own, the data that an ONNX model names, and what is called
// after the entry (enc.onnx.data). A file that cannot be read brings none.
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
		for _, p := range m.LabelFiles() { // what comes out cannot be read without them
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

// externals are the paths of the data that the ONNX model at entry names.
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

// beside is the path of a location that the model at entry names: locations
// are relative to the model's own folder.
func beside(entry, location string) string { return path.Join(path.Dir(entry), location) }

// openONNX maps and reads a model. Its errors do not name the file, which on
// disk may be a blob that means nothing to a reader.
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

// reason is an error without the path of the file on disk.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
