package part

import (
	"context"
	"errors"
	"maps"
	"slices"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
)

// Fallback is a part that ran on another engine than the one asked for, because
// that one did not take it.
type Fallback struct {
	Part, Asked, Taken string // the part's name, the two engines
	Why                error  // what the one asked for said
}

// The keys of [Computed].Facts by which a result names a fallback.
const (
	FactInsteadOf = "instead_of" // the engine that was asked for
	FactDevice    = "device"     // where the one taken computes: cpu
)

// instead is the first engine beside the one asked for that takes a part, where
// the options allow one; else nothing. An engine that mm does not have is a
// mistake in the asking, and what stands in for hardware is in nothing's place.
func (s *Set) instead(ctx context.Context, p builds.Part, why error) runtimes.Engine {
	asked, _ := s.wish(p)
	if s.opt.Fallback == nil || asked == "" || ctx.Err() != nil || errors.Is(why, runtimes.ErrTime) {
		return nil
	}
	named := func(e runtimes.Engine) bool { return runtimes.Named(e, asked) }
	if !slices.ContainsFunc(s.opt.Engines, named) {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(s.opt.Engines), func(e runtimes.Engine) bool { return named(e) || runtimes.Simulates(e) })
	e, err := runtimes.Select(ctx, others, "", p)
	if err != nil {
		return nil
	}
	f := Fallback{Part: p.Name, Asked: asked, Taken: runtimes.Shown(e), Why: why}
	s.mu.Lock()
	_, told := s.fallen[p.Name]
	s.fallen[p.Name] = f
	s.mu.Unlock()
	if !told {
		s.opt.Fallback(f)
	}
	return e
}

// facts adds to what a model says of itself that it runs in another engine's
// place.
func (s *Set) facts(ctx context.Context, p builds.Part, e runtimes.Engine, own map[string]string) (map[string]string, error) {
	s.mu.Lock()
	f, ok := s.fallen[p.Name]
	s.mu.Unlock()
	if !ok {
		return own, nil
	}
	info, err := e.Probe(ctx)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(own)
	if out == nil {
		out = map[string]string{}
	}
	out[FactInsteadOf] = f.Asked
	if len(info.Devices) > 0 {
		out[FactDevice] = info.Devices[0]
	}
	return out, nil
}
