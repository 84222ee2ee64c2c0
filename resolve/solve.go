package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
)

// maxSteps bounds the search: a step is one candidate tried.
const maxSteps = 10_000

// errSteps is returned when the bound is reached.
var errSteps = errors.New("no answer within 10,000 steps; pin some references to exact versions")

// want is one requirement on one module.
type want struct {
	ref abi.Ref
	by  string // "graph", or the name@version of a module
}

// conflict explains why no version of a module will do: who asked for what,
// and which versions there are.
type conflict struct {
	name      string
	wants     []want
	available []string
}

// chain tells the conflict as people read it: "graph asks for a@^1.3, p@1.2.0
// asks for a@>=1.4; there is 1.3.0, 1.3.1".
func (c *conflict) chain() string {
	var parts []string
	for _, w := range c.wants {
		parts = append(parts, fmt.Sprintf("%s asks for %s", w.by, w.ref))
	}
	have := "no version of it is at hand"
	if len(c.available) > 0 {
		have = "there is " + strings.Join(c.available, ", ")
	}
	return strings.Join(parts, ", ") + "; " + have
}

// solver looks for one version of each module that satisfies everybody.
type solver struct {
	ctx        context.Context
	candidates func(ctx context.Context, name string) ([]Candidate, error)
	requires   func(ctx context.Context, c Candidate) ([]abi.Ref, error)
	pinned     func(name string) (digest string, ok bool)
	steps      int
	worst      *conflict // the first conflict met on the most promising path
	depth      int
}

// solve picks for each module the highest version that satisfies all
// requirements, depth first in order of name, going back when a choice turns
// out wrong. The same input gives the same answer.
func (s *solver) solve(wants map[string][]want, chosen map[string]Candidate) (map[string]Candidate, error) {
	name := undecided(wants, chosen)
	if name == "" {
		return chosen, nil
	}
	all, err := s.candidates(s.ctx, name)
	if err != nil {
		return nil, err
	}
	tried := false
	for _, c := range all {
		if !satisfies(c, wants[name]) || !s.allowed(name, c) {
			continue
		}
		tried = true
		if s.steps++; s.steps > maxSteps {
			return nil, errSteps
		}
		needs, err := s.requires(s.ctx, c)
		if err != nil {
			return nil, err
		}
		next, clash := add(wants, needs, c, chosen)
		if clash != nil {
			s.note(clash, len(chosen), all)
			continue
		}
		with := clone(chosen)
		with[name] = c
		if answer, err := s.solve(next, with); answer != nil || err != nil {
			return answer, err
		}
	}
	if !tried {
		s.note(&conflict{name: name, wants: wants[name]}, len(chosen), all)
	}
	return nil, nil
}

func (s *solver) allowed(name string, c Candidate) bool {
	digest, ok := s.pinned(name)
	return !ok || digest == c.Digest
}

// note keeps the conflict that was met with the most modules decided: it is
// the one whose repair helps.
func (s *solver) note(c *conflict, depth int, all []Candidate) {
	if s.worst != nil && depth <= s.depth {
		return
	}
	if c.available == nil {
		for _, a := range all {
			c.available = append(c.available, a.Version.String())
		}
	}
	s.worst, s.depth = c, depth
}

// undecided returns the first module in order of name that is wanted and not
// chosen.
func undecided(wants map[string][]want, chosen map[string]Candidate) string {
	var names []string
	for name := range wants {
		if _, ok := chosen[name]; !ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

func satisfies(c Candidate, wants []want) bool {
	for _, w := range wants {
		if !w.ref.Allows(c.Version) || w.ref.Digest != "" && w.ref.Digest != c.Digest {
			return false
		}
		if w.ref.Source != "" && w.ref.Source != c.Repository {
			return false
		}
	}
	return true
}

// add returns wants with what c needs. It is a clash when a module that is
// already chosen does not satisfy a new requirement.
func add(wants map[string][]want, needs []abi.Ref, c Candidate, chosen map[string]Candidate) (map[string][]want, *conflict) {
	next := make(map[string][]want, len(wants)+len(needs))
	for name, list := range wants {
		next[name] = list
	}
	by := c.Name + "@" + c.Version.String()
	for _, ref := range needs {
		next[ref.Name] = append(slices.Clip(next[ref.Name]), want{ref, by})
		if other, ok := chosen[ref.Name]; ok && !satisfies(other, next[ref.Name]) {
			return nil, &conflict{name: ref.Name, wants: next[ref.Name], available: []string{other.Version.String() + " (chosen)"}}
		}
		if ref.Name == c.Name && !satisfies(c, next[ref.Name]) {
			return nil, &conflict{name: ref.Name, wants: next[ref.Name], available: []string{c.Version.String() + " (chosen)"}}
		}
	}
	return next, nil
}

func clone(m map[string]Candidate) map[string]Candidate {
	out := make(map[string]Candidate, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	return out
}

// requests lists who asked for a module, for the lock.
func requests(wants []want) []builds.Request {
	var out []builds.Request
	for _, w := range wants {
		out = append(out, builds.Request{By: w.by, Ref: w.ref.String()})
	}
	return out
}
