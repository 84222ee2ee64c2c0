package resolve

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/remote"
)

// maxTags bounds how many versions of a module one registry is asked about;
// the newest count.
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

// Candidates returns the tags of PREFIX/name that are versions.
func (r *Registry) Candidates(ctx context.Context, name string) ([]Candidate, error) {
	repository := r.Prefix + "/" + name
	tags, err := r.Client.Tags(ctx, repository)
	if err != nil {
		return nil, err
	}
	var versions []*semver.Version
	for _, t := range tags {
		if v, err := abi.ParseVersion(t); err == nil {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b *semver.Version) int { return b.Compare(a) })
	var found []Candidate
	for _, v := range versions[:min(len(versions), maxTags)] {
		desc, err := r.Client.Resolve(ctx, repository+":"+v.Original())
		if err != nil {
			return nil, err
		}
		if desc.MediaType != ocispec.MediaTypeImageManifest {
			continue // a build, not a module
		}
		c, err := r.candidate(repository, v, desc)
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	return found, nil
}

func (r *Registry) candidate(repository string, version *semver.Version, desc ocispec.Descriptor) (Candidate, error) {
	src, err := r.Client.Source(repository)
	if err != nil {
		return Candidate{}, err
	}
	name := path.Base(repository)
	m := &remoteModule{name: name, repository: repository, version: version, desc: desc, src: src, verifier: r.Verifier}
	m.copy = func(ctx context.Context) error {
		_, _, err := r.Client.Pull(ctx, fmt.Sprintf("%s@%s", repository, desc.Digest), r.Into, remote.PullOptions{})
		return err
	}
	return Candidate{
		Name: name, Version: version, Digest: desc.Digest.String(), Repository: repository, Origin: repository,
		manifest: m.manifest,
		fetch: func(ctx context.Context) (*Module, error) {
			found, err := m.fetch(ctx, r.Into)
			if found != nil {
				found.Origin = repository
			}
			return found, err
		},
	}, nil
}
