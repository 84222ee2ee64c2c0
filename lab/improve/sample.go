package improve

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// sampler answers questions with a model.
type sampler struct {
	m     *llm.Model[float32]
	tok   *tokenizer.Tokenizer
	begin []int32 // BOS, if the tokenizer adds one
	pool  *pool.Pool
	stop  string // ends an answer with this text
}

func newSampler(m *llm.Model[float32], tok *tokenizer.Tokenizer, workers *pool.Pool) *sampler {
	s := &sampler{m: m, tok: tok, pool: workers}
	if ids := tok.Encode("", tokenizer.Options{Add: true}); len(ids) > 0 && ids[0] == tok.Special().BOS {
		s.begin = ids[:1]
	}
	m.Refresh(workers)
	return s
}

// prompt is a question with a separate seed, so that answers do not depend on
// the number of threads.
type prompt struct {
	text        string
	temperature float64 // 0 is greedy
	seed        uint64
	control     bool // parses control tokens in the text
}

// answers returns the answer to each prompt; "" is one without an end.
func (s *sampler) answers(ctx context.Context, prompts []prompt) ([]string, error) {
	out := make([]string, len(prompts))
	var mu sync.Mutex
	var failed error
	s.pool.For(len(prompts), 1, pool.Func(func(_, lo, hi int) {
		d := s.m.NewDecoder()
		for i := lo; i < hi; i++ {
			text, err := s.answer(d, prompts[i])
			if err = errors.Join(err, ctx.Err()); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
				return
			}
			out[i] = text
		}
	}))
	return out, failed
}

func (s *sampler) answer(d *llm.Decoder[float32], p prompt) (string, error) {
	d.Reset()
	var logits []float32
	var err error
	for _, id := range s.tok.Append(append([]int32{}, s.begin...), p.text, tokenizer.Options{Special: p.control}) {
		if logits, err = d.Feed(id); err != nil {
			return "", err
		}
	}
	r, text := nn.NewRandom(p.seed), ""
	for d.Len() < positions {
		id := pick(logits[:s.tok.Size()], p.temperature, r)
		if s.tok.Ends(id) {
			return text, nil
		}
		text += s.tok.Piece(id)
		if s.stop != "" && strings.HasSuffix(text, s.stop) {
			return text, nil
		}
		if logits, err = d.Feed(id); err != nil {
			return "", err
		}
	}
	return "", nil
}

// pick draws a token at a temperature; 0 returns the likeliest.
func pick(logits []float32, temperature float64, r *nn.Random) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	if temperature == 0 {
		return int32(best)
	}
	p, sum := make([]float64, len(logits)), 0.0
	for i, v := range logits {
		p[i] = math.Exp(float64(v-logits[best]) / temperature)
		sum += p[i]
	}
	u := r.Uniform() * sum
	for i, v := range p {
		if u -= v; u < 0 {
			return int32(i)
		}
	}
	return int32(best)
}
