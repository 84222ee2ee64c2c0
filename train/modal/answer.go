package modal

import (
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
)

// count counts the answers of the trial batch. An answer is right if every
// token of it is the likeliest after the preceding right ones, as in greedy
// decoding. Numbers read off a scale are counted a second time, as right if the
// decoded number is within a twentieth.
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
	output, err := p.decode()
	if err != nil {
		return err
	}
	for row, d := range p.trial.docs {
		for _, s := range d.turns {
			if s.Measured() {
				t.Add(s.Kind+qa.WithinTwentieth, s.Answer, s.Near(output[row]))
			}
		}
	}
	return nil
}

// answerTokens is the number of tokens of a decoded answer.
const answerTokens = 12

// decode decodes the answers to the questions of the trial batch greedily, after
// ask has run on it: one pass per token. Each document has at most one question.
func (p *Perception) decode() ([]string, error) {
	T, b := p.recipe.SeqLen, p.trial
	output, done := make([][]int32, len(b.docs)), make([]bool, len(b.docs))
	for round := range answerTokens {
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
			output[row] = append(output[row], id)
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
	out := make([]string, len(output))
	for row, ids := range output {
		text := p.tok.Decoder(tokenizer.DecodeOptions{Continued: true})
		for _, id := range ids {
			out[row] += text.Next(id)
		}
		out[row] += text.Flush()
	}
	return out, nil
}
