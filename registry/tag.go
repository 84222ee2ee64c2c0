package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// Tag is a reference name and its manifest.
type Tag struct {
	Ref        string             `json:"ref"`
	Descriptor ocispec.Descriptor `json:"descriptor"`
}

// Resolve returns the descriptor of a reference name, a digest, or
// "anything@digest". If there is none, the error is errdef.ErrNotFound.
func (s *Store) Resolve(ctx context.Context, ref string) (ocispec.Descriptor, error) {
	if ref == "" {
		return ocispec.Descriptor{}, fmt.Errorf("resolve: %w", errdef.ErrMissingReference)
	}
	desc, err := s.resolve(ref)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("resolve %q: %w", artifact.Shorten(ref), err)
	}
	return desc, ctx.Err()
}

func (s *Store) resolve(ref string) (desc ocispec.Descriptor, err error) {
	err = s.names.View(func(idx *nameIndex) error {
		desc, err = idx.Lookup(ref)
		if !errors.Is(err, errdef.ErrNotFound) {
			return err
		}
		d, parseErr := digest.Parse(ref[strings.LastIndexByte(ref, '@')+1:])
		if parseErr != nil {
			return err
		}
		desc, err = idx.Describe(d)
		return err
	})
	if errors.Is(err, errdef.ErrNotFound) {
		if d, parseErr := digest.Parse(ref[strings.LastIndexByte(ref, '@')+1:]); parseErr == nil {
			return s.resolveDigest(d)
		}
	}
	return desc, err
}

// resolveDigest describes the blob d, which is not listed, by its content.
func (s *Store) resolveDigest(d digest.Digest) (ocispec.Descriptor, error) {
	if err := artifact.CheckDigest(d); err != nil {
		return ocispec.Descriptor{}, err
	}
	fi, err := s.Stat(d)
	if err != nil || !fi.Mode().IsRegular() {
		return ocispec.Descriptor{}, errdef.ErrNotFound
	}
	desc := ocispec.Descriptor{MediaType: "application/octet-stream", Digest: d, Size: fi.Size()}
	if data, err := s.ReadBlob(desc, artifact.MaxManifestBytes); err == nil {
		if mediaType := sniff(data); mediaType != "" {
			desc.MediaType = mediaType
		}
	}
	return desc, nil
}

// sniff returns the media type that a manifest states, or the one that its
// fields imply; "" for any other content.
func sniff(data []byte) string {
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Config        json.RawMessage `json:"config"`
		Manifests     json.RawMessage `json:"manifests"`
	}
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &doc) != nil || doc.SchemaVersion != 2 {
		return ""
	}
	switch {
	case artifact.IsManifest(doc.MediaType):
		return doc.MediaType
	case doc.MediaType == "" && doc.Manifests != nil:
		return ocispec.MediaTypeImageIndex
	case doc.MediaType == "" && doc.Config != nil:
		return ocispec.MediaTypeImageManifest
	}
	return ""
}

// Tag makes ref point to the manifest desc. Every blob that desc reaches must
// be in the store; for the first missing one, the error is errdef.ErrNotFound.
func (s *Store) Tag(ctx context.Context, desc ocispec.Descriptor, ref string) error {
	return s.named(ctx, desc, ref, false)
}

// Claim is Tag, but a version never moves: if ref ends in a SemVer version and
// names another manifest already, the error is a [*TakenError]. Other names,
// such as latest, move.
func (s *Store) Claim(ctx context.Context, desc ocispec.Descriptor, ref string) error {
	_, err := abi.ParseVersion(ref[strings.LastIndexByte(ref, ':')+1:])
	return s.named(ctx, desc, ref, err == nil)
}

// TakenError reports a version that already names other bytes.
type TakenError struct {
	Ref       string
	Have, New digest.Digest
}

// Error returns a message with both digests.
func (e *TakenError) Error() string {
	return fmt.Sprintf("%s is %s already, and not %s", e.Ref, e.Have, e.New)
}

func (s *Store) named(ctx context.Context, desc ocispec.Descriptor, ref string, claim bool) error {
	if err := s.tag(ctx, desc, ref, claim); err != nil {
		return fmt.Errorf("tag %q: %w", artifact.Shorten(ref), err)
	}
	return nil
}

func (s *Store) tag(ctx context.Context, desc ocispec.Descriptor, ref string, claim bool) error {
	if err := s.writable(); err != nil {
		return err
	}
	if err := checkRef(ref); err != nil {
		return err
	}
	if err := artifact.CheckDescriptor(desc); err != nil {
		return err
	}
	if !artifact.IsManifest(desc.MediaType) {
		return fmt.Errorf("%s is not a manifest: %w", artifact.Shorten(desc.MediaType), errdef.ErrInvalidMediaType)
	}
	// While the shared lock is held gc removes nothing, so all blobs found
	// here still exist when the index names them.
	lock, err := s.dir.RLock(ctx, cas.GCLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := s.Walk(ctx, desc, s.present); err != nil {
		return err
	}
	n, err := s.node(desc)
	if err != nil {
		return err
	}
	err = s.names.Update(ctx, func(e *nameEdit) error {
		for _, old := range e.Index.Tags[ref] {
			if claim && old.Digest != desc.Digest {
				return &TakenError{ref, old.Digest, desc.Digest}
			}
		}
		e.Set(n, ref)
		return nil
	})
	if repo, ok := repoOf(ref); ok && err == nil {
		err = s.revive(ctx, repo, desc)
	}
	return err
}

// present refuses a descriptor whose blob is not in the store. Layers that by
// their media type or URLs lie elsewhere need not be.
func (s *Store) present(desc ocispec.Descriptor) error {
	ok, err := s.Has(desc)
	if err != nil {
		return err
	}
	if !ok && !artifact.Elsewhere(desc) {
		return fmt.Errorf("blob %s: %w", desc.Digest, errdef.ErrNotFound)
	}
	return nil
}

// Untag removes the reference name. If there is none, the error is
// errdef.ErrNotFound.
func (s *Store) Untag(ctx context.Context, ref string) error {
	err := s.drop(ctx, func(e *nameEdit) {
		if ref != "" {
			e.Drop(ref, "")
		}
	})
	if err != nil {
		return fmt.Errorf("untag %q: %w", artifact.Shorten(ref), err)
	}
	return nil
}

// Remove removes a name: the tag ref or, if ref is a digest, every entry of
// that manifest and of its untagged referrers. The next [Store.GC] removes the
// bytes.
func (s *Store) Remove(ctx context.Context, ref string) error {
	d, err := digest.Parse(ref)
	if err != nil {
		return s.Untag(ctx, ref)
	}
	referrers, err := s.Referrers(ctx, ocispec.Descriptor{Digest: d}, "")
	if err == nil {
		err = s.drop(ctx, func(e *nameEdit) {
			for _, ref := range e.Index.Digests[d] {
				e.Drop(ref, d)
			}
			for _, r := range referrers {
				e.Drop("", r.Digest)
			}
		})
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", d, err)
	}
	return nil
}

// drop removes entries, of which there must be one. A referrer has an untagged
// entry in addition to its tags, so losing a tag does not lose it.
func (s *Store) drop(ctx context.Context, choose func(e *nameEdit)) error {
	if err := s.writable(); err != nil {
		return err
	}
	return s.names.Update(ctx, func(e *nameEdit) error {
		if choose(e); e.Empty() {
			return errdef.ErrNotFound
		}
		return nil
	})
}

// Tags lists every reference name, sorted.
func (s *Store) Tags(ctx context.Context) ([]Tag, error) {
	return s.listTags(ctx, func(idx *nameIndex) iter.Seq[string] { return maps.Keys(idx.Tags) })
}

// RepoTags lists the reference names "repo:tag" of a repository, sorted.
func (s *Store) RepoTags(ctx context.Context, repo string) ([]Tag, error) {
	return s.listTags(ctx, func(idx *nameIndex) iter.Seq[string] { return maps.Keys(idx.Repos[repo]) })
}

func (s *Store) listTags(ctx context.Context, of func(*nameIndex) iter.Seq[string]) (tags []Tag, err error) {
	err = s.names.View(func(idx *nameIndex) error {
		for ref := range of(idx) {
			if desc, err := idx.Lookup(ref); err == nil {
				tags = append(tags, Tag{Ref: ref, Descriptor: desc})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	slices.SortFunc(tags, func(a, b Tag) int { return cmp.Compare(a.Ref, b.Ref) })
	return tags, ctx.Err()
}
