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
	"errors"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// Input is one of three: a file, a file's bytes, or a tensor as it is.
type Input struct {
	File   string
	Data   []byte
	Tensor *runtimes.Tensor
}

// Options are what a session needs beside the manifest. The zero value is ready.
type Options struct {
	// Path gives the path on disk of one of the module's files, such as its
	// labels, by the name that the manifest gives it; nil: the manifest's own
	// folder.
	Path func(name string) (string, error)
	// MaxBytes is the most bytes of one input file; 0: 256 MiB.
	MaxBytes int64
}

// Session is one stream through a function. Two sessions of one function know
// nothing of each other. It is not safe for concurrent use.
type Session struct {
	fn  runtimes.Function
	m   *modules.Manifest
	opt Options
}

// New makes a session of a function. Without a manifest it takes tensors and
// .npy files as they are, and nothing else. The function stays the caller's to
// close.
func New(fn runtimes.Function, m *modules.Manifest, opt Options) (*Session, error) {
	return &Session{fn: fn, m: m, opt: opt}, nil
}

// Run computes once, or once a window of a long sound. in is keyed by port;
// where one port alone wants something from outside, "" means it.
func (s *Session) Run(ctx context.Context, in map[string]Input) (*Result, error) {
	given := map[string]runtimes.Tensor{}
	for name, v := range in {
		if v.Tensor == nil {
			return nil, errors.New("input is no tensor")
		}
		given[name] = *v.Tensor
	}
	out, err := s.fn.Run(ctx, given)
	if err != nil {
		return nil, err
	}
	return &Result{Outputs: out}, nil
}

// Reset puts the state back to its beginning.
func (s *Session) Reset() {}

// Result is what a run gives.
type Result struct {
	// Outputs are the function's outputs by name, windows joined along time,
	// less those that are state.
	Outputs  map[string]runtimes.Tensor
	Text     string    // of outputs that are read as text
	Labels   []Label   // of outputs that are read as classes, likeliest first
	Segments []Segment // of outputs that are read as spans of time, in order
	// Assumed are what the manifest does not say and was taken for granted, a
	// sentence each.
	Assumed []string
}

// Label is one class with its score.
type Label struct {
	Output string  // that it was read from
	Index  int     // of the class
	Name   string  // its line of the labels file
	Score  float64 // as the output has it, or a probability after softmax
}

// Segment is a span of time in which an output stood over its threshold.
type Segment struct {
	Output     string  // that it was read from
	Start, End float64 // seconds since the session's beginning
	Score      float64 // the highest within
}
