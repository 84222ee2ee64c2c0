package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Tree holds the checked manifests and configs of an artifact: of a single
// manifest, or of an index and its targets.
type Tree struct {
	Descriptor ocispec.Descriptor
	Index      *Index // nil: a single manifest
	Parts      []Part // that manifest, or the index's entries in their order
}

// Part is one manifest of a [Tree].
type Part struct {
	Target     string // empty: not in an index
	Descriptor ocispec.Descriptor
	Artifact   *Artifact
}

// ReadTree reads the manifest or index desc and the manifests below it, each
// once, as [Read] and [ReadIndex] do. Layers are not fetched.
func ReadTree(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (*Tree, error) {
	t := &Tree{Descriptor: desc}
	if !isIndex(desc.MediaType) {
		a, err := Read(ctx, src, desc)
		if err != nil {
			return nil, err
		}
		t.Parts = []Part{{Descriptor: desc, Artifact: a}}
		return t, nil
	}
	ix, err := ReadIndex(ctx, src, desc)
	if err != nil {
		return nil, err
	}
	t.Index = ix
	var other error // of the first entry that is not a model
	for _, e := range ix.Entries {
		a, err := Read(ctx, src, e.Descriptor)
		if ix.Foreign && errors.Is(err, ErrForeign) {
			other = cmp.Or(other, err)
			continue // a container image, for example
		}
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", e.Target, err)
		}
		t.Parts = append(t.Parts, Part{e.Target, e.Descriptor, a})
	}
	if len(t.Parts) == 0 {
		return nil, other
	}
	return t, nil
}

// CheckABI refuses a tree with an unknown version of MM-ABI. The error is
// [ErrABI].
func (t *Tree) CheckABI() error {
	if t.Index != nil {
		if err := checkABI(t.Index.Annotations); err != nil {
			return err
		}
	}
	for _, p := range t.Parts {
		if err := p.Artifact.CheckABI(); err != nil {
			if t.Index != nil {
				err = fmt.Errorf("target %s: %w", p.Target, err)
			}
			return err
		}
	}
	return nil
}

// CheckTree refuses, by the manifests and configs below desc alone, an artifact
// that mm cannot use: another kind of artifact, layers that are not raw files,
// unsafe paths and targets, sizes and counts beyond the limits, an unknown
// version of MM-ABI. Layers are not fetched. The error is [ErrManifest] or
// [ErrABI], or one of fetching.
func CheckTree(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) error {
	t, err := ReadTree(ctx, src, desc)
	if err != nil {
		return err
	}
	return t.CheckABI()
}
