package workspace

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace/home"
)

// ResolveOptions select how the modules of a graph are found.
type ResolveOptions struct {
	Claim           // holds for each module from elsewhere than a folder
	Locked bool     // refuse any drift from the graph's lock
	Update []string // names whose pin is dropped; * for all

	merge bool // of a lock with merge conflicts, keep the pins on which both sides agree
}

// Resolver finds modules for assemble and lock: it joins the sources of the
// settings with the graph's lock. It is an assemble.Resolver.
type Resolver struct {
	w   *Workspace
	opt ResolveOptions

	merged diag.List // merge conflicts in the lock that were resolved

	mu     sync.Mutex
	judged map[digest.Digest]*Judgement
}

// Resolver returns a Resolver.
func (w *Workspace) Resolver(opt ResolveOptions) *Resolver {
	return &Resolver{w: w, opt: opt, judged: map[digest.Digest]*Judgement{}}
}

// Resolve implements assemble.Resolver. Candidates are judged by their
// manifests during the search; of the chosen ones every byte is hashed, in
// transit or in the store.
func (r *Resolver) Resolve(ctx context.Context, g *builds.Graph) (map[string]*resolve.Module, *builds.Lock, error) {
	opt := resolve.Options{Locked: r.opt.Locked, Update: r.opt.Update}
	store, err := r.w.store()
	if err != nil {
		return nil, nil, err
	}
	opt.Say = r.w.opt.Say
	done, err := r.sources(g, store, &opt)
	defer done()
	if err != nil {
		return nil, nil, err
	}
	if home.Exists(g.LockFile()) {
		if opt.Lock, err = r.lock(g.LockFile()); err != nil {
			return nil, nil, err
		}
	}
	found, lock, err := resolve.Resolve(ctx, g, opt)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range found {
		t, err := artifact.ReadTree(ctx, store, m.Descriptor)
		if err == nil {
			err = intact(ctx, store, t, remote.PullOptions{})
		}
		if err == nil {
			err = checkClaims(ctx, store, m.Manifest.ID(), t, "")
		}
		if err != nil {
			return nil, nil, explainBytes(err, store)
		}
	}
	return found, lock, nil
}

// lock reads the graph's lock. Only mm lock reads one with merge conflicts.
func (r *Resolver) lock(file string) (*builds.Lock, error) {
	data, list := schemas.ReadFile(file, diag.LockMissing)
	if err := list.Err(); err != nil {
		return nil, err
	}
	if r.opt.merge {
		lock, line, list := builds.MergeLock(file, data)
		if line > 0 && !list.Failed() {
			r.merged.Warn(diag.Conflicted, diag.Pos{File: file, Line: line}, fmt.Sprintf("kept the %d pins on which both sides agree and resolved the others", len(lock.Modules)), "compare the lock with both branches")
		}
		return lock, list.Err()
	}
	lock, list := builds.ParseLock(file, data)
	return lock, list.Err()
}

// sources collects the sources that the anchor's mm.yaml names: module folders
// first, then the store, layouts and, unless offline, registries; and those of
// the graph's references. done closes them.
func (r *Resolver) sources(g *builds.Graph, store *registry.Store, opt *resolve.Options) (done func(), err error) {
	var layouts []*registry.Store
	done = func() {
		for _, s := range layouts {
			s.Close()
		}
	}
	set, err := r.w.settings()
	if err != nil {
		return done, err
	}
	for _, folder := range set.Modules {
		opt.Sources = append(opt.Sources, &resolve.Folder{Dir: folder, Store: store})
	}
	opt.Sources = append(opt.Sources, &resolve.Layout{From: store, Into: store, Verifier: r, Label: "store"})
	for _, layout := range set.Layouts {
		from, err := registry.Open(layout, registry.Options{ReadOnly: true, MustExist: true})
		if err != nil {
			var list diag.List
			list.Add(diag.SourceFailed, diag.Pos{File: layout}, err.Error(), "correct layouts in "+home.ConfigName)
			return done, list.Err()
		}
		layouts = append(layouts, from)
		opt.Sources = append(opt.Sources, &resolve.Layout{From: from, Into: store, Verifier: r, Label: layout})
	}
	for _, prefix := range prefixes(g, set.Registries) {
		if r.w.opt.Offline {
			opt.Skipped = append(opt.Skipped, prefix)
			continue
		}
		client, err := r.w.client()
		if err != nil {
			return done, err
		}
		opt.Sources = append(opt.Sources, &resolve.Registry{Client: client, Prefix: prefix, Into: store, Verifier: r})
	}
	return done, nil
}

// prefixes are the registries of the settings and those that references of the
// graph name, each once.
func prefixes(g *builds.Graph, settings []string) []string {
	out := slices.Clone(settings)
	for _, n := range g.Nodes() {
		if n.Ref.Source() == "" {
			continue
		}
		if prefix := path.Dir(n.Ref.Source()); !slices.Contains(out, prefix) {
			out = append(out, prefix)
		}
	}
	return out
}

// Verify implements resolve.Verifier: a module is judged as anything else is.
func (r *Resolver) Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j, ok := r.judged[desc.Digest]; ok {
		return ids(j.Keys), nil
	}
	at := &Located{ref: repository, desc: desc, src: src, repository: repository, name: path.Base(repository)}
	j, err := r.w.Judge(ctx, at, r.opt.Claim)
	if err != nil {
		return nil, err
	}
	r.judged[desc.Digest] = j
	return ids(j.Keys), nil
}

// Assemble builds a graph with the modules, the cache and the date of this
// workspace. The output was hashed on its way into the store.
func (w *Workspace) Assemble(ctx context.Context, opt assemble.Options, res ResolveOptions) (*assemble.Result, error) {
	open, err := w.store, error(nil)
	if opt.Out == "" && !opt.Untagged {
		open = w.kept
	}
	if opt.Store, err = open(); err != nil {
		return nil, err
	}
	if opt.Created, err = SourceDate(); err != nil {
		return nil, err
	}
	if opt.Signer != nil {
		if err := w.recordable(ctx); err != nil {
			return nil, err
		}
	}
	opt.Cache, opt.Resolver = w.Cache(), w.Resolver(res)
	result, err := assemble.Assemble(ctx, opt)
	if err == nil && opt.Signer != nil {
		w.Record(ctx, audit.Entry{Action: "sign", Ref: result.Ref, Digest: result.Digest, Result: "ok"})
	}
	return result, err
}

// Made admits a build that this workspace has just assembled of admitted
// modules. It needs no signature, so only its bytes are checked.
func (w *Workspace) Made(ctx context.Context, graph string, result *assemble.Result) (*Verified, error) {
	s, err := w.store()
	if err != nil {
		return nil, err
	}
	at := &Located{ref: graph, desc: result.Descriptor, src: s, store: s}
	id, err := at.identify(ctx)
	if err != nil {
		return nil, err
	}
	j := &Judgement{Ref: graph, Digest: result.Digest, Identity: id}
	return w.hashed(ctx, at, j)
}

// maxDate is the last second of the year 9999, the last one that RFC 3339 can write.
const maxDate = 253402300799

// SourceDate is SOURCE_DATE_EPOCH, or nil: mm writes no time by itself.
func SourceDate() (*time.Time, error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading SOURCE_DATE_EPOCH: %w", err)
	}
	if n < 0 || n > maxDate {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH out of range: got %d, want 0 to %d", n, int64(maxDate))
	}
	t := time.Unix(n, 0).UTC()
	return &t, nil
}

// Anchor is the folder whose settings hold for an argument of a command: the
// folder itself, the one of a file, or the current one.
func Anchor(arg string) string {
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		if file := filepath.Dir(arg); file != "." { // GRAPH/FUNCTION
			if info, err := os.Stat(file); err == nil && !info.IsDir() {
				return filepath.Dir(file)
			}
		}
		return "."
	case info.IsDir():
		return arg
	}
	return filepath.Dir(arg)
}
