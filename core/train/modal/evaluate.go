package modal

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/core/train"
)

// Look is what an evaluation shows with a question.
type Look string

// What may be shown.
const (
	Own     Look = ""        // what the question is about
	Another Look = "another" // the input of another example
	Nothing Look = "nothing" // none
)

// Name is the look in words.
func (l Look) Name() string {
	if l == Own {
		return "its own"
	}
	return string(l)
}

// Trial says what to evaluate. The zero value is not ready: N is wanted.
type Trial struct {
	N    int  // held-out examples
	All  bool // all questions of each, else one
	Look Look
}

// Evaluate implements [train.Task]: one question of each held-out example.
func (p *Perception) Evaluate() (train.Evaluation, error) {
	e, err := p.Try(Trial{N: p.recipe.Eval.N})
	if err == nil {
		p.last = &e
	}
	return e, err
}

// Try asks questions about held-out examples, without training anything: the
// loss of the answers, and how many greedy decoding says exactly right.
func (p *Perception) Try(t Trial) (train.Evaluation, error) {
	var e train.Evaluation
	if len(p.held.media) == 0 {
		return e, errors.New("evaluation: the recipe has no source of media")
	}
	tally := tally{}
	var sum float64
	for from := 0; from < t.N; from += p.recipe.BatchSize {
		n := min(p.recipe.BatchSize, t.N-from)
		examples, items, err := p.show(from, n, t)
		if err != nil {
			return e, err
		}
		for round := 0; ; round++ {
			asked := 0
			for row := range p.trial.docs {
				p.trial.docs[row] = document{}
				if row >= n || len(examples[row].Turns) == 0 || !t.All && round > 0 || round >= len(examples[row].Turns) {
					continue
				}
				turns := examples[row].Turns
				if doc, ok := p.question(examples[row].Modality, turns[(round+from+row)%len(turns)], t.Look); ok {
					p.trial.docs[row] = doc
					asked++
				}
			}
			if asked == 0 {
				break
			}
			loss, terms, err := p.ask(items)
			if err != nil {
				return e, err
			}
			sum += loss
			e.Predictions += terms
			if err := p.count(tally); err != nil {
				return e, err
			}
		}
	}
	if e.Predictions == 0 {
		return e, errors.New("evaluation: no question fits into seq_len positions")
	}
	e.Loss = sum / float64(e.Predictions)
	e.Scores = tally.scores()
	return e, nil
}

// question is the document of one question.
func (p *Perception) question(m Medium, t Turn, look Look) (document, bool) {
	if look == Nothing {
		return p.layout.blind(t)
	}
	return p.layout.single(m, t)
}

// show makes n held-out examples from one on, and what the encoders take of
// them.
func (p *Perception) show(from, n int, t Trial) ([]Example, []made, error) {
	examples, items := make([]Example, n), make([]made, n)
	var mu sync.Mutex
	var failed error
	p.pool.For(n, 1, pool.Func(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			examples[i] = p.held.turn(from + i)
			m := &items[i]
			m.modality, m.key = examples[i].Modality, -1
			seen := examples[i]
			if t.Look == Another {
				seen = p.held.turn(from + i + p.another(t.N))
			}
			if t.Look == Nothing {
				continue
			}
			it, err := p.sense(seen.Modality).item(seen)
			m.item = it
			m.key = -1
			if err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		}
	}))
	return examples, items, failed
}

// another is how far away the example lies whose input is shown in place of the
// own one: behind all that are asked about, and of the same supply.
func (p *Perception) another(n int) int {
	supplies := len(p.held.media)
	return (n + supplies - 1) / supplies * supplies
}

// ask has the core answer the questions of the trial batch.
func (p *Perception) ask(items []made) (loss float64, terms int, err error) {
	b := p.trial
	clear(b.items)
	for row, d := range b.docs {
		if row < len(items) && len(d.tokens) > 0 && (items[row].data != nil || items[row].tensor != nil) {
			it := items[row].item
			it.row = row
			b.items[items[row].modality] = append(b.items[items[row].modality], it)
		}
	}
	terms = b.put(p.recipe.SeqLen, p.layout.eos)
	if err := p.look(b); err != nil {
		return 0, 0, err
	}
	loss, err = p.pass.Loss(b.Batch)
	return loss, terms, err
}

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
