package modal

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/core/train"
)

// count adds the answers of the trial batch. An answer is what greedy decoding
// says when every token of it is the likeliest behind the right ones. Numbers
// that are read off a scale are counted again as right where what is decoded
// lies within a twentieth of them.
func (p *Perception) count(t tally) error {
	T := p.recipe.SeqLen
	near := false
	for row, d := range p.trial.docs {
		for _, s := range d.turns {
			right := true
			for i := s.lo; i < s.hi; i++ {
				right = right && p.trial.Best[row*T+i] == d.targets[i]
			}
			t.add(s.Turn, right)
			near = near || s.measured()
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
			if s.measured() {
				turn := s.Turn
				turn.Kind += withinTwentieth
				t.add(turn, within(said[row], s.Answer))
			}
		}
	}
	return nil
}

// withinTwentieth is appended to the kind of answers that may be off by 5 %.
const withinTwentieth = " ±5%"

// measured reports whether the answer is a number read off a scale.
func (t Turn) measured() bool { return strings.HasSuffix(t.Kind, "/value") }

// within reports whether a number was said that is within a twentieth of the
// right one.
func within(said, right string) bool {
	a, err1 := strconv.ParseFloat(strings.TrimSpace(said), 64)
	b, err2 := strconv.ParseFloat(strings.TrimSpace(right), 64)
	return err1 == nil && err2 == nil && math.Abs(a-b) <= math.Abs(b)/20
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

// tally counts answers by the kind of question.
type tally map[string]*count

type count struct {
	right, n int
	answers  map[string]int // how often each is right
}

func (t tally) add(turn Turn, right bool) {
	c := t[turn.Kind]
	if c == nil {
		c = &count{answers: map[string]int{}}
		t[turn.Kind] = c
	}
	c.n++
	c.answers[turn.Answer]++
	if right {
		c.right++
	}
}

// scores are the counts in the order of their kinds.
func (t tally) scores() []train.Score {
	var out []train.Score
	for _, k := range slices.Sorted(maps.Keys(t)) {
		c := t[k]
		most := 0
		for _, n := range c.answers {
			most = max(most, n)
		}
		out = append(out, train.Score{Kind: k, Right: c.right, N: c.n, Chance: float64(most) / float64(c.n)})
	}
	return out
}
