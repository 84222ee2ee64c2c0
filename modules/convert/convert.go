// Package convert converts models of other projects to modules: a folder with the
// weights as GGUF, a card and a module.yaml with the properties of the model.
//
// A model is read and checked, including [onnx.Admit] and the tokenizer, before
// anything is written. [modules.Create] then creates the complete folder.
package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
)

// Options describes the new module. Empty fields are taken from the model.
type Options struct {
	// Dir is the folder to create. If empty, it is the name of the module.
	Dir string
	// Name is the name of the module. If empty, it is the name of the model in
	// lower case.
	Name string
	// Version is the SemVer version of the module. It is required.
	Version string
	// License is an SPDX expression.
	License string
	// Ignore lists keys of config.json to ignore (see [hf.Options]).
	Ignore []string
	// Note receives notes about the model; may be nil.
	Note func(text string)

	caps modules.Figures // of a core
}

func (o Options) note(text string) {
	if o.Note != nil {
		o.Note(text)
	}
}

// GGUF converts the model file at path to a module and returns its folder.
func GGUF(ctx context.Context, path string, opt Options) (string, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := f.Check(); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	m, err := describe(f)
	if err != nil {
		return "", fmt.Errorf("%s is not supported: %w", path, err)
	}
	for _, t := range f.Tensors {
		if err := quant.Finite(t.Data, t.Type); err != nil {
			return "", fmt.Errorf("%s: tensor %s: %w", path, t.Name, err)
		}
	}
	m.stem = gguf.Stem(path)
	return m.write(ctx, opt, func(d *fsx.Dir, weights string) ([]modules.File, error) {
		if f.Pieces() > 1 {
			file, err := WriteFile(d, weights, func(w io.Writer) error { return joined(fsx.Writer{Context: ctx, W: w}, f) })
			return []modules.File{file}, err
		}
		in, err := fsx.OpenRegular(path)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		file, err := WriteFile(d, weights, func(w io.Writer) error {
			_, err := io.Copy(w, fsx.Reader{Context: ctx, R: in})
			return err
		})
		return []modules.File{file}, err
	})
}

// joined writes a model in pieces as one file.
func joined(w io.Writer, f *gguf.File) error {
	var sources []gguf.Source
	for _, t := range f.Tensors {
		sources = append(sources, gguf.Source{Name: t.Name, Type: t.Type, Dims: t.Dims, Data: gguf.Bytes(t.Data)})
	}
	_, err := gguf.Write(w, f.KVs, sources)
	return err
}

// HuggingFace converts a folder of Hugging Face transformers to a module and
// returns its folder.
func HuggingFace(ctx context.Context, folder string, opt Options) (string, error) {
	h, err := hf.Open(folder, hf.Options{Ignore: opt.Ignore})
	if err != nil {
		return "", err
	}
	defer h.Close()
	if h.Tokenizer == nil {
		return "", fmt.Errorf("missing tokenizer.json in %s", folder)
	}
	for _, note := range h.Notes {
		opt.note(note)
	}
	m := model{
		arch: h.Shape.Arch, stem: h.Card.Name, name: h.Card.Name, author: h.Card.Author, license: h.Card.License, source: h.Card.Source,
		vocab: h.Shape.Vocab, context: h.Shape.Context, width: h.Shape.Width, tokenizer: h.Tokenizer,
	}
	return m.write(ctx, opt, func(d *fsx.Dir, weights string) ([]modules.File, error) {
		file, err := WriteFile(d, weights, func(w io.Writer) error { return h.Write(fsx.Writer{Context: ctx, W: w}) })
		if err != nil {
			return nil, err
		}
		if err := recheck(filepath.Join(d.Path(), weights)); err != nil {
			return nil, err
		}
		files := []modules.File{file}
		if kept, err := h.Keep(folder); err != nil {
			opt.note("the folder cannot be written again (mm export server --kind vllm): " + err.Error())
		} else if files, err = keep(d, files, kept); err != nil {
			return nil, err
		}
		card, err := fsx.OpenRegular(filepath.Join(folder, cardFile))
		if errors.Is(err, fs.ErrNotExist) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		defer card.Close()
		file, err = WriteFile(d, cardFile, func(w io.Writer) error { return copyCard(w, card) })
		return append(files, file), err
	})
}

// keep adds the files of the folder that the weights lack.
func keep(d *fsx.Dir, files []modules.File, kept map[string][]byte) ([]modules.File, error) {
	if err := d.MkdirAll(hf.KeptFolder, 0o755); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		file, err := WriteFile(d, hf.KeptFolder+"/"+name, func(w io.Writer) error {
			_, err := w.Write(kept[name])
			return err
		})
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// cardFile is the name of the model card, which has maxCard bytes at most.
const (
	cardFile = "README.md"
	maxCard  = 1 << 20
)

// copyCard copies a model card.
func copyCard(w io.Writer, card io.Reader) error {
	n, err := io.Copy(w, io.LimitReader(card, maxCard+1))
	if err == nil && n > maxCard {
		err = fmt.Errorf("card too large: the limit is %d bytes", maxCard)
	}
	return err
}

// recheck reads a converted file back.
func recheck(path string) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	_, err = describe(f)
	return errors.Join(err, f.Close())
}

// model describes the weights of a module.
type model struct {
	arch, stem, name, author, license, source string
	vocab, context, width                     int
	tokenizer                                 *tokenizer.Tokenizer
}

// describe checks that the engine runs a file and returns its description.
func describe(f *gguf.File) (model, error) {
	cfg, err := infer.CheckFile(f)
	if err != nil {
		return model{}, err
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return model{}, err
	}
	text := func(keys ...string) string {
		for _, k := range keys {
			if v, err := gguf.Get[string](f, k); err == nil && v != "" {
				return v
			}
		}
		return ""
	}
	return model{
		arch: cfg.Arch, vocab: cfg.Vocab, context: cfg.Context, width: cfg.Width, tokenizer: tok,
		name: text(gguf.KeyName), author: text("general.author", "general.organization"), license: text(gguf.KeyLicense),
		source: text("general.source.url", "general.repo_url", "general.source.repo_url", "general.source.huggingface.repository", "general.url"),
	}, nil
}

// write creates the folder with the files of fill and the manifest.
func (m model) write(ctx context.Context, opt Options, fill func(d *fsx.Dir, weights string) ([]modules.File, error)) (string, error) {
	name := opt.Name
	if name == "" {
		if name = Slug(m.name); name == "" {
			name = Slug(m.stem)
		}
	}
	if !abi.ValidName(name) {
		return "", fmt.Errorf("invalid module name %q: set a name", name)
	}
	if _, err := abi.ParseVersion(opt.Version); err != nil {
		return "", err
	}
	license, err := m.spdx(opt.License)
	if err != nil {
		return "", err
	}
	dir := opt.Dir
	if dir == "" {
		dir = name
	}
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		weights := name + ".gguf"
		files, err := fill(d, weights)
		if err != nil {
			return err
		}
		manifest := modules.Manifest{
			Name: name, Version: opt.Version, Type: abi.Core, Modality: abi.Text, ABI: abi.V1_0, License: license, Description: m.description(),
			Export: map[abi.Format]modules.Export{abi.GGUF: {Path: weights}}, Quant: &modules.Quant{Supported: abi.Precisions()}, Files: files, Source: oneLine(m.source),
		}
		if slices.ContainsFunc(files, func(f modules.File) bool { return f.Path == cardFile }) {
			manifest.Card = cardFile
		}
		manifest.Caps = opt.caps
		manifest.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
		manifest.Tokens = &abi.TokenContract{VocabSize: m.vocab, MaxSeq: m.context, DModel: m.width, SpecialTokens: Controls(m.tokenizer)}
		if err := ctx.Err(); err != nil {
			return err
		}
		return WriteManifest(d, manifest)
	})
	if err != nil {
		return "", fmt.Errorf("creating module %s: %w", name, err)
	}
	return dir, nil
}

// WriteManifest writes module.yaml.
func WriteManifest(d *fsx.Dir, m modules.Manifest) error {
	text, err := schemas.Encode(m)
	if err != nil {
		return err
	}
	return d.WriteFile(modules.FileName, append(text, schemas.EditorComment(schemas.Module)...), 0o644)
}

// description returns the properties without a key in the manifest.
func (m model) description() string {
	text := fmt.Sprintf("%s, a language model of architecture %s", m.name, m.arch)
	if m.name == "" {
		text = "Language model of architecture " + m.arch
	}
	if m.author != "" {
		text += ", by " + m.author
	}
	return oneLine(text + ".")
}

// spdx returns the given license, or the model's, as SPDX; a name that is not
// SPDX becomes a LicenseRef.
func (m model) spdx(want string) (string, error) {
	if want != "" {
		e, err := spdx.Parse(want)
		return e.String(), err
	}
	for _, text := range []string{m.license, "LicenseRef-" + Slug(m.license)} {
		if e, err := spdx.Parse(text); err == nil && m.license != "" {
			return e.String(), nil
		}
	}
	return "", nil
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "")
	}
	return s
}

// Slug converts a text to a module name, or "" if nothing remains.
func Slug(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-") && !strings.HasSuffix(b.String(), "."):
			if r == '.' {
				b.WriteByte('.')
			} else {
				b.WriteByte('-')
			}
		}
	}
	out := b.String()
	return strings.Trim(out[:min(len(out), 100)], "-.")
}

// WriteFile writes a file of a module durably and describes it. If it fails, the
// file does not exist.
func WriteFile(d *fsx.Dir, name string, fill func(io.Writer) error) (modules.File, error) {
	f, err := d.Create(name, 0o644)
	if err != nil {
		return modules.File{}, err
	}
	h := sha256.New()
	n := &counter{w: io.MultiWriter(f, h)}
	err = fill(n)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return modules.File{}, errors.Join(fmt.Errorf("writing %s: %w", name, err), d.Remove(name))
	}
	return modules.File{Path: name, SHA256: hex.EncodeToString(h.Sum(nil)), Size: n.n}, nil
}

// counter counts bytes.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Controls lists the special tokens of MM-ABI that a tokenizer has, in order; if
// there are none, its control tokens with a role.
func Controls(tok *tokenizer.Tokenizer) []string {
	list := slices.DeleteFunc(abi.SpecialTokens(), func(s string) bool { return tok.ID(s) == tokenizer.None })
	if len(list) == 0 {
		return Specials(tok)
	}
	return list
}

// Specials lists the control tokens of a tokenizer that have a role.
func Specials(tok *tokenizer.Tokenizer) []string {
	out := []string{} // not nil, which means those of MM-ABI
	s := tok.Special()
	for _, id := range []int32{s.BOS, s.EOS, s.Padding} {
		if id != tokenizer.None && !slices.Contains(out, tok.Piece(id)) {
			out = append(out, tok.Piece(id))
		}
	}
	return out
}
