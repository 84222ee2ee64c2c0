package workspace

import (
	"context"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
)

// origins returns the repositories at registries that the store's names of an artifact
// record, by name or by alias, sorted.
func (w *Workspace) origins(ctx context.Context, s *registry.Store, desc ocispec.Descriptor) ([]Alias, error) {
	tags, err := s.Tags(ctx)
	if err != nil {
		return nil, err
	}
	var found []Alias
	for _, t := range tags {
		if t.Descriptor.Digest != desc.Digest {
			continue
		}
		a, ok, err := w.alias(t.Ref)
		if err != nil {
			return nil, err
		}
		if !ok {
			ref, err := abi.ParseRef(t.Ref)
			if err != nil || ref.Host == "" {
				continue
			}
			a = Alias{Repository: ref.Repository(), Name: ref.Name}
		}
		a.Version = ""
		if !slices.Contains(found, a) {
			found = append(found, a)
		}
	}
	return found, nil
}
