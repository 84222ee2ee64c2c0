package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// cosign finds its way in a layout by this annotation of index entries.
const (
	kindAnnotation = "kind"
	kindImage      = "dev.cosignproject.cosign/image"
	kindSigs       = "dev.cosignproject.cosign/sigs"
	kindAtts       = "dev.cosignproject.cosign/atts"
)

// journalAnnotation of index.json names the file in cas.JournalDir that holds the
// changes made since.
const journalAnnotation = abi.Namespace + ".journal"

// sumAnnotation of index.json holds its sumEntries, so that Fsck can detect
// damage: no other file repeats the entries.
const sumAnnotation = abi.Namespace + ".sum"

// cosignTag matches the tags of cosign's older signature scheme.
var cosignTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[:/])sha256-[0-9a-f]{64}\.(sig|att)$`) })

// nameIndex holds the entries of index.json and its journal at one moment. The store
// changes it as the files change, under Store.indexMu.
type nameIndex struct {
	doc     ocispec.Index                          // without its entries
	Tags    map[string][]ocispec.Descriptor        // by reference name; several in layouts of other tools
	loose   map[digest.Digest][]ocispec.Descriptor // without reference name
	Digests map[digest.Digest][]string             // the reference names of each digest, "" for none
	Repos   map[string]map[string]bool             // the reference names "repository:tag" of each repository
}

func parseIndex(raw []byte) (*nameIndex, error) {
	var doc ocispec.Index
	if err := artifact.DecodeStrict(raw, &doc); err != nil {
		return nil, err
	}
	if doc.SchemaVersion != 2 {
		return nil, fmt.Errorf("schemaVersion: got %d, want 2", doc.SchemaVersion)
	}
	for i, e := range doc.Manifests {
		if err := artifact.CheckDescriptor(e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	idx := &nameIndex{Tags: map[string][]ocispec.Descriptor{}, loose: map[digest.Digest][]ocispec.Descriptor{},
		Digests: map[digest.Digest][]string{}, Repos: map[string]map[string]bool{}}
	for _, e := range doc.Manifests {
		idx.add(e)
	}
	idx.doc, idx.doc.Manifests = doc, nil
	return idx, nil
}

// add adds e to the entries.
func (idx *nameIndex) add(e ocispec.Descriptor) {
	ref := refName(e)
	idx.Digests[e.Digest] = append(idx.Digests[e.Digest], ref)
	if ref == "" {
		idx.loose[e.Digest] = append(idx.loose[e.Digest], e)
		return
	}
	idx.Tags[ref] = append(idx.Tags[ref], e)
	if repo, ok := repoOf(ref); ok {
		if idx.Repos[repo] == nil {
			idx.Repos[repo] = map[string]bool{}
		}
		idx.Repos[repo][ref] = true
	}
}

// at returns the entries under ref, or, where ref is "", those of d without
// reference name.
func (idx *nameIndex) at(ref string, d digest.Digest) []ocispec.Descriptor {
	if ref == "" {
		return idx.loose[d]
	}
	return idx.Tags[ref]
}

// drop removes and returns the entries of [nameIndex.at].
func (idx *nameIndex) drop(ref string, d digest.Digest) []ocispec.Descriptor {
	gone := idx.at(ref, d)
	for _, e := range gone {
		refs := idx.Digests[e.Digest]
		if i := slices.Index(refs, ref); i >= 0 {
			idx.Digests[e.Digest] = slices.Delete(refs, i, i+1)
		}
		if len(idx.Digests[e.Digest]) == 0 {
			delete(idx.Digests, e.Digest)
		}
	}
	if ref == "" {
		delete(idx.loose, d)
		return gone
	}
	delete(idx.Tags, ref)
	if repo, ok := repoOf(ref); ok {
		delete(idx.Repos[repo], ref)
		if len(idx.Repos[repo]) == 0 {
			delete(idx.Repos, repo)
		}
	}
	return gone
}

// all returns the entries sorted: tags by name, then the untagged by digest.
func (idx *nameIndex) all() []ocispec.Descriptor {
	out := []ocispec.Descriptor{}
	for _, ref := range slices.Sorted(maps.Keys(idx.Tags)) {
		out = append(out, idx.Tags[ref]...)
	}
	for _, d := range slices.Sorted(maps.Keys(idx.loose)) {
		out = append(out, idx.loose[d]...)
	}
	return out
}

// marshalIndex is index.json with the entries and annotations of doc.
func marshalIndex(doc ocispec.Index, journal string) ([]byte, error) {
	doc.SchemaVersion, doc.MediaType = 2, ocispec.MediaTypeImageIndex
	if doc.Manifests == nil {
		doc.Manifests = []ocispec.Descriptor{}
	}
	slices.SortStableFunc(doc.Manifests, func(a, b ocispec.Descriptor) int {
		ra, rb := refName(a), refName(b)
		if (ra == "") != (rb == "") {
			return cmp.Compare(rb, ra)
		}
		return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(a.Digest, b.Digest))
	})
	doc.Annotations = maps.Clone(doc.Annotations)
	if doc.Annotations == nil {
		doc.Annotations = map[string]string{}
	}
	if doc.Annotations[journalAnnotation] = journal; journal == "" {
		delete(doc.Annotations, journalAnnotation)
	}
	sum, err := sumEntries(&doc)
	if err != nil {
		return nil, err
	}
	doc.Annotations[sumAnnotation] = sum.String()
	data, err := json.Marshal(doc)
	if err == nil && len(data) > maxIndexBytes {
		err = fmt.Errorf("%s would exceed %d bytes", ocispec.ImageIndexFile, maxIndexBytes)
	}
	return data, err
}

// sumEntries returns the digest of the entries as compact JSON, followed by
// the journal's name if there is one.
func sumEntries(doc *ocispec.Index) (digest.Digest, error) {
	data, err := json.Marshal(doc.Manifests)
	return digest.FromBytes(append(data, doc.Annotations[journalAnnotation]...)), err
}

// edit is a change of the index on its way to disk.
type nameEdit struct {
	Index *nameIndex // as it is now
	rec   record
}

// Set puts m under ref, or untagged if ref is "", replacing other entries.
func (e *nameEdit) Set(n *artifact.Manifest, ref string) {
	desc := entryOf(n, ref)
	if old := e.Index.at(ref, desc.Digest); len(old) != 1 || !sameEntry(old[0], desc) {
		e.rec.Set = append(e.rec.Set, desc)
	}
}

// Drop removes the entries under ref or, if ref is "", the untagged entry of
// d.
func (e *nameEdit) Drop(ref string, d digest.Digest) {
	if len(e.Index.at(ref, d)) == 0 {
		return
	}
	if ref != "" {
		d = ""
	}
	e.rec.Drop = append(e.rec.Drop, entryName{Ref: ref, Digest: d})
}

// entryOf is the entry of n under ref.
func entryOf(n *artifact.Manifest, ref string) ocispec.Descriptor {
	e := artifact.Plain(n.Descriptor)
	e.ArtifactType = n.ArtifactType
	if kind := cosignKind(n, ref); kind != "" {
		e.Annotations = map[string]string{kindAnnotation: kind}
	}
	if ref != "" {
		if e.Annotations == nil {
			e.Annotations = map[string]string{}
		}
		e.Annotations[ocispec.AnnotationRefName] = ref
	}
	return e
}

func sameEntry(a, b ocispec.Descriptor) bool {
	return a.Digest == b.Digest && a.Size == b.Size && a.MediaType == b.MediaType &&
		a.ArtifactType == b.ArtifactType && maps.Equal(a.Annotations, b.Annotations)
}

// cosignKind returns cosign's kind of an entry. A manifest with a subject has
// none, or cosign would mistake the signature for the signed image. An index
// has the kind of a manifest: with cosign's kind for indexes, verify
// --local-image finds nothing.
func cosignKind(n *artifact.Manifest, ref string) string {
	m := cosignTag().FindStringSubmatch(ref)
	switch {
	case m != nil && m[1] == "sig":
		return kindSigs
	case m != nil:
		return kindAtts
	case n.Subject != nil:
		return ""
	}
	return kindImage
}

// refName returns the reference name of an index entry, or "".
func refName(desc ocispec.Descriptor) string { return desc.Annotations[ocispec.AnnotationRefName] }

// refPattern matches every "name:tag" that a registry accepts, and the looser
// names of image layouts (image-spec, org.opencontainers.image.ref.name), of
// registries at IPv6 addresses too. It excludes '@', which precedes a digest.
var refPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_])[-A-Za-z0-9_.:+/]*$`)
})

// maxRef bounds the length of a reference name.
const maxRef = 512

// checkRef refuses reference names that no layout reader could use.
func checkRef(ref string) error {
	if len(ref) > maxRef || !refPattern().MatchString(ref) {
		return fmt.Errorf("invalid reference %q: want letters, digits and _.:+/-: %w", artifact.Shorten(ref), errdef.ErrInvalidReference)
	}
	if _, err := digest.Parse(ref); err == nil {
		return fmt.Errorf("reference %q is a digest: %w", ref, errdef.ErrInvalidReference)
	}
	return nil
}

// Lookup returns the entry with the reference name.
func (idx *nameIndex) Lookup(ref string) (ocispec.Descriptor, error) {
	at := idx.Tags[ref]
	if len(at) == 0 {
		return ocispec.Descriptor{}, errdef.ErrNotFound
	}
	for _, other := range at[1:] {
		if other.Digest != at[0].Digest {
			return ocispec.Descriptor{}, fmt.Errorf("names both %s and %s: %w", at[0].Digest, other.Digest, errdef.ErrInvalidReference)
		}
	}
	desc := artifact.Plain(at[0])
	desc.ArtifactType = at[0].ArtifactType
	return desc, nil
}

// Describe is the digest d as an entry describes it.
func (idx *nameIndex) Describe(d digest.Digest) (ocispec.Descriptor, error) {
	for _, ref := range idx.Digests[d] {
		for _, e := range idx.at(ref, d) {
			if e.Digest == d {
				desc := artifact.Plain(e)
				desc.ArtifactType = e.ArtifactType
				return desc, nil
			}
		}
	}
	return ocispec.Descriptor{}, errdef.ErrNotFound
}

// repoOf returns the repository of a reference name "repository:tag", by the
// grammar of the distribution-spec, which is wider than that of mm's names.
// Names from a registry with a port have none: they are not served.
func repoOf(ref string) (repo string, ok bool) {
	i := strings.LastIndexByte(ref, ':')
	if i <= 0 || !abi.ValidRepository(ref[:i]) {
		return "", false
	}
	return ref[:i], true
}

// Empty reports whether the edit changes nothing.
func (e *nameEdit) Empty() bool { return e.rec.empty() }
