package modal

import (
	"errors"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
)

// Look is what an evaluation shows with a question.
type Look = qa.Look

// What may be shown.
const (
	Own     = qa.Own
	Another = qa.Another
	Nothing = qa.Nothing
)

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
	tally := train.Tally{}
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
	e.Scores = tally.Scores()
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
			examples[i].Modality = medium(examples[i])
			m.modality, m.key = examples[i].Modality, -1
			seen := examples[i]
			if t.Look == Another {
				seen = p.held.turn(from + i + p.another(t.N))
			}
			if t.Look == Nothing {
				continue
			}
			it, err := p.given(seen, examples[i].Modality)
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

// given prepares an example to be given as m: of a picture in place of a film it
// makes a film that stands still, of a film in place of a picture its first frame.
func (p *Perception) given(e Example, m Medium) (item, error) {
	s := p.sense(eye(m))
	if m != Video {
		return s.item(e)
	}
	if len(e.Frames) == 0 {
		return s.film([]*preprocess.Raster{e.Raster, e.Raster})
	}
	return s.film(e.Frames)
}

// shown reports whether there is anything for an encoder.
func (it item) shown() bool { return it.data != nil || it.tensor != nil || it.frames != nil }

// another is how far away the example lies whose input is shown in place of the
// own one: behind all that are asked about, and of the same supply.
func (p *Perception) another(n int) int { return qa.Away(n, len(p.held.media)) }

// ask has the core answer the questions of the trial batch.
func (p *Perception) ask(items []made) (loss float64, terms int, err error) {
	b := p.trial
	clear(b.items)
	for row, d := range b.docs {
		if row < len(items) && len(d.tokens) > 0 && items[row].shown() {
			it := items[row].item
			it.row, it.as = row, items[row].modality
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
