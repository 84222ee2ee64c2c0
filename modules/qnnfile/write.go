package qnnfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/core/mmap"
	"mm-abi.org/mm/core/htp/blob"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
)

// ErrExists says that a file is there and was not to be replaced.
var ErrExists = errors.New("exists already")

// Extracted is a context that was written.
type Extracted struct {
	File   string   `json:"file"`
	Bytes  int64    `json:"bytes"`
	Digest string   `json:"digest"`
	Offset int64    `json:"offset"` // in the file that it was in
	Graphs []string `json:"graphs"`
}

// Extraction is what Extract wrote.
type Extraction struct {
	From  string      `json:"from"`
	Files []Extracted `json:"files"`
	// Left are operators that are in none of the contexts.
	Left []Left `json:"left"`
}

// Extract writes the contexts in the file at path to a folder, each once, as
// NAME_0.bin and so on, and replaces files only if force says so. On an error
// no file is left half written.
func Extract(ctx context.Context, path, dir string, force bool) (x Extraction, err error) {
	f, err := Open(path)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	x = Extraction{From: path, Files: []Extracted{}, Left: f.Left()}
	var parts []Part
	var names []string
	for _, p := range f.Parts {
		if !p.Embedded || p.shares {
			continue
		}
		name := filepath.Join(dir, fmt.Sprintf("%s_%d.bin", stem(path), len(parts)))
		if err := free(name, force); err != nil {
			return x, err
		}
		parts, names = append(parts, p), append(names, name)
	}
	if len(parts) == 0 {
		var list diag.List
		detail := fmt.Sprintf("a %s with no context in it", f.Format)
		if len(f.Parts) > 0 {
			detail = fmt.Sprintf("the context lies in a file of its own, %s", f.Parts[0].File)
		}
		list.Add(diag.QNNNoContext, diag.Pos{File: path}, detail, diag.QNNNoContext.Fix())
		return x, list.Err()
	}
	for i, p := range parts {
		h := sha256.New()
		err := Publish(names[i], force, func(w io.Writer) error {
			n, err := io.Copy(io.MultiWriter(w, h), fsx.Reader{Context: ctx, R: io.NewSectionReader(p.data, 0, p.Size)})
			if err == nil && n != p.Size {
				err = io.ErrUnexpectedEOF
			}
			return err
		})
		if err != nil {
			return x, fmt.Errorf("writing %s: %w", names[i], err)
		}
		e := Extracted{File: names[i], Bytes: p.Size, Digest: "sha256:" + hex.EncodeToString(h.Sum(nil)), Offset: p.Offset, Graphs: []string{}}
		for _, g := range p.Context.Graphs {
			e.Graphs = append(e.Graphs, g.Name)
		}
		x.Files = append(x.Files, e)
	}
	return x, nil
}

// free says whether a file may be written.
func free(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case !force:
		return fmt.Errorf("%s %w", path, ErrExists)
	}
	return nil
}

// Publish writes a file whole. Without force it is put where none is: one that
// came there since it was looked for is [ErrExists].
func Publish(path string, force bool, write func(io.Writer) error) error {
	if force {
		return fsx.Replace(path, 0o644, write)
	}
	err := fsx.Place(path, 0o644, write)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s %w", path, ErrExists)
	}
	return err
}

// WrapOptions for Wrap.
type WrapOptions struct {
	Out   string // the model to write
	Graph string // of the context; "" where it has only one
	Embed bool   // put the context into the model
	Force bool   // replace Out
}

// Wrapped is the model that Wrap wrote.
type Wrapped struct {
	File    string   `json:"file"`
	Bytes   int64    `json:"bytes"`
	Context string   `json:"context"` // where the model looks for it, "" for in itself
	Graph   string   `json:"graph"`
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
}

// maxEmbed is the largest context that is put into a model, in bytes: a model
// has at most 2 GiB.
const maxEmbed = 1 << 30

// Wrap writes an ONNX model around the context binary at path. Where it is not
// embedded it must lie beside or below the model, which names it by a relative
// path.
func Wrap(path string, opt WrapOptions) (w Wrapped, err error) {
	f, err := Open(path)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Format != Context {
		return w, fmt.Errorf("%s is a %s, not a context: mm qnn extract takes contexts out", path, f.Format)
	}
	if err := free(opt.Out, opt.Force); err != nil {
		return w, err
	}
	e := blob.WrapOptions{Graph: opt.Graph}
	if opt.Embed {
		if f.Bytes > maxEmbed {
			return w, fmt.Errorf("%s has %d bytes, at most %d are embedded", path, f.Bytes, maxEmbed)
		}
		m, err := mmap.Open(path)
		if err != nil {
			return w, err
		}
		f.close = append(f.close, m)
		if e.Bytes = m.Data; int64(len(e.Bytes)) != f.Bytes {
			return w, fmt.Errorf("%s was changed meanwhile", path)
		}
	} else if e.File, err = beside(opt.Out, path); err != nil {
		return w, err
	}
	m, err := blob.Wrap(f.Parts[0].Context, e)
	if err != nil {
		return w, err
	}
	w = Wrapped{File: opt.Out, Context: e.File, Graph: m.Graph.Nodes[0].Name, Inputs: []string{}, Outputs: []string{}}
	for _, v := range m.Graph.Inputs {
		w.Inputs = append(w.Inputs, value(v))
	}
	for _, v := range m.Graph.Outputs {
		w.Outputs = append(w.Outputs, value(v))
	}
	err = Publish(opt.Out, opt.Force, func(to io.Writer) (err error) {
		w.Bytes, err = onnx.Write(to, m)
		return err
	})
	return w, err
}

// beside is the path of a context as a model names it.
func beside(model, path string) (string, error) {
	from, err1 := filepath.Abs(filepath.Dir(model))
	to, err2 := filepath.Abs(path)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(from, to)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", fmt.Errorf("%s lies outside of the folder of %s, and a model may not name it there: put it beside the model, or into it with --embed", path, model)
	}
	return filepath.ToSlash(rel), nil
}
