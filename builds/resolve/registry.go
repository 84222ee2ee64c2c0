package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
)

// maxTags bounds the versions of a module that are read from one registry,
// newest first.
const maxTags = 256

// Registry is a Source over the repositories PREFIX/NAME of a registry.
type Registry struct {
	Client   *remote.Client
	Prefix   string // "registry.example/team"
	Into     *registry.Store
	Verifier Verifier
}

// String is the prefix.
func (r *Registry) String() string { return r.Prefix }

// Candidates lists the tags of PREFIX/name that are versions; their manifests
// are read only if the search tries them. With a digest it reads that one
// manifest.
func (r *Registry) Candidates(ctx context.Context, q Query) ([]Candidate, error) {
	ref, err := abi.ParseRef(r.Prefix + "/" + q.Name)
	if err != nil {
		return nil, err
	}
	src, err := r.Client.Source(ref.String())
	if err != nil {
		return nil, err
	}
	if q.Digest != "" {
		return r.byDigest(ctx, ref, src, q.Digest)
	}
	tags, err := r.Client.Tags(ctx, ref.String())
	if err != nil {
		return nil, err
	}
	var versions []*semver.Version
	for _, t := range tags {
		if v, err := abi.TagVersion(t); err == nil {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, abi.CompareVersions)
	var found []Candidate
	for _, v := range versions[:min(len(versions), maxTags)] {
		at := ref.Tagged(abi.VersionTag(v.String()))
		found = append(found, r.candidate(at, v, &stored{src: src, find: func(ctx context.Context) (ocispec.Descriptor, error) {
			desc, err := r.Client.Resolve(ctx, at.String())
			if errors.Is(err, errdef.ErrNotFound) {
				err = &absentError{at.String()}
			}
			return desc, err
		}}))
	}
	return found, nil
}

// absentError reports a tag that a registry lists and has no manifest of. The
// search tries the next version.
type absentError struct{ ref string }

func (e *absentError) Error() string {
	return e.ref + " is listed by its registry and has no manifest; trying the next version"
}

// byDigest finds one manifest, under whatever tag or none.
func (r *Registry) byDigest(ctx context.Context, ref abi.Ref, src content.ReadOnlyGraphStorage, digest string) ([]Candidate, error) {
	ref.Digest = digest
	desc, err := r.Client.Resolve(ctx, ref.String())
	if errors.Is(err, errdef.ErrNotFound) || err == nil && desc.MediaType != ocispec.MediaTypeImageManifest {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := artifact.Identify(ctx, src, desc)
	if err != nil {
		return nil, err
	}
	version, err := abi.ParseVersion(id.Version)
	if err != nil || id.Kind != abi.KindModule {
		return nil, nil
	}
	return []Candidate{r.candidate(ref.Bare(), version, &stored{src: src, desc: desc})}, nil
}

func (r *Registry) candidate(ref abi.Ref, version *semver.Version, s *stored) Candidate {
	s.ref, s.version, s.verifier, s.into = ref, version.String(), r.Verifier, r.Into
	s.copy = func(ctx context.Context, desc ocispec.Descriptor) error {
		_, _, err := r.Client.Pull(ctx, fmt.Sprintf("%s@%s", ref.Source(), desc.Digest), r.Into, remote.PullOptions{})
		return err
	}
	return Candidate{Name: ref.Name, Version: version, Repository: ref.Source(), Origin: ref.Source(), module: s}
}
