package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
)

// ErrForeign reports an artifact that is neither mm's own nor of a format that
// [Read] supports.
var ErrForeign = errors.New("not a model artifact that mm knows")

// Role is the purpose of another tool's layer.
type Role string

// Roles of layers.
const (
	RoleWeights    Role = "weights"
	RoleConfig     Role = "config"
	RoleProjector  Role = "mmproj"      // a projector of llama.cpp (mmproj)
	RoleTemplate   Role = "template"    // a chat template in Jinja
	RoleGoTemplate Role = "go-template" // a chat template in Ollama's own language
	RoleParams     Role = "params"
	RoleAdapter    Role = "adapter"
	RoleDraft      Role = "draft"
	RoleLicense    Role = "license"
	RoleOther      Role = "other" // documents, code, data sets
)

// Packing is the form of a layer's bytes: "tar", "tar+gzip", "tar+zstd", or "gzip"
// and "zstd" for one compressed file. Empty: the file itself.
type Packing string

// Tar reports whether the layer is an archive of files.
func (p Packing) Tar() bool { return strings.HasPrefix(string(p), "tar") }

// Compression returns "gzip", "zstd" or "".
func (p Packing) Compression() string {
	return strings.TrimPrefix(strings.TrimPrefix(string(p), "tar"), "+")
}

// packingOf reads the packing from a media type's suffix.
func packingOf(mediaType string) Packing {
	for _, p := range []Packing{"tar+gzip", "tar+zstd"} {
		if strings.HasSuffix(mediaType, "."+string(p)) || strings.HasSuffix(mediaType, "."+strings.Replace(string(p), "+", ".", 1)) {
			return p
		}
	}
	switch {
	case strings.HasSuffix(mediaType, ".tar"):
		return "tar"
	case strings.HasSuffix(mediaType, "+gzip"):
		return "gzip"
	case strings.HasSuffix(mediaType, "+zstd"):
		return "zstd"
	}
	return ""
}

// form is a format of another tool.
type form struct {
	name  string
	layer func(desc ocispec.Descriptor) (file string, role Role, ok bool) // name of a layer without a path, and its role
	plain bool                                                            // media types do not name the packing
	image bool                                                            // a container image that mm wrote ([ImageRoot])
}

// Prefixes of the media types of other tools.
const (
	prefixModelPack = "application/vnd.cncf.model."
	prefixCNAI      = "application/vnd.cnai.model." // ModelPack before it was CNCF's
	prefixKit       = "application/vnd.kitops.modelkit."
	prefixDocker    = "application/vnd.docker.ai."
	prefixOllama    = "application/vnd.ollama.image."

	mediaDockerConfig = "application/vnd.docker.container.image.v1+json"
)

// formOf returns the format of a manifest of another tool; nil if the manifest has an
// annotation of mm's, is a raw ModelPack, or is of an unknown format.
func formOf(m *ocispec.Manifest) *form {
	config := m.Config.MediaType
	switch {
	case isImage(m):
		return &form{name: imageForm, layer: imageLayer, image: true}
	case claimed(m.Annotations), m.ArtifactType == abi.ArtifactEngine, len(m.Layers) == 0:
	case m.ArtifactType == abi.ArtifactModel && config == abi.MediaModelConfig && !slices.ContainsFunc(m.Layers, notRaw):
	case config == abi.MediaModelConfig, strings.HasPrefix(config, prefixCNAI):
		return &form{name: "ModelPack", layer: modelPackLayer}
	case strings.HasPrefix(config, prefixKit):
		return &form{name: "KitOps ModelKit", layer: kitLayer}
	case strings.HasPrefix(config, prefixDocker+"model.config.v"):
		return &form{name: "Docker Model Runner", layer: dockerLayer}
	case config == mediaDockerConfig && strings.HasPrefix(m.Layers[0].MediaType, prefixOllama):
		return &form{name: "Ollama", layer: ollamaLayer}
	case config != mediaDockerConfig && config != ocispec.MediaTypeImageConfig && !slices.ContainsFunc(m.Layers, untitled):
		return &form{name: "files", layer: titledLayer, plain: true}
	}
	return nil
}

// claimed reports whether annotations claim the artifact for mm, whose own form is
// checked strictly.
func claimed(annotations map[string]string) bool {
	for key := range annotations {
		if strings.HasPrefix(key, abi.AnnotationPrefix) {
			return true
		}
	}
	return false
}

func notRaw(d ocispec.Descriptor) bool {
	return !strings.HasSuffix(d.MediaType, ".raw") && !strings.HasPrefix(d.MediaType, "application/octet-stream")
}

func untitled(d ocispec.Descriptor) bool { return d.Annotations[ocispec.AnnotationTitle] == "" }

// unknownForm names the media type by which a manifest is not a model artifact.
func unknownForm(m *ocispec.Manifest) error {
	got := m.Config.MediaType
	if m.ArtifactType != "" && m.ArtifactType != abi.ArtifactModel {
		got = m.ArtifactType
	}
	return fmt.Errorf("%w: got media type %q", ErrForeign, Shorten(got))
}

// foreign returns the artifact of another tool. It states nothing in mm's name:
// annotations of mm's on a layer are dropped. Only an image of mm's keeps them.
func (m *manifest) foreign(ctx context.Context, src content.Fetcher) (*Artifact, error) {
	if len(m.Layers) > MaxLayers {
		return nil, fmt.Errorf("%d files, limit %d", len(m.Layers), MaxLayers)
	}
	if err := checkArtifactDescriptor(m.Config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	a := &Artifact{Foreign: m.form.name, Annotations: m.Annotations}
	for i, desc := range m.Layers {
		l, err := m.form.read(desc)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		a.Layers = append(a.Layers, l)
	}
	number(a.Layers)
	if err := CheckLayers(a.Layers); err != nil {
		return nil, err
	}
	switch {
	case m.form.image:
		a.Name, a.Version = m.Annotations[abi.AnnotationName], m.Annotations[abi.AnnotationVersion]
		return a, a.checkImage(ctx, src, m.Config)
	case m.Config.MediaType != abi.MediaModelConfig:
		return a, nil
	}
	return a, a.readName(ctx, src, m.Config)
}

// readName reads name and version from a ModelPack config.
func (a *Artifact) readName(ctx context.Context, src content.Fetcher, config ocispec.Descriptor) error {
	data, err := fetchSmall(ctx, src, config)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var doc struct {
		Descriptor struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"descriptor"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	a.Name, a.Version = doc.Descriptor.Name, doc.Descriptor.Version
	return nil
}

// read returns a layer with its path: that of an annotation, or a name for its
// kind.
func (f *form) read(desc ocispec.Descriptor) (Layer, error) {
	l := Layer{Path: filePath(desc.Annotations), Descriptor: Plain(desc)}
	file, role, ok := f.layer(desc)
	if !ok {
		return l, fmt.Errorf("%w: got media type %q in %s", ErrForeign, Shorten(desc.MediaType), f.name)
	}
	l.Role = role
	if l.Packing = packingOf(desc.MediaType); f.plain {
		l.Packing = plainPacking(desc)
	}
	if f.image {
		l.Root = ImageRoot
	}
	if l.Path == "" {
		l.Path = file
		if l.Packing.Tar() {
			l.Path += ".tar"
		}
	}
	if l.Packing.Tar() {
		l.Path = path.Clean(strings.TrimSuffix(l.Path, "/"))
		if l.Path == "." { // the folder that was packed
			l.Path = file + ".tar"
		}
	}
	for key, value := range desc.Annotations {
		if f.image || !strings.HasPrefix(key, abi.AnnotationPrefix) {
			if l.Annotations == nil {
				l.Annotations = map[string]string{}
			}
			l.Annotations[key] = value
		}
	}
	check := l.Descriptor
	check.Data = desc.Data
	return l, checkArtifactDescriptor(check)
}

// filePath returns the path in the annotations of a layer.
func filePath(annotations map[string]string) string {
	for _, key := range []string{abi.AnnotationFilepath, "org.cnai.model.filepath", ocispec.AnnotationTitle} {
		if p := annotations[key]; p != "" {
			return p
		}
	}
	return ""
}

// plainPacking returns the packing of a file of oras, which assigns every file the type
// of a tar layer and marks the folders that it packed.
func plainPacking(desc ocispec.Descriptor) Packing {
	switch {
	case desc.Annotations["io.deis.oras.content.unpack"] != "true":
		return ""
	case strings.HasSuffix(desc.MediaType, "zstd"):
		return "tar+zstd"
	}
	return "tar+gzip"
}

// number makes the paths of unnamed layers of one kind unique: model.gguf twice
// becomes model-00001-of-00002.gguf and its second, LICENSE twice LICENSE and
// LICENSE-2.
func number(layers []Layer) {
	unnamed := map[string][]int{}
	for i, l := range layers {
		if filePath(l.Annotations) == "" {
			unnamed[l.Path] = append(unnamed[l.Path], i)
		}
	}
	for name, at := range unnamed {
		for n, i := range at {
			ext := path.Ext(name)
			switch stem := strings.TrimSuffix(name, ext); {
			case len(at) == 1:
			case layers[i].Role == RoleWeights && !layers[i].Packing.Tar():
				layers[i].Path = fmt.Sprintf("%s-%05d-of-%05d%s", stem, n+1, len(at), ext)
			case n > 0:
				layers[i].Path = fmt.Sprintf("%s-%d%s", stem, n+1, ext)
			}
		}
	}
}
