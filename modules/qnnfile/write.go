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
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
)

// ErrExists reports that a file exists and was not replaced.
var ErrExists = errors.New("file exists")

// Extracted is an extracted context.
type Extracted struct {
	File   string   `json:"file"`
	Bytes  int64    `json:"bytes"`
	Digest string   `json:"digest"`
	Offset int64    `json:"offset"` // in the original file
	Graphs []string `json:"graphs"`
}

// Extraction is the result of Extract.
type Extraction struct {
	From  string      `json:"from"`
	Files []Extracted `json:"files"`
	// Left are the operators in none of the contexts.
	Left []Left `json:"left"`
}

// Extract writes the contexts in the file at path to a folder, without duplicates,
// as NAME_0.bin and so on. Existing files are replaced only with force. If it
// fails, no file is incomplete.
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
		detail, hint := fmt.Sprintf("a %s without a context", f.Format), diag.QNNNoContext.Fix()
		switch {
		case f.Format == Context:
			detail, hint = "it is a context itself", "nothing to extract: run or check the file as it is, or wrap it with mm qnn wrap"
		case len(f.Parts) > 0:
			detail = fmt.Sprintf("the context is in another file, %s", f.Parts[0].File)
			hint = fmt.Sprintf("nothing to extract: use %s, which mm qnn inspect, check and wrap take", filepath.Base(f.Parts[0].File))
		}
		list.Add(diag.QNNNoContext, diag.Pos{File: path}, detail, hint)
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

// free checks that a file may be written.
func free(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", path)
	case !force:
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	return nil
}

// Publish writes a file atomically. Without force, it fails with [ErrExists] if the
// file exists by then.
func Publish(path string, force bool, write func(io.Writer) error) error {
	if force {
		return fsx.Replace(path, 0o644, write)
	}
	err := fsx.Place(path, 0o644, write)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	return err
}

// WrapOptions configures Wrap.
type WrapOptions struct {
	Out   string // the model to write
	Graph string // of the context; may be empty if it has only one
	Embed bool   // embed the context in the model
	Force bool   // replace Out
}

// Wrapped is the result of Wrap.
type Wrapped struct {
	File    string   `json:"file"`
	Bytes   int64    `json:"bytes"`
	Context string   `json:"context"` // path in the model; empty if embedded
	Graph   string   `json:"graph"`
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
}

// maxEmbed is the size limit of an embedded context, in bytes: a model is limited
// to 2 GiB.
const maxEmbed = 1 << 30

// embeddable refuses a context that is too large to embed.
func embeddable(path string, bytes int64) error {
	if bytes > maxEmbed {
		return fmt.Errorf("%s is too large to embed: got %d bytes, the limit is %d", path, bytes, maxEmbed)
	}
	return nil
}

// Wrap writes an ONNX model around the context binary at path. Unless it is
// embedded, it must be in or below the model's folder, since the model names it by
// a relative path.
func Wrap(path string, opt WrapOptions) (w Wrapped, err error) {
	f, err := Open(path)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Format != Context {
		return w, fmt.Errorf("%s is a %s, not a context: extract its contexts with mm qnn extract", path, f.Format)
	}
	if err := free(opt.Out, opt.Force); err != nil {
		return w, err
	}
	e := htp.WrapOptions{Graph: opt.Graph}
	if opt.Embed {
		if err := embeddable(path, f.Bytes); err != nil {
			return w, err
		}
		m, err := mmap.Open(path)
		if err != nil {
			return w, err
		}
		f.close = append(f.close, m)
		if e.Bytes = m.Data; int64(len(e.Bytes)) != f.Bytes {
			return w, fmt.Errorf("%s changed during the operation", path)
		}
	} else if e.File, err = beside(opt.Out, path); err != nil {
		return w, err
	}
	m, err := htp.Wrap(f.Parts[0].Context, e)
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

// beside returns the path of a context relative to a model.
func beside(model, path string) (string, error) {
	from, err1 := filepath.Abs(filepath.Dir(model))
	to, err2 := filepath.Abs(path)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(from, to)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", fmt.Errorf("%s is outside of the folder of %s: move it there, or use --embed", path, model)
	}
	return filepath.ToSlash(rel), nil
}
