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

// Made is a picture or a sound that a decoder made of the core's states.
type Made struct {
	Modality abi.Modality
	Part     builds.Part
	Backend  string // as it is shown
	// Simulated is set where the backend stands in for hardware.
	Simulated bool
	Output    string          // the decoder's port
	Tensor    runtimes.Tensor // as the decoder gave it
	Data      []byte          // a PNG or a WAV file
	Rate      int             // samples a second, of a sound
}

// says reports whether a request wants words.
func (r Request) says() bool {
	return len(r.Outputs) == 0 || slices.Contains(r.Outputs, string(abi.Text))
}

// shows are the outputs of a request that are no text, each once, in their
// order.
func (r Request) shows() []abi.Modality {
	var out []abi.Modality
	for _, o := range r.Outputs {
		if m := abi.Modality(o); m != abi.Text && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// decoder is the first of the build for a modality.
func decoder(a *builds.Assembly, m abi.Modality) (builds.DecoderPart, bool) {
	i := slices.IndexFunc(a.Decoders, func(d builds.DecoderPart) bool { return d.Modality == m })
	if i < 0 {
		return builds.DecoderPart{}, false
	}
	return a.Decoders[i], true
}

// makes says why an output cannot be made; nil where it can.
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

// states are the core's, of all positions that a sequence holds of a prompt.
func (s *session) states(engine string, n int) ([]float32, error) {
	h, ok := s.Sequence.(runtimes.Hidden)
	if !ok {
		return nil, &runtimes.Unavailable{What: "output by a decoder", Why: "the " + engine + " backend does not show the core's states", Hint: "--backend core shows them"}
	}
	x, err := h.Hidden(0, n)
	if err != nil {
		return nil, fmt.Errorf("the core's states: %w", err)
	}
	return x, nil
}

// make runs the decoders of a request on the core's states.
func (t *telling) make(ctx context.Context, r *Runner, req Request, states []float32, behind int) error {
	for _, m := range req.shows() {
		d, _ := decoder(r.build.Assembly, m)
		made, s, err := r.decode(ctx, d, req.Preferences.Seed, states, time.Since(t.start))
		if err != nil {
			return fmt.Errorf("making the %s output: %w", m, err)
		}
		s.After = []int{behind}
		t.answer.Trace = append(t.answer.Trace, s)
		t.answer.Made = append(t.answer.Made, *made)
		if !slices.ContainsFunc(t.answer.Backends, func(b Backend) bool { return b.Part == d.Name }) {
			t.answer.Backends = append(t.answer.Backends, Backend{Part: d.Name, Engine: made.Backend, Simulated: made.Simulated})
		}
	}
	return nil
}

// decode makes one output.
func (r *Runner) decode(ctx context.Context, d builds.DecoderPart, seed uint64, states []float32, at time.Duration) (*Made, part.Step, error) {
	f := r.parts.Function(d.Name)
	if f == nil {
		return nil, part.Step{}, fmt.Errorf("%s is no decoder", d.ID())
	}
	load, err := f.Open(ctx)
	if err != nil {
		return nil, part.Step{}, err
	}
	given, err := r.latents(f, d, seed, states)
	if err != nil {
		return nil, part.Step{}, err
	}
	c, err := f.Compute(ctx, given)
	if err != nil {
		return nil, part.Step{}, err
	}
	c.Load = load
	made, err := finish(f, d, c)
	return made, c.Step(part.StepDecode, at, ""), err
}

// latents are the inputs of a decoder: the first takes the core's states, noise
// takes noise of the request's seed, the others a number each, by their names:
// seed, or a parameter of the graph or the manifest.
func (r *Runner) latents(f *part.Function, d builds.DecoderPart, seed uint64, states []float32) (map[string]part.Argument, error) {
	side, width := f.Side(), r.model.Shape().Width
	name, t, err := part.States(side, states, width)
	if err != nil {
		return nil, err
	}
	given := map[string]part.Argument{name: {Input: modality.Input{Tensor: &t}}}
	for _, p := range f.Manifest().Given() {
		switch v, ok := figure(f, d, p.Name); {
		case p.Name == name:
		case p.Name == "noise":
			t, err := part.Fill(side, p, func(n int) []float32 { return part.Noise(seed, n) })
			if err != nil {
				return nil, err
			}
			given[p.Name] = part.Argument{Input: modality.Input{Tensor: &t}}
		case p.Name == "seed":
			given[p.Name] = part.Argument{Numbers: []float64{float64(seed & (1<<31 - 1))}}
		case ok:
			given[p.Name] = part.Argument{Numbers: []float64{v}}
		default:
			return nil, fmt.Errorf("%s takes %s, which is neither the core's states nor noise, and no parameter has its name", d.ID(), p)
		}
	}
	return given, nil
}

// figure is a number that the graph gives a decoder, or the decoder itself.
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

// finish makes a file of what a decoder gave.
func finish(f *part.Function, d builds.DecoderPart, c part.Computed) (*Made, error) {
	port, err := output(f)
	if err != nil {
		return nil, err
	}
	side := f.Side()
	made := &Made{Modality: d.Modality, Part: d.Part, Backend: c.Backend, Simulated: c.Simulated, Output: port.Name}
	if made.Tensor, err = part.Output(side, port, c.Outputs); err != nil {
		return nil, err
	}
	if d.Modality == abi.Image {
		low, high := f.Manifest().Levels()
		made.Data, err = modality.DrawPicture(made.Tensor, low, high)
	} else {
		made.Rate = c.Session.Rate()
		made.Data, err = c.Session.EncodeSound(made.Tensor)
	}
	if err != nil {
		return nil, fmt.Errorf("%s gave %s: %w", d.ID(), port, err)
	}
	return made, nil
}

// output is the port that a decoder's picture or sound comes from: the first
// that is read by nobody.
func output(f *part.Function) (abi.Port, error) {
	m := f.Manifest()
	for _, p := range m.Outputs {
		if _, read := m.Postprocess[p.Name]; !read {
			return p, nil
		}
	}
	return abi.Port{}, errors.New("its manifest names no output")
}
