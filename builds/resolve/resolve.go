// Package resolve turns the references of a graph into modules: it looks for
// versions in module folders, the local store, OCI layouts and registries,
// chooses for each name the highest version that satisfies all requirements,
// fetches it into the store and records it in a lock.
//
// The flow is [Resolve]: collect the graph's requirements, search (solve.go:
// depth first, newest first, bounded, deterministic), verify and fetch the
// chosen modules, compare them with the lock. [Look] is the search alone. A
// [Source] is one place to search; the order of the sources decides between
// equal versions, so that a module folder precedes the store, and the store a
// registry. Searching stores nothing: a [Candidate] is a name and a version,
// its digest is read when a reference requires it, and its bytes are moved
// once it is chosen.
//
// A locked module is looked for by its digest, in the order of the sources,
// and the first match ends the search: with the bytes in the store no registry
// is asked. A module in a folder may be edited, so its version is looked for,
// and under [Options.Locked] its digest must be the lock's.
//
// Everything from elsewhere than a module folder is verified before its bytes
// are used ([Verifier]), hashed when it is fetched, and named in the store, so
// that gc keeps it.
package resolve

import (
	"context"
	"errors"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
)

// Source is a place where modules are found.
type Source interface {
	// Candidates returns the source's versions that match q, in any order.
	// Having none is not an error.
	Candidates(ctx context.Context, q Query) ([]Candidate, error)
	// String names the source in messages.
	String() string
}

// Query asks a source for modules.
type Query struct {
	Name       string
	Digest     string // of the OCI manifest: only that one, but all versions of a folder. Empty: all
	Repository string // the repository of the digest, by the lock; may be empty
}

// Candidate is one version of a module in one source. Nothing of it has been
// fetched.
type Candidate struct {
	Name       string
	Version    *semver.Version
	Repository string // "registry.example/team/core-llm"; empty for a folder
	Origin     string // the source that the lock records

	module module
}

// module is the module behind a candidate. Each answer is computed once.
type module interface {
	digest(ctx context.Context) (string, error)              // of the OCI manifest
	manifest(ctx context.Context) (*modules.Manifest, error) // verified
	fetch(ctx context.Context) (*Module, error)              // verified, all of it in the store
}

// Module is a resolved module whose bytes are in the store.
type Module struct {
	Manifest   *modules.Manifest
	Artifact   *artifact.Artifact
	Descriptor ocispec.Descriptor // of the OCI manifest
	Repository string
	Origin     string
	SignedBy   []string // ids of the keys that released it; nil for a folder
}

// Size is the sum of the module's files in bytes.
func (m *Module) Size() int64 { return m.Artifact.Size() }

// Layer returns the layer at path.
func (m *Module) Layer(path string) (artifact.Layer, bool) {
	for _, l := range m.Artifact.Layers {
		if l.Path == path {
			return l, true
		}
	}
	return artifact.Layer{}, false
}

// Options for Resolve and Look.
type Options struct {
	Sources []Source     // where to look, in order of preference
	Lock    *builds.Lock // the pinned modules. Nil: none
	Locked  bool         // any drift from the lock is a fault. False: the lock is only preferred
	Update  []string     // names whose pin is dropped. "*" drops all
	Skipped []string     // sources skipped because the run is offline; for the message
	Say     func(string) // receives warnings. Nil: none
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
	r := newRun(g, opt)
	wants := wantsOf(g)
	chosen, worst, err := r.search(ctx, wants)
	switch {
	case errors.Is(err, errSteps):
		list.Add(diag.TooManySteps, diag.Pos{File: g.File}, err.Error(), "")
		return nil, nil, list.Err()
	case err != nil:
		return nil, nil, err
	case chosen == nil:
		return nil, nil, r.failures(ctx, wants, worst).Err()
	}
	return r.fetch(ctx, chosen, wants)
}

// failures reports the conflict worst and, without its module, the further ones, so
// that all unknown modules are reported at once.
func (r *run) failures(ctx context.Context, wants map[string][]want, worst *conflict) diag.List {
	list := r.failure(worst)
	for worst != nil {
		r.ignored[worst.name] = true
		chosen, next, err := r.search(ctx, wants)
		if err != nil || chosen != nil {
			break
		}
		worst = next
		list = append(list, r.failure(worst)...)
	}
	list.Sort()
	return list
}

// fetch brings the chosen modules into the store and writes the lock.
func (r *run) fetch(ctx context.Context, chosen map[string]Candidate, wants map[string][]want) (map[string]*Module, *builds.Lock, error) {
	found := map[string]*Module{}
	lock := &builds.Lock{File: r.graph.LockFile()}
	var drift diag.List
	for _, name := range sorted(chosen) {
		c := chosen[name]
		m, err := c.module.fetch(ctx)
		if err != nil {
			return nil, nil, err
		}
		m.Repository, m.Origin = c.Repository, c.Origin
		found[name] = m
		drift = append(drift, r.drift(m)...)
		for _, ref := range m.Manifest.Requires {
			wants[ref.Name] = append(wants[ref.Name], want{ref, m.Manifest.ID()})
		}
	}
	if drift.Failed() {
		return nil, nil, drift.Err()
	}
	for _, name := range sorted(found) {
		lock.Modules = append(lock.Modules, r.settle(found[name].locked(requests(wants[name]))))
	}
	lock.Bound(r.graph, Resolved(found))
	return found, lock, nil
}

// settle keeps the lock's origin of the same bytes, so that the source used
// this time does not change the build.
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

// Resolved returns the manifests of resolved modules, as builds checks them.
func Resolved(found map[string]*Module) builds.Resolved {
	out := builds.Resolved{}
	for name, m := range found {
		out[name] = m.Manifest
	}
	return out
}
