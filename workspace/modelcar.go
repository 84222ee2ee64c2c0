package workspace

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/modelpack"
	"mm-abi.org/mm/registry/remote"
)

// ImageOptions for [Workspace.PushImage].
type ImageOptions struct {
	Target       string  // of a build with several. Empty: the only one
	Architecture string  // of the image, as Go spells it. Empty: the target's, or amd64
	Signer       *Signer // nil: the image is not signed
	Force        bool    // move the tag of a version from other bytes
}

// PushImage sends one target of an artifact as a container image to HOST/REPOSITORY[:TAG]
// or oci:DIR[:NAME], signed by the signer. The image has the name of the repository: it
// is an artifact by itself, which [Workspace.Verify] and [Workspace.Pull] accept. Its
// layers are written to a folder of this run first.
func (w *Workspace) PushImage(ctx context.Context, arg, dest string, opt ImageOptions) (*Pushed, error) {
	at, one, err := w.storedTarget(ctx, arg, opt.Target)
	if err != nil {
		return nil, err
	}
	if f := one.Artifact.Foreign; f != "" {
		return nil, fault(diag.NotImage, fmt.Sprintf("%s: got an artifact of format %q, want one of mm", arg, f), "mm pull --out DIR writes its files; mm module import makes a module of them")
	}
	to, id, err := w.imageDestination(dest, one.Artifact.Identity())
	if err != nil {
		return nil, err
	}
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	if err := intact(ctx, at.store, &artifact.Tree{Descriptor: one.Descriptor, Parts: []artifact.Part{one}}, remote.PullOptions{}); err != nil {
		return nil, explainBytes(err, at.store)
	}
	into, desc, err := w.image(ctx, at, one, id.Name, opt)
	if err != nil {
		return nil, err
	}
	if err := at.unmoved(ctx); err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	report, err := client.Push(ctx, into, desc, to.String(), remote.PushOptions{Link: true, Force: opt.Force})
	e := audit.Entry{Action: "push", Ref: to.String(), Digest: desc.Digest.String(), Result: Outcome(err)}
	if opt.Signer != nil {
		e.Keys = []string{opt.Signer.Key.Public().KeyID()}
	}
	w.Record(ctx, e)
	if err != nil {
		return nil, err
	}
	return &Pushed{Ref: to.String(), Digest: desc.Digest.String(), Report: report}, nil
}

// imageDestination parses the destination and returns the identity of the image there:
// the name of the repository, or of the entry of a layout.
func (w *Workspace) imageDestination(dest string, id artifact.Identity) (remote.Reference, artifact.Identity, error) {
	to, err := remote.ParseReference(dest)
	if err != nil {
		return to, id, err
	}
	id.Target = ""
	if to.Layout == "" {
		id.Name = path.Base(to.Ref.Name)
	} else if name, _, _ := strings.Cut(to.Entry, ":"); abi.ValidName(name) {
		if _, err := abi.TagVersion(name); err != nil {
			id.Name = name
		}
	}
	to, err = w.destination(dest, id, PushOptions{Expect: id.Name})
	return to, id, err
}

// image writes the signed image of a target to a store of this run.
func (w *Workspace) image(ctx context.Context, at *Located, one artifact.Part, name string, opt ImageOptions) (*registry.Store, ocispec.Descriptor, error) {
	dir, err := w.passing()
	if err != nil {
		return nil, ocispec.Descriptor{}, err
	}
	into, err := registry.Open(path.Join(dir, "image"), registry.Options{})
	if err != nil {
		return nil, ocispec.Descriptor{}, err
	}
	w.later(into.Close)
	car := modelpack.CarOptions{Name: name, Source: one.Descriptor.Digest.String(), Platform: platformOf(at.tree, one.Target)}
	if opt.Architecture != "" {
		car.Platform = ocispec.Platform{Architecture: opt.Architecture}
	}
	desc, err := modelpack.PackCar(ctx, at.store, into, one.Artifact, car)
	if errors.Is(err, modelpack.ErrLayers) {
		return nil, desc, fault(diag.NotImage, err.Error(), "split the build")
	}
	if err != nil {
		return nil, desc, err
	}
	if opt.Signer == nil {
		w.say("warning: the image is not signed: mm verify and policies of clusters refuse it; --key signs it")
		return into, desc, nil
	}
	_, err = opt.Signer.Sign(ctx, into, desc)
	return into, desc, err
}

// platformOf returns the platform of a target; zero if it has none.
func platformOf(t *artifact.Tree, target string) ocispec.Platform {
	if t.Index == nil {
		return ocispec.Platform{}
	}
	i := slices.IndexFunc(t.Index.Entries, func(e artifact.IndexEntry) bool { return e.Target == target })
	if i < 0 || t.Index.Entries[i].Platform == nil {
		return ocispec.Platform{}
	}
	return *t.Index.Entries[i].Platform
}
