package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm/registry"
)

// maxSources bounds the tags whose blobs are offered for mounting, and the
// repositories that are asked for one blob.
const (
	maxSources = 256
	maxMounts  = 2
)

// listTries is how often a registry is asked whether it lists what was pushed
// as referrer.
const listTries = 4

// PushOptions for [Client.Push].
type PushOptions struct {
	// Also are further tags, each for the artifact or for a manifest below it:
	// TAG-laptop, TAG-mobile. They are set before the tag of the reference.
	Also []registry.Tag
	// MountFrom are repositories of the same registry that may hold some of the
	// blobs. Those that the store has tags of are found without it. Zero: none.
	MountFrom []string
	// Link shares bytes with a layout on the same disk by hard links. Zero: copy.
	Link bool
}

// Push sends desc, which src holds, to the place that ref names: a repository
// or an image layout, which is created where there is none. With it go what it
// names and what refers to it or to a manifest below it. What is there already
// is not sent again. The tag is set last; without one in ref the artifact is
// reached by its digest only.
func (c *Client) Push(ctx context.Context, src *registry.Store, desc ocispec.Descriptor, ref string, opt PushOptions) (Report, error) {
	to, err := ParseReference(ref)
	if err != nil {
		return Report{}, fmt.Errorf("push: %w", err)
	}
	if to.Digest != "" && to.Digest != desc.Digest {
		return Report{}, fmt.Errorf("push to %s: the artifact is %s: %w", ref, desc.Digest, errdef.ErrInvalidReference)
	}
	tags := slices.Clone(opt.Also)
	if to.Tag != "" {
		tags = append(tags, registry.Tag{Ref: to.Tag, Descriptor: desc})
	}
	var report Report
	if to.Layout != "" {
		report, err = c.pushLayout(ctx, src, desc, to, tags, opt)
	} else {
		report, err = c.pushRegistry(ctx, src, desc, to, tags, opt)
	}
	if err != nil {
		return report, fmt.Errorf("push to %s: %w", ref, err)
	}
	return report, nil
}

// push is one run of [Client.Push] to a registry.
type push struct {
	c     *Client
	src   *registry.Store
	r     *repository
	tally tally

	mounts func() map[digest.Digest][]string // repositories by blob
}

func (c *Client) pushRegistry(ctx context.Context, src *registry.Store, desc ocispec.Descriptor, to Reference, tags []registry.Tag, opt PushOptions) (report Report, err error) {
	p := &push{c: c, src: src, r: c.repository(to)}
	p.mounts = sync.OnceValue(func() map[digest.Digest][]string { return mountSources(ctx, src, to) })
	ctx = auth.AppendRepositoryScope(ctx, p.r.Reference, auth.ActionPull, auth.ActionPush)
	defer func() { p.tally.into(&report) }()

	main, referring, err := plans(ctx, src, desc, filter{})
	if err != nil {
		return report, err
	}
	report.count(main, referring)
	for _, t := range tags {
		if _, ok := main.seen[t.Descriptor.Digest]; !ok {
			return report, fmt.Errorf("tag %s is for %s, which is no part of the artifact: %w", t.Ref, t.Descriptor.Digest, errdef.ErrInvalidReference)
		}
	}
	if err := p.sendPlan(ctx, main, desc, opt.MountFrom); err != nil {
		return report, err
	}
	if err := p.sendReferrers(ctx, referring); err != nil {
		return report, err
	}
	for _, t := range tags {
		if err := p.tag(ctx, t); err != nil {
			return report, err
		}
		report.Tags = append(report.Tags, t.Ref)
	}
	return report, nil
}

// sendPlan sends blobs, then manifests, unless the registry has the root: it
// took that only with all below it.
func (p *push) sendPlan(ctx context.Context, main *plan, root ocispec.Descriptor, mountFrom []string) error {
	there, err := p.r.Manifests().Exists(ctx, root)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", root.Digest, err)
	}
	if there {
		for _, b := range main.blobs {
			p.finish(b, Present)
		}
		return nil
	}
	if err := p.sendBlobs(ctx, main.blobs, mountFrom); err != nil {
		return err
	}
	for _, m := range main.manifests {
		if err := p.sendManifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// sendBlobs sends the blobs that are not there, several at a time.
func (p *push) sendBlobs(ctx context.Context, blobs []ocispec.Descriptor, mountFrom []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.c.opt.Parallel)
	for _, b := range blobs {
		group.Go(func() error {
			if err := p.sendBlob(ctx, b, mountFrom); err != nil {
				p.c.opt.Progress(Event{Kind: Failed, Descriptor: b, Err: err})
				return fmt.Errorf("blob %s: %w", b.Digest, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// sendBlob asks for the blob, offers to mount it, sends it.
func (p *push) sendBlob(ctx context.Context, desc ocispec.Descriptor, mountFrom []string) error {
	p.c.opt.Progress(Event{Kind: Started, Descriptor: desc})
	there, err := p.r.Blobs().Exists(ctx, desc)
	if err != nil {
		return err
	}
	if there {
		p.finish(desc, Present)
		return nil
	}
	u := &upload{
		r: p.r, desc: desc, chunk: p.c.opt.Chunk, event: p.c.opt.Progress,
		open: func() (*os.File, error) { return p.src.OpenBlob(ctx, desc) },
		sent: func(n int64) { p.tally.bytes.Add(n) },
	}
	from := slices.Concat(mountFrom, p.mounts()[desc.Digest])
	mounted, err := u.mount(ctx, from[:min(len(from), maxMounts)])
	if err != nil {
		return err
	}
	if mounted {
		p.finish(desc, Mounted)
		return nil
	}
	if err := u.run(ctx); err != nil {
		return err
	}
	p.finish(desc, Done)
	return nil
}

// finish tells and counts the end of a blob.
func (p *push) finish(desc ocispec.Descriptor, kind EventKind) {
	p.tally.count(kind)
	p.c.opt.Progress(Event{Kind: kind, Descriptor: desc, Offset: desc.Size})
}

// sendManifest sends a manifest that is not there.
func (p *push) sendManifest(ctx context.Context, m manifest) error {
	there, err := p.r.Manifests().Exists(ctx, m.desc)
	if err == nil && !there {
		err = p.r.Manifests().Push(ctx, m.desc, bytes.NewReader(m.data))
	}
	if err != nil {
		return fmt.Errorf("manifest %s: %w", m.desc.Digest, err)
	}
	return nil
}

// tag lets the tag point to its manifest, unless it does.
func (p *push) tag(ctx context.Context, t registry.Tag) error {
	now, err := p.r.Resolve(ctx, t.Ref)
	if err == nil && now.Digest == t.Descriptor.Digest {
		return nil
	}
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("tag %s: %w", t.Ref, err)
	}
	data, err := readManifest(ctx, p.src, t.Descriptor)
	if err == nil {
		err = p.r.PushReference(ctx, t.Descriptor, bytes.NewReader(data), t.Ref)
	}
	if err != nil {
		return fmt.Errorf("tag %s: %w", t.Ref, err)
	}
	return nil
}

// referrersIn collects what refers to the manifests of main in the store, and
// what refers to that.
func referrersIn(ctx context.Context, src *registry.Store, main *plan, depth int) (*plan, error) {
	found := &plan{seen: map[digest.Digest]int64{}}
	for _, m := range main.manifests {
		list, err := src.Referrers(ctx, m.desc, "")
		if err != nil {
			return nil, fmt.Errorf("looking for what refers to %s: %w", m.desc.Digest, err)
		}
		for _, d := range list {
			if _, inside := main.seen[d.Digest]; inside {
				continue
			}
			if err := found.add(ctx, src, d, filter{}, 0); err != nil {
				return nil, err
			}
		}
	}
	if len(found.manifests) == 0 || depth == maxNesting {
		return found, nil
	}
	more, err := referrersIn(ctx, src, found, depth+1)
	if err != nil {
		return nil, err
	}
	found.manifests = append(found.manifests, more.manifests...)
	found.blobs = append(found.blobs, more.blobs...)
	return found, nil
}

// sendReferrers sends the referrers that the registry does not list, and sees
// to it that it lists them: where it has no referrers API, two clients that
// push at once may overwrite each other's list.
func (p *push) sendReferrers(ctx context.Context, referring *plan) error {
	missing, err := p.unlisted(ctx, referring.manifests)
	if err != nil {
		return err
	}
	for tries := 0; len(missing) > 0; tries++ {
		if tries == listTries {
			return fmt.Errorf("the registry does not list %s among the referrers of %s", missing[0].desc.Digest, missing[0].subject.Digest)
		}
		if tries > 0 {
			if err := sleep(ctx, p.c.backoff.wait(tries-1)); err != nil {
				return err
			}
		} else if err := p.sendParts(ctx, referring); err != nil {
			return err
		}
		for _, m := range missing {
			if err := p.r.Manifests().Push(ctx, m.desc, bytes.NewReader(m.data)); err != nil {
				return fmt.Errorf("referrer %s: %w", m.desc.Digest, err)
			}
		}
		if missing, err = p.unlisted(ctx, missing); err != nil {
			return err
		}
	}
	return nil
}

// sendParts sends what referrers are made of.
func (p *push) sendParts(ctx context.Context, referring *plan) error {
	if err := p.sendBlobs(ctx, referring.blobs, nil); err != nil {
		return err
	}
	for _, m := range referring.manifests {
		if m.subject != nil {
			continue
		}
		if err := p.sendManifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// unlisted returns the referrers that the registry does not list.
func (p *push) unlisted(ctx context.Context, referring []manifest) ([]manifest, error) {
	listed := map[digest.Digest]map[digest.Digest]bool{} // by subject
	var missing []manifest
	for _, m := range referring {
		if m.subject == nil {
			continue // part of a referring index
		}
		if listed[m.subject.Digest] == nil {
			list, err := p.r.referrers(ctx, *m.subject)
			if err != nil {
				return nil, err
			}
			listed[m.subject.Digest] = map[digest.Digest]bool{}
			for _, d := range list {
				listed[m.subject.Digest][d.Digest] = true
			}
		}
		if !listed[m.subject.Digest][m.desc.Digest] {
			missing = append(missing, m)
		}
	}
	return missing, nil
}

// mountSources finds repositories of the registry that hold blobs of the store:
// the store's tags remember where artifacts came from or went to. What cannot
// be read offers nothing.
func mountSources(ctx context.Context, src *registry.Store, to Reference) map[digest.Digest][]string {
	from := map[digest.Digest][]string{}
	tags, err := src.Tags(ctx)
	if err != nil {
		return from
	}
	looked := 0
	for _, t := range tags {
		ref, err := ParseReference(t.Ref)
		if err != nil || ref.Host != to.Host || ref.Repository == to.Repository {
			continue
		}
		if looked++; looked > maxSources {
			break
		}
		_ = src.Walk(ctx, t.Descriptor, func(d ocispec.Descriptor) error {
			if !registry.IsManifest(d.MediaType) && !slices.Contains(from[d.Digest], ref.Repository) {
				from[d.Digest] = append(from[d.Digest], ref.Repository)
			}
			return nil
		})
	}
	return from
}

// referrers lists what refers to desc, bounded. Nothing where the repository or
// the manifest is not there.
func (r *repository) referrers(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var found []ocispec.Descriptor
	err := r.Referrers(ctx, desc, "", func(page []ocispec.Descriptor) error {
		found = append(found, page...)
		if len(found) > maxListed {
			return fmt.Errorf("%w: more than %d referrers", ErrHostile, maxListed)
		}
		return nil
	})
	if status(err) == http.StatusNotFound || errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing what refers to %s: %w", desc.Digest, err)
	}
	return found, nil
}
