package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
)

// cosign finds its way in a layout by this annotation of index entries.
const (
	kindAnnotation = "kind"
	kindImage      = "dev.cosignproject.cosign/image"
	kindSigs       = "dev.cosignproject.cosign/sigs"
	kindAtts       = "dev.cosignproject.cosign/atts"
)

// sumAnnotation of index.json holds the digest of its list of entries, so that
// Fsck can tell damage: no other file says what index.json should hold.
const sumAnnotation = abi.Namespace + ".sum"

// cosignTag matches the tags of cosign's older signature scheme.
var cosignTag = regexp.MustCompile(`(?:^|[:/])sha256-[0-9a-f]{64}\.(sig|att)$`)

// index is index.json at one moment. It is immutable.
type index struct {
	raw     []byte
	doc     ocispec.Index
	entries map[string][]int        // by reference name; several in layouts of other tools
	digests map[digest.Digest][]int // by digest
}

// readIndex returns index.json as it is now, without a lock: it is only ever
// replaced whole. Its bytes are read every time, since file times are too
// coarse to tell two replacements apart, and parsed when they differ.
func (s *Store) readIndex() (*index, error) {
	raw, err := s.readSmall(ocispec.ImageIndexFile, maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: %w", ocispec.ImageIndexFile, ErrCorrupt)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	last := s.index
	s.mu.Unlock()
	if last != nil && bytes.Equal(raw, last.raw) {
		return last, nil
	}
	idx, err := parseIndex(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", ocispec.ImageIndexFile, ErrCorrupt, err)
	}
	s.mu.Lock()
	s.index = idx
	s.mu.Unlock()
	return idx, nil
}

func parseIndex(raw []byte) (*index, error) {
	idx := &index{raw: raw, entries: map[string][]int{}, digests: map[digest.Digest][]int{}}
	if err := decodeStrict(raw, &idx.doc); err != nil {
		return nil, err
	}
	if idx.doc.SchemaVersion != 2 {
		return nil, fmt.Errorf("schemaVersion %d where 2 is meant", idx.doc.SchemaVersion)
	}
	for i, e := range idx.doc.Manifests {
		if err := checkDescriptor(e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		idx.digests[e.Digest] = append(idx.digests[e.Digest], i)
		if ref := refName(e); ref != "" {
			idx.entries[ref] = append(idx.entries[ref], i)
		}
	}
	return idx, nil
}

// updateIndex lets change edit index.json under the lock, and replaces the
// file if change says that it did. Entries come out sorted: tags by name, then
// the untagged by digest.
func (s *Store) updateIndex(ctx context.Context, change func(doc *ocispec.Index) (bool, error)) error {
	lock, err := s.dir.Lock(ctx, indexLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	idx, err := s.readIndex()
	if err != nil {
		return err
	}
	doc := idx.doc
	doc.Manifests = slices.Clone(doc.Manifests)
	changed, err := change(&doc)
	if err != nil || !changed {
		return err
	}
	return s.writeIndex(&doc)
}

func (s *Store) writeIndex(doc *ocispec.Index) error {
	doc.MediaType = ocispec.MediaTypeImageIndex
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
	sum, err := sumEntries(doc)
	if err != nil {
		return err
	}
	doc.Annotations = maps.Clone(doc.Annotations)
	if doc.Annotations == nil {
		doc.Annotations = map[string]string{}
	}
	doc.Annotations[sumAnnotation] = sum.String()
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if len(data) > maxIndexBytes {
		return fmt.Errorf("%s would exceed %d bytes", ocispec.ImageIndexFile, maxIndexBytes)
	}
	return s.dir.WriteFile(ocispec.ImageIndexFile, data, 0o644)
}

// sumEntries is the digest of the entries as compact JSON.
func sumEntries(doc *ocispec.Index) (digest.Digest, error) {
	data, err := json.Marshal(doc.Manifests)
	return digest.FromBytes(data), err
}

// setEntry puts n into doc under ref, or untagged where ref is "". It reports
// whether anything changed.
func setEntry(doc *ocispec.Index, n *node, ref string) bool {
	e := plain(n.desc)
	e.ArtifactType = n.artifactType
	if kind := cosignKind(n, ref); kind != "" {
		e.Annotations = map[string]string{kindAnnotation: kind}
	}
	if ref != "" {
		if e.Annotations == nil {
			e.Annotations = map[string]string{}
		}
		e.Annotations[ocispec.AnnotationRefName] = ref
	}
	same := func(old ocispec.Descriptor) bool {
		return refName(old) == ref && (ref != "" || old.Digest == e.Digest)
	}
	if i := slices.IndexFunc(doc.Manifests, same); i >= 0 && sameEntry(doc.Manifests[i], e) {
		return false
	}
	doc.Manifests = append(slices.DeleteFunc(doc.Manifests, same), e)
	return true
}

func sameEntry(a, b ocispec.Descriptor) bool {
	return a.Digest == b.Digest && a.Size == b.Size && a.MediaType == b.MediaType &&
		a.ArtifactType == b.ArtifactType && maps.Equal(a.Annotations, b.Annotations)
}

// cosignKind says what cosign shall take the entry for. A manifest with a
// subject gets none of its kinds, or cosign would take the signature for what
// is signed. An index is of the same kind as a manifest: under cosign's own word
// for indexes its verify --local-image finds nothing.
func cosignKind(n *node, ref string) string {
	m := cosignTag.FindStringSubmatch(ref)
	switch {
	case m != nil && m[1] == "sig":
		return kindSigs
	case m != nil:
		return kindAtts
	case n.subject != nil:
		return ""
	}
	return kindImage
}

// refName is the reference name of an index entry, "" where it has none.
func refName(desc ocispec.Descriptor) string { return desc.Annotations[ocispec.AnnotationRefName] }

// plain keeps what identifies content.
func plain(desc ocispec.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}
}

// refPattern holds every "name:tag" that a registry takes, and the looser
// names of image layouts (image-spec, org.opencontainers.image.ref.name).
// There is no '@': what follows one is a digest.
var refPattern = regexp.MustCompile(`^[A-Za-z0-9_][-A-Za-z0-9_.:+/]*$`)

// maxRef bounds the length of a reference name.
const maxRef = 512

// checkRef refuses reference names that no layout reader could use.
func checkRef(ref string) error {
	if len(ref) > maxRef || !refPattern.MatchString(ref) {
		return fmt.Errorf("reference %q is not made of letters, digits and _.:+/-: %w", shorten(ref), errdef.ErrInvalidReference)
	}
	if _, err := digest.Parse(ref); err == nil {
		return fmt.Errorf("reference %q is a digest: %w", ref, errdef.ErrInvalidReference)
	}
	return nil
}

// shorten keeps hostile names out of messages beyond 80 bytes.
func shorten(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
