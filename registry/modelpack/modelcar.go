package modelpack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// maxLayers is the number of layers that overlay file systems mount.
const maxLayers = 127

// ErrLayers reports a build with more modules than an image can have layers.
var ErrLayers = errors.New("too many layers for a container image")

// CarOptions for [PackCar].
type CarOptions struct {
	Name     string           // of the image, which its repository has as well
	Source   string           // digest of the ModelPack manifest
	Platform ocispec.Platform // of the config. Zero: linux/amd64
}

// Target receives an image.
type Target interface {
	content.Pusher
	Exists(ctx context.Context, desc ocispec.Descriptor) (bool, error)
}

// PackCar writes an image of a to dst and returns the descriptor of its manifest. The
// bytes of every file are compared with their digests. The image depends on the artifact
// and the options alone.
func PackCar(ctx context.Context, src content.Fetcher, dst Target, a *artifact.Artifact, opt CarOptions) (ocispec.Descriptor, error) {
	desc, err := packCar(ctx, src, dst, a, opt)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("image of %s: %w", a.Name, err)
	}
	return desc, nil
}

func packCar(ctx context.Context, src content.Fetcher, dst Target, a *artifact.Artifact, opt CarOptions) (none ocispec.Descriptor, err error) {
	if err := artifact.CheckLayers(a.Layers); err != nil {
		return none, err
	}
	parts := group(a.Layers)
	if len(parts) > maxLayers {
		return none, fmt.Errorf("%w: got %d modules, limit %d", ErrLayers, len(parts), maxLayers)
	}
	image := ocispec.Image{Platform: platform(opt.Platform), RootFS: ocispec.RootFS{Type: "layers"}}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Annotations: annotations(a, opt)}
	for _, p := range parts {
		desc, err := p.push(ctx, src, dst)
		if err != nil {
			return none, fmt.Errorf("layer %s: %w", p.name, err)
		}
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, desc.Digest)
		desc.Annotations = map[string]string{abi.AnnotationComponent: p.name}
		m.Layers = append(m.Layers, desc)
	}
	if m.Config, err = pushJSON(ctx, dst, ocispec.MediaTypeImageConfig, image); err != nil {
		return none, err
	}
	return pushJSON(ctx, dst, m.MediaType, m)
}

// platform completes the platform of an image. Images of models are for Linux: other
// systems run them in a virtual machine of the same processor.
func platform(p ocispec.Platform) ocispec.Platform {
	return ocispec.Platform{OS: "linux", Architecture: cmp.Or(p.Architecture, "amd64"), Variant: p.Variant}
}

// annotations returns the annotations of an image: its name, the artifact that it was
// made of, and the general ones of the artifact.
func annotations(a *artifact.Artifact, opt CarOptions) map[string]string {
	notes := map[string]string{}
	for key, value := range a.Annotations {
		if !strings.HasPrefix(key, abi.AnnotationPrefix) {
			notes[key] = value
		}
	}
	maps.Copy(notes, map[string]string{abi.AnnotationName: cmp.Or(opt.Name, a.Name), abi.AnnotationModelPack: opt.Source})
	if a.Version != "" {
		notes[abi.AnnotationVersion] = a.Version
	}
	return notes
}

// group returns the layers of an image: the files of each module, sorted by module
// and path, and last those of the build.
func group(layers []artifact.Layer) (parts []*part) {
	by := map[string]*part{}
	for _, l := range layers {
		name := cmp.Or(l.Annotations[abi.AnnotationComponent], artifact.ImageBuild)
		if by[name] == nil {
			by[name] = &part{name: name}
			parts = append(parts, by[name])
		}
		by[name].files = append(by[name].files, l)
	}
	for _, p := range parts {
		slices.SortFunc(p.files, func(a, b artifact.Layer) int { return strings.Compare(a.Path, b.Path) })
	}
	last := func(p *part) int {
		if p.name == artifact.ImageBuild {
			return 1
		}
		return 0
	}
	slices.SortFunc(parts, func(a, b *part) int { return cmp.Or(last(a)-last(b), strings.Compare(a.name, b.name)) })
	return parts
}

// pushJSON stores a document, which may exist.
func pushJSON(ctx context.Context, dst content.Pusher, mediaType string, v any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if len(data) > artifact.MaxManifestBytes {
		return ocispec.Descriptor{}, fmt.Errorf("%s: got %d bytes, limit %d: %w", mediaType, len(data), artifact.MaxManifestBytes, errdef.ErrSizeExceedsLimit)
	}
	desc := content.NewDescriptorFromBytes(mediaType, data)
	if err := dst.Push(ctx, desc, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return ocispec.Descriptor{}, err
	}
	return desc, nil
}
