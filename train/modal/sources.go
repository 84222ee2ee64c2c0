package modal

import (
	"errors"
	"io"
	"slices"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// sources is the sources of one split of the data, with shares.
type sources struct {
	media []supply
	kinds []string // kinds of questions, as patterns; empty: all
	read  float64  // share of documents
}

// supply is a source of media.
type supply struct {
	Source
	size  int // examples in an epoch; 0: unlimited
	share float64
}

// documents is the result of draw for documents.
const documents = -1

// The splits of the sources of media.
const (
	trainSplit = "train"
	heldSplit  = "held"
)

// openSources opens one split.
func openSources(d Data, split, dir string) (sources, error) {
	s := sources{kinds: d.Ask}
	weight := func(w float64) float64 {
		if w == 0 {
			return 1
		}
		return w
	}
	if d.Scene != nil {
		src, err := newPictures(*d.Scene, split)
		if err != nil {
			return s, err
		}
		s.media = append(s.media, supply{src, d.Scene.Examples, weight(d.Scene.Weight)})
	}
	if d.Sound != nil {
		src, err := newSounds(*d.Sound, split, dir)
		if err != nil {
			return s, err
		}
		s.media = append(s.media, supply{src, d.Sound.Examples, weight(d.Sound.Weight)})
	}
	if d.Text != nil {
		s.read = weight(d.Text.Weight)
	}
	return s, nil
}

// draw chooses a supply, or documents, at random.
func (s sources) draw(r *nn.Random) int {
	total := s.read
	for _, m := range s.media {
		total += m.share
	}
	u := r.Uniform() * total
	for i, m := range s.media {
		if u < m.share {
			return i
		}
		u -= m.share
	}
	if s.read == 0 {
		return len(s.media) - 1
	}
	return documents
}

// at makes the i-th example of a supply and returns its key for the cache,
// negative if it does not repeat.
func (s sources) at(supply, i int) (e Example, key int) {
	m := s.media[supply]
	if m.size == 0 {
		return s.ask(m.Make(i)), -1
	}
	i %= m.size
	return s.ask(m.Make(i)), i*len(s.media) + supply
}

// ask removes the questions that are not asked from an example.
func (s sources) ask(e Example) Example {
	if len(s.kinds) > 0 {
		e.Turns = slices.DeleteFunc(e.Turns, func(t Turn) bool { return !qa.Matches(s.kinds, t.Kind) })
	}
	return e
}

// turn returns the i-th example of a test, cycling through the supplies.
func (s sources) turn(i int) Example {
	n := len(s.media)
	return s.ask(s.media[i%n].Make(i / n))
}

// close closes the sources.
func (s sources) close() error {
	var errs []error
	for _, m := range s.media {
		if c, ok := m.Source.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// open opens the documents without media.
func (p *Perception) open(t Text, dir string) error {
	if t.Format == "uint16" {
		return train.Atf("/data/text/format", "format uint16 is only for language models")
	}
	corpus, err := train.Prepare(train.Config{Model: llm.Config{Vocab: p.model.Config.Vocab}, Data: t.Data,
		Tokenizer: train.Tokenizer{File: p.recipe.Core.Base}}, dir)
	if err != nil {
		return train.At("/data/text", err)
	}
	p.corpus = corpus
	return p.read(dataset.Position{Seed: p.recipe.Seed})
}

// read continues in the documents from a position.
func (p *Perception) read(from dataset.Position) error {
	var err error
	if p.loader, err = dataset.NewLoader(p.corpus.Train, p.recipe.SeqLen, from); err != nil {
		return train.At("/data/text", err)
	}
	return nil
}

// document returns the next window of the documents.
func (p *Perception) document() document {
	b := dataset.NewBatch(1, p.recipe.SeqLen)
	p.loader.Next(b)
	return document{tokens: b.Tokens, targets: b.Targets, starts: b.Starts}
}

// Close closes everything except the trainer's threads.
func (p *Perception) Close() error {
	errs := []error{p.train.close(), p.held.close()}
	if p.corpus != nil {
		errs = append(errs, p.corpus.Close())
	}
	for _, s := range p.senses {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
