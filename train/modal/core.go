package modal

import (
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// openCore opens the language model of a recipe: that of a file, with adapters
// if the stage trains any or with the recipe's frozen adapter merged, or a new
// one for the stage "encoder".
func openCore(r Recipe, dir string) (*llm.Model[float32], *tokenizer.Tokenizer, error) {
	path := train.Resolve(dir, r.Core.Base)
	if r.Core.Model != nil {
		tok, err := train.ReadTokenizer(path)
		if err != nil {
			return nil, nil, train.At("/core/base", err)
		}
		m, err := llm.New[float32](*r.Core.Model)
		if err != nil {
			return nil, nil, train.At("/core/model", err)
		}
		if tok.Size() > m.Config.Vocab {
			return nil, nil, train.Atf("/core/model/vocab_size", "vocabulary mismatch: tokenizer has %d tokens, model %d", tok.Size(), m.Config.Vocab)
		}
		if err := m.Init(llm.Init{Seed: r.Seed}); err != nil {
			return nil, nil, err
		}
		return m, tok, beginWith(m, m.Tensors(), r, dir)
	}
	m, tok, err := train.OpenAdapted(path, r.Core.LoRA)
	if err != nil {
		return nil, nil, train.At("/core/base", err)
	}
	if r.Core.LoRA == nil {
		if r.Core.Adapter != "" {
			if err := train.MergeAdapter(m, train.Resolve(dir, r.Core.Adapter)); err != nil {
				return nil, nil, train.At("/core/adapter", err)
			}
		}
		m.Freeze(func(string) bool { return true })
		return m, tok, nil
	}
	if err := m.Adapt(*r.Core.LoRA, r.Seed); err != nil {
		return nil, nil, train.At("/core/lora", err)
	}
	return m, tok, beginWith(m, m.Adapters(), r, dir)
}

// beginWith initializes tensors of m from the recipe's checkpoint, or its
// adapters from the recipe's GGUF file, if set.
func beginWith(m *llm.Model[float32], tensors []*nn.Tensor[float32], r Recipe, dir string) error {
	if r.Core.From == "" {
		return nil
	}
	path := train.Resolve(dir, r.Core.From)
	if r.Core.LoRA != nil && filepath.Ext(path) == ".gguf" {
		return train.At("/core/from", train.BeginAdapter(m, *r.Core.LoRA, path))
	}
	c, err := OpenCheckpoint(path)
	if err != nil {
		return train.At("/core/from", err)
	}
	defer c.Close()
	for _, t := range tensors {
		if err := c.Read(t.Name, t.Data, t.Shape); err != nil {
			return train.At("/core/from", fmt.Errorf("checkpoint %s: %w", path, err))
		}
	}
	m.Stale()
	return nil
}
