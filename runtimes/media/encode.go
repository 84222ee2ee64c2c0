package media

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
)

// Encoded is an input that is being encoded.
type Encoded struct {
	Medium
	done chan struct{}

	// Valid once done is closed.
	Held
	Steps []part.Step
	err   error
}

// Ready reports whether the vectors are available.
func (e *Encoded) Ready() bool {
	select {
	case <-e.done:
		return e.err == nil
	default:
		return false
	}
}

// Wait waits for the vectors.
func (e *Encoded) Wait(ctx context.Context) error {
	select {
	case <-e.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.err != nil {
		return fmt.Errorf("encoding the %s input: %w", e.Part.Type, e.err)
	}
	return nil
}

// Encoding is the inputs of an answer that are being encoded concurrently.
type Encoding struct {
	Inputs []*Encoded // one for each placeholder of the prompt; equal contents share one
	cancel context.CancelFunc
	work   sync.WaitGroup
	Start  time.Time // of the first
}

// Encode starts to encode inputs that were read, at most as many at a time as there
// are cores. Cached inputs are ready immediately.
func (s *Senses) Encode(ctx context.Context, media []Medium) *Encoding {
	ctx, cancel := context.WithCancel(ctx)
	c := &Encoding{cancel: cancel, Start: time.Now()}
	lanes := make(chan struct{}, pool.Default())
	same := map[Key]*Encoded{}
	for _, m := range media {
		k := m.key
		if e := same[k]; e != nil {
			c.Inputs = append(c.Inputs, e)
			continue
		}
		e := &Encoded{Medium: m, done: make(chan struct{})}
		same[k], c.Inputs = e, append(c.Inputs, e)
		if held, ok := s.memory.Get(k); ok {
			e.Held, e.Steps = held, []part.Step{recalled(e, held.Vectors, "memory", 0)}
			close(e.done)
			continue
		}
		c.work.Go(func() {
			defer close(e.done)
			select {
			case lanes <- struct{}{}:
				defer func() { <-lanes }()
			case <-ctx.Done():
				e.err = ctx.Err()
				return
			}
			began := time.Since(c.Start)
			v, err := s.vectors(ctx, e, c.Start)
			if err == nil {
				e.Held = s.memory.Put(k, v)
			} else if e.Steps == nil { // record that it was started
				e.Steps = []part.Step{{What: part.StepEncode, Part: e.joins.Encoder.Name, Note: e.name() + ", incomplete", Start: began, Run: time.Since(c.Start) - began}}
			}
			e.err = err
		})
	}
	return c
}

// End cancels what is running and waits for it.
func (c *Encoding) End() {
	if c.cancel != nil {
		c.cancel()
	}
	c.work.Wait()
}

// vectors returns the vectors of an input, from disk or by encoder and projector.
func (s *Senses) vectors(ctx context.Context, e *Encoded, since time.Time) (Vectors, error) {
	enc, proj := s.Parts.Function(e.joins.Encoder.Name), s.Parts.Function(e.joins.Projector.Name)
	if enc == nil || proj == nil { // an inconsistent assembly
		return Vectors{}, fmt.Errorf("%s and %s are not an encoder and a projector", e.joins.Encoder.ID(), e.joins.Projector.ID())
	}
	began := time.Since(since)
	stored, err := s.stored(ctx, enc, proj, e)
	if err != nil {
		return Vectors{}, err
	}
	if s.Features != nil {
		if v, ok := s.Features.Get(stored); ok {
			e.Steps = []part.Step{recalled(e, v, "disk", began)}
			return v, nil
		}
	}
	v, err := e.through(ctx, enc, proj, since)
	if err == nil && s.Features != nil {
		// Best effort: without an entry they are computed again.
		_ = s.Features.Put(ctx, stored, v)
	}
	return v, err
}

// stored returns the key of an input's vectors on disk.
func (s *Senses) stored(ctx context.Context, enc, proj *part.Function, e *Encoded) (Key, error) {
	if s.Features == nil {
		return Key{}, nil
	}
	revision := ""
	if s.Revision != nil {
		var err error
		if revision, err = s.Revision(); err != nil {
			return Key{}, err
		}
	}
	parts := [][]byte{[]byte("vectors 1"), []byte(revision), e.key[:], []byte(fmt.Sprint(e.Places))}
	for _, f := range []*part.Function{enc, proj} {
		sum, err := f.Identity(ctx)
		if err != nil {
			return Key{}, err
		}
		parts = append(parts, sum)
	}
	return NewKey(parts...), nil
}

// through runs an input through encoder and projector: as a whole, or a video frame
// by frame and a long sound piece by piece, whose vectors are combined.
func (e *Encoded) through(ctx context.Context, enc, proj *part.Function, since time.Time) (v Vectors, err error) {
	pieces, err := e.pieces(ctx, enc)
	if err != nil {
		return v, err
	}
	lists := make([][]float32, len(pieces))
	for i, in := range pieces {
		if i > 0 && len(in.Frames) == 1 && in.Frames[0] == pieces[i-1].Frames[0] { // a video of few frames repeats them
			lists[i] = lists[i-1]
			continue
		}
		if lists[i], v.Width, err = e.piece(ctx, enc, proj, in, since, &v); err != nil {
			return v, err
		}
	}
	if len(lists) == 1 && e.mosaic == nil {
		v.Numbers = lists[0]
		return v, nil
	}
	began, rule := time.Since(since), "mean"
	switch how := proj.Manifest().Temporal(); {
	case e.frames != nil && how == modules.TemporalMean:
		v.Numbers, err = part.Mean(lists)
	case e.frames != nil && how == modules.TemporalHalves:
		rule = "the means of either half"
		if v.Numbers, err = part.Halves(lists); err == nil {
			v.Numbers = part.Pool(v.Numbers, v.Width, e.Places)
		}
	case e.mosaic != nil:
		rule = "as one image"
		v.Numbers, err = e.mosaic.join(lists, v.Width)
	case e.Runs > 1 && len(lists) > 1:
		rule = "tile by tile"
		v.Numbers = slices.Concat(lists...)
	default:
		rule = "one behind the other"
		v.Numbers = part.Pool(slices.Concat(lists...), v.Width, e.Places)
	}
	e.Steps = append(e.Steps, part.Step{
		What: part.StepPool, Part: proj.Part().Name, Backend: "mm", Note: fmt.Sprintf("%d of %s, %s", len(lists), e.Part.Type, rule),
		Out: shaped(v), After: []int{len(e.Steps) - 1}, Start: began, Run: time.Since(since) - began,
	})
	return v, err
}

// pieces returns the inputs of the encoder, one for each call.
func (e *Encoded) pieces(ctx context.Context, enc *part.Function) ([]modality.Input, error) {
	m := enc.Manifest()
	if e.frames != nil {
		if all, _ := modality.Takes(m); all {
			return []modality.Input{{Frames: e.frames}}, nil
		}
		var out []modality.Input
		for _, f := range e.frames {
			out = append(out, modality.Input{Frames: []*preprocess.Raster{f}})
		}
		return out, nil
	}
	if spec := divided(m, func(s *preprocess.Spec) bool { return s.Tiles != nil }); spec != nil && preprocess.IsImage(e.data) {
		return e.tiles(ctx, spec)
	}
	if m == nil || m.WindowMS() == 0 || !preprocess.IsSound(e.data) {
		return []modality.Input{{Data: e.data}}, nil
	}
	w, err := preprocess.DecodeSound(e.data)
	if err != nil {
		return nil, err
	}
	waves, err := modality.Pieces(w, m.WindowMS())
	if err != nil {
		return nil, err
	}
	var out []modality.Input
	for _, w := range waves {
		out = append(out, modality.Input{Sound: w})
	}
	return out, nil
}

// piece returns the vectors of one piece. All pieces share one pair of steps.
func (e *Encoded) piece(ctx context.Context, enc, proj *part.Function, in modality.Input, since time.Time, v *Vectors) ([]float32, int, error) {
	began := time.Since(since)
	first, err := enc.Compute(ctx, map[string]part.Argument{"": {Input: in}})
	if err != nil {
		return nil, 0, err
	}
	between := time.Since(since)
	second, err := proj.Project(ctx, enc, first.Outputs)
	if err != nil {
		return nil, 0, err
	}
	for _, text := range first.Assumed {
		if !slices.Contains(v.Assumed, text) {
			v.Assumed = append(v.Assumed, text)
		}
	}
	a, b := first.Step(part.StepEncode, began, e.name()), second.Step(part.StepProject, between, "")
	if len(e.Steps) == 0 {
		b.After = []int{0}
		e.Steps = []part.Step{a, b}
	} else {
		for i, more := range []part.Step{a, b} {
			e.Steps[i].Run += more.Run
			e.Steps[i].Prepare += more.Prepare
		}
	}
	return part.Vectors(proj.Side(), second.Outputs, e.joins.TCap*max(e.calls, 1))
}

// Parts returns the names of the encoder and the projector.
func (e *Encoded) Parts() []string { return []string{e.joins.Encoder.Name, e.joins.Projector.Name} }

// name returns the input's name in a trace.
func (e *Encoded) name() string {
	if e.Part.Path != "" {
		return filepath.Base(e.Part.Path)
	}
	if e.frames != nil {
		return fmt.Sprintf("%d frames", len(e.frames))
	}
	return fmt.Sprintf("%d bytes", len(e.data))
}

func shaped(v Vectors) []part.TensorInfo {
	return []part.TensorInfo{{DType: "fp32", Shape: []int64{int64(len(v.Numbers) / v.Width), int64(v.Width)}}}
}

// recalled returns the step of cached vectors.
func recalled(e *Encoded, v Vectors, where string, at time.Duration) part.Step {
	return part.Step{
		What: part.StepRecall, Part: e.joins.Projector.Name, Cached: where, Note: e.name(), Start: at,
		Out: shaped(v),
	}
}
