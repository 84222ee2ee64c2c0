// Package part opens the functions of a build (encoders, projectors, decoders)
// and joins them.
//
// A [Set] holds the functions of one build. A part runs on the engine that the
// options or the graph name ([Set.Choose]); another engine is used only if
// Options.Fallback allows it. The first caller opens a [Function], all callers
// share it. [Set.Compute] runs functions on user inputs.
//
// [Connect], [Vectors] and [States] carry tensors from part to part by the ports
// of both manifests. They follow abi.ConnectAll, which joins the ports, and check
// the type, sizes and numbers of each tensor. A batch dimension of one may precede
// the dimensions of a port. Element types change only between floating point
// types, and only if the receiving side declares another type.
//
// A [Step] records one operation of an answer: the part, its engine, the tensors,
// the times, and whether the result was cached. Each step names the steps whose
// results it used, so the steps form a graph, which [DrawSteps] renders.
package part

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
)

// MaxInput bounds an input (image, sound, video) in bytes.
const MaxInput = 256 << 20

// Options selects and limits the engines of the parts.
type Options struct {
	Engines  []runtimes.Engine // in order of preference
	Engine   string            // for the core, or for all parts of a build without a core; "": the graph's, or the first that can
	Backends map[string]string // by the name of a part; they override Engine and the graph
	Limits   runtimes.Limits
	// Fallback, if not nil, allows a part that the requested engine refuses to run
	// on the first other engine that can. It is called once for each such part.
	// Results name both engines.
	Fallback func(Fallback)
}

// Set is the functions of a build. It is safe for concurrent use.
type Set struct {
	build     *builds.Build
	opt       Options
	functions map[string]*Function // by the name of the part

	mu     sync.Mutex
	fallen map[string]Fallback // by the name of the part
}

// Open checks that the engines of Options.Backends are available. It loads nothing.
// A name in Options.Backends that is not a part is a usage error.
func Open(ctx context.Context, b *builds.Build, opt Options) (*Set, error) {
	if err := opt.Limits.Check(); err != nil {
		return nil, err
	}
	if err := checkNames(b.Assembly, opt.Backends); err != nil {
		return nil, err
	}
	s := &Set{build: b, opt: opt, functions: map[string]*Function{}, fallen: map[string]Fallback{}}
	for _, p := range opened(b.Assembly) {
		if !b.Assembly.HasCore() || p.Name != b.Assembly.Core.Name {
			s.functions[p.Name] = &Function{set: s, part: p, manifest: b.Manifests[p.Name], gate: make(chan struct{}, 1)}
		}
	}
	if err := s.checkWishes(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Function returns the function of a part, or nil if the build has none.
func (s *Set) Function(name string) *Function { return s.functions[name] }

// Close frees the functions. They cannot be opened again.
func (s *Set) Close() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.functions)) {
		errs = append(errs, s.functions[name].close())
	}
	return errors.Join(errs...)
}

// unshipped reports a part without files in the target.
func (s *Set) unshipped(p builds.Part) error {
	return &runtimes.Unavailable{What: p.ID(), Why: fmt.Sprintf("target %s ships no file of it", s.build.Assembly.Target), Hint: "add it to the target's onnx list"}
}
