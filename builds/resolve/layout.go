package resolve

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
	"mm-abi.org/mm/registry/modelpack"
	"mm-abi.org/mm/registry/sign"
)

// Layout is a Source over the local store or another OCI image layout.
type Layout struct {
	From     *registry.Store
	Into     *registry.Store // may be From; nil: nothing is fetched
	Verifier Verifier
	Label    string // "store" for the local store, or the layout's path
}

// String is the label.
func (l *Layout) String() string { return l.Label }

// Candidates returns the modules under tags REPOSITORY:VERSION whose repository
// ends in the name; or the module of one digest, whatever names it has.
func (l *Layout) Candidates(ctx context.Context, q Query) ([]Candidate, error) {
	tags, err := l.From.Tags(ctx)
	if err != nil {
		return nil, err
	}
	var found []Candidate
	for _, t := range tags {
		ref, err := abi.ParseRef(t.Ref)
		if err != nil || ref.Name != q.Name || ref.Tag == "" {
			continue
		}
		if q.Digest != "" {
			if t.Descriptor.Digest.String() == q.Digest && (len(found) == 0 || ref.Source() == q.Repository) {
				found = l.candidate(ctx, ref.Bare(), "", t.Descriptor)
			}
			continue
		}
		if version, err := abi.TagVersion(ref.Tag); err == nil {
			found = append(found, l.candidate(ctx, ref, version.String(), t.Descriptor)...)
		}
	}
	if q.Digest != "" && len(found) == 0 {
		return l.unnamed(ctx, q)
	}
	return found, nil
}

// unnamed finds bytes without a tag: those that an earlier run fetched are
// available for the lock.
func (l *Layout) unnamed(ctx context.Context, q Query) ([]Candidate, error) {
	desc, err := l.From.Resolve(ctx, q.Digest)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ref := abi.Ref{Name: q.Name}
	if from, err := abi.ParseRef(q.Repository); err == nil && from.Name == q.Name {
		ref = from.Bare()
	}
	return l.candidate(ctx, ref, "", desc), nil
}

// packed finds the bytes that an earlier run packed from a module folder; nil if gc
// removed them. They need no signature, as the folder needs none: their digest is the lock's.
func (l *Layout) packed(ctx context.Context, pin builds.Locked) (*Candidate, error) {
	found, err := l.unnamed(ctx, Query{Name: pin.Name, Digest: pin.Digest})
	for _, c := range found {
		if s, ok := c.module.(*stored); ok && c.Version.String() == pin.Version {
			s.verifier = nil
			return &Candidate{Name: c.Name, Version: c.Version, Origin: l.Label, module: s}, nil
		}
	}
	return nil, err
}

// candidate describes one artifact, if it is a module. version is that of the
// tag; if empty, the artifact's.
func (l *Layout) candidate(ctx context.Context, ref abi.Ref, version string, desc ocispec.Descriptor) []Candidate {
	if desc.MediaType != ocispec.MediaTypeImageManifest {
		return nil
	}
	id, err := artifact.Identify(ctx, l.From, desc)
	if err != nil || id.Kind != abi.KindModule {
		return nil
	}
	if version == "" {
		version = id.Version
	}
	v, err := abi.ParseVersion(version)
	if err != nil {
		return nil
	}
	s := &stored{ref: ref, version: version, src: l.From, verifier: l.Verifier, into: l.Into, desc: desc, copy: l.copy}
	origin := l.Label
	if ref.Host != "" { // it came from there, and another machine finds it there
		origin = ref.Source()
	}
	return []Candidate{{Name: ref.Name, Version: v, Repository: ref.Bare().String(), Origin: origin, module: s}}
}

// copy copies desc and everything below it, with its referrers, from one
// layout to another. Each byte is hashed, in transit or in place.
func (l *Layout) copy(ctx context.Context, desc ocispec.Descriptor) error {
	if l.From.Dir() == l.Into.Dir() {
		_, err := sign.VerifyTree(ctx, l.From, desc, sign.TreeOptions{})
		return err
	}
	roots := []ocispec.Descriptor{desc}
	referrers, err := l.From.Referrers(ctx, desc, "")
	if err != nil {
		return err
	}
	for _, root := range append(roots, referrers...) {
		if err := l.copyTree(ctx, root); err != nil {
			return fmt.Errorf("copying %s: %w", root.Digest, err)
		}
	}
	return nil
}

// copyTree copies all that root reaches, blobs before the manifests that name
// them.
func (l *Layout) copyTree(ctx context.Context, root ocispec.Descriptor) error {
	var manifests []ocispec.Descriptor
	err := l.From.Walk(ctx, root, func(d ocispec.Descriptor) error {
		if artifact.IsManifest(d.MediaType) {
			manifests = append(manifests, d)
			return nil
		}
		got, err := l.Into.AddFile(ctx, l.From.BlobPath(d), cas.AddOptions{MediaType: d.MediaType, Link: d.Size >= modelpack.LinkFrom, Rehash: true})
		if err == nil && (got.Digest != d.Digest || got.Size != d.Size) {
			err = fmt.Errorf("blob %s: %w", d.Digest, artifact.ErrCorrupt)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := len(manifests) - 1; i >= 0; i-- {
		r, err := l.From.Fetch(ctx, manifests[i])
		if err != nil {
			return err
		}
		err = l.Into.Push(ctx, manifests[i], r)
		r.Close()
		if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return err
		}
	}
	return nil
}
