package runner

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
	"mm-abi.org/mm/runtimes/feature"
	"mm-abi.org/mm/runtimes/joint"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/trace"
)

// encoded is an input in the course of becoming vectors.
type encoded struct {
	medium
	key  feature.Key // of what it is, for this build
	done chan struct{}

	// Once done is closed.
	feature.Held
	steps []trace.Step
	err   error
}

// ready reports whether the vectors are there already.
func (e *encoded) ready() bool {
	select {
	case <-e.done:
		return e.err == nil
	default:
		return false
	}
}

// wait gives the vectors, or why there are none.
func (e *encoded) wait(ctx context.Context) error {
	select {
	case <-e.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.err != nil {
		return fmt.Errorf("reading the %s input: %w", e.part.Type, e.err)
	}
	return nil
}

// encoding is the inputs of one answer, on their way beside each other and
// beside the core.
type encoding struct {
	inputs []*encoded // one for each hole of the prompt; the same content stands twice
	cancel context.CancelFunc
	work   sync.WaitGroup
	start  time.Time
}

// encode starts to encode inputs, as many at a time as there are cores. What is
// remembered is ready at once.
func (r *Runner) encode(ctx context.Context, media []medium) *encoding {
	ctx, cancel := context.WithCancel(ctx)
	c := &encoding{cancel: cancel, start: time.Now()}
	lanes := make(chan struct{}, pool.Default())
	same := map[feature.Key]*encoded{}
	for _, m := range media {
		k := feature.NewKey(m.content()...)
		if e := same[k]; e != nil {
			c.inputs = append(c.inputs, e)
			continue
		}
		e := &encoded{medium: m, key: k, done: make(chan struct{})}
		same[k], c.inputs = e, append(c.inputs, e)
		if held, ok := r.memory.Get(k); ok {
			e.Held, e.steps = held, []trace.Step{recalled(e, held.Vectors, "memory", 0)}
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
			var v feature.Vectors
			if v, e.err = r.vectors(ctx, e, c.start); e.err == nil {
				e.Held = r.memory.Put(k, v)
			}
		})
	}
	return c
}

// end stops what is still on its way and waits for it.
func (c *encoding) end() {
	c.cancel()
	c.work.Wait()
}

// vectors gives the vectors of an input: those on disk, or what encoder and
// projector make of it.
func (r *Runner) vectors(ctx context.Context, e *encoded, since time.Time) (feature.Vectors, error) {
	enc, proj := r.parts.Function(e.joins.Encoder.Name), r.parts.Function(e.joins.Projector.Name)
	if enc == nil || proj == nil { // an assembly that calls them something else
		return feature.Vectors{}, fmt.Errorf("%s and %s are no encoder and projector", e.joins.Encoder.ID(), e.joins.Projector.ID())
	}
	began := time.Since(since)
	stored, err := r.stored(ctx, enc, proj, e)
	if err != nil {
		return feature.Vectors{}, err
	}
	if r.opt.Features != nil {
		if v, ok := r.opt.Features.Get(stored); ok && len(v.Numbers)/v.Width <= e.places {
			e.steps = []trace.Step{recalled(e, v, "disk", began)}
			return v, nil
		}
	}
	v, err := e.through(ctx, enc, proj, since)
	if err == nil && r.opt.Features != nil {
		// Nobody waits for it: where it cannot be kept it is computed again.
		_ = r.opt.Features.Put(ctx, stored, v)
	}
	return v, err
}

// stored is the key of an input's vectors on disk: all that they depend on.
func (r *Runner) stored(ctx context.Context, enc, proj *part.Function, e *encoded) (feature.Key, error) {
	if r.opt.Features == nil {
		return feature.Key{}, nil
	}
	parts := [][]byte{[]byte("vectors 1"), []byte(r.opt.Revision), e.key[:], []byte(fmt.Sprint(e.places))}
	for _, f := range []*part.Function{enc, proj} {
		sum, err := f.Identity(ctx)
		if err != nil {
			return feature.Key{}, err
		}
		parts = append(parts, sum)
	}
	return feature.NewKey(parts...), nil
}

// through takes an input through its encoder and its projector: whole, or a film
// frame by frame and a long sound piece by piece, whose vectors become one list.
func (e *encoded) through(ctx context.Context, enc, proj *part.Function, since time.Time) (v feature.Vectors, err error) {
	pieces, err := e.pieces(enc)
	if err != nil {
		return v, err
	}
	lists := make([][]float32, len(pieces))
	for i, in := range pieces {
		if i > 0 && len(in.Frames) == 1 && in.Frames[0] == pieces[i-1].Frames[0] { // a film of few frames
			lists[i] = lists[i-1]
			continue
		}
		if lists[i], v.Width, err = e.piece(ctx, enc, proj, in, since, &v); err != nil {
			return v, err
		}
	}
	if len(lists) == 1 {
		v.Numbers = lists[0]
		return v, nil
	}
	began, rule := time.Since(since), "mean"
	if e.frames != nil && proj.Manifest().Temporal() == modules.TemporalMean {
		v.Numbers, err = joint.Mean(lists)
	} else {
		rule = "one behind the other"
		v.Numbers = joint.Pool(slices.Concat(lists...), v.Width, e.places)
	}
	e.steps = append(e.steps, trace.Step{
		What: trace.Pool, Part: proj.Part().Name, Backend: "mm", Note: fmt.Sprintf("%d of %s, %s", len(lists), e.medium.part.Type, rule),
		Out: shaped(v), After: []int{len(e.steps) - 1}, Start: began, Run: time.Since(since) - began,
	})
	return v, err
}

// pieces are what the encoder is given, one call each.
func (e *encoded) pieces(enc *part.Function) ([]modality.Input, error) {
	m := enc.Manifest()
	if e.frames != nil {
		if whole, _ := modality.Takes(m); whole {
			return []modality.Input{{Frames: e.frames}}, nil
		}
		var out []modality.Input
		for _, f := range e.frames {
			out = append(out, modality.Input{Frames: []*preprocess.Raster{f}})
		}
		return out, nil
	}
	if m == nil || m.WindowMS() == 0 || !preprocess.IsWAV(e.data) {
		return []modality.Input{{Data: e.data}}, nil
	}
	w, err := preprocess.DecodeWAV(e.data)
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

// piece is the vectors of one piece. The trace tells of all pieces as one.
func (e *encoded) piece(ctx context.Context, enc, proj *part.Function, in modality.Input, since time.Time, v *feature.Vectors) ([]float32, int, error) {
	began := time.Since(since)
	first, err := enc.Compute(ctx, map[string]part.Given{"": {Input: in}})
	if err != nil {
		return nil, 0, err
	}
	between := time.Since(since)
	second, err := proj.Behind(ctx, enc, first.Outputs)
	if err != nil {
		return nil, 0, err
	}
	for _, text := range first.Assumed {
		if !slices.Contains(v.Assumed, text) {
			v.Assumed = append(v.Assumed, text)
		}
	}
	a, b := step(trace.Encode, first, began, e.name()), step(trace.Project, second, between, "")
	if len(e.steps) == 0 {
		b.After = []int{0}
		e.steps = []trace.Step{a, b}
	} else {
		for i, more := range []trace.Step{a, b} {
			e.steps[i].Run += more.Run
			e.steps[i].Prepare += more.Prepare
		}
	}
	return joint.Vectors(proj.Side(), second.Outputs, e.joins.TCap)
}

// name is what the input is called in a trace.
func (e *encoded) name() string {
	if e.medium.part.Path != "" {
		return filepath.Base(e.medium.part.Path)
	}
	if e.frames != nil {
		return fmt.Sprintf("%d frames", len(e.frames))
	}
	return fmt.Sprintf("%d bytes", len(e.data))
}

func shaped(v feature.Vectors) []trace.Tensor {
	return []trace.Tensor{{DType: "fp32", Shape: []int64{int64(len(v.Numbers) / v.Width), int64(v.Width)}}}
}

// recalled is the step of vectors that were known.
func recalled(e *encoded, v feature.Vectors, where string, at time.Duration) trace.Step {
	return trace.Step{
		What: trace.Recall, Part: e.joins.Projector.Name, Cached: where, Note: e.name(), Start: at,
		Out: shaped(v),
	}
}

// step is what a function did.
func step(what string, c part.Computed, at time.Duration, note string) trace.Step {
	return trace.Step{
		What: what, Part: c.Part.Name, Backend: c.Backend, Note: note, In: trace.Tensors(c.Inputs), Out: trace.Tensors(c.Outputs),
		Start: at, Load: c.Load, Prepare: c.Prepare, Run: c.Run - c.Prepare,
	}
}
