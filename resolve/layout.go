package resolve

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
)

// maxManifest bounds a module.yaml that is fetched from elsewhere, in bytes.
const maxManifest = 1 << 20

// Verifier decides whether an artifact of a repository may be used, and says
// by whose keys it was released.
type Verifier interface {
	Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) (keys []string, err error)
}

// Layout is a Source over the local store or another OCI image layout.
type Layout struct {
	From     *registry.Store
	Into     *registry.Store // may be From
	Verifier Verifier
	Label    string // "store", or the layout's path
}

// String is the label.
func (l *Layout) String() string { return l.Label }

// Candidates returns the tags REPOSITORY:VERSION whose repository ends in name.
func (l *Layout) Candidates(ctx context.Context, name string) ([]Candidate, error) {
	tags, err := l.From.Tags(ctx)
	if err != nil {
		return nil, err
	}
	var found []Candidate
	for _, t := range tags {
		repository, tag, ok := cutTag(t.Ref)
		if !ok || path.Base(repository) != name {
			continue
		}
		version, err := abi.ParseVersion(tag)
		if err != nil {
			continue // a channel, or another tool's tag
		}
		if c, ok := l.candidate(ctx, name, repository, version, t.Descriptor); ok {
			found = append(found, c)
		}
	}
	return found, nil
}

// cutTag splits host:5000/team/name:1.0.0 at the last colon after the last
// slash.
func cutTag(ref string) (repository, tag string, ok bool) {
	i := strings.LastIndexByte(ref, ':')
	if i < strings.LastIndexByte(ref, '/') || i < 0 {
		return ref, "", false
	}
	return ref[:i], ref[i+1:], true
}

// candidate describes one tag; an artifact that is no module is none.
func (l *Layout) candidate(ctx context.Context, name, repository string, version *semver.Version, desc ocispec.Descriptor) (Candidate, bool) {
	if desc.MediaType != ocispec.MediaTypeImageManifest {
		return Candidate{}, false
	}
	a, err := registry.ReadArtifact(ctx, l.From, desc)
	if err != nil || a.Annotations[abi.AnnotationKind] != abi.KindModule {
		return Candidate{}, false
	}
	r := &remoteModule{name: name, repository: repository, version: version, desc: desc, src: l.From, verifier: l.Verifier}
	r.copy = func(ctx context.Context) error { return copyInto(ctx, l.From, l.Into, desc) }
	return Candidate{
		Name: name, Version: version, Digest: desc.Digest.String(), Repository: repository, Origin: l.Label,
		manifest: r.manifest,
		fetch: func(ctx context.Context) (*Module, error) {
			m, err := r.fetch(ctx, l.Into)
			if m != nil {
				m.Origin = l.Label
			}
			return m, err
		},
	}, true
}

// copyInto brings desc and everything below it, with its referrers, from one
// layout into another. Each blob is hashed on the way.
func copyInto(ctx context.Context, from, into *registry.Store, desc ocispec.Descriptor) error {
	if from.Dir() == into.Dir() {
		return nil
	}
	roots := []ocispec.Descriptor{desc}
	referrers, err := from.Referrers(ctx, desc, "")
	if err != nil {
		return err
	}
	for _, root := range append(roots, referrers...) {
		err := from.Walk(ctx, root, func(d ocispec.Descriptor) error {
			if ok, err := into.Exists(ctx, d); ok || err != nil {
				return err
			}
			_, err := into.AddFile(ctx, from.BlobPath(d), registry.AddOptions{MediaType: d.MediaType, Link: d.Size >= linkFrom})
			return err
		})
		if err != nil {
			return fmt.Errorf("copying %s: %w", root.Digest, err)
		}
	}
	return nil
}

// remoteModule is a module that lies as an OCI artifact somewhere else than in
// a folder.
type remoteModule struct {
	name, repository string
	version          *semver.Version
	desc             ocispec.Descriptor
	src              content.ReadOnlyGraphStorage
	verifier         Verifier
	copy             func(ctx context.Context) error

	signedBy []string
	read     *modules.Manifest
	artifact *registry.Artifact
}

// manifest verifies the artifact's signature and reads its module.yaml.
func (r *remoteModule) manifest(ctx context.Context) (*modules.Manifest, error) {
	if r.read != nil {
		return r.read, nil
	}
	keys, err := r.verifier.Verify(ctx, r.src, r.repository, r.desc)
	if err != nil {
		return nil, err
	}
	a, err := registry.ReadArtifact(ctx, r.src, r.desc)
	if err != nil {
		return nil, err
	}
	m, err := manifestOf(ctx, r.src, a, r.name+"@"+r.version.String())
	if err != nil {
		return nil, err
	}
	if m.Name != r.name || m.Version != r.version.String() {
		var list diag.List
		list.Add(diag.IdentityDiffers, diag.Pos{}, fmt.Sprintf("%s:%s holds %s", r.repository, r.version, m.ID()), "check the repository")
		return nil, list.Err()
	}
	r.signedBy, r.artifact, r.read = keys, a, m
	return m, nil
}

// fetch brings the whole module into the store.
func (r *remoteModule) fetch(ctx context.Context, into *registry.Store) (*Module, error) {
	m, err := r.manifest(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.copy(ctx); err != nil {
		return nil, err
	}
	return &Module{Manifest: m, Artifact: r.artifact, Descriptor: r.desc, Repository: r.repository, SignedBy: r.signedBy}, nil
}

// manifestOf reads the module.yaml among an artifact's layers.
func manifestOf(ctx context.Context, src content.Fetcher, a *registry.Artifact, id string) (*modules.Manifest, error) {
	for _, l := range a.Layers {
		if l.Path != modules.FileName {
			continue
		}
		if l.Descriptor.Size > maxManifest {
			return nil, fmt.Errorf("reading %s: its module.yaml of %d bytes is over the limit", id, l.Descriptor.Size)
		}
		data, err := content.FetchAll(ctx, src, l.Descriptor)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", id, err)
		}
		m, list := modules.Parse(id+"/"+modules.FileName, data)
		if err := list.Err(); err != nil {
			return nil, err
		}
		return m, nil
	}
	return nil, fmt.Errorf("reading %s: it holds no %s", id, modules.FileName)
}
