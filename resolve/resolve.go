// Package resolve turns the references of a graph into modules: it looks for
// versions in module folders, the local store, OCI layouts and registries,
// picks for each name the highest version that satisfies everybody, brings it
// into the store and says so in a lock.
//
// The flow is [Resolve]: collect what the graph asks for, search (solve.go:
// depth first, newest first, bounded, deterministic), verify and fetch the
// winners, check them against the lock. A [Source] is one place to look; the
// order of the sources decides between equal versions, so that a module folder
// goes before the store, and the store before a registry.
//
// Everything that comes from elsewhere than a module folder is verified before
// its bytes are used ([Verifier]).
package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
)

// Source is a place where modules are found.
type Source interface {
	// Candidates returns every version of name that the source holds, in any
	// order. To hold none is no error.
	Candidates(ctx context.Context, name string) ([]Candidate, error)
	// String names the source in messages.
	String() string
}

// Candidate is one version of a module in one source.
type Candidate struct {
	Name       string
	Version    *semver.Version
	Digest     string // of its OCI manifest
	Repository string // "registry.example/team/core-llm"; empty for a folder
	Origin     string // what the lock names as its source

	manifest func(ctx context.Context) (*modules.Manifest, error) // verified
	fetch    func(ctx context.Context) (*Module, error)           // verified, all of it in the store
}

// Module is a resolved module whose bytes are in the store.
type Module struct {
	Manifest   *modules.Manifest
	Artifact   *registry.Artifact
	Descriptor ocispec.Descriptor // of the OCI manifest
	Repository string
	Origin     string
	SignedBy   []string // ids of the keys that released it; nil for a folder
}

// Size is the sum of the module's files in bytes.
func (m *Module) Size() int64 {
	var n int64
	for _, l := range m.Artifact.Layers {
		n += l.Descriptor.Size
	}
	return n
}

// Layer returns the layer at path.
func (m *Module) Layer(path string) (registry.Layer, bool) {
	for _, l := range m.Artifact.Layers {
		if l.Path == path {
			return l, true
		}
	}
	return registry.Layer{}, false
}

// Options for Resolve.
type Options struct {
	Sources []Source     // where to look, in order of preference
	Lock    *builds.Lock // what is pinned. Nil: nothing
	Locked  bool         // any drift from the lock is a fault. False: the lock is only preferred
	Update  []string     // names whose pin is dropped. "*" drops all
	Skipped []string     // sources that were not asked because the run is offline; for the message
}

// Resolve finds a module for every reference of the graph and everything those
// require. Faults of the graph come as a diag.Faults.
func Resolve(ctx context.Context, g *builds.Graph, opt Options) (map[string]*Module, *builds.Lock, error) {
	var list diag.List
	if opt.Locked {
		if opt.Lock == nil {
			list.Add(diag.LockMissing, diag.Pos{File: g.File}, g.LockFile(), "run mm lock and keep the file under version control")
			return nil, nil, list.Err()
		}
		if list = opt.Lock.Stale(g); list.Failed() {
			return nil, nil, list.Err()
		}
	}
	r := &run{opt: opt, graph: g, cache: map[string][]Candidate{}}
	wants := map[string][]want{}
	for _, n := range g.Nodes() {
		wants[n.Ref.Name] = append(wants[n.Ref.Name], want{n.Ref, "graph"})
	}
	s := &solver{ctx: ctx, candidates: r.candidates, requires: requires, pinned: r.pinned}
	chosen, err := s.solve(wants, map[string]Candidate{})
	if chosen == nil && err == nil && !opt.Locked && opt.Lock != nil {
		// What is pinned no longer fits; the pins give way.
		s = &solver{ctx: ctx, candidates: r.candidates, requires: requires, pinned: nothing}
		chosen, err = s.solve(wants, map[string]Candidate{})
	}
	switch {
	case errors.Is(err, errSteps):
		list.Add(diag.TooManySteps, diag.Pos{File: g.File}, err.Error(), "")
		return nil, nil, list.Err()
	case err != nil:
		return nil, nil, err
	case chosen == nil:
		return nil, nil, r.failure(s.worst).Err()
	}
	return r.fetch(ctx, chosen, wants)
}

// run is one resolution.
type run struct {
	opt   Options
	graph *builds.Graph
	cache map[string][]Candidate
}

// candidates asks every source once and sorts: newest first, and of equal
// versions the one of the earlier source.
func (r *run) candidates(ctx context.Context, name string) ([]Candidate, error) {
	if all, ok := r.cache[name]; ok {
		return all, nil
	}
	var all []Candidate
	for _, src := range r.opt.Sources {
		found, err := src.Candidates(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("looking for %s in %s: %w", name, src, err)
		}
		slices.SortStableFunc(found, func(a, b Candidate) int { return cmp.Compare(a.Digest, b.Digest) })
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b Candidate) int { return b.Version.Compare(a.Version) })
	r.cache[name] = all
	return all, nil
}

func requires(ctx context.Context, c Candidate) ([]abi.Ref, error) {
	m, err := c.manifest(ctx)
	if err != nil {
		return nil, err
	}
	var refs []abi.Ref
	for _, s := range m.Requires {
		ref, err := abi.ParseRef(s)
		if err != nil {
			return nil, fmt.Errorf("reading requires of %s: %w", m.ID(), err)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// pinned returns the digest the lock has for a module, unless it is to be
// updated. Without Locked a folder's pin does not hold: folders are edited.
func (r *run) pinned(name string) (string, bool) {
	if r.opt.Lock == nil || slices.Contains(r.opt.Update, name) || slices.Contains(r.opt.Update, "*") {
		return "", false
	}
	m, ok := r.opt.Lock.Find(name)
	if !ok {
		return "", false
	}
	if r.opt.Locked {
		return m.Digest, true
	}
	for _, c := range r.cache[name] {
		if c.Digest == m.Digest {
			return m.Digest, true
		}
	}
	return "", false
}

func nothing(string) (string, bool) { return "", false }

// failure turns a conflict into a diagnostic at the graph's reference.
func (r *run) failure(c *conflict) diag.List {
	var list diag.List
	if c == nil {
		return list
	}
	pos := diag.Pos{File: r.graph.File}
	for _, n := range r.graph.Nodes() {
		if n.Ref.Name == c.name {
			pos = r.graph.Pos(n.Ptr + "/ref")
			break
		}
	}
	var sources []string
	for _, s := range r.opt.Sources {
		sources = append(sources, s.String())
	}
	if r.opt.Locked {
		if m, ok := r.opt.Lock.Find(c.name); ok {
			for _, have := range r.cache[c.name] {
				if have.Version.String() == m.Version && have.Digest != m.Digest {
					list.Add(diag.LockDrift, pos, fmt.Sprintf("%s@%s is locked to %s, %s has %s", c.name, m.Version, m.Digest, have.Origin, have.Digest), "if the change is wanted: mm lock --update "+c.name)
					return list
				}
			}
		}
	}
	switch {
	case len(c.available) == 0 && len(r.opt.Skipped) > 0:
		list.Add(diag.Offline, pos, fmt.Sprintf("%s; not asked: %s", c.chain(), join(r.opt.Skipped)), "run once without --offline")
	case len(c.available) == 0:
		list.Add(diag.NotFound, pos, fmt.Sprintf("%s; looked in %s", c.chain(), or(join(sources), "no source")), "add a source to mm.yaml, or check the name")
	case len(c.wants) > 1:
		list.Add(diag.Conflict, pos, c.chain(), "loosen one of the references")
	default:
		list.Add(diag.NoVersion, pos, c.chain(), "use a version that there is")
	}
	return list
}

// fetch brings the chosen modules into the store and writes the lock.
func (r *run) fetch(ctx context.Context, chosen map[string]Candidate, wants map[string][]want) (map[string]*Module, *builds.Lock, error) {
	found := map[string]*Module{}
	lock := &builds.Lock{File: r.graph.LockFile()}
	for _, name := range sorted(chosen) {
		c := chosen[name]
		m, err := c.fetch(ctx)
		if err != nil {
			return nil, nil, err
		}
		found[name] = m
		needs, err := requires(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		for _, ref := range needs {
			wants[ref.Name] = append(wants[ref.Name], want{ref, m.Manifest.ID()})
		}
	}
	for _, name := range sorted(found) {
		lock.Modules = append(lock.Modules, r.settle(found[name].locked(requests(wants[name]))))
	}
	return found, lock, nil
}

// settle keeps what the lock says of where the same bytes came from: which of
// several sources had them this time must not change the build.
func (r *run) settle(l builds.Locked) builds.Locked {
	if r.opt.Lock == nil {
		return l
	}
	if old, ok := r.opt.Lock.Find(l.Name); ok && old.Digest == l.Digest {
		l.Source, l.SignedBy = old.Source, old.SignedBy
	}
	return l
}

// locked is the module as the lock records it.
func (m *Module) locked(requested []builds.Request) builds.Locked {
	l := builds.Locked{
		Name: m.Manifest.Name, Version: m.Manifest.Version, Type: m.Manifest.Type, ABI: m.Manifest.ABI, License: m.Manifest.License,
		Source: m.Origin, Digest: m.Descriptor.Digest.String(), Size: m.Size(), Requested: requested, SignedBy: m.SignedBy,
	}
	for _, f := range m.Artifact.Layers {
		l.Files = append(l.Files, builds.LockedFile{Path: f.Path, Digest: f.Descriptor.Digest.String(), Size: f.Descriptor.Size})
	}
	return l
}

// Manifests returns the manifests of resolved modules, as builds checks them.
func Manifests(found map[string]*Module) builds.Resolved {
	out := builds.Resolved{}
	for name, m := range found {
		out[name] = m.Manifest
	}
	return out
}
