package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
)

// identify reads the manifests and configs of the artifact, once, and refuses
// those that mm cannot use: artifacts of other kinds, unsafe paths and sizes,
// unknown versions of MM-ABI.
func (l *Located) identify(ctx context.Context) (artifact.Identity, error) {
	if l.tree != nil {
		return l.identity, nil
	}
	src := &watched{Fetcher: l.src}
	t, err := artifact.ReadTree(ctx, src, l.desc)
	if err != nil {
		if err = src.unusable(l.ref, err); l.Remote() && errors.Is(err, artifact.ErrCorrupt) && !errors.Is(err, remote.ErrReceived) {
			err = fmt.Errorf("%w: %w", remote.ErrReceived, err)
		}
		return artifact.Identity{}, err
	}
	id, err := identityOf(l.ref, t)
	if err == nil {
		l.tree, l.identity = t, id
	}
	return id, err
}

// identityOf returns the identity that all parts of an artifact share.
func identityOf(ref string, t *artifact.Tree) (artifact.Identity, error) {
	if t.Index == nil {
		return checkABI(ref, t.Parts[0].Artifact.Identity())
	}
	if t.Index.Foreign { // its platforms share the name of the reference alone
		return artifact.Identity{}, nil
	}
	id, err := checkABI(ref, t.Index.Identity())
	if err != nil {
		return artifact.Identity{}, err
	}
	for _, p := range t.Parts {
		if !abi.ValidName(p.Target) {
			return artifact.Identity{}, fault(diag.HostileInput, fmt.Sprintf("%s: invalid target name %q", ref, shorten(p.Target)), "do not use the artifact")
		}
		one, err := checkABI(ref, p.Artifact.Identity())
		if err != nil {
			return artifact.Identity{}, err
		}
		if id.Name == "" {
			id.Name, id.Version = one.Name, one.Version
		}
		if one.Name != id.Name || one.Version != id.Version {
			return artifact.Identity{}, fault(diag.HostileInput, fmt.Sprintf("%s is %s %s, but its target %s is %s %s", ref, id.Name, id.Version, p.Target, one.Name, one.Version), "do not use the artifact")
		}
	}
	return id, nil
}

// checkABI refuses unknown versions of MM-ABI.
func checkABI(ref string, id artifact.Identity) (artifact.Identity, error) {
	if id.ABI != "" && !id.ABI.Known() {
		return id, fault(diag.UnknownABI, fmt.Sprintf("%s was made for %q; this mm supports %s", ref, shorten(string(id.ABI)), knownABI()), "use a newer mm, or an older release of the artifact")
	}
	return id, nil
}

func knownABI() string {
	var list []string
	for _, v := range abi.Versions() {
		list = append(list, string(v))
	}
	return strings.Join(list, ", ")
}

// watched is a source that remembers whether it failed itself.
type watched struct {
	content.Fetcher
	failed error
}

// Fetch implements content.Fetcher.
func (w *watched) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	r, err := w.Fetcher.Fetch(ctx, desc)
	if err != nil {
		w.failed = err
		return nil, err
	}
	return &watchedBody{r, w}, nil
}

type watchedBody struct {
	io.ReadCloser
	w *watched
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.w.failed = err
	}
	return n, err
}

// unusable distinguishes artifacts of other tools from invalid ones. Errors of
// the source and mismatched digests are returned unchanged.
func (w *watched) unusable(ref string, err error) error {
	switch {
	case w.failed != nil, errors.Is(err, artifact.ErrCorrupt), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, artifact.ErrForeign), errors.Is(err, errdef.ErrUnsupported), errors.Is(err, errdef.ErrInvalidMediaType):
		return fault(diag.ForeignArtifact, ref+": "+err.Error(), "mm reads ModelPack, KitOps, Docker Model Runner, Ollama and files of oras; pack another with mm module add or mm assemble")
	}
	return fault(diag.HostileInput, ref+": "+err.Error(), "do not use the artifact")
}

// checkIdentity compares the name and the version in a reference with those in
// the signed manifest: a signature does not bind a repository, so a release
// copied to another name is caught here. want is the name that the reference,
// or the user, implies; empty: none. An artifact of another tool that states no name
// passes unless the user expects one.
func checkIdentity(ref, want, tag string, expected bool, id artifact.Identity) error {
	var list diag.List
	same := id.Name == want || id.Kind == "" && strings.EqualFold(id.Name, want) // repositories have no capitals
	if stated := id.Name != "" || id.Kind != ""; want != "" && !same && (stated || expected) {
		list.Add(diag.IdentityDiffers, diag.Pos{}, fmt.Sprintf("%s holds %s %s", ref, cmp.Or(id.Name, "something without a name"), id.Version),
			fmt.Sprintf("check the repository; if it is a mirror of %s, say so with --expect %s or under mirrors: in trust.yaml", id.Name, id.Name))
	}
	if abi.TagMeaning(tag, id.Version, id.Target) == abi.MeansMistake && id.Version != "" {
		list.Add(diag.IdentityDiffers, diag.Pos{}, fmt.Sprintf("%s holds %s %s", ref, id.Name, ownTag(id)), "check the tag")
	}
	return list.Err()
}

// ownTag returns the tag of the artifact's own version.
func ownTag(id artifact.Identity) string {
	if id.Target != "" {
		return abi.VersionTag(id.Version) + " (target " + id.Target + ")"
	}
	return abi.VersionTag(id.Version)
}

func fault(code diag.Code, detail, hint string) error {
	var list diag.List
	list.Add(code, diag.Pos{}, detail, hint)
	return list.Err()
}

// shorten keeps foreign text in messages short.
func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
