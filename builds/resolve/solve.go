package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// conflict explains why no version of a module fits: its requirements and the
// available versions.
type conflict struct {
	name      string
	wants     []want
	available []string
}

// chain formats the conflict: "graph asks for a@^1.3, p@1.2.0 asks for
// a@>=1.4; there is 1.3.0, 1.3.1".
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

// moduleError is an error about one module.
type moduleError struct {
	name   string
	stored bool // the module is an artifact, not a folder
	err    error
}

func (e *moduleError) Error() string { return e.err.Error() }
func (e *moduleError) Unwrap() error { return e.err }

// solver searches one version of each module that satisfies all requirements.
type solver struct {
	ctx        context.Context
	candidates func(ctx context.Context, name string, wants []want) ([]Candidate, error)
	requires   func(ctx context.Context, c Candidate) ([]abi.Ref, error)
	ignored    map[string]bool // modules that need no answer
	steps      int
	passed     []*absentError // versions without a manifest
	worst      *conflict      // the first conflict met on the most promising path
	depth      int
}

// solve chooses for each module the highest version that satisfies all
// requirements, depth first in order of name, with backtracking. The result is
// deterministic.
func (s *solver) solve(wants map[string][]want, chosen map[string]Candidate) (map[string]Candidate, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	name := s.undecided(wants, chosen)
	if name == "" {
		return chosen, nil
	}
	all, err := s.candidates(s.ctx, name, wants[name])
	if err != nil {
		return nil, &moduleError{name: name, err: err}
	}
	tried := false
	for _, c := range all {
		fits, err := satisfies(s.ctx, c, wants[name])
		if err != nil {
			return nil, &moduleError{name, c.Repository != "", err}
		}
		if !fits {
			continue
		}
		if s.steps++; s.steps > maxSteps {
			return nil, errSteps
		}
		needs, err := s.requires(s.ctx, c)
		if errors.Is(err, errNoModule) {
			continue
		}
		if absent := (*absentError)(nil); errors.As(err, &absent) {
			s.passed = append(s.passed, absent)
			continue
		}
		if err != nil {
			return nil, &moduleError{name, c.Repository != "", err}
		}
		tried = true
		next, clash, err := add(s.ctx, wants, needs, c, chosen)
		if err != nil {
			return nil, err
		}
		if clash != nil {
			s.note(clash, len(chosen), all)
			continue
		}
		with := maps.Clone(chosen)
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
func (s *solver) undecided(wants map[string][]want, chosen map[string]Candidate) string {
	var names []string
	for name := range wants {
		if _, ok := chosen[name]; !ok && !s.ignored[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// satisfies reports whether a candidate meets all requirements. Its digest is
// read only if one is required and all else fits.
func satisfies(ctx context.Context, c Candidate, wants []want) (bool, error) {
	digest := ""
	for _, w := range wants {
		if !w.ref.Allows(c.Version) || w.ref.Source() != "" && w.ref.Source() != c.Repository {
			return false, nil
		}
		if w.ref.Digest != "" && digest != "" && w.ref.Digest != digest {
			return false, nil
		}
		digest = cmp.Or(w.ref.Digest, digest)
	}
	if digest == "" {
		return true, nil
	}
	have, err := c.module.digest(ctx)
	return have == digest, err
}

// add returns wants with the requirements of c. It reports a clash if a chosen
// module does not satisfy a new requirement.
func add(ctx context.Context, wants map[string][]want, needs []abi.Ref, c Candidate, chosen map[string]Candidate) (map[string][]want, *conflict, error) {
	next := make(map[string][]want, len(wants)+len(needs))
	for name, list := range wants {
		next[name] = list
	}
	by := c.Name + "@" + c.Version.String()
	for _, ref := range needs {
		next[ref.Name] = append(slices.Clip(next[ref.Name]), want{ref, by})
		other, ok := chosen[ref.Name]
		if ref.Name == c.Name {
			other, ok = c, true
		}
		if !ok {
			continue
		}
		fits, err := satisfies(ctx, other, next[ref.Name])
		if err != nil {
			return nil, nil, &moduleError{ref.Name, other.Repository != "", err}
		}
		if !fits {
			return nil, &conflict{name: ref.Name, wants: next[ref.Name], available: []string{other.Version.String() + " (chosen)"}}, nil
		}
	}
	return next, nil, nil
}

// requests lists the requirements of a module for the lock.
func requests(wants []want) []builds.Request {
	var out []builds.Request
	for _, w := range wants {
		out = append(out, builds.Request{By: w.by, Ref: w.ref.String()})
	}
	return out
}
