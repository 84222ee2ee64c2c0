package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
)

// remoteFlags say how to speak to a registry.
func remoteFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "plain-http", Usage: "speak HTTP without TLS to `HOST[:PORT]` (loopback needs no flag)"},
		&cli.BoolFlag{Name: "tls", Usage: "speak TLS to registries on this machine too"},
		&cli.StringFlag{Name: "ca-file", Usage: "trust the certificate authorities in `FILE` (PEM) as well"},
		&cli.DurationFlag{Name: "timeout", Usage: "give up after `TIME`, such as 10m (default: never, while something moves)"},
		&cli.IntFlag{Name: "parallel", Usage: "blobs in flight at a time (default: 4)"},
	}
}

// client makes a registry client of a command's flags and the settings.
func (p *program) client(c *cli.Context, progress func(remote.Event)) (*remote.Client, error) {
	set, list := loadSettings(".")
	if err := list.Err(); err != nil {
		return nil, err
	}
	return remote.New(remote.Options{
		PlainHTTP: append(set.PlainHTTP, c.StringSlice("plain-http")...), Parallel: c.Int("parallel"), Progress: progress,
		TLSLoopback: c.Bool("tls"), CAFile: c.String("ca-file"), Timeout: c.Duration("timeout"),
	})
}

func (p *program) pushCommand() *cli.Command {
	return &cli.Command{
		Name: "push", Usage: "send an artifact with its signatures to a registry or layout", ArgsUsage: "REF|DIR DEST",
		Description: "DEST is HOST/REPOSITORY[:TAG] or oci:DIR:NAME. The tag defaults to the artifact's version.\n" +
			"Each target of a build gets a tag of its own, TAG-TARGET, for clients that read no index.",
		Flags:  append([]cli.Flag{p.jsonFlag(), layoutFlag()}, remoteFlags()...),
		Action: p.push,
	}
}

func (p *program) push(c *cli.Context) error {
	if err := wantArgs(c, 2, 2); err != nil {
		return err
	}
	l, err := locate(c, c.Args().Get(0))
	if err != nil {
		return err
	}
	defer l.store.Close()
	dest, err := destination(c, l, c.Args().Get(1))
	if err != nil {
		return err
	}
	t := p.newTransfer("pushing")
	client, err := p.client(c, t.event)
	if err != nil {
		return err
	}
	defer client.Close()
	also, err := targetTags(c.Context, l, cmp.Or(dest.Entry, dest.Ref.Tag))
	if err != nil {
		return err
	}
	report, err := client.Push(c.Context, l.store, l.desc, dest.String(), remote.PushOptions{Also: also, Link: true})
	t.wait()
	p.record(c.Context, audit.Entry{Action: "push", Ref: dest.String(), Digest: l.desc.Digest.String(), Result: outcome(err)})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"ref": dest.String(), "digest": l.desc.Digest, "report": report})
	}
	p.say("%d of %d blobs sent (%s), %d there already, %d mounted; %d signatures and other referrers", report.Moved, report.Blobs, size(report.Bytes), report.Present, report.Mounted, report.Referrers)
	_, err = fmt.Fprintf(p.stdout, "%s@%s\n", dest, l.desc.Digest)
	return err
}

// destination reads DEST and fills in the tag.
func destination(c *cli.Context, l *located, s string) (remote.Reference, error) {
	dest, err := remote.ParseReference(s)
	if err != nil {
		return dest, usageError{err}
	}
	if dest.Entry != "" || dest.Ref.Tag != "" || dest.Ref.Digest != "" {
		return dest, nil
	}
	notes, err := annotationsOf(c.Context, l.store, l.desc)
	if err != nil {
		return dest, err
	}
	name, tag := notes[abi.AnnotationName], abi.VersionTag(notes[abi.AnnotationVersion])
	switch {
	case tag == "":
		return dest, usageError{fmt.Errorf("%s needs a tag: %s:TAG", s, s)}
	case dest.Layout != "":
		dest.Entry = name + ":" + tag
	default:
		dest.Ref.Tag = tag
	}
	return dest, nil
}

// targetTags are the further tags of a build: TAG-TARGET for each target.
func targetTags(ctx context.Context, l *located, tag string) ([]registry.Tag, error) {
	if tag == "" {
		return nil, nil
	}
	if l.desc.MediaType != ocispec.MediaTypeImageIndex {
		a, err := registry.ReadArtifact(ctx, l.store, l.desc)
		if err != nil {
			return nil, err
		}
		target := a.Annotations[abi.AnnotationTarget]
		if target == "" || strings.HasSuffix(tag, "-"+target) {
			return nil, nil
		}
		return []registry.Tag{{Ref: tag + "-" + target, Descriptor: l.desc}}, nil
	}
	ix, err := registry.ReadIndex(ctx, l.store, l.desc)
	if err != nil {
		return nil, err
	}
	var tags []registry.Tag
	for _, e := range ix.Entries {
		if e.Target != "" {
			tags = append(tags, registry.Tag{Ref: tag + "-" + e.Target, Descriptor: e.Descriptor})
		}
	}
	return tags, nil
}

func (p *program) pullCommand() *cli.Command {
	return &cli.Command{
		Name: "pull", Usage: "verify an artifact at a registry or layout and bring it into the store", ArgsUsage: "REF",
		Description: "REF is HOST/REPOSITORY:TAG, …@sha256:… or oci:DIR:NAME. A pull that was interrupted goes on\nwhere it was.",
		Flags: append(append([]cli.Flag{
			p.jsonFlag(), &cli.StringFlag{Name: "layout", Usage: "pull into the OCI layout at `DIR` instead of the store"},
			&cli.StringFlag{Name: "as", Usage: "name in the store (default: REF)"}, forceFlag(),
			&cli.StringFlag{Name: "target", Usage: "only the files of this target"},
			&cli.StringSliceFlag{Name: "only", Usage: "only some files: `role=ROLE`, format=FORMAT or a module's name"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "put the files into `DIR` as well"},
		}, remoteFlags()...), trustFlags()...),
		Action: p.pull,
	}
}

func (p *program) pull(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	ref, err := remote.ParseReference(c.Args().First())
	if err != nil {
		return usageError{err}
	}
	if len(c.StringSlice("only")) > 0 && c.String("out") == "" {
		return usageError{errors.New("--only needs --out DIR: a part of an artifact gets no name in the store")}
	}
	store, err := openPullStore(c)
	if err != nil {
		return err
	}
	defer store.Close()
	t := p.newTransfer("pulling")
	client, err := p.client(c, t.event)
	if err != nil {
		return err
	}
	defer client.Close()
	l, report, err := p.fetch(c, client, ref, store)
	t.wait()
	entry := audit.Entry{Action: "pull", Ref: ref.String(), Keys: report.SignedBy, Result: outcome(err)}
	if l != nil {
		entry.Digest = l.desc.Digest.String()
	}
	p.record(c.Context, entry)
	if err != nil {
		return err
	}
	if out := c.String("out"); out != "" {
		if err := p.checkout(c, l, out); err != nil {
			return err
		}
	}
	if p.json {
		return p.printJSON(map[string]any{"ref": l.ref, "digest": l.desc.Digest, "report": report})
	}
	p.say("%d of %d blobs received (%s), %d there already", report.Moved, report.Blobs, size(report.Bytes), report.Present)
	_, err = fmt.Fprintf(p.stdout, "%s@%s\n", l.ref, l.desc.Digest)
	return err
}

func openPullStore(c *cli.Context) (*registry.Store, error) {
	if dir := c.String("layout"); dir != "" {
		return registry.Open(dir, registry.Options{})
	}
	return openStore()
}

// fetch resolves the reference once, pulls by digest with the signature asked
// for before anything big, compares identity and tag, and only then gives the
// artifact its name in the store.
func (p *program) fetch(c *cli.Context, client *remote.Client, ref remote.Reference, store *registry.Store) (*located, remote.Report, error) {
	desc, err := client.Resolve(c.Context, ref.String())
	if errors.Is(err, errdef.ErrNotFound) {
		var list diag.List
		list.Add(diag.NoArtifact, diag.Pos{}, ref.String()+" is not there", "check the name and the tag")
		err = list.Err()
	}
	if err != nil {
		return nil, remote.Report{}, err
	}
	opt := remote.PullOptions{Target: c.String("target"), Only: only(c.StringSlice("only")), Link: true}
	verifier, policy, err := p.verifierOf(c)
	if err != nil {
		return nil, remote.Report{}, err
	}
	skip := c.Bool("insecure-skip-verify")
	if !skip {
		opt.Verifier, opt.Keep = pullVerifier{verifier, ref}, verifier.Vouches
	}
	opt.Admit = registry.CheckTree
	l := &located{store: store, desc: desc, ref: localName(c, ref), repository: ref.Place(), tag: ref.Ref.Tag}
	pinned := ref
	pinned.Ref.Digest = desc.Digest.String()
	if skip {
		if err := p.skipPull(c, l, policy); err != nil {
			return l, remote.Report{}, err
		}
	}
	_, report, err := client.Pull(c.Context, pinned.String(), store, opt)
	if err != nil {
		return l, report, err
	}
	if err := intact(c.Context, store, desc, opt); err != nil {
		return l, report, err
	}
	if p.testOnlyVerified != nil {
		p.testOnlyVerified(l)
	}
	return l, report, p.name(c, client, ref, l, opt.Only != nil || opt.Target != "")
}

// intact makes sure of what was in the store already: blobs that this pull has
// hashed cost nothing here.
func intact(ctx context.Context, store *registry.Store, desc ocispec.Descriptor, opt remote.PullOptions) error {
	if desc.MediaType == ocispec.MediaTypeImageIndex {
		ix, err := registry.ReadIndex(ctx, store, desc)
		if err != nil {
			return err
		}
		for _, e := range ix.Entries {
			if opt.Target != "" && e.Target != opt.Target {
				continue
			}
			if err := intact(ctx, store, e.Descriptor, opt); err != nil {
				return err
			}
		}
		return nil
	}
	a, err := registry.ReadArtifact(ctx, store, desc)
	if err != nil {
		return err
	}
	for _, l := range a.Layers {
		d := l.Descriptor
		d.Annotations = l.Annotations
		if opt.Only != nil && !opt.Only(d) {
			continue
		}
		if err := store.VerifyCached(ctx, l.Descriptor); err != nil {
			return err
		}
	}
	return nil
}

// name gives a pulled artifact its name, if the reference still means it and
// the artifact calls itself what the reference says.
func (p *program) name(c *cli.Context, client *remote.Client, ref remote.Reference, l *located, part bool) error {
	if ref.Layout == "" {
		l.local()
		if err := l.checkIdentity(c.Context); err != nil {
			return err
		}
	}
	if ref.Ref.Digest != "" || ref.Entry == "" && ref.Ref.Tag == "" {
		return nil
	}
	now, err := client.Resolve(c.Context, ref.String())
	if err != nil {
		return err
	}
	if now.Digest != l.desc.Digest {
		var list diag.List
		list.Add(diag.TagMoved, diag.Pos{}, fmt.Sprintf("%s was %s when it was verified and is %s now", ref, l.desc.Digest, now.Digest), "run the command again, or use the digest")
		return list.Err()
	}
	if part {
		return nil
	}
	return claim(c, l.store, l.desc, l.ref)
}

// localName is what a pulled artifact is called in the store.
func localName(c *cli.Context, ref remote.Reference) string {
	switch {
	case c.String("as") != "":
		return c.String("as")
	case ref.Layout != "":
		return ref.Entry
	case ref.Ref.Tag != "":
		return ref.Ref.Tagged(ref.Ref.Tag).String()
	}
	return ref.String()
}

func (p *program) skipPull(c *cli.Context, l *located, policy sign.Policy) error {
	if policy.Strict {
		var list diag.List
		list.Add(diag.SkippedVerify, diag.Pos{}, "the trust file is strict", "leave --insecure-skip-verify out")
		return list.Err()
	}
	p.say("mm: warning: %s %s is pulled UNVERIFIED: nobody vouches for it", l.ref, l.desc.Digest)
	p.record(c.Context, audit.Entry{Action: "skip-verify", Ref: l.ref, Digest: l.desc.Digest.String(), Result: "skipped"})
	return nil
}

// only turns the values of --only into a choice of layers: any of them is
// enough.
func only(values []string) func(ocispec.Descriptor) bool {
	if len(values) == 0 {
		return nil
	}
	return func(d ocispec.Descriptor) bool {
		for _, v := range values {
			key, want, ok := strings.Cut(v, "=")
			switch {
			case !ok && d.Annotations[abi.AnnotationComponent] == v,
				ok && key == "role" && d.Annotations[abi.AnnotationRole] == want,
				ok && key == "format" && d.Annotations[abi.AnnotationFormat] == want:
				return true
			}
		}
		return false
	}
}

// checkout puts the pulled files into a folder, each target of an index into
// one of its own.
func (p *program) checkout(c *cli.Context, l *located, out string) error {
	choose := only(c.StringSlice("only"))
	opt := registry.CheckoutOptions{Link: true, Cached: true, Target: c.String("target")}
	if choose != nil {
		opt.Only = func(layer registry.Layer) bool {
			return choose(ocispec.Descriptor{Annotations: layer.Annotations})
		}
	}
	_, err := l.store.CheckoutTree(c.Context, l.desc, out, opt)
	return err
}

// pullVerifier asks the policy about the repository that the user named: for a
// layout that is no registry, the artifact's own name.
type pullVerifier struct {
	verifier *sign.Verifier
	ref      remote.Reference
}

// Verify implements remote.Verifier.
func (v pullVerifier) Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]string, error) {
	if v.ref.Layout != "" {
		notes, err := annotationsOf(ctx, src, desc)
		if err != nil {
			return nil, err
		}
		repository = localRepository + notes[abi.AnnotationName]
	}
	return v.verifier.Verify(ctx, src, repository, desc)
}
