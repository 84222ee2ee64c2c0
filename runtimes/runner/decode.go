package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
)

// Made is an image or a sound that a decoder generated from the core's states.
type Made struct {
	Modality abi.Modality
	Part     builds.Part
	Backend  string // as results show it
	// Simulated is set if the backend emulates hardware.
	Simulated bool
	Output    string          // the decoder's port
	Tensor    runtimes.Tensor // the decoder's output
	Data      []byte          // a PNG or a WAV file
	Rate      int             // of a sound, in Hz
	Blank     bool            // no content: one color, or silence
}

// wantsText reports whether a request wants text.
func (r Request) wantsText() bool {
	return len(r.Outputs) == 0 || slices.Contains(r.Outputs, string(abi.Text))
}

// shows returns the requested outputs other than text, without duplicates.
func (r Request) shows() []abi.Modality {
	var out []abi.Modality
	for _, o := range r.Outputs {
		if m := abi.Modality(o); m != abi.Text && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// decoder returns the first decoder of the build for a modality.
func decoder(a *builds.Assembly, m abi.Modality) (builds.DecoderPart, bool) {
	i := slices.IndexFunc(a.Decoders, func(d builds.DecoderPart) bool { return d.Modality == m })
	if i < 0 {
		return builds.DecoderPart{}, false
	}
	return a.Decoders[i], true
}

// makes returns why an output cannot be generated, or nil.
func makes(a *builds.Assembly, m abi.Modality) error {
	what := string(m) + " output"
	switch m {
	case abi.Image, abi.Audio:
	default:
		return &runtimes.Unavailable{What: what, Why: "answers are text, images and audio", Hint: "ask for outputs: [text]"}
	}
	d, ok := decoder(a, m)
	if !ok {
		return &runtimes.Unavailable{What: what, Why: fmt.Sprintf("%s has no decoder for %s", a.Name, m), Hint: "add one to decoders"}
	}
	if len(d.Files) == 0 {
		return &runtimes.Unavailable{What: what, Why: fmt.Sprintf("target %s ships no file of %s", a.Target, d.ID()), Hint: "add it to the target's onnx list"}
	}
	return nil
}

// states returns the core's states of the first n positions, which are a prompt.
func (s *session) states(engine string, n int) ([]float32, error) {
	h, ok := s.Sequence.(runtimes.Hidden)
	if !ok {
		return nil, &runtimes.Unavailable{What: "output by a decoder", Why: "the " + engine + " backend does not provide the core's states", Hint: "--backend core provides them"}
	}
	x, err := h.Hidden(0, n)
	if err != nil {
		return nil, fmt.Errorf("reading the core's states: %w", err)
	}
	return x, nil
}

// make runs the requested decoders on the core's states.
func (t *telling) make(ctx context.Context, r *Runner, req Request, states []float32, prev int) error {
	for _, m := range req.shows() {
		d, _ := decoder(r.build.Assembly, m)
		out, s, err := r.decode(ctx, d, req.Preferences.Seed, states, time.Since(t.start))
		if err != nil {
			return fmt.Errorf("generating the %s output: %w", m, err)
		}
		s.After = []int{prev}
		t.answer.Trace = append(t.answer.Trace, s)
		t.answer.Made = append(t.answer.Made, *out)
		if !slices.ContainsFunc(t.answer.Backends, func(b Backend) bool { return b.Part == d.Name }) {
			t.answer.Backends = append(t.answer.Backends, Backend{Part: d.Name, Engine: out.Backend, Simulated: out.Simulated})
		}
	}
	return nil
}

// decode generates one output.
func (r *Runner) decode(ctx context.Context, d builds.DecoderPart, seed uint64, states []float32, at time.Duration) (*Made, part.Step, error) {
	f := r.parts.Function(d.Name)
	if f == nil {
		return nil, part.Step{}, fmt.Errorf("%s is not a decoder", d.ID())
	}
	load, err := f.Open(ctx)
	if err != nil {
		return nil, part.Step{}, err
	}
	args, err := r.latents(f, d, seed, states)
	if err != nil {
		return nil, part.Step{}, err
	}
	c, err := f.Compute(ctx, args)
	if err != nil {
		return nil, part.Step{}, err
	}
	c.Load = load
	out, err := finish(f, d, c)
	return out, c.Step(part.StepDecode, at, ""), err
}

// latents returns the inputs of a decoder: the first is the core's states, a port named
// noise is noise of the request's seed, and the others are one number each: seed, or the
// parameter of that name in the graph or the manifest.
func (r *Runner) latents(f *part.Function, d builds.DecoderPart, seed uint64, states []float32) (map[string]part.Argument, error) {
	side, width := f.Side(), r.model.Shape().Width
	name, t, err := part.States(side, states, width)
	if err != nil {
		return nil, err
	}
	args := map[string]part.Argument{name: {Input: modality.Input{Tensor: &t}}}
	for _, p := range f.Manifest().FreeInputs() {
		switch v, ok := figure(f, d, p.Name); {
		case p.Name == name:
		case p.Name == "noise":
			t, err := part.Fill(side, p, func(n int) []float32 { return part.Noise(seed, n) })
			if err != nil {
				return nil, err
			}
			args[p.Name] = part.Argument{Input: modality.Input{Tensor: &t}}
		case p.Name == "seed":
			args[p.Name] = part.Argument{Numbers: []float64{float64(seed & (1<<31 - 1))}}
		case ok:
			args[p.Name] = part.Argument{Numbers: []float64{v}}
		default:
			return nil, fmt.Errorf("%s: unknown input %s: not the core's states, noise or a parameter", d.ID(), p)
		}
	}
	return args, nil
}

// figure returns a parameter of the graph or the manifest.
func figure(f *part.Function, d builds.DecoderPart, name string) (float64, bool) {
	for _, params := range []map[string]any{d.Params, f.Manifest().Params} {
		switch v := params[name].(type) {
		case float64:
			return v, true
		case bool:
			if v {
				return 1, true
			}
			return 0, true
		}
	}
	return 0, false
}

// finish encodes the output of a decoder as a file.
func finish(f *part.Function, d builds.DecoderPart, c part.Computed) (*Made, error) {
	port, err := output(f)
	if err != nil {
		return nil, err
	}
	side := f.Side()
	out := &Made{Modality: d.Modality, Part: d.Part, Backend: c.Backend, Simulated: c.Simulated, Output: port.Name}
	if out.Tensor, err = part.Output(side, port, c.Outputs); err != nil {
		return nil, err
	}
	if d.Modality == abi.Image {
		low, high := f.Manifest().Levels()
		out.Data, err = modality.DrawPicture(out.Tensor, low, high)
	} else {
		out.Rate = c.Session.Rate()
		out.Data, err = c.Session.EncodeSound(out.Tensor)
	}
	if err == nil {
		out.Blank, err = blank(out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: output %s: %w", d.ID(), port, err)
	}
	return out, nil
}

// output returns the port of a decoder's image or sound: the first without postprocessing.
func output(f *part.Function) (abi.Port, error) {
	m := f.Manifest()
	for _, p := range m.Outputs {
		if _, read := m.Postprocess[p.Name]; !read {
			return p, nil
		}
	}
	return abi.Port{}, errors.New("the manifest has no output")
}
