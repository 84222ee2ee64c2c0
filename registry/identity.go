package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
)

// Identity is who an artifact says it is: what is signed, and not what the
// place where it lies is called.
type Identity struct {
	Name, Version string
	Kind          string         // abi.KindModule or abi.KindAssembly; empty for another tool's
	Type          abi.ModuleType // of a module
	Target        string         // of one target of a build; empty for a module and for an index over targets
	ABI           abi.Version
}

// Identify reads who the artifact desc says it is: a module, a build for one
// target, or the index over several. Of a manifest the config counts where an
// annotation is absent; the two never differ ([ReadArtifact]).
func Identify(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (Identity, error) {
	if desc.MediaType == ocispec.MediaTypeImageIndex {
		ix, err := ReadIndex(ctx, src, desc)
		if err != nil {
			return Identity{}, err
		}
		return identity(ix.Annotations), nil
	}
	a, err := ReadArtifact(ctx, src, desc)
	if err != nil {
		return Identity{}, err
	}
	return a.Identity(), nil
}

// Size is the sum of the artifact's files in bytes.
func (a *Artifact) Size() (n int64) {
	for _, l := range a.Layers {
		n += l.Descriptor.Size
	}
	return n
}

// Identity is who the artifact says it is.
func (a *Artifact) Identity() Identity {
	id := identity(a.Annotations)
	id.Name, id.Version = a.Name, a.Version
	return id
}

func identity(notes map[string]string) Identity {
	return Identity{
		Name: notes[abi.AnnotationName], Version: notes[abi.AnnotationVersion], Kind: notes[abi.AnnotationKind],
		Type: abi.ModuleType(notes[abi.AnnotationType]), Target: notes[abi.AnnotationTarget], ABI: abi.Version(notes[abi.AnnotationABI]),
	}
}

// String is "p-lite 0.1.0", or "p-lite 0.1.0 for laptop".
func (id Identity) String() string {
	s := id.Name + " " + id.Version
	if id.Target != "" {
		s += " for " + id.Target
	}
	return s
}

// Meaning says what the reference name ref, as it stands in a store or layout,
// says of the artifact: NAME:TAG, or the bare tag that mm once wrote into
// output folders.
func (id Identity) Meaning(ref string) abi.Meaning {
	if r, err := abi.ParseRef(ref); err == nil && r.Tag != "" {
		return abi.TagMeaning(r.Tag, id.Version, id.Target)
	}
	return abi.TagMeaning(ref, id.Version, id.Target)
}

// Build is a whole build in a store: an index over its targets, or the manifest
// of its only one.
type Build struct {
	Ref        string // its reference name in the store
	Descriptor ocispec.Descriptor
	Identity
}

// Builds lists the whole builds of a store by name and, of one name, the newest
// first ([abi.CompareVersions]). What a tag stands for is read from the
// artifact: a pre-release is a build, and the tag of a target is none. Where
// one version has several names, NAME:VERSION counts before the bare VERSION
// of older output folders, and those before names with a path.
func (s *Store) Builds(ctx context.Context) ([]Build, error) {
	tags, err := s.Tags(ctx)
	if err != nil {
		return nil, err
	}
	best := map[string]Build{}
	for _, t := range tags {
		id, err := Identify(ctx, s, t.Descriptor)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list builds: %w", ctx.Err())
		}
		if err != nil || id.Kind != abi.KindAssembly || id.Meaning(t.Ref) != abi.MeansVersion {
			continue // another tool's, a module, a target or a channel
		}
		key := id.Name + "@" + id.Version
		if old, ok := best[key]; !ok || rank(t.Ref, id) < rank(old.Ref, id) {
			best[key] = Build{Ref: t.Ref, Descriptor: t.Descriptor, Identity: id}
		}
	}
	var builds []Build
	for _, b := range best {
		builds = append(builds, b)
	}
	slices.SortFunc(builds, func(a, b Build) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), compareVersions(a.Version, b.Version))
	})
	return builds, nil
}

// rank orders the names of one build: its own, the bare version, any other.
func rank(ref string, id Identity) int {
	switch ref {
	case abi.Ref{Name: id.Name, Tag: abi.VersionTag(id.Version)}.String():
		return 0
	case id.Version, abi.VersionTag(id.Version):
		return 1
	}
	return 2
}

// compareVersions is abi.CompareVersions of texts; what is no version comes
// last.
func compareVersions(a, b string) int {
	va, errA := abi.ParseVersion(a)
	vb, errB := abi.ParseVersion(b)
	switch {
	case errA == nil && errB == nil:
		return abi.CompareVersions(va, vb)
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
