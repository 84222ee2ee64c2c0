package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// maxSources bounds the tags whose blobs are offered for mounting, and the
// source repositories of one blob.
const (
	maxSources = 256
	maxMounts  = 2
)

// PushOptions for [Client.Push].
type PushOptions struct {
	// Also are further tags, each for the artifact or for a manifest below it:
	// TAG-laptop, TAG-mobile. They are set before the tag of the reference.
	Also []registry.Tag
	// MountFrom are repositories of the same registry that may hold some of the
	// blobs. Those that the store has tags of are found without it. Zero: none.
	MountFrom []string
	// Admit is called before anything is sent. Nil: everything passes.
	Admit func(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) error
	// Link shares bytes with a layout on the same disk by hard links. Zero: copy.
	Link bool
	// Memory remembers unfinished uploads, for the next process. Nil: the source.
	Memory *registry.Store
	// Force moves tags of versions that name other manifests. Zero: the error is a
	// [registry.TakenError], before anything is sent.
	Force bool
}

// Push sends desc from src to ref, a repository or an image layout, which is
// created if it is missing, together with all that desc names and all its
// referrers. Existing blobs are not sent again. The tag is set last; without
// one in ref the artifact is reachable by its digest only.
func (c *Client) Push(ctx context.Context, src *registry.Store, desc ocispec.Descriptor, ref string, opt PushOptions) (Report, error) {
	ctx, stop := c.within(ctx)
	defer stop()
	to, err := ParseReference(ref)
	if err != nil {
		return Report{}, fmt.Errorf("push: %w", err)
	}
	if opt.Admit != nil {
		if err := opt.Admit(ctx, src, desc); err != nil {
			return Report{}, fmt.Errorf("push to %s: %w", ref, err)
		}
	}
	if to.Ref.Digest != "" && to.Ref.Digest != desc.Digest.String() {
		return Report{}, fmt.Errorf("push to %s: the artifact is %s: %w", ref, desc.Digest, errdef.ErrInvalidReference)
	}
	tags := slices.Clone(opt.Also)
	if tag := to.tag(); tag != "" {
		tags = append(tags, registry.Tag{Ref: tag, Descriptor: desc})
	}
	var report Report
	if to.Layout != "" {
		report, err = c.pushLayout(ctx, src, desc, to, tags, opt)
	} else {
		report, err = c.pushRegistry(ctx, src, desc, to, tags, opt)
	}
	if err != nil {
		return report, fmt.Errorf("push to %s: %w", ref, c.ended(ctx, err))
	}
	return report, nil
}

// push is one run of [Client.Push] to a registry.
type push struct {
	c     *Client
	src   *registry.Store
	r     *repository
	to    string // host/repository
	tally tally
	tags  map[string]digest.Digest // as they were before; a missing one is absent

	memory *registry.Store                   // of uploads
	mounts func() map[digest.Digest][]string // repositories by blob
}

func (c *Client) pushRegistry(ctx context.Context, src *registry.Store, desc ocispec.Descriptor, to Reference, tags []registry.Tag, opt PushOptions) (report Report, err error) {
	p := &push{c: c, src: src, r: c.repository(to), to: to.Place(), memory: cmp.Or(opt.Memory, src)}
	p.mounts = sync.OnceValue(func() map[digest.Digest][]string { return mountSources(ctx, src, to) })
	ctx = auth.AppendRepositoryScope(ctx, p.r.Reference, auth.ActionPull, auth.ActionPush)
	defer func() { p.tally.into(&report) }()

	main, referring, err := plans(ctx, src, desc)
	if err != nil {
		return report, err
	}
	report.count(main, referring)
	for _, t := range tags {
		if _, ok := main.seen[t.Descriptor.Digest]; !ok {
			return report, fmt.Errorf("tag %s: %s is not part of the artifact: %w", t.Ref, t.Descriptor.Digest, errdef.ErrInvalidReference)
		}
	}
	unlisted, err := p.check(ctx, tags, referring, opt.Force)
	if err != nil {
		return report, err
	}
	if err := p.sendPlan(ctx, main, opt.MountFrom); err != nil {
		return report, err
	}
	if err := p.sendReferrers(ctx, referring, unlisted); err != nil {
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

// check asks the registry what can be known before the first byte is sent: the
// login, the tags, and which referrers it does not list.
func (p *push) check(ctx context.Context, tags []registry.Tag, referring *plan, force bool) (unlisted []manifest, err error) {
	p.tags = map[string]digest.Digest{}
	for _, t := range tags {
		if !abi.ValidTag(t.Ref) {
			return nil, fmt.Errorf("tag %q, want at most 128 letters, digits, . - _: %w", t.Ref, errdef.ErrInvalidReference)
		}
	}
	for _, t := range tags {
		now, err := p.r.headManifest(ctx, t.Ref)
		if errors.Is(err, errdef.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tag %s: %w", t.Ref, err)
		}
		if _, version := abi.TagVersion(t.Ref); version == nil && now.Digest != t.Descriptor.Digest && !force {
			return nil, &registry.TakenError{Ref: p.to + ":" + t.Ref, Have: now.Digest, New: t.Descriptor.Digest}
		}
		p.tags[t.Ref] = now.Digest
	}
	return p.unlisted(ctx, referring.manifests)
}

// sendPlan sends blobs, then manifests. Each is checked for, even if the
// registry has the root: it may have lost blobs below.
func (p *push) sendPlan(ctx context.Context, main *plan, mountFrom []string) error {
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

// sendBlobs sends the missing blobs, several at a time.
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
	there, err := p.r.hasBlob(ctx, desc)
	if err != nil {
		return err
	}
	if there {
		p.finish(desc, Present)
		return nil
	}
	u := p.upload(ctx, desc)
	if desc.Size > u.chunk {
		// Without it, the next process starts the upload again.
		u.memory, _ = p.memory.Outgoing(ctx, p.to, desc.Digest)
		defer u.memory.Close()
		u.to = p.to
		u.recall()
	}
	from := slices.Concat(mountFrom, p.mounts()[desc.Digest])
	if u.location != nil {
		from = nil // it was begun already
	}
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

// upload returns an upload of desc that has not begun.
func (p *push) upload(ctx context.Context, desc ocispec.Descriptor) *upload {
	return &upload{
		r: p.r, desc: desc, chunk: p.c.opt.Chunk, event: p.c.opt.Progress,
		open: func() (*os.File, error) { return p.src.OpenBlob(ctx, desc) },
		sent: func(n int64) { p.tally.bytes.Add(n) },
	}
}

// finish reports and counts the end of a blob.
func (p *push) finish(desc ocispec.Descriptor, kind EventKind) {
	p.tally.count(kind)
	p.c.opt.Progress(Event{Kind: kind, Descriptor: desc, Offset: desc.Size})
}

// sendManifest sends a manifest if it is missing.
func (p *push) sendManifest(ctx context.Context, m manifest) error {
	there, err := p.r.hasManifest(ctx, m.desc)
	if err == nil && !there {
		_, err = p.put(ctx, m, m.desc.Digest.String())
	}
	if err != nil {
		return fmt.Errorf("manifest %s: %w", m.desc.Digest, err)
	}
	return nil
}

// put puts a manifest under target. A registry may not show its parts yet: they
// are looked for, sent again if they are missing, and the manifest is put again.
func (p *push) put(ctx context.Context, m manifest, target string) (processed bool, err error) {
	for tries := 0; ; tries++ {
		processed, err = p.r.putManifest(ctx, m.desc, m.data, target)
		if err == nil || !unknownPart(err) || tries >= p.c.backoff.tries {
			return processed, err
		}
		p.c.opt.Progress(Event{Kind: Retried, Descriptor: m.desc, Err: err})
		if err := sleep(ctx, p.c.backoff.wait(tries)); err != nil {
			return false, err
		}
		if tries == 0 {
			continue // a moment may be enough
		}
		if err := p.resend(ctx, m); err != nil {
			return false, err
		}
	}
}

// unknownPart reports whether a registry misses a part of a manifest.
func unknownPart(err error) bool {
	var all errcode.Errors
	if !errors.As(err, &all) {
		return false
	}
	return slices.ContainsFunc(all, func(e errcode.Error) bool {
		return e.Code == errcode.ErrorCodeManifestBlobUnknown || e.Code == errcode.ErrorCodeBlobUnknown || e.Code == manifestUnverified
	})
}

// manifestUnverified is Docker's older code for missing parts.
const manifestUnverified = "MANIFEST_UNVERIFIED"

// resend sends the parts of m that the registry does not show.
func (p *push) resend(ctx context.Context, m manifest) error {
	blobs := m.layers
	if m.config != nil {
		blobs = append([]ocispec.Descriptor{*m.config}, blobs...)
	}
	for _, b := range blobs {
		there, err := p.r.hasBlob(ctx, b)
		if err == nil && !there {
			err = p.upload(ctx, b).run(ctx)
		}
		if err != nil {
			return fmt.Errorf("blob %s: %w", b.Digest, err)
		}
	}
	return nil
}

// tag points the tag to its manifest, unless it already does, and waits until
// the registry shows it.
func (p *push) tag(ctx context.Context, t registry.Tag) error {
	if p.tags[t.Ref] == t.Descriptor.Digest {
		return nil
	}
	data, err := readManifest(ctx, p.src, t.Descriptor, errUnsendable)
	if err != nil {
		return fmt.Errorf("tag %s: %w", t.Ref, err)
	}
	if _, err := p.put(ctx, manifest{desc: t.Descriptor, data: data}, t.Ref); err != nil {
		return p.tagError(t, err)
	}
	for tries := 0; ; tries++ {
		now, err := p.r.headManifest(ctx, t.Ref)
		switch {
		case err == nil && now.Digest == t.Descriptor.Digest:
			return nil
		case err != nil && !errors.Is(err, errdef.ErrNotFound):
			return fmt.Errorf("tag %s: %w", t.Ref, err)
		case tries >= p.c.backoff.tries:
			return &OddError{Host: p.r.Reference.Host(), Request: "PUT " + p.r.url("manifests/"+t.Ref), Answer: "success, but the tag does not name the manifest"}
		}
		if err := sleep(ctx, p.c.backoff.wait(tries)); err != nil {
			return err
		}
	}
}

// tagError explains a refused tag.
func (p *push) tagError(t registry.Tag, err error) error {
	if old := p.tags[t.Ref]; old != "" && status(err) >= 400 && status(err) < 500 && !busy(status(err)) {
		return fmt.Errorf("tag %s names %s, and the registry does not let it move: %w", t.Ref, old, err)
	}
	return fmt.Errorf("tag %s: %w", t.Ref, err)
}

// mountSources finds repositories of the registry that hold blobs of the
// store, by the store's tags, which record where artifacts came from or went
// to. Unreadable ones are skipped.
func mountSources(ctx context.Context, src *registry.Store, to Reference) map[digest.Digest][]string {
	from := map[digest.Digest][]string{}
	tags, err := src.Tags(ctx)
	if err != nil {
		return from
	}
	looked := 0
	for _, t := range tags {
		ref, err := abi.ParseRef(t.Ref)
		if err != nil || ref.Host != to.Ref.Host || ref.FullName() == to.Ref.FullName() {
			continue
		}
		if looked++; looked > maxSources {
			break
		}
		_ = src.Walk(ctx, t.Descriptor, func(d ocispec.Descriptor) error {
			if !artifact.IsManifest(d.MediaType) && !slices.Contains(from[d.Digest], ref.FullName()) {
				from[d.Digest] = append(from[d.Digest], ref.FullName())
			}
			return nil
		})
	}
	return from
}
