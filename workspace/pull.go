package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
)

// PullOptions for [Workspace.Pull].
type PullOptions struct {
	Claim
	Force  bool     // move the name from other bytes
	As     string   // name in the store. Empty: that of the reference
	Target string   // only the files of this target. Empty: all
	Only   []string // only some files: role=ROLE, format=FORMAT, or a module's name; any of them is enough. Nil: all
	Out    string   // folder that gets the files as well. Empty: none
	Kind   string   // refuse an artifact of another abi.Kind… before its files are fetched. Empty: any

	passing bool // the store may be a temporary one
}

// Pulled is the result of [Workspace.Pull].
type Pulled struct {
	Judgement
	Name   string // in the store; empty for a part, which gets none
	Report remote.Report
	// Permissions are the requests of the skills of the artifact. Pulling grants none.
	Permissions []Permission
	Next        string // the command that runs another tool's model in PullOptions.Out. Empty: none
}

// Pull fetches an artifact into the store. Everything that the manifest
// determines is checked before a layer is fetched: kind, MM-ABI, identity,
// signatures, and whether the name in the store is free. Every byte is hashed
// in transit, and existing blobs are hashed unless the digest cache has them;
// only then, and if the reference still has the same meaning, is the name set.
func (w *Workspace) Pull(ctx context.Context, arg string, opt PullOptions) (*Pulled, error) {
	if len(opt.Only) > 0 && opt.Out == "" {
		return nil, errors.New("a part of an artifact needs a folder (--out): it gets no name in the store")
	}
	at, err := w.findPull(ctx, arg)
	if err != nil {
		return nil, err
	}
	if at, err = at.narrow(ctx, opt); err != nil {
		return nil, err
	}
	p, err := w.pull(ctx, at, opt)
	e := audit.Entry{Action: "pull", Ref: arg, Digest: at.desc.Digest.String(), Result: Outcome(err)}
	if p != nil {
		e.Keys = ids(p.Keys)
	}
	w.Record(ctx, e)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// findPull finds the artifact to pull: at a registry or in a layout, never in
// the store itself.
func (w *Workspace) findPull(ctx context.Context, arg string) (*Located, error) {
	if strings.HasPrefix(arg, "oci:") {
		return w.Find(ctx, arg)
	}
	if l, err := w.findFolder(ctx, arg); l != nil || err != nil {
		return l, err
	}
	return w.FindPublished(ctx, arg)
}

func (w *Workspace) pull(ctx context.Context, at *Located, opt PullOptions) (*Pulled, error) {
	j, err := w.Judge(ctx, at, opt.Claim)
	if err != nil {
		return nil, err
	}
	if opt.Kind != "" && j.Identity.Kind != opt.Kind {
		return nil, fault(diag.ForeignArtifact, fmt.Sprintf("%s is %s %s, of kind %q and not %q", at.ref, cmp.Or(j.Identity.Name, "something without a name"), j.Identity.Version, shorten(j.Identity.Kind), opt.Kind), "check the reference")
	}
	name, alias, err := w.nameFor(at, j, opt)
	if err != nil {
		return nil, err
	}
	if err := checkTarget(at.tree, opt.Target); err != nil {
		return nil, err
	}
	into, err := w.pullStore(opt)
	if err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	p := &Pulled{Judgement: *j}
	move := remote.PullOptions{Only: only(opt.Only), Link: true, Tree: at.tree}
	if at.tree.Index != nil {
		move.Target = opt.Target
	}
	move.Source, _ = at.src.(*remote.Source)
	if !j.Skipped {
		move.Keep = w.vouched
	}
	if _, p.Report, err = client.Pull(ctx, at.pinned(), into, move); err != nil {
		return p, err
	}
	p.Report.SignedBy = ids(j.Keys)
	if err := intact(ctx, into, at.tree, move); err != nil {
		return p, explainBytes(err, into)
	}
	if move.Only == nil {
		if err := checkClaims(ctx, into, at.ref, at.tree, move.Target); err != nil {
			return p, err
		}
		if err := w.complete(ctx, at, into); err != nil {
			return p, err
		}
	}
	if p.Permissions, err = pulledPermissions(ctx, into, at.tree, opt.Target); err != nil {
		return p, err
	}
	if w.admitted != nil {
		w.admitted()
	}
	if err := at.unmoved(ctx); err != nil {
		return p, err
	}
	w.follow(ctx, at, j)
	if opt.Out != "" {
		if p.Next, err = checkout(ctx, into, at.tree, opt); err != nil {
			return p, err
		}
	}
	if move.Only != nil || move.Target != "" || name == "" {
		return p, nil
	}
	if err := claim(ctx, into, at.desc, name, opt.Force); err != nil {
		return p, err
	}
	p.Name, p.Report.Tags = name, append(p.Report.Tags, name)
	return p, w.setAlias(ctx, name, alias)
}

// narrow returns the location of one target of a build, which becomes a separate
// artifact in the store, named as its tag at the registry: TAG-TARGET. A part of
// an artifact and an engine stay below their index.
func (l *Located) narrow(ctx context.Context, opt PullOptions) (*Located, error) {
	if opt.Target == "" || len(opt.Only) > 0 || opt.Kind == abi.KindEngine {
		return l, nil
	}
	if _, err := l.identify(ctx); err != nil {
		return nil, err
	}
	if err := checkTarget(l.tree, opt.Target); err != nil || l.tree.Index == nil {
		return l, err
	}
	i := slices.IndexFunc(l.tree.Parts, func(p artifact.Part) bool {
		return cmp.Or(p.Target, p.Artifact.Annotations[abi.AnnotationTarget]) == opt.Target
	})
	index, part := l.desc, l.tree.Parts[i].Descriptor
	one := *l
	one.desc, one.tree, one.identity, one.target = part, nil, artifact.Identity{}, opt.Target
	if l.tag != "" {
		one.tag = l.tag + "-" + opt.Target
	}
	if l.remote.Ref.Tag != "" {
		one.remote.Ref = l.remote.Ref.Tagged(one.tag)
	}
	if now := l.now; now != nil { // the tag must still mean the same build
		one.now = func(ctx context.Context) (ocispec.Descriptor, error) {
			d, err := now(ctx)
			if err == nil && d.Digest == index.Digest {
				return part, nil
			}
			return d, err
		}
	}
	return &one, nil
}

// pinned returns the reference by digest, so that the judged artifact is
// fetched.
func (l *Located) pinned() string {
	if l.store != nil {
		return "oci:" + l.store.Dir() + "@" + l.desc.Digest.String()
	}
	return l.remote.Place() + "@" + l.desc.Digest.String()
}

// pullStore is the store or the layout that pull fills, which may be new.
func (w *Workspace) pullStore(opt PullOptions) (*registry.Store, error) {
	if w.opt.Layout == "" {
		if opt.Out == "" && !opt.passing {
			return w.kept()
		}
		return w.store()
	}
	s, err := registry.Open(w.opt.Layout, registry.Options{})
	if err == nil {
		w.later(s.Close)
	}
	return s, err
}

// nameFor returns the pulled artifact's name in the store, and the alias that
// the name requires.
func (w *Workspace) nameFor(at *Located, j *Judgement, opt PullOptions) (string, *Alias, error) {
	name := opt.As
	if name == "" {
		name = at.storeName(j)
	}
	if name == "" || len(opt.Only) > 0 || opt.Target != "" && at.tree.Index != nil {
		return name, nil, nil
	}
	ref, err := abi.ParseRef(name)
	if err != nil {
		return "", nil, err
	}
	ownName := ref.Name == j.Identity.Name && abi.TagMeaning(ref.Tag, j.Identity.Version, j.Identity.Target) != abi.MeansMistake
	switch {
	case ownName && (w.opt.Layout != "" || ref.Repository() == j.repository):
		return name, nil, nil
	case ref.Repository() == at.repository && ref.Name == at.name && opt.Expect == "":
		return name, nil, nil // a mirror that the trust file names
	case w.opt.Layout != "":
		return "", nil, fault(diag.IdentityDiffers, fmt.Sprintf("%s would name %s %s in the layout %s", name, j.Identity.Name, j.Identity.Version, w.opt.Layout),
			"a layout keeps no aliases: pull it as "+j.Identity.Name+":"+abi.VersionTag(j.Identity.Version))
	}
	return name, &Alias{Repository: j.repository, Name: j.Identity.Name, Version: j.Identity.Version}, nil
}

// storeName returns the default name of a reference in the store.
func (l *Located) storeName(j *Judgement) string {
	switch {
	case l.store != nil:
		tag := abi.VersionTag(j.Identity.Version)
		if j.Identity.Target != "" && abi.TagMeaning(l.tag, j.Identity.Version, j.Identity.Target) == abi.MeansTarget {
			tag = l.tag
		}
		return j.Identity.Name + ":" + tag
	case l.remote.Ref.Tag != "":
		return l.remote.Ref.Tagged(l.remote.Ref.Tag).String()
	}
	return ""
}

// checkTarget refuses a target that the artifact does not have.
func checkTarget(t *artifact.Tree, want string) error {
	if want == "" {
		return nil
	}
	var have []string
	for _, p := range t.Parts {
		have = append(have, cmp.Or(p.Target, p.Artifact.Annotations[abi.AnnotationTarget]))
	}
	if slices.Contains(have, want) {
		return nil
	}
	return noTarget(want, have)
}

// only converts PullOptions.Only to a filter of layers.
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

// intact verifies the layers that were in the store already. Blobs that this
// process has hashed cost nothing here.
func intact(ctx context.Context, s *registry.Store, t *artifact.Tree, opt remote.PullOptions) error {
	for _, p := range t.Parts {
		if opt.Target != "" && p.Target != "" && p.Target != opt.Target {
			continue
		}
		for _, l := range p.Artifact.Layers {
			d := l.Descriptor
			d.Annotations = l.Annotations
			if opt.Only != nil && !opt.Only(d) {
				continue
			}
			if err := present(ctx, s, l.Descriptor); err != nil {
				return err
			}
		}
	}
	return nil
}

// present verifies one blob of the store, through the digest cache.
func present(ctx context.Context, s *registry.Store, desc ocispec.Descriptor) error {
	err := s.VerifyCached(ctx, desc)
	switch {
	case errors.Is(err, artifact.ErrCorrupt):
		return &sign.Refusal{Reason: sign.Tampered, Subject: desc.Digest, Detail: "its bytes do not match its digest"}
	case errors.Is(err, errdef.ErrNotFound):
		return &sign.Refusal{Reason: sign.Missing, Subject: desc.Digest, Detail: "blob not found", Hint: "fetch or assemble it again"}
	}
	return err
}

// vouched keeps the referrers that a trusted key signed: others could fill the
// store, since any writer of the repository may attach them.
func (w *Workspace) vouched(ctx context.Context, src content.Fetcher, subject, bundle ocispec.Descriptor) (bool, error) {
	b, err := w.judges()
	if err != nil {
		return false, err
	}
	return b.Vouches(ctx, src, subject, bundle)
}

// checkout writes the pulled files into a folder, each target of an index into
// its own, and returns the command that runs another tool's model. Of another tool's
// index it writes the target for this machine.
func checkout(ctx context.Context, s *registry.Store, t *artifact.Tree, opt PullOptions) (next string, err error) {
	out := registry.CheckoutOptions{Link: true, Cached: true, Target: cmp.Or(opt.Target, t.Pick(runtime.GOOS, runtime.GOARCH))}
	if choose := only(opt.Only); choose != nil {
		out.Only = func(l artifact.Layer) bool { return choose(ocispec.Descriptor{Annotations: l.Annotations}) }
	}
	paths, err := s.CheckoutTree(ctx, t, opt.Out, out)
	at := max(0, slices.IndexFunc(t.Parts, func(p artifact.Part) bool { return p.Target == out.Target }))
	if a := t.Parts[at].Artifact; err == nil && a.Identity().Kind == "" {
		next = found(a, paths).command(opt.Out)
	}
	return next, err
}

// Use finds an argument and admits it. An artifact at a registry is pulled
// into the store first, under the requested name.
func (w *Workspace) Use(ctx context.Context, arg string, claim Claim) (*Verified, error) {
	return w.UseTarget(ctx, arg, "", claim)
}

// UseTarget is Use for one target of a build; of an artifact at a registry, only
// that target is pulled. If target is empty, it is Use.
func (w *Workspace) UseTarget(ctx context.Context, arg, target string, claim Claim) (*Verified, error) {
	at, err := w.findTargeted(ctx, arg, target)
	if err != nil {
		return nil, err
	}
	if at.Remote() {
		got, err := w.Pull(ctx, arg, PullOptions{Claim: claim, Target: target, passing: true})
		if err != nil {
			return nil, err
		}
		if at, err = w.pulled(ctx, got, at); err != nil {
			return nil, err
		}
	}
	return w.Admit(ctx, at, claim)
}

// findTargeted finds the argument. A target that was pulled alone is in the store as
// TAG-TARGET, without the build.
func (w *Workspace) findTargeted(ctx context.Context, arg, target string) (*Located, error) {
	ref, err := abi.ParseRef(arg)
	if err == nil && target != "" && ref.Tag != "" && ref.Digest == "" && !w.stored(ctx, arg) {
		if one := ref.Tagged(ref.Tag + "-" + target).String(); w.stored(ctx, one) {
			return w.findStored(ctx, one)
		}
	}
	return w.Find(ctx, arg)
}

// pulled is the pulled artifact in the store: by its name, or by its digest
// where the reference was one.
func (w *Workspace) pulled(ctx context.Context, got *Pulled, at *Located) (*Located, error) {
	if got.Name != "" {
		return w.findStored(ctx, got.Name)
	}
	s, err := w.store()
	if err != nil {
		return nil, err
	}
	l := *at
	l.src, l.store, l.now = s, s, nil
	return &l, nil
}
