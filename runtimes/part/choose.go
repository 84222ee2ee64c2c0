package part

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
)

// NoPartError says that Options.Backends names a part that no engine opens.
type NoPartError struct {
	Name  string
	Why   string   // "": the build has no such part
	Known []string // the names that would do
}

// Error names the part.
func (e *NoPartError) Error() string {
	if e.Why != "" {
		return e.Why
	}
	return fmt.Sprintf("the build has no part %q that a backend opens", e.Name)
}

// Override is a part that runs on another engine than its graph asks for.
type Override struct {
	Part, Graph, Taken string // the part's name, the two engines
}

// opened are the parts of an assembly that engines open, each module once.
func opened(a *builds.Assembly) []builds.Part {
	var out []builds.Part
	seen := map[string]bool{}
	for _, p := range a.Parts() {
		switch p.Type {
		case abi.DraftCore, abi.Adapter, abi.Skill, abi.Router, abi.Sandbox:
			continue
		}
		if !seen[p.Name] {
			out = append(out, p)
		}
		seen[p.Name] = true
	}
	return out
}

// known reports a name in Options.Backends that is none of the build's.
func known(a *builds.Assembly, backends map[string]string) error {
	var names []string
	for _, p := range opened(a) {
		names = append(names, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		if slices.Contains(names, name) {
			continue
		}
		e := &NoPartError{Name: name, Known: names}
		if a.Draft != nil && a.Draft.Name == name {
			e.Why = fmt.Sprintf("%s drafts for %s and runs on its backend", name, a.Core.Name)
		}
		return e
	}
	return nil
}

// wish is the engine asked for a part, and by whom; "" where nobody asks.
func (s *Set) wish(p builds.Part) (name, by string) {
	if name := s.opt.Backends[p.Name]; name != "" {
		return name, "--backend"
	}
	if s.opt.Engine != "" && (p.Name == s.build.Assembly.Core.Name || !s.build.Assembly.HasCore()) {
		return s.opt.Engine, "--backend"
	}
	return p.Backend, "the graph"
}

// Choose finds the engine of a part: the one asked for and no other, but for
// Options.Fallback, or the first that can.
func (s *Set) Choose(ctx context.Context, p builds.Part) (runtimes.Engine, error) {
	name, by := s.wish(p)
	e, err := runtimes.Select(ctx, s.opt.Engines, name, p)
	if u := (*runtimes.Unavailable)(nil); name != "" && errors.As(err, &u) {
		if other := s.instead(ctx, p, u); other != nil {
			return other, nil
		}
		return nil, &runtimes.Unavailable{What: p.ID(), Why: fmt.Sprintf("%s asks for the backend %s: %v", by, name, u), Hint: u.Hint}
	}
	return e, err
}

// Overrides lists the parts for which the options win over the graph.
func (s *Set) Overrides() []Override {
	var out []Override
	for _, p := range opened(s.build.Assembly) {
		if name, _ := s.wish(p); p.Backend != "" && name != p.Backend {
			out = append(out, Override{p.Name, p.Backend, name})
		}
	}
	return out
}

// asked checks that what the options ask for is there, before anything is
// loaded. What the graph asks for is looked for when the part is needed.
func (s *Set) asked(ctx context.Context) error {
	for _, p := range opened(s.build.Assembly) {
		name, _ := s.wish(p)
		if name == "" || name == p.Backend || s.opt.Backends[p.Name] == "" {
			continue
		}
		if _, err := s.Choose(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
