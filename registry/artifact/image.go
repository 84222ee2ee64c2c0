package artifact

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
)

// ImageRoot is the folder of a container image that holds the files of a model, as
// KServe's storage initializer and its modelcars read it.
const ImageRoot = "models"

// ImageBuild names the layer of an image with the files that no module holds.
const ImageBuild = "build"

// imageForm names a container image of mm's in messages.
const imageForm = "modelcar image"

// isImage reports a manifest of a container image with the files of a ModelPack
// artifact, as registry/modelpack writes it.
func isImage(m *ocispec.Manifest) bool {
	return m.Config.MediaType == ocispec.MediaTypeImageConfig && m.MediaType != mediaDockerManifest && m.ArtifactType == "" &&
		m.Annotations[abi.AnnotationModelPack] != "" && len(m.Layers) > 0
}

// IsImage reports whether the artifact is a container image of mm's.
func (a *Artifact) IsImage() bool { return a.Foreign == imageForm }

// imageLayer reads a layer of an image: an uncompressed archive for each module.
func imageLayer(desc ocispec.Descriptor) (string, Role, bool) {
	return cmp.Or(desc.Annotations[abi.AnnotationComponent], ImageBuild), "", desc.MediaType == ocispec.MediaTypeImageLayer
}

// checkImage compares the config of an image with its layers and the annotations of
// its manifest.
func (a *Artifact) checkImage(ctx context.Context, src content.Fetcher, config ocispec.Descriptor) error {
	if _, err := digest.Parse(a.Annotations[abi.AnnotationModelPack]); err != nil {
		return fmt.Errorf("annotation %s: %w", abi.AnnotationModelPack, err)
	}
	if !abi.ValidName(a.Name) {
		return fmt.Errorf("annotation %s: invalid name %q", abi.AnnotationName, Shorten(a.Name))
	}
	if kind := a.Annotations[abi.AnnotationKind]; kind != "" {
		return fmt.Errorf("annotation %s: got %q in an image, want none", abi.AnnotationKind, Shorten(kind))
	}
	data, err := fetchSmall(ctx, src, config)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var doc ocispec.Image
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	ids := doc.RootFS.DiffIDs
	if doc.RootFS.Type != "layers" || len(ids) != len(a.Layers) {
		return fmt.Errorf("config: rootfs of type %q with %d digests for %d layers", Shorten(doc.RootFS.Type), len(ids), len(a.Layers))
	}
	for i, id := range ids {
		if id != a.Layers[i].Descriptor.Digest {
			return fmt.Errorf("config: rootfs digest %d differs from layer %s", i, a.Layers[i].Path)
		}
	}
	return nil
}
