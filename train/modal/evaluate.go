package modal

import (
	"errors"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
)

// Look selects the input shown with a question.
type Look = qa.Look

// The looks.
const (
	Actual  = qa.Actual
	Another = qa.Another
	Nothing = qa.Nothing
)

// Trial configures an evaluation. N must be set.
type Trial struct {
	N    int  // held-out examples
	All  bool // all questions of each, otherwise one
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

// Try evaluates questions about held-out examples without training: the loss of
// the answers and the number of exactly right ones in greedy decoding.
func (p *Perception) Try(t Trial) (train.Evaluation, error) {
	var e train.Evaluation
	if len(p.held.media) == 0 {
		return e, errors.New("evaluation: recipe has no source of media")
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
			count := 0
			for row := range p.trial.docs {
				p.trial.docs[row] = document{}
				if row >= n || len(examples[row].Turns) == 0 || !t.All && round > 0 || round >= len(examples[row].Turns) {
					continue
				}
				turns := examples[row].Turns
				if doc, ok := p.question(examples[row].Modality, turns[(round+from+row)%len(turns)], t.Look); ok {
					p.trial.docs[row] = doc
					count++
				}
			}
			if count == 0 {
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

// question returns the document of one question.
func (p *Perception) question(m Medium, t Turn, look Look) (document, bool) {
	if look == Nothing {
		return p.layout.blind(t)
	}
	return p.layout.single(m, t)
}

// show makes n held-out examples from one on, and the inputs of the encoders.
func (p *Perception) show(from, n int, t Trial) ([]Example, []entry, error) {
	examples, items := make([]Example, n), make([]entry, n)
	var mu sync.Mutex
	var failed error
	p.pool.For(n, 1, pool.Func(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			examples[i] = p.held.turn(from + i)
			m := &items[i]
			examples[i].Modality = medium(examples[i])
			m.modality, m.key = examples[i].Modality, -1
			source := examples[i]
			if t.Look == Another {
				source = p.held.turn(from + i + p.another(t.N))
			}
			if t.Look == Nothing {
				continue
			}
			it, err := p.input(source, examples[i].Modality)
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

// input prepares an example as the medium m: an image in place of a video
// becomes a still video, a video in place of an image its first frame.
func (p *Perception) input(e Example, m Medium) (item, error) {
	s := p.sense(eye(m))
	if m != Video {
		return s.item(e)
	}
	if len(e.Frames) == 0 {
		return s.video([]*preprocess.Raster{e.Raster, e.Raster})
	}
	return s.video(e.Frames)
}

// shown reports whether the item has an input for an encoder.
func (it item) shown() bool { return it.data != nil || it.tensor != nil || it.frames != nil }

// another returns the distance to the example whose input replaces the right
// one: beyond all evaluated examples, in the same supply.
func (p *Perception) another(n int) int { return qa.Away(n, len(p.held.media)) }

// ask runs the core on the questions of the trial batch.
func (p *Perception) ask(items []entry) (loss float64, terms int, err error) {
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
