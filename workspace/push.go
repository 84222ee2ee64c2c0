package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
)

// PushOptions for [Workspace.Push].
type PushOptions struct {
	Expect string // the name that the repository mirrors, as the user states it. Empty: the repository's own name
	Force  bool   // move the tag of a version from other bytes
}

// Pushed is the result of [Workspace.Push].
type Pushed struct {
	Ref    string // with the tag
	Digest string
	Report remote.Report
}

// Push sends an artifact with its signatures to HOST/REPOSITORY[:TAG] or
// oci:DIR[:NAME]. Names that every pull would refuse are refused here, and so
// are damaged blobs. Trust is decided by the puller; a missing signature
// causes a warning.
func (w *Workspace) Push(ctx context.Context, arg, dest string, opt PushOptions) (*Pushed, error) {
	at, err := w.Find(ctx, arg)
	if err != nil {
		return nil, err
	}
	if at.store == nil {
		return nil, fault(diag.NoArtifact, arg+" is not in "+w.StoreDir(), "mm pull fetches it")
	}
	id, err := at.identify(ctx)
	if err != nil {
		return nil, err
	}
	to, err := w.destination(dest, id, opt)
	if err != nil {
		return nil, err
	}
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	if err := intact(ctx, at.store, at.tree, remote.PullOptions{}); err != nil {
		return nil, explainBytes(err, at.store)
	}
	if err := w.warnUnsigned(ctx, at); err != nil {
		return nil, err
	}
	also := targetTags(at, to, id)
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	if err := at.unmoved(ctx); err != nil {
		return nil, err
	}
	report, err := client.Push(ctx, at.store, at.desc, to.String(), remote.PushOptions{Also: also, Link: true, Force: opt.Force, Memory: w.memory()})
	w.Record(ctx, audit.Entry{Action: "push", Ref: to.String(), Digest: at.desc.Digest.String(), Result: Outcome(err)})
	if err != nil {
		return nil, err
	}
	return &Pushed{Ref: to.String(), Digest: at.desc.Digest.String(), Report: report}, nil
}

// destination parses the destination, adds the tag and checks both against the
// artifact's own name and version.
func (w *Workspace) destination(dest string, id artifact.Identity, opt PushOptions) (remote.Reference, error) {
	to, err := remote.ParseReference(dest)
	if err != nil {
		return to, err
	}
	tag := abi.VersionTag(id.Version)
	if to.Layout != "" {
		return w.entry(dest, to, id, opt)
	}
	if to.Ref.Tag == "" && to.Ref.Digest == "" {
		if to.Ref.Tag = tag; tag == "" {
			return to, &remote.ReferenceError{Ref: dest, Err: fmt.Errorf("%s needs a tag: %w", dest, errdef.ErrInvalidReference), Use: dest + ":TAG"}
		}
	}
	want := to.Ref.Name
	if b, err := w.judges(); err == nil && b.Mirrors[to.Place()] != "" {
		want = b.Mirrors[to.Place()]
	}
	return to, w.checkDestination(to.String(), want, to.Ref.Tag, id, opt)
}

// entry completes the name in a layout to NAME:VERSION if it is empty or only
// a version.
func (w *Workspace) entry(dest string, to remote.Reference, id artifact.Identity, opt PushOptions) (remote.Reference, error) {
	if to.Ref.Digest != "" {
		return to, nil
	}
	if id.Name == "" || id.Version == "" {
		if to.Entry == "" {
			return to, &remote.ReferenceError{Ref: dest, Err: fmt.Errorf("%s needs a name: %w", dest, errdef.ErrInvalidReference), Use: dest + ":NAME:TAG"}
		}
		return to, nil
	}
	if to.Entry == "" {
		to.Entry = abi.VersionTag(id.Version)
	}
	if _, err := abi.TagVersion(to.Entry); err == nil { // a bare version
		to.Entry = id.Name + ":" + to.Entry
	}
	ref, err := abi.ParseRef(to.Entry)
	if err != nil || ref.Tag == "" {
		return to, nil // another tool's way to name things
	}
	to.Ref = ref
	return to, w.checkDestination(to.Entry, ref.Name, ref.Tag, id, opt)
}

// checkDestination is checkIdentity with hints for a push.
func (w *Workspace) checkDestination(to, want, tag string, id artifact.Identity, opt PushOptions) error {
	if opt.Expect != "" {
		want = opt.Expect
	}
	if want != id.Name {
		return fault(diag.IdentityDiffers, fmt.Sprintf("%s would hold %s %s, and every pull of it be refused", to, id.Name, id.Version),
			fmt.Sprintf("push to a repository called %s; or, for a mirror, say --expect %s, as whoever pulls must (or name it under mirrors: in trust.yaml)", id.Name, id.Name))
	}
	if abi.TagMeaning(tag, id.Version, id.Target) == abi.MeansMistake {
		return fault(diag.IdentityDiffers, fmt.Sprintf("%s would hold version %s, and every pull of it be refused", to, id.Version),
			"use the tag "+abi.VersionTag(id.Version)+", or one that is no version")
	}
	return nil
}

// warnUnsigned warns that pulls will be refused.
func (w *Workspace) warnUnsigned(ctx context.Context, at *Located) error {
	list, err := bundles(ctx, at.store, at.desc)
	if err == nil && len(list) == 0 {
		w.say("warning: %s is not signed: pulls are refused unless they skip verification; mm sign %s releases it", at.ref, at.ref)
	}
	return err
}

// targetTags are the further tags of a build: TAG-TARGET for each target.
func targetTags(at *Located, to remote.Reference, id artifact.Identity) []registry.Tag {
	prefix := to.Ref.Tag
	if to.Layout != "" && to.Ref.Tag != "" {
		prefix = to.Ref.Bare().String() + ":" + to.Ref.Tag
	}
	if prefix == "" || abi.TagMeaning(to.Ref.Tag, id.Version, id.Target) == abi.MeansTarget {
		return nil
	}
	var tags []registry.Tag
	for _, p := range at.tree.Parts {
		if target := cmp.Or(p.Target, p.Artifact.Annotations[abi.AnnotationTarget]); target != "" {
			tags = append(tags, registry.Tag{Ref: prefix + "-" + target, Descriptor: p.Descriptor})
		}
	}
	return tags
}

// TagOptions for [Workspace.Tag].
type TagOptions struct {
	Alias bool // the name or version differs from the artifact's: record an alias
	Force bool // move a version from other bytes
}

// Tag adds a name to an artifact of the store. A name or version that differs
// from the artifact's is refused without Alias.
func (w *Workspace) Tag(ctx context.Context, arg, name string, opt TagOptions) error {
	at, err := w.findStored(ctx, arg)
	if errors.Is(err, errdef.ErrNotFound) {
		return w.absent(ctx, arg)
	}
	if err != nil {
		return err
	}
	id, err := at.identify(ctx)
	if err != nil {
		return err
	}
	ref, err := abi.ParseRef(name)
	if err != nil {
		return err
	}
	var record *Alias
	ownName := ref.Name == id.Name && abi.TagMeaning(ref.Tag, id.Version, id.Target) != abi.MeansMistake
	if bare := abi.TagMeaning(name, id.Version, id.Target); w.opt.Layout != "" && (bare == abi.MeansVersion || bare == abi.MeansTarget) {
		ownName = true // as other tools name the one build of a layout
	}
	if !ownName {
		if !opt.Alias || w.opt.Layout != "" {
			hint := fmt.Sprintf("mm tag %s %s --alias says that you mean it: the store then remembers what it is", arg, name)
			if w.opt.Layout != "" {
				hint = "a layout keeps no aliases; name it " + id.Name + ":" + abi.VersionTag(id.Version)
			}
			return fault(diag.IdentityDiffers, fmt.Sprintf("%s would name %s %s, and every use of it be refused", name, id.Name, id.Version), hint)
		}
		record = &Alias{Repository: cmp.Or(at.repository, abi.LocalHost+"/"+id.Name), Name: id.Name, Version: id.Version}
	}
	s, err := w.kept()
	if err != nil {
		return err
	}
	if err := s.WithReserve(ctx, func() error { return claim(ctx, s, at.desc, name, opt.Force) }); err != nil {
		return err
	}
	return s.WithReserve(ctx, func() error { return w.setAlias(ctx, name, record) })
}

// Remove removes names from the store and returns them; the next gc removes the
// bytes. With a build, the names of its targets are removed, NAME:VERSION-TARGET.
func (w *Workspace) Remove(ctx context.Context, names ...string) (removed []string, err error) {
	s, err := w.kept()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if slices.Contains(removed, name) { // a target of a build before it
			continue
		}
		desc, err := s.Resolve(ctx, name)
		if errors.Is(err, errdef.ErrNotFound) {
			return removed, w.absent(ctx, name)
		}
		if err != nil {
			return removed, err
		}
		for _, n := range append([]string{name}, w.targetNames(ctx, s, name, desc)...) {
			err := s.WithReserve(ctx, func() error { return s.Remove(ctx, n) })
			if err == nil {
				err = s.WithReserve(ctx, func() error { return w.setAlias(ctx, n, nil) })
			}
			if err != nil {
				return removed, err
			}
			removed = append(removed, n)
		}
	}
	if len(removed) > 0 && isServed(ctx, s) {
		w.say("warning: mm registry serve publishes this store: its clients cannot pull %s any longer", strings.Join(removed, ", "))
	}
	return removed, nil
}

// targetNames lists the names in the store of the targets of a build: its name with
// -TARGET, if that is the manifest in its index.
func (w *Workspace) targetNames(ctx context.Context, s *registry.Store, name string, desc ocispec.Descriptor) (names []string) {
	at := &Located{ref: name, desc: desc, src: s}
	if _, err := at.identify(ctx); err != nil || at.tree.Index == nil {
		return nil
	}
	for _, p := range at.tree.Parts {
		one := name + "-" + p.Target
		if d, err := s.Resolve(ctx, one); err == nil && p.Target != "" && d.Digest == p.Descriptor.Digest {
			names = append(names, one)
		}
	}
	return names
}

// Sign releases an artifact, or an index and every manifest below it.
func (w *Workspace) Sign(ctx context.Context, at *Located, by *Signer) ([]sign.Signature, error) {
	if at.store == nil {
		return nil, fault(diag.NoArtifact, at.ref+" is at a registry", "mm pull it, sign it, mm push it")
	}
	if _, err := at.identify(ctx); err != nil {
		return nil, err
	}
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	if s, err := w.store(); err == nil && s == at.store {
		if _, err := w.kept(); err != nil {
			return nil, err
		}
	}
	s, err := registry.Open(at.store.Dir(), registry.Options{MustExist: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	signatures, err := sign.Sign(ctx, s, at.desc, by.Sealer, by.Options)
	w.Record(ctx, audit.Entry{Action: "sign", Ref: at.ref, Digest: at.desc.Digest.String(), Keys: []string{by.Sealer.SealerID()}, Result: Outcome(err)})
	return signatures, err
}
