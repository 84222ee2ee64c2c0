package resolve

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// maxManifest bounds a module.yaml that is fetched from elsewhere, in bytes.
const maxManifest = 1 << 20

// errNoModule reports a version tag of something other than a module: a build,
// or another tool's artifact.
var errNoModule = errors.New("no module")

// Verifier decides whether an artifact of a repository may be used, and
// returns the keys that released it. It covers the manifest; the bytes below
// it are hashed when the module is fetched.
type Verifier interface {
	Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) (keys []string, err error)
}

// stored is a module in an OCI store, layout or registry.
type stored struct {
	ref      abi.Ref // its location; a tag is a version's
	version  string  // of the tag or, if found by digest, of the artifact
	src      content.ReadOnlyGraphStorage
	verifier Verifier // nil: the lock pins the bytes of a module folder
	into     *registry.Store
	find     func(ctx context.Context) (ocispec.Descriptor, error)
	copy     func(ctx context.Context, desc ocispec.Descriptor) error // of every byte, hashed, into the store

	desc     ocispec.Descriptor
	signedBy []string
	read     *modules.Manifest
	artifact *artifact.Artifact
}

// resolved returns the manifest's descriptor, which it reads once: a tag that
// moves later does not matter.
func (s *stored) resolved(ctx context.Context) (ocispec.Descriptor, error) {
	if s.desc.Digest != "" {
		return s.desc, nil
	}
	desc, err := s.find(ctx)
	if err == nil {
		s.desc = desc
	}
	return desc, err
}

func (s *stored) digest(ctx context.Context) (string, error) {
	desc, err := s.resolved(ctx)
	return desc.Digest.String(), err
}

// manifest verifies the artifact's signature and reads its module.yaml.
func (s *stored) manifest(ctx context.Context) (*modules.Manifest, error) {
	if s.read != nil {
		return s.read, nil
	}
	desc, err := s.resolved(ctx)
	if err != nil {
		return nil, err
	}
	if desc.MediaType != ocispec.MediaTypeImageManifest {
		return nil, errNoModule
	}
	var keys []string
	if s.verifier != nil {
		if keys, err = s.verifier.Verify(ctx, s.src, s.ref.Repository(), desc); err != nil {
			return nil, err
		}
	}
	a, err := artifact.Read(ctx, s.src, desc)
	if err != nil {
		return nil, err
	}
	if a.Identity().Kind != abi.KindModule {
		return nil, errNoModule
	}
	m, err := manifestOf(ctx, s.src, a, s.ref.Name+"@"+s.version)
	if err != nil {
		return nil, err
	}
	if m.Name != s.ref.Name || m.Version != s.version {
		var list diag.List
		list.Add(diag.IdentityDiffers, diag.Pos{}, fmt.Sprintf("%s holds %s", s.ref, m.ID()), "check the repository")
		return nil, list.Err()
	}
	s.signedBy, s.artifact, s.read = keys, a, m
	return m, nil
}

// fetch copies the complete module into the store and names it there.
func (s *stored) fetch(ctx context.Context) (*Module, error) {
	m, err := s.manifest(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.copy(ctx, s.desc); err != nil {
		return nil, err
	}
	version := s.version
	if s.verifier == nil {
		version = "" // the folder's next version may take its name
	}
	if err := keep(ctx, s.into, s.ref, version, s.desc); err != nil {
		return nil, err
	}
	return &Module{Manifest: m, Artifact: s.artifact, Descriptor: s.desc, SignedBy: s.signedBy}, nil
}

// keep names a fetched module, so that gc keeps it for the next run, which may
// be offline: REPOSITORY:VERSION or, if that names other bytes (the version
// was published again, or is the user's own) or version is empty,
// REPOSITORY:pinned-DIGEST.
func keep(ctx context.Context, store *registry.Store, ref abi.Ref, version string, desc ocispec.Descriptor) error {
	pinned := ref.Tagged("pinned-" + desc.Digest.Encoded()[:16]).String()
	name := pinned
	if version != "" {
		name = ref.Tagged(abi.VersionTag(version)).String()
	}
	have, err := store.Resolve(ctx, name)
	if err == nil && have.Digest != desc.Digest {
		name = pinned
		have, err = store.Resolve(ctx, name)
	}
	switch {
	case err == nil && have.Digest == desc.Digest:
		return nil
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return err
	}
	return store.Tag(ctx, desc, name)
}

// manifestOf reads the module.yaml among an artifact's layers.
func manifestOf(ctx context.Context, src content.Fetcher, a *artifact.Artifact, id string) (*modules.Manifest, error) {
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
