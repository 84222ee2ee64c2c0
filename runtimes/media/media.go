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

// Senses holds the encoders and projectors of a build and a cache of vectors. It is
// safe for concurrent use.
type Senses struct {
	Build *builds.Build
	Parts *part.Set

	// Features caches vectors on disk; nil: no such cache. Revision returns an
	// id of this program, on first use: vectors of other programs are not used.
	// If nil, those of all programs are.
	Features *VectorCache
	Revision func() (string, error)

	memory Memory
}

// Medium is an input that is not text.
type Medium struct {
	Part   *talk.Part
	Runs   int // into which its vectors are divided
	Places int // maximum of positions in the sequence
	// Grid arranges the vectors in frames, rows and columns; zero: they are a line.
	Grid [3]int
	Deep int // further vectors of a position

	calls  int     // of the encoder for a sound in spans
	mosaic *mosaic // how the vectors of tiles are joined; nil: one after the other

	joins builds.ModalityPart
	*source
}

// source is the data of an input; inputs with the same path share one.
type source struct {
	size int64 // bytes, if known before reading

	// Set by Read.
	key    Key                  // of the content
	data   []byte               // of an image or a sound
	frames []*preprocess.Raster // the selected frames of a video
}

// defaultFrames is the number of frames taken from a video if the encoder's
// manifest has none.
const defaultFrames = 8

// maxInputs bounds the bytes of all inputs of an answer; a video counts the bytes
// of its selected frames.
const maxInputs = 2 * part.MaxInput

// Judge finds the inputs of a prompt that are not text, in order, and the positions
// that each may take. Of files it reads only the size.
func (s *Senses) Judge(prompt talk.Prompt) ([]Medium, error) {
	type place struct {
		as   abi.Modality
		path string
	}
	var out []Medium
	files := map[place]*source{}
	for _, piece := range prompt.Pieces {
		if piece.Part == nil || piece.Run > 0 {
			continue
		}
		m, err := s.medium(piece.Part, piece.Runs)
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

func (s *Senses) medium(p *talk.Part, runs int) (Medium, error) {
	m := Medium{Part: p, Runs: max(runs, 1), source: &source{size: int64(len(p.Data))}}
	m.joins, _ = s.modality(p.Type)
	m.Places = s.places(&m)
	if seq := s.sequence(p.Type); seq != nil {
		m.Deep = seq.Deep
	}
	switch {
	case p.Path != "" && p.Data != nil:
		return m, fmt.Errorf("%s input %s has both a path and data", p.Type, filepath.Base(p.Path))
	case p.Path == "" && len(p.Data) == 0:
		return m, fmt.Errorf("empty %s input: it needs a path or data", p.Type)
	case p.Text != "":
		return m, fmt.Errorf("%s has text, which must be a separate input", named(*p))
	case p.Path != "":
		info, err := os.Stat(p.Path)
		if err != nil {
			return m, fmt.Errorf("reading the %s input: %w", p.Type, err)
		}
		if p.Type != abi.Video { // only a few frames of which are read
			m.size = info.Size()
		}
	}
	return m, s.fit(&m)
}

// fit sets what depends on the size of an image that is fitted.
func (s *Senses) fit(m *Medium) (err error) {
	if err := s.span(m); err != nil {
		return err
	}
	if m.mosaic, err = s.mosaic(m.Part); m.mosaic != nil {
		m.Places = m.mosaic.count()
	}
	if err != nil {
		return err
	}
	spec, err := s.fitted(m.Part)
	if spec == nil || err != nil {
		return err
	}
	m.Places = spec.rows * spec.columns
	if s.sequence(m.Part.Type).Grid() {
		m.Grid = [3]int{1, spec.rows, spec.columns}
	}
	return nil
}

// places bounds the positions that an input takes in the sequence.
func (s *Senses) places(m *Medium) int {
	if m.Part.Type != abi.Video {
		return m.Runs * m.joins.TCap
	}
	most, _ := abi.DefaultCaps(abi.Video)
	switch cap := max(m.joins.TCap, 0); m.temporal(s) {
	case modules.TemporalConcat: // the vectors of all frames, up to the cap of a video
		return min(most, s.frames(m)*cap)
	case modules.TemporalHalves:
		return min(most, 2*cap)
	}
	return m.joins.TCap
}

// frames returns the number of frames to take from a video.
func (s *Senses) frames(m *Medium) int {
	if enc := s.Build.Manifests[m.joins.Encoder.Name]; enc != nil {
		if _, frames := modality.Takes(enc); frames > 0 {
			return frames
		}
	}
	return defaultFrames
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
		return fmt.Errorf("%d inputs have %d bytes, limit %d", len(each), maxInputs-left, maxInputs)
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

// read reads an input; room bounds the bytes of a video's frames.
func (s *Senses) read(ctx context.Context, m *Medium, room int64) (err error) {
	switch p := m.Part; {
	case p.Type == abi.Video:
		return s.video(ctx, m, room)
	case m.data != nil:
	case p.Path == "":
		m.data = p.Data
	default:
		if m.data, err = fsx.ReadFile(p.Path, part.MaxInput); err == nil && len(m.data) == 0 {
			err = fmt.Errorf("%s is empty", filepath.Base(p.Path))
		}
	}
	return err
}

// video reads the selected frames of a video.
func (s *Senses) video(ctx context.Context, m *Medium, room int64) error {
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
		err = fmt.Errorf("%d frames of %d × %d exceed the %d bytes left of the limit", n, f.W, f.H, room)
	} else {
		m.frames, err = f.Pick(ctx, n)
	}
	return errors.Join(err, f.Close())
}

// temporal returns how the vectors of frames are combined; "" if the encoder takes
// the whole video.
func (m *Medium) temporal(s *Senses) string {
	if proj := s.Build.Manifests[m.joins.Projector.Name]; m.joins.Modality != abi.Video && proj != nil {
		return proj.Temporal()
	}
	return ""
}

// content returns the parts of the input's key.
func (m *Medium) content() [][]byte {
	out := [][]byte{[]byte(m.Part.Type), m.data}
	for _, f := range m.frames {
		out = append(out, fmt.Appendf(nil, "%d %d %d", f.W, f.H, f.C), f.Pix)
	}
	return out
}

// modality returns the encoder and projector of a modality. A video may use those
// of images, frame by frame. Encoders without a projector do not feed the core.
func (s *Senses) modality(m abi.Modality) (builds.ModalityPart, bool) {
	return modalityOf(s.Build.Assembly, m)
}

func modalityOf(a *builds.Assembly, m abi.Modality) (builds.ModalityPart, bool) {
	all := a.Modalities
	i := slices.IndexFunc(all, func(p builds.ModalityPart) bool { return p.Modality == m && p.Projects() })
	switch {
	case i >= 0:
		return all[i], true
	case m == abi.Video:
		return modalityOf(a, abi.Image)
	}
	return builds.ModalityPart{}, false
}

// named describes an input in errors.
func named(in talk.Part) string {
	what := string(in.Type) + " input"
	if in.Path != "" {
		what += " " + filepath.Base(in.Path)
	}
	return what
}

// Missing returns why an input that is not text cannot be used, or nil.
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
	for _, p := range a.Functions() {
		if p.Type == abi.Encoder && p.Modality == in.Type {
			return &runtimes.Unavailable{What: what, Why: fmt.Sprintf("%s has no projector in %s", p.Name, a.Name), Hint: fmt.Sprintf("mm run BUILD/%s --%s FILE runs %s by itself", p.Name, in.Type, p.Name)}
		}
	}
	return &runtimes.Unavailable{What: what, Why: fmt.Sprintf("%s has no encoder for %s", a.Name, in.Type), Hint: "add one to modalities"}
}
