package modal

import (
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
)

// count adds the answers of the trial batch. An answer is what greedy decoding
// says when every token of it is the likeliest behind the right ones. Numbers
// that are read off a scale are counted again as right where what is decoded
// lies within a twentieth of them.
func (p *Perception) count(t train.Tally) error {
	T := p.recipe.SeqLen
	near := false
	for row, d := range p.trial.docs {
		for _, s := range d.turns {
			right := true
			for i := s.lo; i < s.hi; i++ {
				right = right && p.trial.Best[row*T+i] == d.targets[i]
			}
			t.Add(s.Kind, s.Answer, right)
			near = near || s.Measured()
		}
	}
	if !near {
		return nil
	}
	said, err := p.decode()
	if err != nil {
		return err
	}
	for row, d := range p.trial.docs {
		for _, s := range d.turns {
			if s.Measured() {
				t.Add(s.Kind+qa.WithinTwentieth, s.Answer, s.Near(said[row]))
			}
		}
	}
	return nil
}

// maxSaid bounds the tokens of an answer that is decoded.
const maxSaid = 12

// decode has the core answer the questions of the trial batch, on which ask has
// just been, in its own words, greedily: a pass a token, behind what it said so
// far. One question a document is wanted.
func (p *Perception) decode() ([]string, error) {
	T, b := p.recipe.SeqLen, p.trial
	said, done := make([][]int32, len(b.docs)), make([]bool, len(b.docs))
	for round := range maxSaid {
		going := false
		for row, d := range b.docs {
			if len(d.turns) == 0 || done[row] {
				continue
			}
			at := row*T + d.turns[0].lo + round
			id := b.Best[at]
			if p.tok.Ends(id) || d.turns[0].lo+round+1 >= T {
				done[row] = true
				continue
			}
			said[row] = append(said[row], id)
			b.Tokens[at+1], b.Targets[at+1], b.Starts[at+1] = id, id, 0
			going = true
		}
		if !going {
			break
		}
		if _, err := p.pass.Loss(b.Batch); err != nil {
			return nil, err
		}
	}
	out := make([]string, len(said))
	for row, ids := range said {
		text := p.tok.Decoder(tokenizer.DecodeOptions{Continued: true})
		for _, id := range ids {
			out[row] += text.Next(id)
		}
		out[row] += text.Flush()
	}
	return out, nil
}
