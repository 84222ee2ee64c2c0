package preference

import (
	"errors"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
)

// pairs returns the recipe's pairs for training and evaluation. With
// Errands.Own, the model's wrong answers replace the rejected ones of errands.
func (r Recipe) pairs(dir string, m *llm.Model[float32], tok *tokenizer.Tokenizer, workers *pool.Pool) (learned, held []Pair, err error) {
	if learned, held, err = r.Data.open(dir, r.Seed, r.Eval.N); err != nil {
		return nil, nil, err
	}
	if e := r.Data.Errands; e == nil || !e.Own {
		return learned, held, nil
	}
	c, err := newCoder(tok, r.SeqLen)
	if err != nil {
		return nil, nil, err
	}
	m.Refresh(workers)
	return learned, held, c.replace(learned[len(learned)-r.Data.Errands.N:], m, workers)
}

// replace makes the model's greedy answers the rejected ones where they differ
// from the chosen ones.
func (c *coder) replace(pairs []Pair, m *llm.Model[float32], workers *pool.Pool) error {
	var mu sync.Mutex
	var failed error
	workers.For(len(pairs), 1, pool.Func(func(_, lo, hi int) {
		d := m.NewDecoder()
		for i := lo; i < hi; i++ {
			text, err := c.greedy(d, pairs[i])
			if err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
				return
			}
			if text != "" && text != pairs[i].Chosen {
				pairs[i].Rejected = text
			}
		}
	}))
	return failed
}

// greedy returns the greedy answer to a pair's prompt, or "" if it does not end
// within the recipe's positions or contains a token without text.
func (c *coder) greedy(d *llm.Decoder[float32], p Pair) (string, error) {
	s, err := c.sequence(p, "")
	if err != nil {
		return "", train.At("/seq_len", err)
	}
	d.Reset()
	var logits []float32
	for _, id := range s.tokens[:s.prompt] {
		if logits, err = d.Feed(id); err != nil {
			return "", err
		}
	}
	text := ""
	for d.Len() < c.T {
		id := int32(0)
		for i, v := range logits[:c.tok.Size()] {
			if v > logits[id] {
				id = int32(i)
			}
		}
		if c.tok.Ends(id) {
			return text, nil
		}
		text += c.tok.Piece(id)
		if logits, err = d.Feed(id); err != nil {
			return "", err
		}
	}
	return "", nil
}
