package artifact

import (
	"errors"
	"maps"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"

	"mm-abi.org/mm/abi"
)

// imageOf stores an image of one layer; change edits manifest and config.
func imageOf(t testing.TB, m *memory.Store, change func(*ocispec.Manifest, *ocispec.Image)) ocispec.Descriptor {
	t.Helper()
	layer := described([]byte("layer"))
	layer.MediaType, layer.Annotations = ocispec.MediaTypeImageLayer, map[string]string{abi.AnnotationComponent: "core"}
	doc := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{layer},
		Annotations: map[string]string{abi.AnnotationName: "served", abi.AnnotationVersion: "1.0.0", abi.AnnotationModelPack: string(layer.Digest)}}
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}}}
	change(&doc, &config)
	var err error
	if doc.Config, err = pushJSON(ctx, m, ocispec.MediaTypeImageConfig, "", config); err != nil {
		t.Fatal(err)
	}
	d, err := pushJSON(ctx, m, doc.MediaType, "", doc)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReadImage(t *testing.T) {
	m := memory.New()
	a, err := Read(ctx, m, imageOf(t, m, func(*ocispec.Manifest, *ocispec.Image) {}))
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "served" || a.Version != "1.0.0" || len(a.Layers) != 1 {
		t.Fatalf("%+v", a)
	}
	if l := a.Layers[0]; l.Path != "core.tar" || l.Packing != "tar" || l.Root != ImageRoot || l.Annotations[abi.AnnotationComponent] != "core" {
		t.Errorf("%+v", l)
	}
}

func TestReadImageRefuses(t *testing.T) {
	note := func(key, value string) func(*ocispec.Manifest, *ocispec.Image) {
		return func(m *ocispec.Manifest, _ *ocispec.Image) {
			m.Annotations = maps.Clone(m.Annotations)
			m.Annotations[key] = value
		}
	}
	for name, c := range map[string]struct {
		change  func(*ocispec.Manifest, *ocispec.Image)
		foreign bool // the image of another tool
	}{
		"source":       {note(abi.AnnotationModelPack, "sha256:0"), false},
		"no source":    {note(abi.AnnotationModelPack, ""), true},
		"no name":      {note(abi.AnnotationName, ""), false},
		"name":         {note(abi.AnnotationName, "A/B"), false},
		"kind":         {note(abi.AnnotationKind, abi.KindAssembly), false},
		"typed":        {func(m *ocispec.Manifest, _ *ocispec.Image) { m.ArtifactType = "application/vnd.acme" }, true},
		"gzip":         {func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].MediaType = ocispec.MediaTypeImageLayerGzip }, true},
		"no layers":    {func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers = nil }, true},
		"rootfs type":  {func(_ *ocispec.Manifest, i *ocispec.Image) { i.RootFS.Type = "files" }, false},
		"digests":      {func(_ *ocispec.Manifest, i *ocispec.Image) { i.RootFS.DiffIDs = nil }, false},
		"digest":       {func(_ *ocispec.Manifest, i *ocispec.Image) { i.RootFS.DiffIDs[0] = digest.FromString("x") }, false},
		"module":       {func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Annotations[abi.AnnotationComponent] = "../x" }, false},
		"module twice": {func(m *ocispec.Manifest, i *ocispec.Image) { m.Layers = append(m.Layers, m.Layers[0]) }, false},
	} {
		m := memory.New()
		_, err := Read(ctx, m, imageOf(t, m, c.change))
		if err == nil || errors.Is(err, ErrForeign) != c.foreign {
			t.Errorf("%s: %v", name, err)
		}
	}
}
