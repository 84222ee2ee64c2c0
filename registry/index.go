package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

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

// journalAnnotation of index.json names the file in journalDir that holds the
// changes made since.
const journalAnnotation = abi.Namespace + ".journal"

// sumAnnotation of index.json holds what sumEntries says of it, so that
// Fsck can tell damage: no other file says what index.json should hold.
const sumAnnotation = abi.Namespace + ".sum"

// cosignTag matches the tags of cosign's older signature scheme.
var cosignTag = regexp.MustCompile(`(?:^|[:/])sha256-[0-9a-f]{64}\.(sig|att)$`)

// index is the entries of index.json and its journal at one moment. The store
// changes it as the files change, under Store.indexMu.
type index struct {
	doc     ocispec.Index                          // without its entries
	tags    map[string][]ocispec.Descriptor        // by reference name; several in layouts of other tools
	loose   map[digest.Digest][]ocispec.Descriptor // without reference name
	digests map[digest.Digest][]string             // the reference names of each digest, "" for none
	repos   map[string]map[string]bool             // the reference names "repository:tag" of each repository
}

func parseIndex(raw []byte) (*index, error) {
	var doc ocispec.Index
	if err := artifact.DecodeStrict(raw, &doc); err != nil {
		return nil, err
	}
	if doc.SchemaVersion != 2 {
		return nil, fmt.Errorf("schemaVersion %d where 2 is meant", doc.SchemaVersion)
	}
	for i, e := range doc.Manifests {
		if err := artifact.CheckDescriptor(e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	idx := &index{tags: map[string][]ocispec.Descriptor{}, loose: map[digest.Digest][]ocispec.Descriptor{},
		digests: map[digest.Digest][]string{}, repos: map[string]map[string]bool{}}
	for _, e := range doc.Manifests {
		idx.add(e)
	}
	idx.doc, idx.doc.Manifests = doc, nil
	return idx, nil
}

// add puts e beside what is there.
func (idx *index) add(e ocispec.Descriptor) {
	ref := refName(e)
	idx.digests[e.Digest] = append(idx.digests[e.Digest], ref)
	if ref == "" {
		idx.loose[e.Digest] = append(idx.loose[e.Digest], e)
		return
	}
	idx.tags[ref] = append(idx.tags[ref], e)
	if repo, ok := repoOf(ref); ok {
		if idx.repos[repo] == nil {
			idx.repos[repo] = map[string]bool{}
		}
		idx.repos[repo][ref] = true
	}
}

// at returns the entries under ref, or, where ref is "", those of d without
// reference name.
func (idx *index) at(ref string, d digest.Digest) []ocispec.Descriptor {
	if ref == "" {
		return idx.loose[d]
	}
	return idx.tags[ref]
}

// drop removes what [index.at] returns, and returns it.
func (idx *index) drop(ref string, d digest.Digest) []ocispec.Descriptor {
	gone := idx.at(ref, d)
	for _, e := range gone {
		refs := idx.digests[e.Digest]
		if i := slices.Index(refs, ref); i >= 0 {
			idx.digests[e.Digest] = slices.Delete(refs, i, i+1)
		}
		if len(idx.digests[e.Digest]) == 0 {
			delete(idx.digests, e.Digest)
		}
	}
	if ref == "" {
		delete(idx.loose, d)
		return gone
	}
	delete(idx.tags, ref)
	if repo, ok := repoOf(ref); ok {
		delete(idx.repos[repo], ref)
		if len(idx.repos[repo]) == 0 {
			delete(idx.repos, repo)
		}
	}
	return gone
}

// all returns the entries sorted: tags by name, then the untagged by digest.
func (idx *index) all() []ocispec.Descriptor {
	out := []ocispec.Descriptor{}
	for _, ref := range slices.Sorted(maps.Keys(idx.tags)) {
		out = append(out, idx.tags[ref]...)
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

// sumEntries is the digest of the entries as compact JSON, and of the journal's
// name where there is one.
func sumEntries(doc *ocispec.Index) (digest.Digest, error) {
	data, err := json.Marshal(doc.Manifests)
	return digest.FromBytes(append(data, doc.Annotations[journalAnnotation]...)), err
}

// edit is a change of the index on its way to disk.
type edit struct {
	idx *index
	rec record
}

// set puts n under ref, or untagged where ref is "", in place of what is there.
func (e *edit) set(n *artifact.Manifest, ref string) {
	desc := entryOf(n, ref)
	if old := e.idx.at(ref, desc.Digest); len(old) != 1 || !sameEntry(old[0], desc) {
		e.rec.Set = append(e.rec.Set, desc)
	}
}

// drop removes what is under ref or, where ref is "", the untagged entry of d.
func (e *edit) drop(ref string, d digest.Digest) {
	if len(e.idx.at(ref, d)) == 0 {
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

// cosignKind says what cosign shall take the entry for. A manifest with a
// subject gets none of its kinds, or cosign would take the signature for what
// is signed. An index is of the same kind as a manifest: under cosign's own word
// for indexes its verify --local-image finds nothing.
func cosignKind(n *artifact.Manifest, ref string) string {
	m := cosignTag.FindStringSubmatch(ref)
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

// refName is the reference name of an index entry, "" where it has none.
func refName(desc ocispec.Descriptor) string { return desc.Annotations[ocispec.AnnotationRefName] }

// refPattern holds every "name:tag" that a registry takes, and the looser
// names of image layouts (image-spec, org.opencontainers.image.ref.name).
// There is no '@': what follows one is a digest.
var refPattern = regexp.MustCompile(`^[A-Za-z0-9_][-A-Za-z0-9_.:+/]*$`)

// maxRef bounds the length of a reference name.
const maxRef = 512

// checkRef refuses reference names that no layout reader could use.
func checkRef(ref string) error {
	if len(ref) > maxRef || !refPattern.MatchString(ref) {
		return fmt.Errorf("reference %q is not made of letters, digits and _.:+/-: %w", artifact.Shorten(ref), errdef.ErrInvalidReference)
	}
	if _, err := digest.Parse(ref); err == nil {
		return fmt.Errorf("reference %q is a digest: %w", ref, errdef.ErrInvalidReference)
	}
	return nil
}
