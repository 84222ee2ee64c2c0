package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"mm/abi"
	"mm/core/gguf"
	"mm/core/llama2c"
	"mm/core/tokenizer"
	"mm/internal/fsx"
	"mm/modules"
	"mm/modules/seed"
	"mm/resolve"
	"mm/schemas"
)

func (p *program) moduleCommand() *cli.Command {
	dir := &cli.StringFlag{Name: "dir", Usage: "folder of the module (default: ./NAME)"}
	return &cli.Command{
		Name: "module", Usage: "make, import and pack modules",
		Subcommands: []*cli.Command{
			{
				Name: "new", Usage: "write a module folder with seeded, untrained weights", ArgsUsage: "TYPE NAME",
				Flags: []cli.Flag{
					dir,
					&cli.StringFlag{Name: "version", Value: "0.1.0", Usage: "SemVer of the module"},
					&cli.Uint64Flag{Name: "seed", Usage: "seed of the weights"},
					&cli.StringFlag{Name: "modality", Usage: "image, audio or video, for encoders, projectors and decoders"},
					&cli.IntFlag{Name: "d-model", Usage: "width of the core's vectors (default: 256)"},
					&cli.IntFlag{Name: "d-enc", Usage: "width of an encoder's tokens (default: 64)"},
					&cli.IntFlag{Name: "t-cap", Usage: "most vectors of a projector (default: the modality's cap)"},
					&cli.StringFlag{Name: "license", Usage: "SPDX expression (default: Apache-2.0)"},
				},
				Action: p.moduleNew,
			},
			{
				Name: "import", Usage: "make a module folder from another project's weights",
				Subcommands: []*cli.Command{{
					Name: "llama2c", Usage: "a llama2.c checkpoint with its tokenizer.bin", ArgsUsage: "FILE",
					Flags: []cli.Flag{
						dir,
						&cli.StringFlag{Name: "tokenizer", Usage: "tokenizer.bin `FILE`", Required: true},
						&cli.StringFlag{Name: "name", Usage: "name of the module", Value: "core-llm"},
						&cli.StringFlag{Name: "version", Usage: "SemVer of the module", Required: true},
						&cli.StringFlag{Name: "license", Usage: "SPDX expression of the weights"},
					},
					Action: p.moduleImport,
				}},
			},
			{
				Name: "pack", Usage: "put a module folder into the store as NAME:VERSION", ArgsUsage: "DIR",
				Flags:  []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "sign", Usage: "sign with the private key `FILE` (\"default\": the one of mm keys generate)"}},
				Action: p.modulePack,
			},
		},
	}
}

func (p *program) moduleNew(c *cli.Context) error {
	if err := wantArgs(c, 2, 2); err != nil {
		return err
	}
	opt := seed.Options{
		Type: abi.ModuleType(c.Args().Get(0)), Name: c.Args().Get(1), Version: c.String("version"), Modality: abi.Modality(c.String("modality")),
		Seed: c.Uint64("seed"), DModel: c.Int("d-model"), DEnc: c.Int("d-enc"), TCap: c.Int("t-cap"), License: c.String("license"),
	}
	dir := moduleDir(c, opt.Name)
	if err := seed.Write(dir, opt); err != nil {
		return err
	}
	return p.newModule(dir)
}

func moduleDir(c *cli.Context, name string) string {
	if dir := c.String("dir"); dir != "" {
		return dir
	}
	return name
}

// newModule reads back what was written, so that a fault shows here and not at
// its first use.
func (p *program) newModule(dir string) error {
	m, list := modules.Load(dir)
	if m == nil || list.Failed() {
		return list.Err()
	}
	if err := list.Text(p.stderr); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s in %s\n", m.Type, m.ID(), dir)
	return err
}

func (p *program) moduleImport(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	name := c.String("name")
	if !abi.ValidName(name) {
		return usageError{fmt.Errorf("%q is no module name", name)}
	}
	if _, err := abi.ParseVersion(c.String("version")); err != nil {
		return usageError{err}
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
	if err := importLlama2C(dir, c, model, tok); err != nil {
		return err
	}
	return p.newModule(dir)
}

// importLlama2C writes the GGUF and a manifest that says what is in it.
func importLlama2C(dir string, c *cli.Context, model *llama2c.File, tok *tokenizer.Tokenizer) error {
	name := c.String("name")
	if exists(filepath.Join(dir, modules.FileName)) {
		return fmt.Errorf("%s holds a module already", dir)
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	weights := name + ".gguf"
	sum, size, err := writeGGUF(d, weights, append(model.Metadata(name), tok.KVs()...), model.Tensors())
	if err != nil {
		return err
	}
	m := modules.Manifest{
		Name: name, Version: c.String("version"), Type: abi.Core, Modality: abi.Text, ABI: abi.V1_0, License: c.String("license"),
		Description: "Imported from a llama2.c checkpoint.",
		Export:      map[string]string{"gguf": weights},
		Quant:       &modules.Quant{Supported: abi.WeightDTypes()},
		Files:       []modules.File{{Path: weights, SHA256: sum, Size: size}},
	}
	m.Tokens = &abi.TokenContract{VocabSize: model.Vocab, MaxSeq: model.Context, DModel: model.Dim, SpecialTokens: specials(tok)}
	m.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
	text, err := schemas.Encode(m)
	if err != nil {
		return err
	}
	return d.WriteFile(modules.FileName, text, 0o644)
}

// specials lists the control tokens of a tokenizer that have a role.
func specials(tok *tokenizer.Tokenizer) []string {
	var out []string
	s := tok.Special()
	for _, id := range []int32{s.BOS, s.EOS, s.Padding} {
		if id != tokenizer.None {
			out = append(out, tok.Piece(id))
		}
	}
	return out
}

// writeGGUF writes a GGUF file durably and returns its digest and size.
func writeGGUF(d *fsx.Dir, name string, kvs []gguf.KV, tensors []gguf.Source) (sum string, size int64, err error) {
	f, err := d.Create(name, 0o644)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size, err = gguf.Write(io.MultiWriter(f, h), kvs, tensors)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, errors.Join(err, d.Remove(name))
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

func (p *program) modulePack(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	signer, err := p.assembleSigner(c.String("sign"))
	if err != nil {
		return err
	}
	m, list := modules.Load(c.Args().First())
	if m == nil || list.Failed() {
		return list.Err()
	}
	if err := list.Text(p.stderr); err != nil {
		return err
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	defer store.Close()
	packed, err := resolve.Pack(c.Context, store, m)
	if err != nil {
		return err
	}
	if signer != nil {
		if _, err := signer.Sign(c.Context, store, packed.Descriptor); err != nil {
			return err
		}
	}
	ref := m.Name + ":" + m.Version
	if err := store.Tag(c.Context, packed.Descriptor, ref); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"ref": ref, "digest": packed.Descriptor.Digest, "size": packed.Size()})
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s (%s)\n", ref, packed.Descriptor.Digest, size(packed.Size()))
	return err
}
