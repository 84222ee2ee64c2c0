package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// pushLayout is [Client.Push] to an image layout.
func (c *Client) pushLayout(ctx context.Context, src *registry.Store, desc ocispec.Descriptor, to Reference, tags []registry.Tag, opt PushOptions) (report Report, err error) {
	dst, err := registry.Open(to.Layout, registry.Options{})
	if err != nil {
		return report, err
	}
	defer dst.Close()
	main, referring, err := plans(ctx, src, desc)
	if err != nil {
		return report, err
	}
	if err := c.copyPlans(ctx, src, dst, main, referring, opt.Link, &report); err != nil {
		return report, err
	}
	for _, t := range tags {
		if err := dst.Tag(ctx, t.Descriptor, t.Ref); err != nil {
			return report, err
		}
		report.Tags = append(report.Tags, t.Ref)
	}
	return report, nil
}

// plans reads desc and its referrers from a store, to push them.
func plans(ctx context.Context, src *registry.Store, desc ocispec.Descriptor) (main, referring *plan, err error) {
	if main, err = newPlan(ctx, src, desc, filter{fault: errUnsendable}); err != nil {
		return nil, nil, err
	}
	if referring, err = referrersIn(ctx, src, main, 0); err != nil {
		return nil, nil, err
	}
	return main, referring, nil
}

// copyPlans brings two plans from one store into another, blobs first.
func (c *Client) copyPlans(ctx context.Context, src, dst *registry.Store, main, referring *plan, link bool, report *Report) error {
	var t tally
	report.count(main, referring)
	if !link || !dst.SameDisk(src.Dir()) {
		if err := dst.Room(slices.Concat(main.blobs, referring.blobs)); err != nil {
			return err
		}
	}
	defer func() { t.into(report) }()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(c.opt.Parallel)
	for _, p := range []*plan{main, referring} {
		for _, b := range p.blobs {
			group.Go(func() error {
				err := c.copyBlob(groupCtx, src, dst, b, link, &t)
				if err != nil {
					c.opt.Progress(Event{Kind: Failed, Descriptor: b, Err: err})
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return putManifests(ctx, dst, main, referring)
}

// copyBlob copies one blob, hashing it.
func (c *Client) copyBlob(ctx context.Context, src, dst *registry.Store, desc ocispec.Descriptor, link bool, t *tally) error {
	c.opt.Progress(Event{Kind: Started, Descriptor: desc})
	kind := Done
	switch there, err := dst.Exists(ctx, desc); {
	case err != nil:
		return err
	case there:
		kind = Present
	case link:
		got, err := dst.AddFile(ctx, src.BlobPath(desc), cas.AddOptions{MediaType: desc.MediaType, Link: true, Rehash: true})
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fsx.ErrIrregular) {
			return fmt.Errorf("%w: %w", artifact.ErrCorrupt, err)
		}
		if err != nil {
			return err
		}
		if got.Digest != desc.Digest || got.Size != desc.Size {
			return fmt.Errorf("blob %s: %w", desc.Digest, artifact.ErrCorrupt)
		}
	default:
		f, err := src.OpenBlob(ctx, desc)
		if err != nil {
			return err
		}
		err = dst.Push(ctx, desc, f)
		f.Close()
		if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return err
		}
		t.bytes.Add(desc.Size)
	}
	t.count(kind)
	c.opt.Progress(Event{Kind: kind, Descriptor: desc, Offset: desc.Size})
	return nil
}

// putManifests stores the manifests of the plans in their order.
func putManifests(ctx context.Context, dst *registry.Store, plans ...*plan) error {
	for _, p := range plans {
		for _, m := range p.manifests {
			if err := dst.Push(ctx, m.desc, bytes.NewReader(m.data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
				return err
			}
		}
	}
	return nil
}

// resolveLayout returns the artifact that ref names in an image layout: by
// digest, by reference name, or the only one with a name.
func resolveLayout(ctx context.Context, src *registry.Store, ref Reference) (ocispec.Descriptor, error) {
	if name := ref.target(); name != "" {
		return src.Resolve(ctx, name)
	}
	tags, err := src.Tags(ctx)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	var names []string
	for _, t := range tags {
		names = append(names, t.Ref)
	}
	if len(names) != 1 {
		return ocispec.Descriptor{}, &ReferenceError{Ref: ref.String(), Use: ref.String() + ":NAME", Err: fmt.Errorf("got %d reference names (%s), want one: %w",
			len(names), strings.Join(names[:min(len(names), 8)], ", "), errdef.ErrMissingReference)}
	}
	return tags[0].Descriptor, nil
}
