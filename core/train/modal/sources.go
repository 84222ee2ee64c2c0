package modal

import (
	"errors"

	"mm-abi.org/mm/core/dataset"
	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/nn"
	"mm-abi.org/mm/core/train"
)

// sources is what one split of the data has, with shares.
type sources struct {
	media Source  // nil: there is none
	size  int     // of media: examples before they come again; 0: they never do
	seen  float64 // share of media
	read  float64 // share of documents
	again bool    // examples come again
}

// The sources that a draw names.
const (
	mediaSource = iota
	textSource
)

// openSources opens one split.
func openSources(d Data, split string) (sources, error) {
	var s sources
	weight := func(w float64) float64 {
		if w == 0 {
			return 1
		}
		return w
	}
	if d.Scene != nil {
		var err error
		if s.media, err = newPictures(*d.Scene, split); err != nil {
			return s, err
		}
		s.seen, s.size, s.again = weight(d.Scene.Weight), d.Scene.Examples, d.Scene.Examples > 0
	}
	if d.Text != nil {
		s.read = weight(d.Text.Weight)
	}
	return s, nil
}

// draw chooses a source by chance.
func (s sources) draw(r *nn.Random) int {
	if u := r.Uniform() * (s.seen + s.read); s.media == nil || u >= s.seen {
		return textSource
	}
	return mediaSource
}

// at is the source of the i-th example and its number there.
func (s sources) at(i int) (Source, int) {
	if s.size > 0 {
		i %= s.size
	}
	return s.media, i
}

// open reads the documents that have no media in them.
func (p *Perception) open(t Text, dir string) error {
	if t.Format == "uint16" {
		return atf("/data/text/format", "token ids are for language models alone: documents are wanted")
	}
	corpus, err := train.Prepare(train.Config{Model: llm.Config{Vocab: p.model.Config.Vocab}, Data: t.Data,
		Tokenizer: train.Tokenizer{File: p.recipe.Core.Base}}, dir)
	if err != nil {
		return at("/data/text", err)
	}
	p.corpus = corpus
	return p.read(dataset.Position{Seed: p.recipe.Seed})
}

// read goes on in the documents from a position.
func (p *Perception) read(from dataset.Position) error {
	var err error
	if p.loader, err = dataset.NewLoader(p.corpus.Train, p.recipe.SeqLen, from); err != nil {
		return at("/data/text", err)
	}
	return nil
}

// document is the next window of the documents.
func (p *Perception) document() document {
	b := dataset.NewBatch(1, p.recipe.SeqLen)
	p.loader.Next(b)
	return document{tokens: b.Tokens, targets: b.Targets, starts: b.Starts}
}

// Close gives back what the task holds open; not the trainer's threads.
func (p *Perception) Close() error {
	var errs []error
	if p.corpus != nil {
		errs = append(errs, p.corpus.Close())
	}
	for _, s := range p.senses {
		if s.onnx != nil {
			errs = append(errs, s.onnx.program.Close())
		}
	}
	return errors.Join(errs...)
}
