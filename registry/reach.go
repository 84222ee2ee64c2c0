package registry

import (
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry/artifact"
)

// graph holds the references between all manifests that the index reaches. It
// follows the index entry by entry: each manifest counts the entries and
// manifests that name it, and is removed with the last.
type graph struct {
	at      map[nodeKey]*vertex
	parents map[digest.Digest][]*vertex // by child and subject
	lost    map[nodeKey]*vertex         // manifests that could not be read
}

// vertex is a manifest of the graph.
type vertex struct {
	desc     ocispec.Descriptor // plain
	count    int                // entries and manifests that name it
	subject  digest.Digest      // "": none
	confined bool               // not shown because of its subject
	blobs    []digest.Digest    // contents, manifests included, each once
	inner    []nodeKey          // the manifests among them
}

// withGraph calls fn with the current graph and index.
func (s *Store) withGraph(ctx context.Context, fn func(g *graph, idx *nameIndex) error) error {
	return s.names.Follow(func(c nameChanges) error {
		if c.All {
			s.graph = &graph{at: map[nodeKey]*vertex{}, parents: map[digest.Digest][]*vertex{}, lost: map[nodeKey]*vertex{}}
		}
		return s.follow(ctx, s.graph, c)
	}, func(idx *nameIndex) error { return fn(s.graph, idx) })
}

// follow applies changes of the index to the graph. Entries are added before
// others are removed, so that a manifest in both is not read again.
func (s *Store) follow(ctx context.Context, g *graph, c nameChanges) error {
	for key, v := range g.lost { // one may have arrived
		delete(g.lost, key)
		if err := s.grow(ctx, g, []*vertex{v}); err != nil {
			return err
		}
	}
	for _, e := range c.Added {
		if err := s.enter(ctx, g, e); err != nil {
			return err
		}
	}
	for _, e := range c.Removed {
		g.leave(keyOfManifest(e))
	}
	return nil
}

func keyOfManifest(desc ocispec.Descriptor) nodeKey { return nodeKey{desc.Digest, desc.MediaType} }

// enter counts another name of desc.
func (s *Store) enter(ctx context.Context, g *graph, desc ocispec.Descriptor) error {
	if !artifact.IsManifest(desc.MediaType) {
		return nil
	}
	v := g.at[keyOfManifest(desc)]
	if v != nil {
		v.count++
		return nil
	}
	v = &vertex{desc: artifact.Plain(desc), count: 1}
	g.at[keyOfManifest(desc)] = v
	return s.grow(ctx, g, []*vertex{v})
}

// grow reads the new manifests and adds their references. An unreadable
// manifest has none: a lost or damaged signature does not count, and Fsck
// reports it.
func (s *Store) grow(ctx context.Context, g *graph, queue []*vertex) error {
	for read := 0; len(queue) > 0; read++ {
		if read >= maxReach {
			return fmt.Errorf("%s reaches more than %d manifests", queue[0].desc.Digest, maxReach)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		v := queue[0]
		queue = queue[1:]
		n, err := s.node(v.desc)
		if err != nil {
			g.lost[keyOfManifest(v.desc)] = v
			continue
		}
		seen := map[digest.Digest]bool{}
		for _, child := range n.Children {
			if !seen[child.Digest] {
				seen[child.Digest] = true
				v.blobs = append(v.blobs, child.Digest)
				g.parents[child.Digest] = append(g.parents[child.Digest], v)
			}
			if !artifact.IsManifest(child.MediaType) {
				continue
			}
			key := keyOfManifest(child)
			v.inner = append(v.inner, key)
			if inside := g.at[key]; inside != nil {
				inside.count++
				continue
			}
			inside := &vertex{desc: artifact.Plain(child), count: 1}
			g.at[key] = inside
			queue = append(queue, inside)
		}
		if n.Subject != nil {
			v.subject, v.confined = n.Subject.Digest, s.confined(v.desc.Digest)
			if !seen[v.subject] {
				g.parents[v.subject] = append(g.parents[v.subject], v)
			}
		}
	}
	return nil
}

// leave discounts one name of the manifest, and removes it with the last.
func (g *graph) leave(key nodeKey) {
	for queue := []nodeKey{key}; len(queue) > 0; queue = queue[1:] {
		v := g.at[queue[0]]
		if v == nil {
			continue
		}
		if v.count--; v.count > 0 {
			continue
		}
		delete(g.at, queue[0])
		delete(g.lost, queue[0])
		for _, d := range v.blobs {
			g.unlink(d, v)
		}
		if v.subject != "" {
			g.unlink(v.subject, v)
		}
		queue = append(queue, v.inner...)
	}
}

func (g *graph) unlink(d digest.Digest, v *vertex) {
	at := g.parents[d]
	if i := slices.Index(at, v); i >= 0 {
		at[i] = at[len(at)-1]
		g.parents[d] = at[:len(at)-1]
	}
	if len(g.parents[d]) == 0 {
		delete(g.parents, d)
	}
}

// contains reports whether the manifest names d as a part of it.
func (v *vertex) contains(d digest.Digest) bool { return slices.Contains(v.blobs, d) }

// manyParents is the number of manifests per tag of a repository that may hold
// a blob before the search starts from the tags. Searching up is the faster
// way to a match: usually most holders of a blob are in that repository, or
// none is.
const manyParents = 64

// shown reports whether a tag of repo reaches d, or the subject of d.
func (g *graph) shown(idx *nameIndex, repo string, d digest.Digest) bool {
	tags := idx.Repos[repo]
	if len(tags) == 0 {
		return false
	}
	if len(tags) < len(g.parents[d])/manyParents {
		return g.searchDown(idx, tags, d)
	}
	return g.searchUp(idx, repo, d, map[digest.Digest]bool{})
}

// searchUp searches the holders of d for a tag of repo, depth first: the
// holders of a shared blob are visited one by one until one is tagged.
func (g *graph) searchUp(idx *nameIndex, repo string, d digest.Digest, seen map[digest.Digest]bool) bool {
	if seen[d] {
		return false
	}
	seen[d] = true
	for _, ref := range idx.Digests[d] {
		if idx.Repos[repo][ref] {
			return true
		}
	}
	for _, mediaType := range artifact.ManifestTypes() {
		if v := g.at[nodeKey{d, mediaType}]; v != nil && v.subject != "" && !v.confined && g.searchUp(idx, repo, v.subject, seen) {
			return true
		}
	}
	for _, v := range g.parents[d] {
		if v.contains(d) && g.searchUp(idx, repo, v.desc.Digest, seen) {
			return true
		}
	}
	return false
}

// searchDown looks for d in all that the tags reach.
func (g *graph) searchDown(idx *nameIndex, tags map[string]bool, d digest.Digest) bool {
	var queue []nodeKey
	for ref := range tags {
		for _, e := range idx.Tags[ref] {
			if e.Digest == d {
				return true
			}
			queue = append(queue, keyOfManifest(e))
		}
	}
	seen := map[nodeKey]bool{}
	for ; len(queue) > 0; queue = queue[1:] {
		v := g.at[queue[0]]
		if v == nil || seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		if v.desc.Digest == d || v.contains(d) {
			return true
		}
		queue = append(queue, v.inner...)
		for _, r := range g.parents[v.desc.Digest] {
			if r.subject == v.desc.Digest && !r.confined {
				queue = append(queue, keyOfManifest(r.desc))
			}
		}
	}
	return false
}

// described returns the descriptor of the reached blob d: that of a manifest
// of the graph, or the one in a manifest that contains it.
func (s *Store) described(g *graph, idx *nameIndex, d digest.Digest) (ocispec.Descriptor, bool) {
	for _, mediaType := range artifact.ManifestTypes() {
		if v := g.at[nodeKey{d, mediaType}]; v != nil {
			return v.desc, true
		}
	}
	for _, v := range g.parents[d] {
		n, err := s.node(v.desc)
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(n.Children, func(c ocispec.Descriptor) bool { return c.Digest == d }); i >= 0 {
			return artifact.Plain(n.Children[i]), true
		}
	}
	desc, err := idx.Describe(d)
	return desc, err == nil
}
