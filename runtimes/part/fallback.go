package part

import (
	"context"
	"errors"
	"maps"
	"slices"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
)

// Fallback is a part that ran on another engine than the requested one, which
// refused it.
type Fallback struct {
	Part, Requested, Used string // the part's name, the two engines
	Why                   error  // the refusal of the requested one
}

// The keys of a fallback in [Computed].Facts.
const (
	FactInsteadOf = "instead_of" // the requested engine
	FactDevice    = "device"     // the device of the engine that ran: cpu
)

// instead returns the first other engine that can open a part, if the options
// allow a fallback, or nil. It refuses a fallback if mm does not have the requested
// engine, which is a user error, and never chooses an engine that emulates hardware.
func (s *Set) instead(ctx context.Context, p builds.Part, why error) runtimes.Engine {
	requested, _ := s.wish(p)
	if s.opt.Fallback == nil || requested == "" || ctx.Err() != nil || errors.Is(why, runtimes.ErrTime) {
		return nil
	}
	named := func(e runtimes.Engine) bool { return runtimes.Named(e, requested) }
	if !slices.ContainsFunc(s.opt.Engines, named) {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(s.opt.Engines), func(e runtimes.Engine) bool { return named(e) || runtimes.Simulates(e) })
	e, err := runtimes.Select(ctx, others, "", p)
	if err != nil {
		return nil
	}
	f := Fallback{Part: p.Name, Requested: requested, Used: runtimes.Shown(e), Why: why}
	s.mu.Lock()
	_, reported := s.fallen[p.Name]
	s.fallen[p.Name] = f
	s.mu.Unlock()
	if !reported {
		s.opt.Fallback(f)
	}
	return e
}

// facts adds the fallback of a part, if any, to the facts of its model.
func (s *Set) facts(ctx context.Context, p builds.Part, e runtimes.Engine, base map[string]string) (map[string]string, error) {
	s.mu.Lock()
	f, ok := s.fallen[p.Name]
	s.mu.Unlock()
	if !ok {
		return base, nil
	}
	info, err := e.Probe(ctx)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	out[FactInsteadOf] = f.Requested
	if len(info.Devices) > 0 {
		out[FactDevice] = info.Devices[0]
	}
	return out, nil
}
