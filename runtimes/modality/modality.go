// Package modality runs a module's function on images, sounds and arrays.
//
// A [Session] converts files to tensors and back. It prepares inputs by the
// module's preprocess block (core/preprocess), runs a long sound in successive
// windows, carries the inputs of the state block from call to call, and reads
// outputs by the postprocess block: text, labels, segments of time.
// [Result.Assumed] lists what the session assumed because the manifest lacks it.
package modality

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
)

// Input is exactly one of a file, the bytes of a file, a tensor, the frames of a
// video, or samples.
type Input struct {
	File   string
	Data   []byte
	Tensor *runtimes.Tensor
	// Frames are a whole video for an input of [F, H, W, C], or one image for an
	// input of one.
	Frames []*preprocess.Raster
	Sound  *preprocess.Wave
}

// Options configures a session. The zero value is ready.
type Options struct {
	// Path returns the path on disk of a file of the module, such as its labels,
	// by its name in the manifest. If nil, files are in the folder that the
	// manifest was loaded from.
	Path func(name string) (string, error)
	// MaxBytes bounds the bytes of an input file; 0: 256 MiB.
	MaxBytes int64
}

// InputError reports a missing or unexpected input.
type InputError struct {
	Name   string // the name in the call, or the port of a missing input
	Detail string
	Hint   string
}

// Error names the input.
func (e *InputError) Error() string {
	if e.Name == "" {
		return e.Detail
	}
	return fmt.Sprintf("input %q %s", e.Name, e.Detail)
}

// Session is a stream through a function. Sessions of one function are independent.
// A session is not safe for concurrent use.
type Session struct {
	fn        runtimes.Function
	m         *modules.Manifest // nil: tensors only
	opt       Options
	inputs    map[string]onnx.Type // of the file, if it could be read
	labels    map[string][]string  // by file
	constants map[string]runtimes.Tensor
	initial   map[string]runtimes.Tensor // initial state by input
	next      map[string]string          // input → the output with its next value

	stream stream
}

// stream is the state between runs.
type stream struct {
	state   map[string]runtimes.Tensor
	tails   map[string][]float32 // the last samples of a sound, by port
	elapsed float64              // seconds of sound so far
}

// New returns a session of a function. Without a manifest it takes only tensors and
// .npy files. The caller keeps the function and closes it.
func New(fn runtimes.Function, m *modules.Manifest, opt Options) (*Session, error) {
	s := &Session{fn: fn, m: m, opt: opt}
	if s.opt.MaxBytes <= 0 {
		s.opt.MaxBytes = 256 << 20
	}
	if m != nil {
		if s.opt.Path == nil && m.Dir() == "" {
			s.opt.Path = func(name string) (string, error) {
				return "", fmt.Errorf("unknown folder of %s", name)
			}
		}
		if s.opt.Path == nil {
			s.opt.Path = func(name string) (string, error) { return filepath.Join(m.Dir(), filepath.FromSlash(name)), nil }
		}
		if err := s.describe(); err != nil {
			return nil, fmt.Errorf("preparing %s: %w", m.ID(), err)
		}
	}
	s.Reset()
	return s, nil
}

// Reset restores the initial state.
func (s *Session) Reset() {
	s.stream = stream{state: s.initial, tails: map[string][]float32{}}
}

// Run computes once, or once for each window of a long sound. Inputs are keyed by
// port; "" is allowed if only one port has no other source. An error leaves the
// state unchanged.
func (s *Session) Run(ctx context.Context, in map[string]Input) (*Result, error) {
	named, err := s.resolve(in)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	start := time.Now()
	feeds := make(map[string]*feed, len(named))
	windows := 1
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, assumed, err := s.prepare(ctx, name, named[name])
		if err != nil {
			return nil, fmt.Errorf("preparing input %q: %w", name, err)
		}
		if assumed != "" {
			r.Assumed = append(r.Assumed, assumed)
		}
		if n := len(f.windows); n > 1 {
			if windows > 1 && n != windows {
				return nil, &InputError{name, fmt.Sprintf("has %d windows, another has %d", n, windows), "give sounds of one length"}
			}
			windows = n
		}
		feeds[name] = f
	}
	r.Prepare = time.Since(start)
	after := stream{state: maps.Clone(s.stream.state), tails: maps.Clone(s.stream.tails), elapsed: s.stream.elapsed}
	var pieces []map[string]runtimes.Tensor
	for i := range windows {
		inputs, err := s.window(ctx, feeds, i, after.state)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			r.Inputs = inputs
		}
		out, err := s.step(ctx, inputs, after.state)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, out)
	}
	if r.Outputs, err = join(pieces); err != nil {
		return nil, err
	}
	seconds := 0.0
	for name, f := range feeds {
		if f.spec != nil {
			seconds = max(seconds, f.seconds())
			after.tails[name] = f.tail
		}
	}
	if err := s.read(r, s.stream.elapsed, seconds); err != nil {
		return nil, err
	}
	after.elapsed += seconds
	s.stream = after
	return r, nil
}

// window returns the inputs of the function for one window.
func (s *Session) window(ctx context.Context, feeds map[string]*feed, i int, state map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inputs := maps.Clone(s.constants)
	if inputs == nil {
		inputs = map[string]runtimes.Tensor{}
	}
	maps.Copy(inputs, state)
	for name, f := range feeds {
		t, err := f.window(i)
		if err != nil {
			return nil, fmt.Errorf("preparing input %q: %w", name, err)
		}
		inputs[name] = t
	}
	return inputs, nil
}

// step computes one window and advances the state.
func (s *Session) step(ctx context.Context, inputs, state map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	out, err := s.fn.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	for in, from := range s.next {
		t, ok := out[from]
		if !ok {
			return nil, fmt.Errorf("missing output %q, the next value of %q", from, in)
		}
		if was := state[in]; t.Type != was.Type || !slices.Equal(t.Shape, was.Shape) {
			return nil, fmt.Errorf("output %q is %s %v, but it is the next value of %q, %s %v", from, t.Type, t.Shape, in, was.Type, was.Shape)
		}
		state[in] = t
	}
	for _, from := range s.next {
		delete(out, from)
	}
	return out, nil
}

// resolve assigns a port to every input and checks that none is missing.
func (s *Session) resolve(in map[string]Input) (map[string]Input, error) {
	named := maps.Clone(in)
	if s.m == nil {
		if _, ok := in[""]; ok {
			return nil, &InputError{Detail: "input without a name, and the module has no manifest", Hint: "name the input"}
		}
		return named, nil
	}
	ports := s.m.FreeInputs()
	var names []string
	for _, p := range ports {
		names = append(names, p.Name)
	}
	if v, ok := in[""]; ok {
		port, err := s.only(ports, in)
		if err != nil {
			return nil, err
		}
		delete(named, "")
		named[port] = v
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		_, state := s.initial[name]
		_, fixed := s.constants[name]
		if !slices.Contains(names, name) && !state && !fixed {
			return nil, &InputError{name, "is not an input of " + s.m.ID(), "it takes " + list(ports)}
		}
	}
	for _, p := range ports {
		if _, ok := named[p.Name]; !ok {
			return nil, &InputError{p.Name, "is missing", "the module takes " + list(ports)}
		}
	}
	return named, nil
}

// only returns the port of an unnamed input: the only one that takes an image or a
// sound, or the only one without an input.
func (s *Session) only(ports []abi.Port, in map[string]Input) (string, error) {
	var free, media []string
	for _, p := range ports {
		if _, ok := in[p.Name]; ok {
			continue
		}
		free = append(free, p.Name)
		if _, ok := s.m.Preprocess[p.Name]; ok {
			media = append(media, p.Name)
		}
	}
	switch {
	case len(media) == 1:
		return media[0], nil
	case len(free) == 1:
		return free[0], nil
	}
	return "", &InputError{Detail: fmt.Sprintf("input without a name, and %s takes %s", s.m.ID(), list(ports)), Hint: "name the input"}
}

func list(ports []abi.Port) string {
	if len(ports) == 0 {
		return "none"
	}
	var out []string
	for _, p := range ports {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

// Result is the result of a run.
type Result struct {
	// Outputs are the function's outputs by name without those of the state;
	// windows are joined along time.
	Outputs  map[string]runtimes.Tensor
	Text     string    // of outputs that are read as text
	Labels   []Label   // of outputs that are read as classes, most likely first
	Segments []Segment // of outputs that are read as spans of time, in order
	// Inputs are the function's inputs in the first window.
	Inputs map[string]runtimes.Tensor
	// Prepare is the time to convert the inputs to tensors.
	Prepare time.Duration
	// Assumed lists assumptions that the manifest does not settle, a sentence
	// each.
	Assumed []string
}

// Label is one class with its score.
type Label struct {
	Output string  // name of the output
	Index  int     // of the class
	Name   string  // its line of the labels file; "" without one
	Score  float64 // of the output, or a probability after softmax
}

// Segment is a span of time in which an output exceeded its threshold.
type Segment struct {
	Output     string  // name of the output
	Start, End float64 // seconds since the session's beginning
	Score      float64 // the highest within
}
