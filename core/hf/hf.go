// Package hf converts a folder of Hugging Face transformers (config.json,
// safetensors in one or more files, tokenizer.json) to a GGUF file.
//
// [Open] reads config.json into an arch.Shape, supporting or refusing every key
// that changes the computation, finds every tensor of the shape in the headers
// of the weight files, and reads the tokenizer. [Model.Write] streams the file;
// memory does not grow with the weights, which stay mapped. [Convert] writes it
// to a path atomically.
//
// Tensors keep their type (F32, F16, BF16); vectors become F32. Rows of queries
// and keys are reordered for the architecture's rotation. Names, keys and
// orders are those of llama.cpp's convert_hf_to_gguf.py.
package hf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Options configures the reading of a folder.
type Options struct {
	// Name is general.name. If empty, it is that of the model card or the
	// folder.
	Name string
	// Ignore lists unknown keys of config.json to skip. A key of a nested object
	// is named with the object's, as rope_parameters.KEY, or without.
	Ignore []string
}

// Model is a folder that can be written as GGUF. Its fields must not be
// modified.
type Model struct {
	Shape arch.Shape
	// Tokenizer is nil if the folder has none.
	Tokenizer *tokenizer.Tokenizer
	Card      Card
	// Notes describe properties of the folder that did not stop its reading:
	// keys without an effect, an unused index, weights that are not tied.
	Notes []string

	sources  []gguf.Source
	settings []safetensors.Tensor // read into metadata
	shards   shards

	embedding, tiedOutput string // names; tiedOutput is empty unless it was the same
}

// Limits of files read into memory, in bytes.
const (
	maxConfig    = 4 << 20
	maxIndex     = 64 << 20
	maxTokenizer = 256 << 20
	maxTemplate  = 4 << 20
	maxCard      = 1 << 20
)

// Open reads the folder at dir. Close unmaps its files.
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
	half, err := c.textHalf()
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	other := c.raw["vision_config"] == nil && c.raw["audio_config"] == nil // parts that nothing reads
	if half != nil {
		c = half
	}
	f, err := c.family()
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if m.shards, err = openShards(dir); err != nil {
		return err
	}
	w, err := newWeights(m.shards, f.names.base)
	if err != nil {
		return err
	}
	if half != nil {
		if left := w.text(); left > 0 && other {
			c.note("%d tensors of other parts are left out: the result is the language model alone", left)
		}
		_, output := w.find(f.names.of[arch.Output])
		c.tied(output)
	}
	r := &shapeReader{config: c, weights: w, family: f}
	if m.Shape, err = r.read(opt.Ignore); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if m.sources, err = w.sources(m.Shape, r.family, r.extra); err != nil {
		return err
	}
	m.embedding, m.tiedOutput = f.names.of[arch.TokenEmbedding], w.dropped
	if t, ok := w.find(m.embedding); ok {
		m.embedding = t.Name
	}
	m.Notes, m.settings = r.notes, w.settings
	if m.shards.note != "" {
		m.Notes = append(m.Notes, m.shards.note)
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

// Close unmaps the weights. It is idempotent.
func (m *Model) Close() error { return m.shards.close() }

// Tensors returns the tensors of the folder's weight files by their names. They
// are valid until Close.
func (m *Model) Tensors() map[string]safetensors.Tensor {
	out := map[string]safetensors.Tensor{}
	for _, f := range m.shards.files {
		for _, t := range f.Tensors {
			out[t.Name] = t
		}
	}
	return out
}

// Metadata returns the metadata of the file, in order.
func (m *Model) Metadata() []gguf.KV {
	kvs := m.Shape.Metadata()
	kvs = append(kvs, m.Card.kvs()...)
	kvs = append(kvs, gguf.KV{Key: gguf.KeyFileType, Value: m.fileType()})
	if m.Tokenizer == nil {
		return append(kvs, gguf.KV{Key: gguf.KeyTokenizerModel, Value: "none"})
	}
	return append(kvs, m.Tokenizer.KVs()...)
}

// fileType returns llama.cpp's number for the type of most weights.
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

// Convert converts the folder dir to the GGUF file at path, atomically: after
// an error path is unchanged. It creates the parent folder.
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

// readBounded reads a file of the folder of at most limit bytes.
func readBounded(dir, name string, limit int64) ([]byte, error) {
	f, err := fsx.OpenRegular(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s exceeds %d bytes", name, limit)
	}
	if kind := fsx.Sniff(b); kind == fsx.Pointer || kind == fsx.HTML && filepath.Ext(name) == ".json" {
		return nil, fmt.Errorf("%s: got %s", name, kind)
	}
	if filepath.Ext(name) == ".json" {
		b = bytes.TrimPrefix(b, []byte("\ufeff")) // of editors and shells of Windows
	}
	return b, nil
}

// readOptional is readBounded for an optional file; it returns nil if missing.
func readOptional(dir, name string, limit int64) ([]byte, error) {
	b, err := readBounded(dir, name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Card describes the model.
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

// readCard reads the plain keys of README.md's front matter, the model card.
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
