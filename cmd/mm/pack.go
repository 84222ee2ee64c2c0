package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	exportgguf "mm-abi.org/mm/assemble/export/gguf"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/core/train"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
)

// modulePack turns a checkpoint into a module folder: GGUF with its tokenizer,
// manifest, card and, if given, the recipe it was trained by.
func (p *program) modulePack(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	recipe, err := exportgguf.Recipe(c.String("quant"))
	if err != nil {
		return usageError{fmt.Errorf("--quant: %w", err)}
	}
	ck, err := train.OpenLM(c.Args().First())
	if err != nil {
		return err
	}
	defer ck.Close()
	dir := moduleDir(c, c.String("name"))
	err = createModule(dir, func(d *fsx.Dir) error {
		k := &packing{c: c, dir: d, ck: ck, recipe: recipe, weights: c.String("name") + ".gguf"}
		return k.run(c.Context)
	})
	if err != nil {
		return err
	}
	return p.newModule(dir)
}

// packing is a checkpoint on its way to a module.
type packing struct {
	c       *cli.Context
	dir     *fsx.Dir
	ck      *train.LMCheckpoint
	recipe  quant.Recipe
	weights string
	tok     *tokenizer.Tokenizer
	files   []modules.File
}

func (k *packing) run(ctx context.Context) error {
	model, err := k.ck.Model()
	if err != nil {
		return err
	}
	model.Merge()
	if k.tok, err = k.ck.Tokenizer(); err != nil {
		return err
	}
	if k.tok == nil {
		return errors.New("the checkpoint holds no tokenizer, so the module could not read text")
	}
	full, err := os.CreateTemp("", "mm-pack-*")
	if err != nil {
		return err
	}
	defer os.Remove(full.Name())
	defer full.Close()
	kvs := []gguf.KV{{Key: gguf.KeyName, Value: k.c.String("name")}, {Key: gguf.KeyLicense, Value: k.c.String("license")}}
	if err := train.ExportGGUF(full, model, k.tok, kvs); err != nil {
		return err
	}
	info, err := full.Stat()
	if err != nil {
		return err
	}
	if err := k.write(k.weights, func(w io.Writer) error {
		_, err := exportgguf.Convert(ctx, full, info.Size(), k.recipe, w)
		return err
	}); err != nil {
		return err
	}
	if file := k.c.String("recipe"); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := k.write("train.yaml", func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
			return err
		}
	}
	about, err := k.about()
	if err != nil {
		return err
	}
	if err := k.write("README.md", func(w io.Writer) error { _, err := io.WriteString(w, k.card(about)); return err }); err != nil {
		return err
	}
	return k.manifest()
}

// write puts one file into the folder and notes its digest.
func (k *packing) write(name string, fill func(io.Writer) error) error {
	file, err := convert.WriteFile(k.dir, name, fill)
	if err == nil {
		k.files = append(k.files, file)
	}
	return err
}

func (k *packing) manifest() error {
	h := k.ck
	m := modules.Manifest{
		Name: k.c.String("name"), Version: k.c.String("version"), Type: k.kind(), Modality: abi.Text, ABI: abi.V1_0, License: k.c.String("license"),
		Description: fmt.Sprintf("Language model of %d parameters, trained %s by mm train.", h.LM.Model.Parameters(), k.origin()),
		Export:      map[abi.Format]modules.Export{abi.GGUF: {Path: k.weights}},
		Quant:       &modules.Quant{Supported: abi.Precisions()},
		Card:        "README.md", Files: k.files,
	}
	if draft := k.c.String("draft"); draft != "" {
		var err error
		if m.For, err = abi.ParseModuleRef(draft); err != nil {
			return usageError{fmt.Errorf("--draft: %w", err)}
		}
	}
	m.Tokens = &abi.TokenContract{VocabSize: k.tok.Size(), MaxSeq: h.LM.Model.Context, DModel: h.LM.Model.Dim, SpecialTokens: convert.Controls(k.tok)}
	m.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
	m.RopeScaling = "none"
	return writeManifest(k.dir, m)
}

// origin is what the weights were before the run.
func (k *packing) origin() string {
	if base := k.ck.LM.Config.Base; base != "" {
		return "from " + filepath.Base(base)
	}
	return "from scratch"
}

// kind is what the module is: a core, or a draft core for one.
func (k *packing) kind() abi.ModuleType {
	if k.c.String("draft") != "" {
		return abi.DraftCore
	}
	return abi.Core
}

// about is what the user has to say in the card.
func (k *packing) about() (string, error) {
	file := k.c.String("about")
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)) + "\n\n", err
}

// card tells what the checkpoint itself knows of its training.
func (k *packing) card(about string) string {
	h := k.ck
	c := h.LM.Model
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s\n\nType: %s. Licence: %s.\n\n%s", k.c.String("name"), k.c.String("version"), k.kind(), k.c.String("license"), about)
	fmt.Fprintf(&b, "A language model of %d parameters: d_model %d, %d layers, %d heads (%d for keys and values), hidden %d,\ncontext %d, vocabulary %d. Weights in %s.\n\n",
		c.Parameters(), c.Dim, c.Layers, c.Heads, c.KVHeads, c.Hidden, c.Context, k.tok.Size(), k.c.String("quant"))
	b.WriteString("## Training\n\n| | |\n|---|---|\n")
	fmt.Fprintf(&b, "| steps | %d |\n| tokens seen | %d |\n", h.Header.Step, h.Header.Tokens)
	if h.Header.Best > 0 {
		fmt.Fprintf(&b, "| best held-out loss | %.4f nats a token |\n", h.Header.Best)
	}
	if h.LM.Config.Base != "" {
		fmt.Fprintf(&b, "| base | %s |\n", filepath.Base(h.LM.Config.Base))
	}
	fmt.Fprintf(&b, "| optimizer | %s |\n| seed | %d |\n| documents | `%s` |\n| tokenizer | `%s` |\n", h.LM.Config.WithDefaults().Optimizer.Name, h.LM.Config.Seed, h.LM.Text, h.LM.Tokenizer)
	if files := h.LM.Config.Data.Files; len(files) > 0 {
		fmt.Fprintf(&b, "| data files | %s |\n", strings.Join(baseNames(files), ", "))
	}
	if g := h.LM.Config.Data.Generate; g != nil {
		fmt.Fprintf(&b, "| generated | %d documents from templates, seed %d |\n", g.Documents, g.Seed)
	}
	if len(h.Header.Frozen) > 0 {
		fmt.Fprintf(&b, "| frozen tensors | %d |\n", len(h.Header.Frozen))
	}
	if k.c.String("recipe") != "" {
		b.WriteString("\n`train.yaml` beside the weights is the recipe: `mm train train.yaml` makes the same weights again.\n")
	}
	return b.String()
}

func baseNames(files []string) []string {
	var out []string
	for _, f := range files {
		out = append(out, filepath.Base(f))
	}
	return out
}
