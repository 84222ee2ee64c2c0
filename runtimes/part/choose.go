package part

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
)

// Override is a part whose options override the engine of its graph.
type Override struct {
	Part, Graph, Used string // the part's name, the two engines
}

// opened returns the parts of an assembly that engines open, each module once.
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

// checkNames reports a name in Options.Backends that is not a part of the build.
func checkNames(a *builds.Assembly, backends map[string]string) error {
	var names []string
	for _, p := range opened(a) {
		names = append(names, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		if slices.Contains(names, name) {
			continue
		}
		why := fmt.Sprintf("unknown part %q in the build", name)
		if a.Draft != nil && a.Draft.Name == name {
			why = fmt.Sprintf("%s drafts for %s and runs on its backend", name, a.Core.Name)
		}
		return diag.Usage(diag.Hinted(fmt.Errorf("--backend: %s", why), diag.Suggest(name, names, "known: "+strings.Join(names, ", "))))
	}
	return nil
}

// wish returns the requested engine of a part and who requests it; name is "" if
// none is requested.
func (s *Set) wish(p builds.Part) (name, by string) {
	if name := s.opt.Backends[p.Name]; name != "" {
		return name, "--backend"
	}
	if s.opt.Engine != "" && (p.Name == s.build.Assembly.Core.Name || !s.build.Assembly.HasCore()) {
		return s.opt.Engine, "--backend"
	}
	return p.Backend, "the graph"
}

// Choose returns the engine of a part: the requested one, or another only if
// Options.Fallback allows it; without a request, the first that can open the part.
func (s *Set) Choose(ctx context.Context, p builds.Part) (runtimes.Engine, error) {
	name, by := s.wish(p)
	e, err := runtimes.Select(ctx, s.opt.Engines, name, p)
	if u := (*runtimes.Unavailable)(nil); name != "" && errors.As(err, &u) {
		if other := s.instead(ctx, p, u); other != nil {
			return other, nil
		}
		return nil, &runtimes.Unavailable{What: p.ID(), Why: fmt.Sprintf("%s requests backend %s: %v", by, name, u), Hint: u.Hint}
	}
	return e, err
}

// Overrides lists the parts whose options override the graph.
func (s *Set) Overrides() []Override {
	var out []Override
	for _, p := range opened(s.build.Assembly) {
		if name, _ := s.wish(p); p.Backend != "" && name != p.Backend {
			out = append(out, Override{p.Name, p.Backend, name})
		}
	}
	return out
}

// checkWishes checks that the engines of Options.Backends are available, before
// anything is loaded. The engines of the graph are checked when a part is needed.
func (s *Set) checkWishes(ctx context.Context) error {
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
