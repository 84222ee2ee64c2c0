// Package modality runs a module's function on what people have: pictures,
// sounds, arrays.
//
// A [Session] stands between files and tensors. What goes in is prepared as the
// module's preprocess block says (core/preprocess); a long sound goes through in
// windows, one after another, and what the state block names is carried from
// call to call; what comes out is read as the postprocess block says: a text,
// labels, segments of time. What the manifest does not say and the session took
// for granted is told ([Result.Assumed]).
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

// Input is one of these: a file, a file's bytes, a tensor as it is, the pictures
// of a film, or samples.
type Input struct {
	File   string
	Data   []byte
	Tensor *runtimes.Tensor
	// Frames are a film for an input that takes all of it, [F, H, W, C], or one
	// picture for an input that takes one.
	Frames []*preprocess.Raster
	Sound  *preprocess.Wave
}

// Options are what a session needs beside the manifest. The zero value is ready.
type Options struct {
	// Path gives the path on disk of one of the module's files, such as its
	// labels, by the name that the manifest gives it; nil: in the folder that
	// the manifest was loaded from.
	Path func(name string) (string, error)
	// MaxBytes is the most bytes of one input file; 0: 256 MiB.
	MaxBytes int64
}

// InputError says that an input is missing, or is none of the module's.
type InputError struct {
	Name   string // as it was given; the port's where it is missing
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

// Session is one stream through a function. Two sessions of one function know
// nothing of each other. It is not safe for concurrent use.
type Session struct {
	fn        runtimes.Function
	m         *modules.Manifest // nil: tensors alone
	opt       Options
	inputs    map[string]onnx.Type // the file's own, where it could be asked
	labels    map[string][]string  // by file
	constants map[string]runtimes.Tensor
	initial   map[string]runtimes.Tensor // state by input, at the beginning
	next      map[string]string          // input → the output that gives its next value

	stream stream
}

// stream is what one run leaves to the next.
type stream struct {
	state   map[string]runtimes.Tensor
	tails   map[string][]float32 // the last samples of a sound, by port
	elapsed float64              // seconds of sound so far
}

// New makes a session of a function. Without a manifest it takes tensors and
// .npy files as they are, and nothing else. The function stays the caller's to
// close.
func New(fn runtimes.Function, m *modules.Manifest, opt Options) (*Session, error) {
	s := &Session{fn: fn, m: m, opt: opt}
	if s.opt.MaxBytes <= 0 {
		s.opt.MaxBytes = 256 << 20
	}
	if m != nil {
		if s.opt.Path == nil && m.Dir() == "" {
			s.opt.Path = func(name string) (string, error) {
				return "", fmt.Errorf("nothing says where %s lies", name)
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

// Reset puts the state back to its beginning.
func (s *Session) Reset() {
	s.stream = stream{state: s.initial, tails: map[string][]float32{}}
}

// Run computes once, or once a window of a long sound. in is keyed by port;
// where one port alone wants something from outside, "" means it. After an
// error the state is what it was before.
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
		given, err := s.window(ctx, feeds, i, after.state)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			r.Inputs = given
		}
		out, err := s.step(ctx, given, after.state)
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

// window is what the function is given for one window.
func (s *Session) window(ctx context.Context, feeds map[string]*feed, i int, state map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	given := maps.Clone(s.constants)
	if given == nil {
		given = map[string]runtimes.Tensor{}
	}
	maps.Copy(given, state)
	for name, f := range feeds {
		t, err := f.window(i)
		if err != nil {
			return nil, fmt.Errorf("preparing input %q: %w", name, err)
		}
		given[name] = t
	}
	return given, nil
}

// step computes one window and moves the state on.
func (s *Session) step(ctx context.Context, given, state map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	out, err := s.fn.Run(ctx, given)
	if err != nil {
		return nil, err
	}
	for in, from := range s.next {
		t, ok := out[from]
		if !ok {
			return nil, fmt.Errorf("the function gives no %q, the next value of %q", from, in)
		}
		if was := state[in]; t.Type != was.Type || !slices.Equal(t.Shape, was.Shape) {
			return nil, fmt.Errorf("%q is %s %v, the next value of %q, which is %s %v", from, t.Type, t.Shape, in, was.Type, was.Shape)
		}
		state[in] = t
	}
	for _, from := range s.next {
		delete(out, from)
	}
	return out, nil
}

// resolve gives every input the name of a port and sees that none is missing.
func (s *Session) resolve(in map[string]Input) (map[string]Input, error) {
	named := maps.Clone(in)
	if s.m == nil {
		if _, ok := in[""]; ok {
			return nil, &InputError{Detail: "an input without a name, and nothing says what the function takes", Hint: "name the input"}
		}
		return named, nil
	}
	given := s.m.Given()
	var wanted []string
	for _, p := range given {
		wanted = append(wanted, p.Name)
	}
	if v, ok := in[""]; ok {
		port, err := s.only(given, in)
		if err != nil {
			return nil, err
		}
		delete(named, "")
		named[port] = v
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		_, state := s.initial[name]
		_, fixed := s.constants[name]
		if !slices.Contains(wanted, name) && !state && !fixed {
			return nil, &InputError{name, "is none of " + s.m.ID() + "'s", "it takes " + list(given)}
		}
	}
	for _, p := range given {
		if _, ok := named[p.Name]; !ok {
			return nil, &InputError{p.Name, "is missing", "the module takes " + list(given)}
		}
	}
	return named, nil
}

// only is the port that an input without a name means: the one that wants a
// picture or a sound, or the only one that nothing else was given for.
func (s *Session) only(given []abi.Port, in map[string]Input) (string, error) {
	var free, media []string
	for _, p := range given {
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
	return "", &InputError{Detail: fmt.Sprintf("an input without a name, and %s takes %s", s.m.ID(), list(given)), Hint: "name the input"}
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

// Result is what a run gives.
type Result struct {
	// Outputs are the function's outputs by name, windows joined along time,
	// less those that are state.
	Outputs  map[string]runtimes.Tensor
	Text     string    // of outputs that are read as text
	Labels   []Label   // of outputs that are read as classes, likeliest first
	Segments []Segment // of outputs that are read as spans of time, in order
	// Inputs are what the function was given, of the first window.
	Inputs map[string]runtimes.Tensor
	// Prepare is how long it took to make tensors of the inputs.
	Prepare time.Duration
	// Assumed are what the manifest does not say and was taken for granted, a
	// sentence each.
	Assumed []string
}

// Label is one class with its score.
type Label struct {
	Output string  // that it was read from
	Index  int     // of the class
	Name   string  // its line of the labels file; "" without one
	Score  float64 // as the output has it, or a probability after softmax
}

// Segment is a span of time in which an output stood over its threshold.
type Segment struct {
	Output     string  // that it was read from
	Start, End float64 // seconds since the session's beginning
	Score      float64 // the highest within
}
