package worker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// open loads the model.
func (s *server) open(ctx context.Context, o *wire.Open) (r wire.Reply, _ error) {
	if o == nil {
		return r, errors.New("missing model to open")
	}
	s.mu.Lock()
	isOpen := s.model != nil
	s.mu.Unlock()
	if isOpen {
		return r, errors.New("a model is already open")
	}
	b := runtimes.Bundle{Part: part(o, o.Path), Files: onDisk{}, Tokens: o.Tokens, KV: o.KV}
	for _, a := range o.Adapters {
		b.Adapters = append(b.Adapters, runtimes.Adapter{Bundle: runtimes.Bundle{Part: part(o, a.Path), Files: onDisk{}}, Scale: a.Scale})
	}
	var m runtimes.Model
	var err error
	if own, ok := s.engine.(Opener); ok {
		m, err = own.OpenOwn(ctx, b, o.Limits, o.Own)
	} else {
		m, err = s.engine.Open(ctx, b, o.Limits)
	}
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	s.model = m
	s.mu.Unlock()
	if l, ok := m.(runtimes.Language); ok {
		shape := l.Shape()
		r.Shape = &shape
	} else if _, ok := m.(runtimes.Function); ok {
		r.Function = true
	} else {
		return r, errors.New("the engine opened neither a language model nor a function")
	}
	return r, nil
}

// Opener is an engine that needs more than the path of a file.
type Opener interface {
	OpenOwn(ctx context.Context, b runtimes.Bundle, l runtimes.Limits, own []byte) (runtimes.Model, error)
}

// Answerer is an engine that answers engine-specific questions, with arguments and
// answers in JSON.
type Answerer interface {
	Answer(ctx context.Context, name string, args []byte) (any, error)
}

// ask answers a question.
func (s *server) ask(ctx context.Context, q *wire.Ask) (r wire.Reply, err error) {
	a, ok := s.engine.(Answerer)
	if !ok || q == nil {
		return r, errors.New("the engine does not answer questions")
	}
	answer, err := a.Answer(ctx, q.Name, q.Args)
	if err == nil {
		r.Answer, err = json.Marshal(answer)
	}
	return r, err
}

func part(o *wire.Open, path string) builds.Part {
	return builds.Part{Name: o.Name, Version: o.Version, Type: o.Type, Files: builds.Formats{string(o.Format): {path}}}
}

// begin creates a sequence.
func (s *server) begin(ctx context.Context, opt *runtimes.SequenceOptions) (r wire.Reply, err error) {
	s.mu.Lock()
	l, ok := s.model.(runtimes.Language)
	s.mu.Unlock()
	if !ok || opt == nil {
		return r, errors.New("no open language model, or missing options")
	}
	q, err := l.NewSequence(ctx, *opt)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for r.Sequence = 1; s.sequences[r.Sequence] != nil; r.Sequence++ {
	}
	s.sequences[r.Sequence] = &heldSequence{Sequence: q}
	return r, nil
}

// onDisk is a set of files named by their paths, which the parent has verified.
type onDisk struct{}

func (onDisk) Open(name string) (*os.File, error) { return os.Open(name) }
func (onDisk) Path(name string) (string, error)   { return name, nil }
func (onDisk) Dir(_ context.Context, names ...string) (string, error) {
	if len(names) == 0 {
		return "", errors.New("no file")
	}
	return filepath.Dir(names[0]), nil
}
