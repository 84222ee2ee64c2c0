// Package media takes pictures, sounds and films to vectors for the core.
//
// [Senses.Read] reads the inputs of a prompt that are no text, and judges them as
// far as that can be done before anything is loaded. [Senses.Encode] sends them
// through encoder and projector (runtimes/part), beside each other and beside
// what the caller does meanwhile: a film frame by frame, a long sound piece by
// piece, whose vectors become one list (runtimes/joint). What is known, in memory
// or on disk (runtimes/feature), is not computed again.
package media

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
	"mm-abi.org/mm/runtimes/feature"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// Senses are the encoders and projectors of a build, and what they came to. It is
// safe for concurrent use.
type Senses struct {
	Build *builds.Build
	Parts *part.Set

	// Features keeps what inputs come to from one process to the next; nil: not
	// at all. Revision is this program's: what another one computed is not taken.
	Features *feature.Folder
	Revision string

	memory feature.Memory
}

// Medium is an input that is no text, read.
type Medium struct {
	Part   *talk.Part
	Places int // the most it takes of the sequence

	data   []byte               // of a picture or a sound
	frames []*preprocess.Raster // of a film: those that stand for it
	joins  builds.ModalityPart
}

// unsaid is how many frames of a film are taken where the encoder's manifest
// does not say.
const unsaid = 8

// Read reads the inputs of a prompt that are no text, in their order.
func (s *Senses) Read(prompt talk.Prompt) ([]Medium, error) {
	var out []Medium
	for _, piece := range prompt.Pieces {
		if piece.Part == nil {
			continue
		}
		m, err := s.medium(piece.Part)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (s *Senses) medium(p *talk.Part) (m Medium, err error) {
	m = Medium{Part: p, data: p.Data}
	m.joins, _ = s.modality(p.Type)
	m.Places = m.joins.TCap
	switch {
	case p.Path != "" && p.Data != nil:
		return m, fmt.Errorf("the %s input %s has a path and data, one is wanted", p.Type, filepath.Base(p.Path))
	case p.Path == "" && len(p.Data) == 0:
		return m, fmt.Errorf("the %s input is empty: it wants a path or data", p.Type)
	case p.Type == abi.Video:
		err = s.film(&m)
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
func (s *Senses) film(m *Medium) error {
	n := unsaid
	if enc := s.Build.Manifests[m.joins.Encoder.Name]; enc != nil {
		if _, frames := modality.Takes(enc); frames > 0 {
			n = frames
		}
	}
	open := func() (*preprocess.Frames, error) { return preprocess.OpenFrames(m.Part.Path) }
	if m.data != nil {
		open = func() (*preprocess.Frames, error) { return preprocess.DecodeFrames(m.data) }
	}
	f, err := open()
	if err != nil {
		return err
	}
	m.frames, err = f.Pick(n)
	m.data = nil
	most, _ := abi.DefaultCaps(abi.Video)
	switch cap := max(m.joins.TCap, 0); m.temporal(s) {
	case modules.TemporalConcat: // each frame has vectors of its own, up to what a film may take
		m.Places = min(most, n*cap)
	case modules.TemporalHalves:
		m.Places = min(most, 2*cap)
	}
	return errors.Join(err, f.Close())
}

// temporal is how a film's vectors come of its frames'; "" where the encoder takes
// them all.
func (m *Medium) temporal(s *Senses) string {
	if proj := s.Build.Manifests[m.joins.Projector.Name]; m.joins.Modality != abi.Video && proj != nil {
		return proj.Temporal()
	}
	return ""
}

// content is what the input is, for its key.
func (m *Medium) content() [][]byte {
	out := [][]byte{[]byte(m.Part.Type), m.data}
	for _, f := range m.frames {
		out = append(out, fmt.Appendf(nil, "%d %d %d", f.W, f.H, f.C), f.Pix)
	}
	return out
}

// modality finds the encoder and projector for inputs of a kind. A film may go
// through those for pictures, frame by frame.
func (s *Senses) modality(m abi.Modality) (builds.ModalityPart, bool) {
	return modalityOf(s.Build.Assembly, m)
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

// Missing explains why an input that is no text cannot be taken; nil where it
// can.
func Missing(a *builds.Assembly, in talk.Part) error {
	what := string(in.Type) + " input"
	if in.Path != "" {
		what += " " + filepath.Base(in.Path)
	}
	if m, ok := modalityOf(a, in.Type); ok {
		for _, p := range []builds.Part{m.Encoder, m.Projector} {
			if len(p.Files) == 0 {
				return &runtimes.Unavailable{What: what, Why: fmt.Sprintf("target %s ships no file of %s", a.Target, p.ID()), Hint: "add it to the target's onnx list"}
			}
		}
		return nil
	}
	return &runtimes.Unavailable{What: what, Why: fmt.Sprintf("%s has no encoder for %s", a.Name, in.Type), Hint: "add one to modalities"}
}
