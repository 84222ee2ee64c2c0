package resolve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
)

// run is one resolution.
type run struct {
	opt      Options
	graph    *builds.Graph
	unpinned map[string]bool // names without a pin; "*": all
	ignored  map[string]bool // names that Look leaves out
	cache    map[string][]Candidate
	warned   map[string]bool // absent versions that the user was warned of
}

func newRun(g *builds.Graph, opt Options) *run {
	r := &run{opt: opt, graph: g, unpinned: map[string]bool{}, ignored: map[string]bool{}, cache: map[string][]Candidate{}, warned: map[string]bool{}}
	for _, name := range opt.Update {
		r.unpinned[name] = true
	}
	return r
}

// wantsOf collects the requirements of the graph itself.
func wantsOf(g *builds.Graph) map[string][]want {
	wants := map[string][]want{}
	for _, n := range g.Nodes() {
		wants[n.Ref.Name] = append(wants[n.Ref.Name], want{n.Ref, "graph"})
	}
	return wants
}

// search solves with the pins of the lock. If they no longer fit and may
// change, it drops the pin of the module in conflict, then all of them.
func (r *run) search(ctx context.Context, wants map[string][]want) (map[string]Candidate, *conflict, error) {
	for {
		s := &solver{ctx: ctx, candidates: r.candidates, requires: requires, ignored: r.ignored}
		chosen, err := s.solve(wants, map[string]Candidate{})
		for _, p := range s.passed {
			if r.opt.Say != nil && !r.warned[p.ref] {
				r.opt.Say("warning: " + p.Error())
			}
			r.warned[p.ref] = true
		}
		if chosen != nil || err != nil || r.opt.Locked || r.opt.Lock == nil || r.unpinned["*"] {
			return chosen, s.worst, err
		}
		name := "*"
		if s.worst != nil {
			if _, pinned := r.pin(s.worst.name); pinned {
				name = s.worst.name
			}
		}
		r.unpinned[name] = true
	}
}

// pin returns the lock's entry of a module, unless it is to be updated.
func (r *run) pin(name string) (builds.Locked, bool) {
	if r.opt.Lock == nil || r.unpinned[name] || r.unpinned["*"] {
		return builds.Locked{}, false
	}
	return r.opt.Lock.Find(name)
}

// candidates are the versions of a module to try, newest first and of equal
// versions the one of the earlier source. A pin that is found leaves no choice.
func (r *run) candidates(ctx context.Context, name string, wants []want) ([]Candidate, error) {
	pin, pinned := r.pin(name)
	if pinned {
		c, err := r.pinned(ctx, pin)
		if c != nil || err != nil || r.opt.Locked {
			return c, err
		}
	}
	return r.all(ctx, name, wants)
}

// pinned looks for the locked module; the first source that holds it ends the
// search.
func (r *run) pinned(ctx context.Context, pin builds.Locked) ([]Candidate, error) {
	q := Query{Name: pin.Name, Digest: pin.Digest, Repository: pin.Source}
	if fromFolder(pin) {
		return r.pinnedFolder(ctx, pin, q)
	}
	// A folder of that name and version comes last.
	sources := slices.Clone(r.opt.Sources)
	slices.SortStableFunc(sources, func(a, b Source) int { return boolCompare(isFolder(a), isFolder(b)) })
	for _, src := range sources {
		found, err := r.ask(ctx, src, q)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			if c.Version.String() == pin.Version {
				return []Candidate{c}, nil
			}
		}
	}
	return nil, nil
}

// fromFolder reports whether a module was locked in a module folder.
func fromFolder(pin builds.Locked) bool {
	from, err := abi.ParseRef(pin.Source)
	return !(err == nil && from.Host != "" || pin.Source == storeLabel || pin.SignedBy != nil)
}

// pinnedFolder looks for a module that was locked in a folder. Without
// [Options.Locked] the folder may have changed. With it the bytes are the lock's: those
// of a folder that has changed since are in the store, unless gc removed them.
func (r *run) pinnedFolder(ctx context.Context, pin builds.Locked, q Query) ([]Candidate, error) {
	var changed []Candidate
	for _, src := range r.opt.Sources {
		found, err := r.ask(ctx, src, q)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			if c.Version.String() != pin.Version {
				continue
			}
			if isFolder(src) {
				have, err := "", error(nil)
				if r.opt.Locked {
					have, err = c.module.digest(ctx)
				}
				if err != nil || have == pin.Digest || !r.opt.Locked {
					return []Candidate{c}, nil // of a faulty folder, the fault
				}
				changed = append(changed, c)
			} else if _, err := c.module.manifest(ctx); err == nil { // released since
				return r.unchanged(pin, c, changed), nil
			}
		}
	}
	if r.opt.Locked {
		for _, src := range r.opt.Sources {
			if l, ok := src.(*Layout); ok && l.From == l.Into {
				if c, err := l.packed(ctx, pin); err != nil {
					return nil, err
				} else if c != nil {
					return r.unchanged(pin, *c, changed), nil
				}
			}
		}
	}
	return changed[:min(len(changed), 1)], nil
}

// unchanged returns a candidate with the lock's bytes. It warns if a folder has others.
func (r *run) unchanged(pin builds.Locked, c Candidate, changed []Candidate) []Candidate {
	for _, other := range changed {
		if text := fmt.Sprintf("warning: %s differs from the lock: the locked bytes of %s@%s are used", other.Origin, pin.Name, pin.Version); r.opt.Say != nil && !r.warned[text] {
			r.warned[text] = true
			r.opt.Say(text)
		}
	}
	return []Candidate{c}
}

// storeLabel is the lock's name of the local store.
const storeLabel = "store"

func isFolder(s Source) bool {
	_, ok := s.(*Folder)
	return ok
}

// boolCompare puts false before true.
func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// all asks every source for every version, and for the digests that references
// name.
func (r *run) all(ctx context.Context, name string, wants []want) ([]Candidate, error) {
	queries := []Query{{Name: name}}
	for _, w := range wants {
		if w.ref.Digest != "" {
			queries = append(queries, Query{Name: name, Digest: w.ref.Digest, Repository: w.ref.Source()})
		}
	}
	var all []Candidate
	for _, src := range r.opt.Sources {
		for i, q := range queries {
			if i > 0 && isFolder(src) {
				continue // it returned all candidates
			}
			found, err := r.ask(ctx, src, q)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	slices.SortStableFunc(all, func(a, b Candidate) int {
		return cmp.Or(b.Version.Compare(a.Version), strings.Compare(b.Version.Metadata(), a.Version.Metadata()))
	})
	return all, nil
}

// ask asks one source once for the same thing. Two candidates of one source and
// version are put in order by where they are from.
func (r *run) ask(ctx context.Context, src Source, q Query) ([]Candidate, error) {
	key := fmt.Sprintf("%p %s %v", src, src, q)
	if found, ok := r.cache[key]; ok {
		return found, nil
	}
	found, err := src.Candidates(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("looking for %s in %s: %w", q.Name, src, err)
	}
	slices.SortStableFunc(found, func(a, b Candidate) int {
		return cmp.Or(strings.Compare(a.Repository, b.Repository), strings.Compare(a.Origin, b.Origin))
	})
	r.cache[key] = found
	return found, nil
}

func requires(ctx context.Context, c Candidate) ([]abi.Ref, error) {
	m, err := c.module.manifest(ctx)
	if err != nil {
		return nil, err
	}
	return m.Requires, nil
}
