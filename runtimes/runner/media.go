package runner

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// medium is an input that is no text, read.
type medium struct {
	part   *talk.Part
	data   []byte               // of a picture or a sound
	frames []*preprocess.Raster // of a film: those that stand for it
	joins  builds.ModalityPart
	places int // the most it takes of the sequence
}

// unsaid is how many frames of a film are taken where the encoder's manifest
// does not say.
const unsaid = 8

// media reads the inputs of a prompt that are no text.
func (r *Runner) media(prompt talk.Prompt) ([]medium, error) {
	var out []medium
	for _, piece := range prompt.Pieces {
		if piece.Part == nil {
			continue
		}
		m, err := r.medium(piece.Part)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (r *Runner) medium(p *talk.Part) (m medium, err error) {
	m = medium{part: p, data: p.Data}
	m.joins, _ = r.modality(p.Type)
	m.places = m.joins.TCap
	switch {
	case p.Path != "" && p.Data != nil:
		return m, fmt.Errorf("the %s input %s has a path and data, one is wanted", p.Type, filepath.Base(p.Path))
	case p.Path == "" && len(p.Data) == 0:
		return m, fmt.Errorf("the %s input is empty: it wants a path or data", p.Type)
	case p.Type == abi.Video:
		err = r.film(&m)
	case p.Path != "":
		if m.data, err = fsx.ReadFile(p.Path, part.MaxInput); err == nil && len(m.data) == 0 {
			err = fmt.Errorf("%s is empty", filepath.Base(p.Path))
		}
	}
	if err != nil {
		return m, fmt.Errorf("reading the %s input: %w", p.Type, err)
	}
	return m, nil
}

// film takes the frames of a film that stand for it, as many as the encoder's
// manifest says.
func (r *Runner) film(m *medium) error {
	n := unsaid
	if enc := r.build.Manifests[m.joins.Encoder.Name]; enc != nil {
		if _, frames := modality.Takes(enc); frames > 0 {
			n = frames
		}
	}
	open := func() (*preprocess.Frames, error) { return preprocess.OpenFrames(m.part.Path) }
	if m.data != nil {
		open = func() (*preprocess.Frames, error) { return preprocess.DecodeFrames(m.data) }
	}
	f, err := open()
	if err != nil {
		return err
	}
	m.frames, err = f.Pick(n)
	if m.data = nil; m.concat(r) { // each frame has vectors of its own, up to what a film may take
		most, _ := abi.DefaultCaps(abi.Video)
		m.places = min(most, n*max(m.joins.TCap, 0))
	}
	return errors.Join(err, f.Close())
}

// concat reports whether each frame of a film has vectors of its own.
func (m *medium) concat(r *Runner) bool {
	proj := r.build.Manifests[m.joins.Projector.Name]
	return m.joins.Modality != abi.Video && proj != nil && proj.Temporal() == modules.TemporalConcat
}

// content is what the input is, for its key.
func (m *medium) content() [][]byte {
	out := [][]byte{[]byte(m.part.Type), m.data}
	for _, f := range m.frames {
		out = append(out, fmt.Appendf(nil, "%d %d %d", f.W, f.H, f.C), f.Pix)
	}
	return out
}

// modality finds the encoder and projector for inputs of a kind. A film may go
// through those for pictures, frame by frame.
func (r *Runner) modality(m abi.Modality) (builds.ModalityPart, bool) {
	return modalityOf(r.build.Assembly, m)
}

func modalityOf(a *builds.Assembly, m abi.Modality) (builds.ModalityPart, bool) {
	all := a.Modalities
	i := slices.IndexFunc(all, func(p builds.ModalityPart) bool { return p.Modality == m })
	switch {
	case i >= 0:
		return all[i], true
	case m == abi.Video:
		return modalityOf(a, abi.Image)
	}
	return builds.ModalityPart{}, false
}

// roomy reports inputs that the sequence has no room for, before anything is
// loaded: each is counted with all the places that it may take.
func (r *Runner) roomy(prompt talk.Prompt, in []medium) error {
	most := r.build.Assembly.Tokens.MaxSeq
	if most <= 0 || len(in) == 0 {
		return nil // the core knows
	}
	text, places := 0, 0
	for _, piece := range prompt.Pieces {
		text += len(piece.Tokens)
	}
	for _, m := range in {
		places += min(max(m.places, 0), most)
	}
	if text+places >= most {
		return fmt.Errorf("%w: %d places of %d inputs and %d tokens of text, of a max_seq of %d", runtimes.ErrFull, places, len(in), text, most)
	}
	return nil
}
