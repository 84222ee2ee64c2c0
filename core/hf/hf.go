// Package hf turns a folder of Hugging Face transformers (config.json,
// safetensors in one file or many, tokenizer.json) into a GGUF file.
//
// The way of a folder: [Open] reads config.json into an arch.Shape, heeding
// or refusing every key that changes the computation, finds the source of
// every tensor the shape asks for, in the headers of the weight files, and
// reads the tokenizer. [Model.Write] streams the file; memory does not grow
// with the weights, which stay mapped. [Convert] writes it to a path, whole or
// not at all.
//
// Tensors keep their type (F32, F16, BF16); vectors become F32. Rows of
// queries and keys are put in the order in which the architecture rotates
// them. Names, keys and orders are those of llama.cpp's convert_hf_to_gguf.py.
package hf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
)

// Options is how a folder is read.
type Options struct {
	// Name is general.name; "" means that of the model card or the folder.
	Name string
	// Ignore lists keys of config.json that are passed over although this
	// package does not know them.
	Ignore []string
}

// Model is a folder that can be written as GGUF. Its fields must not be
// changed.
type Model struct {
	Shape arch.Shape
	// Tokenizer is nil where the folder has none.
	Tokenizer *tokenizer.Tokenizer
	Card      Card

	sources []gguf.Source
	shards  []*safetensors.File
}

// The limits of what is read into memory, in bytes.
const (
	maxConfig    = 4 << 20
	maxIndex     = 64 << 20
	maxTokenizer = 256 << 20
	maxTemplate  = 4 << 20
	maxCard      = 1 << 20
)

// Open reads the folder at dir. Close gives back what it maps.
func Open(dir string, opt Options) (*Model, error) {
	m := &Model{}
	if err := m.open(dir, opt); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the model in %s: %w", dir, err), m.Close())
	}
	return m, nil
}

func (m *Model) open(dir string, opt Options) error {
	b, err := readBounded(dir, "config.json", maxConfig)
	if err != nil {
		return err
	}
	c, err := parseConfig(b)
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	f, err := c.family()
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if m.shards, err = openShards(dir); err != nil {
		return err
	}
	w := newWeights(m.shards)
	w.base = f.names.base
	r := &shapeReader{config: c, weights: w, family: f}
	if m.Shape, err = r.read(opt.Ignore); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if m.sources, err = w.sources(m.Shape, f, r.extra); err != nil {
		return err
	}
	if m.Tokenizer, err = readTokenizer(dir, c, m.Shape.Vocab); err != nil {
		return err
	}
	if m.Card, err = readCard(dir); err != nil {
		return err
	}
	if opt.Name != "" {
		m.Card.Name = opt.Name
	}
	if m.Card.Name == "" {
		if abs, err := filepath.Abs(dir); err == nil {
			m.Card.Name = filepath.Base(abs)
		}
	}
	return nil
}

// Close unmaps the weights. It may be called twice.
func (m *Model) Close() error {
	var errs []error
	for _, s := range m.shards {
		errs = append(errs, s.Close())
	}
	m.shards = nil
	return errors.Join(errs...)
}

// Metadata is the metadata of the file, in order.
func (m *Model) Metadata() []gguf.KV {
	kvs := m.Shape.Metadata()
	kvs = append(kvs, m.Card.kvs()...)
	kvs = append(kvs, gguf.KV{Key: gguf.KeyFileType, Value: m.fileType()})
	if m.Tokenizer == nil {
		return append(kvs, gguf.KV{Key: gguf.KeyTokenizerModel, Value: "none"})
	}
	return append(kvs, m.Tokenizer.KVs()...)
}

// fileType is llama.cpp's number for the type of most weights.
func (m *Model) fileType() uint32 {
	var size [3]int
	for _, s := range m.sources {
		n := 1
		for _, d := range s.Dims {
			n *= d
		}
		if i := slices.Index([]tensor.Type{tensor.F32, tensor.F16, tensor.BF16}, s.Type); i >= 0 && len(s.Dims) > 1 {
			size[i] += n
		}
	}
	switch max(size[0], size[1], size[2]) {
	case size[0]:
		return 0
	case size[1]:
		return 1
	}
	return 32
}

// Write writes the model as GGUF.
func (m *Model) Write(w io.Writer) error {
	if _, err := gguf.Write(w, m.Metadata(), m.sources); err != nil {
		return fmt.Errorf("writing the model: %w", err)
	}
	return nil
}

// Convert turns the folder dir into the GGUF file at path, which is there
// afterwards as a whole or, after an error, as it was before. The folder is
// made where there is none.
func Convert(ctx context.Context, dir, path string, opt Options) (*Model, error) {
	m, err := Open(dir, opt)
	if err != nil {
		return nil, err
	}
	err = fsx.Replace(path, 0o644, func(w io.Writer) error { return m.Write(fsx.Writer{Context: ctx, W: w}) })
	if err = errors.Join(err, m.Close()); err != nil {
		return nil, fmt.Errorf("converting %s: %w", dir, err)
	}
	return m, nil
}

// readBounded reads a file of the folder whose size is at most limit bytes.
func readBounded(dir, name string, limit int64) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return b, nil
}

// readOptional is readBounded for a file that need not be there; nil then.
func readOptional(dir, name string, limit int64) ([]byte, error) {
	b, err := readBounded(dir, name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Card is what a folder says about the model.
type Card struct {
	Name, Author, License, Source string
}

func (c Card) kvs() []gguf.KV {
	kvs := []gguf.KV{{Key: "general.type", Value: "model"}}
	for _, kv := range []struct{ key, value string }{
		{gguf.KeyName, c.Name}, {"general.author", c.Author}, {gguf.KeyLicense, c.License}, {"general.source.url", c.Source},
	} {
		if kv.value != "" {
			kvs = append(kvs, gguf.KV{Key: kv.key, Value: kv.value})
		}
	}
	return kvs
}

// readCard takes the plain keys from the head of README.md, the model card.
func readCard(dir string) (Card, error) {
	b, err := readOptional(dir, "README.md", maxCard)
	if err != nil {
		return Card{}, err
	}
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	head, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return Card{}, nil
	}
	head, _, _ = strings.Cut(head, "\n---")
	keys := map[string]string{}
	for line := range strings.Lines(head) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ":")
		if ok && !strings.HasPrefix(key, " ") && !strings.HasPrefix(key, "-") {
			keys[key] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	first := func(names ...string) string {
		for _, n := range names {
			if keys[n] != "" {
				return keys[n]
			}
		}
		return ""
	}
	return Card{
		Name:    first("model_name", "model-name"),
		Author:  first("model_creator", "model_author", "author"),
		License: first("license"),
		Source:  first("source", "repository", "homepage"),
	}, nil
}
