package artifact

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
)

// Identity is the artifact's name as its manifest states it. A signature
// covers it, unlike the name of the repository that holds the artifact.
type Identity struct {
	Name, Version string
	Kind          string         // abi.KindModule, abi.KindAssembly or abi.KindEngine; empty for another tool's
	Type          abi.ModuleType // of a module
	Target        string         // of one target of a build; empty for a module and for an index over targets
	ABI           abi.Version
}

// Identify reads the identity of desc: a module, a build for one target, or
// the index over several. If an annotation is missing, the config counts; the
// two never differ ([Read]).
func Identify(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (Identity, error) {
	if isIndex(desc.MediaType) {
		ix, err := ReadIndex(ctx, src, desc)
		if err != nil {
			return Identity{}, err
		}
		return ix.Identity(), nil
	}
	a, err := Read(ctx, src, desc)
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

// Identity returns the identity that the manifest states.
func (a *Artifact) Identity() Identity {
	id := identity(a.Annotations)
	id.Name, id.Version = a.Name, a.Version
	return id
}

// Identity returns the identity that the index states.
func (ix *Index) Identity() Identity { return identity(ix.Annotations) }

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

// Meaning returns the meaning of the reference name ref of a store or layout:
// NAME:TAG, or the bare tag of output folders that older versions wrote.
func (id Identity) Meaning(ref string) abi.Meaning {
	if r, err := abi.ParseRef(ref); err == nil && r.Tag != "" {
		return abi.TagMeaning(r.Tag, id.Version, id.Target)
	}
	return abi.TagMeaning(ref, id.Version, id.Target)
}
