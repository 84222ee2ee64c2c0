package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/llama2c"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
)

func (p *program) importLlama2C(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	name := c.String("name")
	if err := checkIdentity(name, c.String("version")); err != nil {
		return err
	}
	in, err := os.Open(c.Args().First())
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	model, err := llama2c.Read(in, info.Size())
	if err != nil {
		return err
	}
	vocab, err := os.ReadFile(c.String("tokenizer"))
	if err != nil {
		return err
	}
	tok, err := tokenizer.FromLlama2C(vocab, model.Vocab)
	if err != nil {
		return err
	}
	dir := moduleDir(c, name)
	if err := writeLlama2C(dir, c, model, tok); err != nil {
		return err
	}
	return p.newModule(dir)
}

// writeLlama2C writes the GGUF and a manifest that says what is in it.
func writeLlama2C(dir string, c *cli.Context, model *llama2c.File, tok *tokenizer.Tokenizer) error {
	return createModule(dir, func(d *fsx.Dir) error { return fillLlama2C(d, c, model, tok) })
}

func fillLlama2C(d *fsx.Dir, c *cli.Context, model *llama2c.File, tok *tokenizer.Tokenizer) error {
	name := c.String("name")
	weights := name + ".gguf"
	file, err := writeDigested(d, weights, func(w io.Writer) error {
		_, err := gguf.Write(w, append(model.Metadata(name), tok.KVs()...), model.Tensors())
		return err
	})
	if err != nil {
		return err
	}
	m := importedCore(c, weights, file)
	m.Description = "Imported from a llama2.c checkpoint."
	m.Tokens = &abi.TokenContract{VocabSize: model.Vocab, MaxSeq: model.Context, DModel: model.Dim, SpecialTokens: specials(tok)}
	return writeManifest(d, m)
}

func checkIdentity(name, version string) error {
	if !abi.ValidName(name) {
		return usageError{fmt.Errorf("%q is no module name", name)}
	}
	if _, err := abi.ParseVersion(version); err != nil {
		return usageError{err}
	}
	return nil
}

// createModule makes the folder of a new module, whole or not at all.
func createModule(dir string, fill func(d *fsx.Dir) error) error {
	_, _, err := modules.Create(dir, fill)
	return err
}

// importedCore is the manifest that imports have in common.
func importedCore(c *cli.Context, weights string, file modules.File) modules.Manifest {
	m := modules.Manifest{
		Name: c.String("name"), Version: c.String("version"), Type: abi.Core, Modality: abi.Text, ABI: abi.V1_0, License: c.String("license"),
		Export: map[abi.Format]modules.Export{abi.GGUF: {Path: weights}}, Quant: &modules.Quant{Supported: abi.Precisions()}, Files: []modules.File{file},
	}
	m.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
	return m
}

func writeManifest(d *fsx.Dir, m modules.Manifest) error {
	text, err := schemas.Encode(m)
	if err != nil {
		return err
	}
	return d.WriteFile(modules.FileName, text, 0o644)
}

// importGGUF copies a GGUF file into a module folder and writes the manifest
// from its metadata.
func (p *program) importGGUF(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	if err := checkIdentity(c.String("name"), c.String("version")); err != nil {
		return err
	}
	f, err := gguf.Open(c.Args().First())
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Check(); err != nil {
		return err
	}
	cfg, err := infer.ReadConfig(f)
	if err != nil {
		return err
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return err
	}
	dir := moduleDir(c, c.String("name"))
	if err := copyGGUF(dir, c, f, cfg, tok); err != nil {
		return err
	}
	return p.newModule(dir)
}

func copyGGUF(dir string, c *cli.Context, f *gguf.File, cfg infer.Config, tok *tokenizer.Tokenizer) error {
	return createModule(dir, func(d *fsx.Dir) error { return fillGGUF(d, c, f, cfg, tok) })
}

func fillGGUF(d *fsx.Dir, c *cli.Context, f *gguf.File, cfg infer.Config, tok *tokenizer.Tokenizer) error {
	in, err := os.Open(c.Args().First())
	if err != nil {
		return err
	}
	defer in.Close()
	weights := c.String("name") + ".gguf"
	file, err := writeDigested(d, weights, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
	if err != nil {
		return err
	}
	m := importedCore(c, weights, file)
	if license, err := gguf.GetOr(f, gguf.KeyLicense, ""); err == nil && m.License == "" {
		if e, err := spdx.Parse(license); err == nil {
			m.License = e.String()
		}
	}
	m.Description = "Imported from a GGUF file of architecture " + cfg.Arch + "."
	m.Tokens = &abi.TokenContract{VocabSize: cfg.Vocab, MaxSeq: cfg.Context, DModel: cfg.Width, SpecialTokens: controls(tok)}
	return writeManifest(d, m)
}

// writeDigested writes one file of a module, durably, and describes it.
func writeDigested(d *fsx.Dir, name string, fill func(io.Writer) error) (modules.File, error) {
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

// counter counts what passes.
type counter struct {
	w io.Writer
	n int64
}

// Write passes p on.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// specials lists the control tokens of a tokenizer that have a role.
func specials(tok *tokenizer.Tokenizer) []string {
	out := []string{} // not nil, which would mean those of MM-ABI
	s := tok.Special()
	for _, id := range []int32{s.BOS, s.EOS, s.Padding} {
		if id != tokenizer.None && !slices.Contains(out, tok.Piece(id)) {
			out = append(out, tok.Piece(id))
		}
	}
	return out
}
