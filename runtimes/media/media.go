// Package media encodes images, audio and video into vectors for the core.
//
// [Senses.Judge] finds the inputs of a prompt that are not text and bounds the
// positions that each takes; [Senses.Read] reads them. [Senses.Encode] runs them
// through encoder and projector (runtimes/part), concurrently with each other and
// with the caller: a video frame by frame, a long sound piece by piece, whose
// vectors are joined into one list. Cached vectors are not computed again.
//
// The cache is keyed by a hash of everything that the vectors depend on. [Memory]
// keeps the vectors that this process used last and assigns each input an id, so
// that its positions in a sequence can be compared. [VectorCache] keeps them on
// disk across processes. It is bounded, entries are verified when they are read,
// and a missing or damaged entry is computed again.
package media

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// Senses are the encoders and projectors of a build, and what they came to. It is
// safe for concurrent use.
type Senses struct {
	Build *builds.Build
	Parts *part.Set

	// Features keeps what inputs come to from one process to the next; nil: not
	// at all. Revision tells this program from others, when it is first asked: what
	// another one computed is not taken. nil: all are one.
	Features *VectorCache
	Revision func() (string, error)

	memory Memory
}

// Medium is an input that is no text.
type Medium struct {
	Part   *talk.Part
	Places int // the most it takes of the sequence

	joins builds.ModalityPart
	*source
}

// source is what an input lies in: a file is one, however often it is named.
type source struct {
	size int64 // bytes, as far as that is known before it is read

	// Once it is read.
	key    Key                  // of what it is
	data   []byte               // of a picture or a sound
	frames []*preprocess.Raster // of a film: those that stand for it
}

// unsaid is how many frames of a film are taken where the encoder's manifest
// does not say.
const unsaid = 8

// maxInputs bounds the bytes of all inputs of one answer together, a film's
// those of the frames that stand for it.
const maxInputs = 2 * part.MaxInput

// Judge finds the inputs of a prompt that are no text, in their order, and how
// many places each may take. Nothing is read of them but how large files are.
func (s *Senses) Judge(prompt talk.Prompt) ([]Medium, error) {
	type place struct {
		as   abi.Modality
		path string
	}
	var out []Medium
	files := map[place]*source{}
	for _, piece := range prompt.Pieces {
		if piece.Part == nil {
			continue
		}
		m, err := s.medium(piece.Part)
		if err != nil {
			return nil, err
		}
		if at := (place{m.Part.Type, m.Part.Path}); at.path != "" {
			if files[at] == nil {
				files[at] = m.source
			}
			m.source = files[at]
		}
		out = append(out, m)
	}
	return out, nil
}

func (s *Senses) medium(p *talk.Part) (Medium, error) {
	m := Medium{Part: p, source: &source{size: int64(len(p.Data))}}
	m.joins, _ = s.modality(p.Type)
	m.Places = s.places(&m)
	switch {
	case p.Path != "" && p.Data != nil:
		return m, fmt.Errorf("the %s input %s has a path and data, one is wanted", p.Type, filepath.Base(p.Path))
	case p.Path == "" && len(p.Data) == 0:
		return m, fmt.Errorf("the %s input is empty: it wants a path or data", p.Type)
	case p.Text != "":
		return m, fmt.Errorf("the %s has text, which stands in an input of its own", named(*p))
	case p.Path != "":
		info, err := os.Stat(p.Path)
		if err != nil {
			return m, fmt.Errorf("reading the %s input: %w", p.Type, err)
		}
		if p.Type != abi.Video { // of which a few frames are read
			m.size = info.Size()
		}
	}
	return m, nil
}

// places is the most that an input takes of the sequence.
func (s *Senses) places(m *Medium) int {
	if m.Part.Type != abi.Video {
		return m.joins.TCap
	}
	most, _ := abi.DefaultCaps(abi.Video)
	switch cap := max(m.joins.TCap, 0); m.temporal(s) {
	case modules.TemporalConcat: // each frame has vectors of its own, up to what a film may take
		return min(most, s.frames(m)*cap)
	case modules.TemporalHalves:
		return min(most, 2*cap)
	}
	return m.joins.TCap
}

// frames is how many frames stand for a film, as the encoder's manifest says.
func (s *Senses) frames(m *Medium) int {
	if enc := s.Build.Manifests[m.joins.Encoder.Name]; enc != nil {
		if _, frames := modality.Takes(enc); frames > 0 {
			return frames
		}
	}
	return unsaid
}

// Read reads inputs, each file once.
func (s *Senses) Read(ctx context.Context, in []Medium) error {
	left := int64(maxInputs)
	var each []*Medium
	for i := range in {
		if !slices.ContainsFunc(each, func(m *Medium) bool { return m.source == in[i].source }) {
			each, left = append(each, &in[i]), left-in[i].size
		}
	}
	if left < 0 {
		return fmt.Errorf("%d inputs have %d bytes together, the limit is %d", len(each), maxInputs-left, maxInputs)
	}
	for _, m := range each {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.read(ctx, m, left); err != nil {
			return fmt.Errorf("reading the %s input: %w", m.Part.Type, err)
		}
		if m.frames != nil {
			left -= m.size
		}
		m.key = NewKey(m.content()...)
	}
	return nil
}

// read reads an input; a film may have room bytes of frames.
func (s *Senses) read(ctx context.Context, m *Medium, room int64) (err error) {
	switch p := m.Part; {
	case p.Type == abi.Video:
		return s.film(ctx, m, room)
	case p.Path == "":
		m.data = p.Data
	default:
		if m.data, err = fsx.ReadFile(p.Path, part.MaxInput); err == nil && len(m.data) == 0 {
			err = fmt.Errorf("%s is empty", filepath.Base(p.Path))
		}
	}
	return err
}

// film takes the frames of a film that stand for it.
func (s *Senses) film(ctx context.Context, m *Medium, room int64) error {
	open := func() (*preprocess.Frames, error) { return preprocess.OpenFrames(ctx, m.Part.Path) }
	if m.Part.Path == "" {
		open = func() (*preprocess.Frames, error) { return preprocess.DecodeFrames(m.Part.Data) }
	}
	f, err := open()
	if err != nil {
		return err
	}
	n := s.frames(m)
	if m.size = 3 * int64(n) * int64(f.W) * int64(f.H); m.size > room {
		err = fmt.Errorf("%d frames of %d × %d are more than the %d bytes that the inputs leave", n, f.W, f.H, room)
	} else {
		m.frames, err = f.Pick(ctx, n)
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

// named is what an input is called.
func named(in talk.Part) string {
	what := string(in.Type) + " input"
	if in.Path != "" {
		what += " " + filepath.Base(in.Path)
	}
	return what
}

// Missing explains why an input that is no text cannot be taken; nil where it
// can.
func Missing(a *builds.Assembly, in talk.Part) error {
	what := named(in)
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
