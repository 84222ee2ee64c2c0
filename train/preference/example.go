package preference

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
)

// sequence is a prompt and an answer as tokens. The answer's tokens and the end
// are the targets.
type sequence struct {
	tokens []int32
	prompt int // tokens of the prompt
	route  int // tokens up to the tool's name, 0 without one
}

// coder converts pairs to tokens.
type coder struct {
	tok *tokenizer.Tokenizer
	bos int32
	T   int
}

func newCoder(tok *tokenizer.Tokenizer, T int) (*coder, error) {
	c := &coder{tok: tok, bos: tokenizer.None, T: T}
	if tok.Special().EOS == tokenizer.None {
		return nil, train.At("/core/base", errors.New("tokenizer of the core has no EOS"))
	}
	if ids := tok.Encode("", tokenizer.Options{Add: true}); len(ids) > 0 && ids[0] == tok.Special().BOS {
		c.bos = ids[0]
	}
	return c, nil
}

// sequence encodes a prompt and an answer separately, as in inference, where
// the prompt is complete before the answer begins.
func (c *coder) sequence(p Pair, answer string) (sequence, error) {
	var s sequence
	if c.bos != tokenizer.None {
		s.tokens = append(s.tokens, c.bos)
	}
	opt := tokenizer.Options{Special: p.Control}
	s.tokens = c.tok.Append(s.tokens, p.Prompt, opt)
	s.prompt = len(s.tokens)
	if s.prompt == 0 {
		return s, fmt.Errorf("prompt %.40q has no tokens", p.Prompt)
	}
	s.tokens = append(c.tok.Append(s.tokens, answer, opt), c.tok.Special().EOS)
	if len(s.tokens) > c.T+1 {
		return s, fmt.Errorf("prompt %.40q with answer %.40q: %d tokens, want at most %d", p.Prompt, answer, len(s.tokens), c.T+1)
	}
	if p.Route != "" {
		s.route = c.covering(s.tokens[s.prompt:], len(p.Route))
	}
	return s, nil
}

// covering returns the number of tokens whose text has n bytes.
func (c *coder) covering(ids []int32, n int) int {
	for i, id := range ids {
		if n -= len(c.tok.Piece(id)); n <= 0 {
			return i + 1
		}
	}
	return len(ids)
}

// example is the sequences of a pair: chosen, rejected and, for KTO, the chosen
// answer of another pair. nats are the reference's.
type example struct {
	Pair
	answers []sequence
	nats    []float64
}

// examples encodes pairs. A sequence that is too long is an error.
func (c *coder) examples(pairs []Pair, rows int) ([]example, error) {
	out := make([]example, len(pairs))
	for i, p := range pairs {
		e := example{Pair: p, nats: make([]float64, rows)}
		texts := []string{p.Chosen, p.Rejected, pairs[(i+1)%len(pairs)].Chosen}
		for _, text := range texts[:rows] {
			s, err := c.sequence(p, text)
			if err != nil {
				return nil, train.At("/seq_len", fmt.Errorf("pair %d: %w", i+1, err))
			}
			e.answers = append(e.answers, s)
		}
		out[i] = e
	}
	return out, nil
}

// put writes a sequence as row of a batch of T positions.
func (s sequence) put(tokens, targets []int32, row, T int, pad int32) {
	tokens, targets = tokens[row*T:(row+1)*T], targets[row*T:(row+1)*T]
	for i := range tokens {
		tokens[i], targets[i] = pad, -1
		if i < len(s.tokens) {
			tokens[i] = s.tokens[i]
		}
		if i+1 >= s.prompt && i+1 < len(s.tokens) {
			targets[i] = s.tokens[i+1]
		}
	}
}

// answer returns the number of targets.
func (s sequence) answer() int { return len(s.tokens) - s.prompt }
