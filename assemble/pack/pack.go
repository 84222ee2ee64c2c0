// Package pack converts checkpoints of mm train to modules: a folder with the
// weights as GGUF, including the tokenizer, a card that describes the training, the
// recipe if it is given, and module.yaml. The folder is created completely or not
// at all.
package pack

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/torch"
)

// recipeNote is the paragraph of a card about the recipe.
const recipeNote = "\n`train.yaml` beside the weights is the recipe. From the data and the checkpoints that it names this mm makes the same\nweights of it again.\n"

// Options describes the new module.
type Options struct {
	Dir     string       // folder to create; if empty, the name of the module
	Name    string       // of the module
	Version string       // SemVer
	License string       // SPDX expression of the weights
	Quant   string       // name of the precision, for the card
	Recipe  quant.Recipe // precision
	Config  string       // training configuration, copied next to the weights; may be empty
	About   string       // file whose text starts the card; may be empty
	Draft   abi.Ref      // the core of a draft core; zero for a core
}

// maxText is the size limit of texts in a module, in bytes.
const maxText = 1 << 20

// Checkpoint converts the checkpoint at path to a module and returns its folder.
// A folder is one of torch.distributed.checkpoint, see [torch.Collect].
func Checkpoint(ctx context.Context, path string, opt Options) (dir string, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		temp, err := fsx.MkdirTemp("mm-pack-*")
		if err != nil {
			return "", err
		}
		defer fsx.RemoveAll(temp)
		one := filepath.Join(temp, train.LastFile)
		if err := torch.Collect(path, one); err != nil {
			var list diag.List
			list.Add(diag.BadShards, diag.Pos{File: filepath.Join(path, torch.Metadata)}, err.Error(), "")
			return "", list.Err()
		}
		path = one
	}
	ck, err := train.OpenLM(path)
	if err != nil {
		return "", err
	}
	defer ck.Close()
	if dir = opt.Dir; dir == "" {
		dir = opt.Name
	}
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		k := &packing{opt: opt, dir: d, ck: ck, weights: opt.Name + ".gguf"}
		return k.run(ctx)
	})
	return dir, err
}

// packing holds the state of packing a checkpoint.
type packing struct {
	opt     Options
	dir     *fsx.Dir
	ck      *train.LMCheckpoint
	weights string
	tok     *tokenizer.Tokenizer
	files   []modules.File
}

func (k *packing) run(ctx context.Context) error {
	temp, err := fsx.MkdirTemp("mm-pack-*")
	if err != nil {
		return err
	}
	defer fsx.RemoveAll(temp)
	full := filepath.Join(temp, k.weights)
	kvs := []gguf.KV{{Key: gguf.KeyName, Value: k.opt.Name}, {Key: gguf.KeyLicense, Value: k.opt.License}}
	if err := fsx.Replace(full, 0o600, func(w io.Writer) error {
		k.tok, err = k.ck.ExportGGUF(w, kvs)
		return err
	}); err != nil {
		return err
	}
	if err := k.convert(ctx, full); err != nil {
		return err
	}
	if k.opt.Config != "" {
		data, err := fsx.ReadFile(k.opt.Config, schemas.MaxBytes)
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

// convert writes the weights in the requested precision.
func (k *packing) convert(ctx context.Context, full string) error {
	f, err := fsx.OpenRegular(full)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return k.write(k.weights, func(w io.Writer) error {
		_, err := quantize.Convert(ctx, f, info.Size(), quantize.ConvertOptions{Recipe: k.opt.Recipe}, w)
		return err
	})
}

// write writes a file to the folder and records its digest.
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
		Name: k.opt.Name, Version: k.opt.Version, Type: k.kind(), Modality: abi.Text, ABI: abi.V1_0, License: k.opt.License,
		Description: fmt.Sprintf("Language model of %d parameters, trained %s by mm train.", h.LM.Model.Parameters(), k.origin()),
		Export:      map[abi.Format]modules.Export{abi.GGUF: {Path: k.weights}},
		Quant:       &modules.Quant{Supported: abi.Precisions()},
		Card:        "README.md", Files: k.files,
		CoreKeys: modules.CoreKeys{For: k.opt.Draft},
	}
	m.Tokens = &abi.TokenContract{VocabSize: k.tok.Size(), MaxSeq: h.LM.Model.Context, DModel: h.LM.Model.Dim, SpecialTokens: convert.Controls(k.tok)}
	m.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
	m.RopeScaling = "none"
	return convert.WriteManifest(k.dir, m)
}

// origin describes the weights before the run.
func (k *packing) origin() string {
	if base := k.ck.LM.Config.Base; base != "" {
		return "from " + filepath.Base(base)
	}
	return "from scratch"
}

// kind returns the type of the module: core or draft core.
func (k *packing) kind() abi.ModuleType {
	if k.opt.Draft != (abi.Ref{}) {
		return abi.DraftCore
	}
	return abi.Core
}

// about returns the user's text for the card.
func (k *packing) about() (string, error) {
	file := k.opt.About
	if file == "" {
		return "", nil
	}
	text, err := fsx.ReadFile(file, maxText)
	return strings.TrimSpace(string(text)) + "\n\n", err
}

// card describes the training from the checkpoint.
func (k *packing) card(about string) string {
	h := k.ck
	c := h.LM.Model
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s\n\nType: %s. Licence: %s.\n\n%s", k.opt.Name, k.opt.Version, k.kind(), k.opt.License, about)
	fmt.Fprintf(&b, "A language model of %d parameters: d_model %d, %d layers, %d heads (%d for keys and values), hidden %d,\ncontext %d, vocabulary %d. Weights in %s.\n\n",
		c.Parameters(), c.Dim, c.Layers, c.Heads, c.KVHeads, c.Hidden, c.Context, k.tok.Size(), k.opt.Quant)
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
	if k.opt.Config != "" {
		b.WriteString(recipeNote)
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
