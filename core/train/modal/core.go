package modal

import (
	"fmt"

	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/core/train"
)

// openCore makes the language model of a recipe: that of a file, adapters beside
// it where the stage has any, or one drawn anew for the stage "encoder".
func openCore(r Recipe, dir string) (*llm.Model[float32], *tokenizer.Tokenizer, error) {
	path := resolve(dir, r.Core.Base)
	if r.Core.Model != nil {
		tok, err := train.ReadTokenizer(path)
		if err != nil {
			return nil, nil, at("/core/base", err)
		}
		m, err := llm.New[float32](*r.Core.Model)
		if err != nil {
			return nil, nil, at("/core/model", err)
		}
		if tok.Size() > m.Config.Vocab {
			return nil, nil, atf("/core/model/vocab_size", "the tokenizer has %d tokens, the model %d", tok.Size(), m.Config.Vocab)
		}
		return m, tok, m.Init(llm.Init{Seed: r.Seed})
	}
	m, tok, err := train.OpenBase(path)
	if err != nil {
		return nil, nil, at("/core/base", err)
	}
	if r.Core.LoRA == nil {
		m.Freeze(func(string) bool { return true })
		return m, tok, nil
	}
	if err := m.Adapt(*r.Core.LoRA, r.Seed); err != nil {
		return nil, nil, at("/core/lora", err)
	}
	if r.Core.From == "" {
		return m, tok, nil
	}
	c, err := OpenCheckpoint(resolve(dir, r.Core.From))
	if err != nil {
		return nil, nil, at("/core/from", err)
	}
	defer c.Close()
	for _, t := range m.Adapters() {
		if err := c.Read(t.Name, t.Data, t.Shape); err != nil {
			return nil, nil, at("/core/from", fmt.Errorf("its adapters are not those of lora: %w", err))
		}
	}
	m.Stale()
	return m, tok, nil
}
