package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/preference"
)

// lowRank is a core with low-rank adapters from a checkpoint, and the text of
// its card.
type lowRank struct {
	model *llm.Model[float32]
	lora  llm.LoRA
	card  string
}

// adapterOnly converts the adapters in the checkpoint of a language model or of
// the stage preference to a module.
func adapterOnly(ctx context.Context, path string, opt PartOptions, open func(path, data string) (lowRank, error)) (dir string, err error) {
	low, err := open(path, opt.Data)
	if err != nil {
		return "", err
	}
	if dir = opt.Dir; dir == "" {
		dir = opt.Name
	}
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		k := &part{opt: opt, dir: d}
		m, err := k.lowRank(low)
		if err != nil {
			return err
		}
		about, err := k.texts()
		if err != nil {
			return err
		}
		card := fmt.Sprintf("# %s %s\n\nType: %s. Licence: %s.\n\n%s%d weights.\n%s", opt.Name, opt.Version, opt.Type, opt.License, about, k.count, low.card)
		if opt.Config != "" {
			card += recipeNote
		}
		return errors.Join(k.finish(ctx, m, card), ctx.Err())
	})
	return dir, err
}

// lowRank writes the low-rank matrices as GGUF.
func (k *part) lowRank(low lowRank) (modules.Manifest, error) {
	m := modules.Manifest{Type: abi.Adapter, ABI: abi.V1_1}
	if k.opt.Base == (abi.Ref{}) {
		return m, errors.New("an adapter requires its core")
	}
	for _, t := range low.model.Adapters() {
		k.count += len(t.Data)
	}
	entry := k.opt.Name + ".gguf"
	file, err := convert.WriteFile(k.dir, entry, func(w io.Writer) error {
		return train.ExportAdapter(w, low.model, low.lora, []gguf.KV{{Key: gguf.KeyName, Value: k.opt.Name}, {Key: gguf.KeyLicense, Value: k.opt.License}})
	})
	if err != nil {
		return m, err
	}
	k.files = append(k.files, file)
	m.Base, m.Method, m.Rank, m.Alpha, m.Targets = k.opt.Base, "lora", low.lora.Rank, low.lora.Alpha, low.lora.Targets
	if m.Alpha == 0 {
		m.Alpha = float64(low.lora.Rank)
	}
	m.Tokens = &abi.TokenContract{DModel: low.model.Config.Dim}
	m.Export = map[abi.Format]modules.Export{abi.GGUF: {Path: entry}}
	return m, nil
}

// openLM reads the adapters of a language model's checkpoint.
func openLM(path, _ string) (lowRank, error) {
	ck, err := train.OpenLM(path)
	if err != nil {
		return lowRank{}, err
	}
	defer ck.Close()
	lora := ck.LM.Config.LoRA
	if lora == nil {
		return lowRank{}, fmt.Errorf("checkpoint %s: recipe has no lora: without --part, it is packed as a core", path)
	}
	m, err := ck.Model()
	return lowRank{m, *lora, rows(ck.Header, ck.LM.Config.Base, ck.LM.Config.Optimizer.Name, ck.LM.Config.Seed)}, err
}

// openPreference reads the adapters of a checkpoint of the stage preference.
func openPreference(path, data string) (lowRank, error) {
	ck, err := preference.OpenCheckpoint(path)
	if err != nil {
		return lowRank{}, err
	}
	defer ck.Close()
	h := ck.Preference
	if h.Recipe.Core.LoRA == nil {
		return lowRank{}, fmt.Errorf("checkpoint %s: recipe has no lora", path)
	}
	m, err := ck.Core(data)
	if err != nil {
		return lowRank{}, err
	}
	var b strings.Builder
	b.WriteString(rows(ck.Header, h.Recipe.Core.Base, h.Recipe.Optimizer.Name, h.Recipe.Seed))
	o := h.Recipe.Objective
	fmt.Fprintf(&b, "| pairs seen | %d, sha256 `%s` |\n| loss | %s, beta %v, sft %v |\n| reference | sha256 `%s` |\n", h.Next, h.Pairs, o.Kind, o.Beta, o.SFT, h.Reference)
	if h.Held != nil && len(h.Held.Scores) > 0 {
		heldOut(&b, h.Held.Scores, false)
	}
	return lowRank{m, *h.Recipe.Core.LoRA, b.String()}, nil
}

// rows returns the first rows of a card's table.
func rows(h train.Header, base, optimizer string, seed uint64) string {
	text := fmt.Sprintf("\n## Training\n\n| | |\n|---|---|\n| steps | %d |\n| core | %s |\n| optimizer | %s |\n| seed | %d |\n", h.Step, filepath.Base(base), or(optimizer, "adamw"), seed)
	if n := len(h.Frozen); n > 0 {
		text += fmt.Sprintf("| frozen tensors | %d, hashed |\n", n)
	}
	return text
}
