package remote

import (
	"context"
	"fmt"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// Verifier decides whether an artifact of a repository may be used, and returns
// the ids of the keys that released it.
type Verifier interface {
	Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]string, error)
}

// PullOptions for [Client.Pull].
type PullOptions struct {
	// Verifier is called before layers are fetched, with the registry or
	// layout as the source. Nil: none; the caller verifies the result.
	Verifier Verifier
	// Admit is called after the verifier and before any layer is fetched or
	// anything is stored. It may read manifests and configs from src. mm's own
	// artifact types are checked by artifact.CheckTree first. Nil: everything
	// passes.
	Admit func(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) error
	// Keep selects the signatures and attestations to pull: bundle is the
	// manifest of one about subject, both in src. Nil: those for which the
	// Verifier has a trusted key, if it can check that (method Vouches); else
	// a few well-formed ones.
	Keep func(ctx context.Context, src content.Fetcher, subject, bundle ocispec.Descriptor) (bool, error)
	// AllReferrers keeps every referrer, also those that are not bundles. Zero: Keep decides.
	AllReferrers bool
	// Only selects layers. Manifests, configs and signatures are always
	// complete. An artifact without some layers gets no tag. Nil: all.
	Only func(layer ocispec.Descriptor) bool
	// Target leaves out the layers of an index's manifests for other targets
	// (annotation abi.AnnotationTarget). Zero: all targets.
	Target string
	// As is the tag set in the store. Zero: the reference itself, as
	// HOST/REPOSITORY:TAG or, from a layout, its reference name; none for a
	// digest.
	As string
	// Source holds the manifests that the caller has read from the repository, so
	// that they are not fetched again. Nil: none.
	Source *Source
	// Tree is the artifact as the caller has read and checked it; it is not
	// checked again. Nil: artifact.CheckTree checks it.
	Tree *artifact.Tree
	// Link shares bytes with a layout on the same disk by hard links. Zero: copy.
	Link bool
}

// Pull fetches the artifact that ref names into dst and returns its
// descriptor. Each blob is hashed before it is visible; bytes from an earlier
// run are not fetched again. Signatures are included. The tag is set last.
func (c *Client) Pull(ctx context.Context, ref string, dst *registry.Store, opt PullOptions) (ocispec.Descriptor, Report, error) {
	ctx, stop := c.within(ctx)
	defer stop()
	from, err := ParseReference(ref)
	if err != nil {
		return ocispec.Descriptor{}, Report{}, fmt.Errorf("pull: %w", err)
	}
	var report Report
	var desc ocispec.Descriptor
	if from.Layout != "" {
		desc, err = c.pullLayout(ctx, from, dst, opt, &report)
	} else {
		desc, err = c.pullRegistry(ctx, from, dst, opt, &report)
	}
	if err != nil {
		return desc, report, fmt.Errorf("pull %s: %w", ref, c.ended(ctx, err))
	}
	return desc, report, nil
}

// count fills in the sizes of the plans.
func (r *Report) count(main, referring *plan) {
	r.Manifests, r.Referrers, r.Left = len(main.manifests), len(referring.manifests), main.left
	r.Blobs = len(main.blobs) + len(referring.blobs)
}

func (c *Client) pullLayout(ctx context.Context, from Reference, dst *registry.Store, opt PullOptions, report *Report) (ocispec.Descriptor, error) {
	src, err := registry.Open(from.Layout, registry.Options{ReadOnly: true})
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer src.Close()
	desc, err := resolveLayout(ctx, src, from)
	if err != nil {
		return desc, err
	}
	main, referring, err := admitted(ctx, layout{src}, from, desc, opt, report)
	if err != nil {
		return desc, err
	}
	if err := c.copyPlans(ctx, src, dst, main, referring, opt.Link, report); err != nil {
		return desc, err
	}
	as := opt.As
	if as == "" && from.Ref.Digest == "" {
		as = from.Entry
	}
	return desc, setTag(ctx, dst, desc, as, report)
}

func (c *Client) pullRegistry(ctx context.Context, from Reference, dst *registry.Store, opt PullOptions, report *Report) (ocispec.Descriptor, error) {
	src := opt.Source
	if src == nil {
		src = newSource(c.repository(from))
	}
	ctx = auth.AppendRepositoryScope(ctx, src.Reference, auth.ActionPull)
	desc, err := src.find(ctx, from)
	if err != nil {
		return desc, err
	}
	main, referring, err := admitted(ctx, src, from, desc, opt, report)
	if err != nil {
		return desc, err
	}
	report.count(main, referring)
	if err := dst.Room(slices.Concat(main.blobs, referring.blobs)); err != nil {
		return desc, err
	}
	if err := c.fetchBlobs(ctx, src, dst, report, main, referring); err != nil {
		return desc, err
	}
	if err := putManifests(ctx, dst, main, referring); err != nil {
		return desc, err
	}
	as := opt.As
	if as == "" && from.Ref.Tag != "" && from.Ref.Digest == "" {
		as = from.Ref.Tagged(from.Ref.Tag).String()
	}
	return desc, setTag(ctx, dst, desc, as, report)
}

// admitted reads the manifests of desc and its signatures, once the verifier,
// the checks and Admit have passed.
func admitted(ctx context.Context, src source, from Reference, desc ocispec.Descriptor, opt PullOptions, report *Report) (main, referring *plan, err error) {
	if err := verify(ctx, src, from, desc, opt, report); err != nil {
		return nil, nil, err
	}
	if main, err = newPlan(ctx, src, desc, filter{only: opt.Only, target: opt.Target}); err != nil {
		return nil, nil, err
	}
	if t := main.manifests[len(main.manifests)-1].artifactType; opt.Tree != nil && opt.Tree.Descriptor.Digest == desc.Digest {
		// checked by the caller
	} else if t == abi.ArtifactModel || t == abi.ArtifactIndex {
		if err := artifact.CheckTree(ctx, src, desc); err != nil {
			return nil, nil, err
		}
	}
	if opt.Admit != nil {
		if err := opt.Admit(ctx, src, desc); err != nil {
			return nil, nil, err
		}
	}
	referring, err = bundles(ctx, src, main, opt)
	return main, referring, err
}

// verify asks the verifier, if there is one.
func verify(ctx context.Context, src content.ReadOnlyGraphStorage, from Reference, desc ocispec.Descriptor, opt PullOptions, report *Report) (err error) {
	if opt.Verifier != nil {
		report.SignedBy, err = opt.Verifier.Verify(ctx, src, from.Place(), desc)
	}
	return err
}

// setTag names the pulled artifact, if it is complete.
func setTag(ctx context.Context, dst *registry.Store, desc ocispec.Descriptor, as string, report *Report) error {
	if as == "" || report.Left > 0 {
		return nil
	}
	if err := dst.Tag(ctx, desc, as); err != nil {
		return err
	}
	report.Tags = append(report.Tags, as)
	return nil
}

// fetchBlobs brings the blobs of the plans into the store, several at a time.
func (c *Client) fetchBlobs(ctx context.Context, src *Source, dst *registry.Store, report *Report, plans ...*plan) error {
	var t tally
	defer func() { t.into(report) }()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.opt.Parallel)
	for _, p := range plans {
		for _, b := range p.blobs {
			group.Go(func() error {
				d := &download{r: src.repository, src: src, desc: b, dst: dst, tally: &t}
				if err := d.run(ctx); err != nil {
					c.opt.Progress(Event{Kind: Failed, Descriptor: b, Err: err})
					return fmt.Errorf("blob %s: %w", b.Digest, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}
