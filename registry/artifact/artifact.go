// Package artifact defines the artifacts of mm: ModelPack manifests with one raw
// layer a file, and indexes over them. [Pack] writes a manifest and its config,
// [Read] and [ReadTree] verify and parse them. Every descriptor, path and size is
// checked before use; no weight is read.
package artifact

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
)

// Limits of an artifact.
const (
	MaxLayers  = 10_000
	MaxTargets = 1_000
)

// Artifact is the parsed form of a CNCF ModelPack manifest: a module, an
// assembly for one target, or an engine for one system, which differs by its
// type only. Each raw layer is one file (packaging: no tar, no compression),
// so a runtime can map it straight from the store.
type Artifact struct {
	Type          string            // abi.ArtifactEngine; empty: a ModelPack artifact, abi.ArtifactModel
	Name, Version string            // recorded in the config and in the manifest's annotations
	Config        ModelConfig       // its name, version and layer list are filled in by Pack
	Annotations   map[string]string // of the manifest: abi.Annotation… and org.opencontainers.image.…
	Layers        []Layer           // in manifest order: the core's GGUF first, then by path
	Foreign       string            // the format, if another tool made the artifact; empty: mm's own form, which only raw ModelPack shares
}

// Layer is one file of an artifact.
type Layer struct {
	Path        string             // clean, relative, slash separated
	Descriptor  ocispec.Descriptor // media type, digest and size only
	Annotations map[string]string  // abi.Annotation… keys: component, role, version, format, quant
	Role        Role               // what another tool's layer holds. Empty: unknown, or mm's own
	Packing     Packing            // of another tool's layer: the archive that holds the files. Empty: the file itself
	Root        string             // of an archive: the folder that holds the files, which their paths leave out. Empty: none
}

// CoreModel reports whether the layer is the core's GGUF: the first file of a
// manifest, which readers of a single model use.
func (l Layer) CoreModel() bool {
	return l.Annotations[abi.AnnotationRole] == string(abi.Core) && l.Annotations[abi.AnnotationFormat] == string(abi.GGUF)
}

// Index is an OCI image index over the targets of an assembly.
type Index struct {
	Annotations map[string]string
	Entries     []IndexEntry
	Foreign     bool // another tool's index: the targets are named by their platforms
}

// IndexEntry is one target of an [Index].
type IndexEntry struct {
	Descriptor ocispec.Descriptor // of the target's manifest
	Target     string             // "laptop"
	Platform   *ocispec.Platform  // nil: any
}

// fileMeta is the value of abi.AnnotationFileMeta (ModelPack v0.0.7). Owner
// and time are constant, so that equal files give equal manifests.
type fileMeta struct {
	Name     string `json:"name"`
	Mode     uint32 `json:"mode"`
	UID      uint32 `json:"uid"`
	GID      uint32 `json:"gid"`
	Size     int64  `json:"size"`
	ModTime  string `json:"mtime"`
	TypeFlag byte   `json:"typeflag"` // as in tar: '0', a regular file
}

// Pack writes the config and manifest of a to dst, which must hold the layers,
// and returns the manifest's descriptor. Equal artifacts give equal bytes: the
// order of Layers does not matter and no clock is read.
func Pack(ctx context.Context, dst content.Pusher, a Artifact) (ocispec.Descriptor, error) {
	desc, err := pack(ctx, dst, a)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("pack %s: %w", a.Name, err)
	}
	return desc, nil
}

func pack(ctx context.Context, dst content.Pusher, a Artifact) (none ocispec.Descriptor, err error) {
	if a.Name == "" {
		return none, errors.New("an artifact needs a name")
	}
	a.Layers = slices.Clone(a.Layers)
	slices.SortFunc(a.Layers, layerOrder)
	if err := CheckLayers(a.Layers); err != nil {
		return none, err
	}
	m := ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: cmp.Or(a.Type, abi.ArtifactModel),
		Annotations:  maps.Clone(a.Annotations),
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	for key, value := range a.labels() {
		if old, ok := m.Annotations[key]; ok && old != value {
			return none, fmt.Errorf("annotation %s: got %q, want %q", key, old, value)
		}
		m.Annotations[key] = value
	}
	cfg := a.Config
	cfg.Descriptor.Name, cfg.Descriptor.Version = a.Name, a.Version
	cfg.ModelFS = ModelFS{Type: "layers"}
	for _, l := range a.Layers {
		desc, err := l.describe()
		if err != nil {
			return none, err
		}
		m.Layers = append(m.Layers, desc)
		cfg.ModelFS.DiffIDs = append(cfg.ModelFS.DiffIDs, desc.Digest)
	}
	if m.Config, err = pushJSON(ctx, dst, abi.MediaModelConfig, "", cfg); err != nil {
		return none, err
	}
	return pushJSON(ctx, dst, m.MediaType, m.ArtifactType, m)
}

// labels returns the annotations that name the artifact.
func (a *Artifact) labels() map[string]string {
	labels := map[string]string{abi.AnnotationName: a.Name, ocispec.AnnotationTitle: a.Name}
	if a.Version != "" {
		labels[abi.AnnotationVersion] = a.Version
		labels[ocispec.AnnotationVersion] = a.Version
	}
	return labels
}

// layerOrder sorts the core's GGUF first, where ModelPack readers of a single
// model look for it, and the rest by path.
func layerOrder(a, b Layer) int {
	first := func(l Layer) int {
		if l.CoreModel() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Path, b.Path))
}

// describe returns the layer's descriptor in a manifest.
func (l Layer) describe() (ocispec.Descriptor, error) {
	meta, err := json.Marshal(fileMeta{
		Name: path.Base(l.Path), Mode: 0o644, Size: l.Descriptor.Size,
		ModTime: "1970-01-01T00:00:00Z", TypeFlag: '0',
	})
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := Plain(l.Descriptor)
	desc.Annotations = map[string]string{
		ocispec.AnnotationTitle: l.Path,
		abi.AnnotationFilepath:  l.Path,
		abi.AnnotationFileMeta:  string(meta),
	}
	for key, value := range l.Annotations {
		if _, taken := desc.Annotations[key]; taken {
			return ocispec.Descriptor{}, fmt.Errorf("layer %s: annotation %s is set by its path", l.Path, key)
		}
		desc.Annotations[key] = value
	}
	return desc, nil
}

// PackIndex writes an image index over the entries, in their order. Their
// manifests must be in dst.
func PackIndex(ctx context.Context, dst content.Pusher, entries []IndexEntry, annotations map[string]string) (ocispec.Descriptor, error) {
	desc, err := packIndex(ctx, dst, entries, annotations)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("pack index: %w", err)
	}
	return desc, nil
}

func packIndex(ctx context.Context, dst content.Pusher, entries []IndexEntry, annotations map[string]string) (ocispec.Descriptor, error) {
	idx := ocispec.Index{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageIndex,
		ArtifactType: abi.ArtifactIndex,
		Annotations:  annotations,
	}
	for _, e := range entries {
		desc := Plain(e.Descriptor)
		desc.ArtifactType = abi.ArtifactModel
		if e.Descriptor.ArtifactType == abi.ArtifactEngine {
			desc.ArtifactType, idx.ArtifactType = abi.ArtifactEngine, abi.ArtifactEngine
		}
		desc.Platform = e.Platform
		desc.Annotations = map[string]string{abi.AnnotationTarget: e.Target}
		idx.Manifests = append(idx.Manifests, desc)
	}
	if err := checkTargets(idx.Manifests); err != nil {
		return ocispec.Descriptor{}, err
	}
	return pushJSON(ctx, dst, idx.MediaType, idx.ArtifactType, idx)
}

// pushJSON stores v as a blob, which may exist already.
func pushJSON(ctx context.Context, dst content.Pusher, mediaType, artifactType string, v any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if len(data) > MaxManifestBytes {
		return ocispec.Descriptor{}, fmt.Errorf("%s of %d bytes, limit %d: %w", mediaType, len(data), MaxManifestBytes, errdef.ErrSizeExceedsLimit)
	}
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := dst.Push(ctx, desc, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return ocispec.Descriptor{}, err
	}
	desc.ArtifactType = artifactType
	return desc, nil
}

// checkLayers holds a list of layers against the limits and against each other.
func CheckLayers(layers []Layer) error {
	if len(layers) == 0 {
		return errors.New("an artifact needs at least one file")
	}
	if len(layers) > MaxLayers {
		return fmt.Errorf("%d files, limit %d", len(layers), MaxLayers)
	}
	var total int64
	var names PathSet
	for _, l := range layers {
		add := names.Add
		if l.Packing.Tar() {
			add = CheckPath // of a label; the members are checked when they are unpacked
		}
		if err := add(l.Path); err != nil {
			return err
		}
		if err := checkArtifactDescriptor(l.Descriptor); err != nil {
			return fmt.Errorf("file %s: %w", l.Path, err)
		}
		if IsManifest(l.Descriptor.MediaType) {
			return fmt.Errorf("file %s: a manifest cannot be a layer", l.Path)
		}
		if total += l.Descriptor.Size; total > maxBlobBytes {
			return errors.New("impossible total size")
		}
	}
	return nil
}

// CheckTarget refuses a name that cannot be a folder on every system: a
// checkout puts each target into a folder of its name.
func CheckTarget(name string) error {
	if !abi.ValidTarget(name) {
		return fmt.Errorf("invalid name %q: want lower-case letters and digits with single . _ - between them", Shorten(name))
	}
	return CheckPath(name)
}

// checkTargets holds the entries of an index against the limits and against
// each other. An index within an index is refused.
func checkTargets(entries []ocispec.Descriptor) error {
	if len(entries) == 0 {
		return errors.New("an index needs at least one target")
	}
	if len(entries) > MaxTargets {
		return fmt.Errorf("%d targets, limit %d", len(entries), MaxTargets)
	}
	seen := map[string]bool{}
	for i, e := range entries {
		if err := checkArtifactDescriptor(e); err != nil {
			return fmt.Errorf("target %d: %w", i, err)
		}
		if e.MediaType != ocispec.MediaTypeImageManifest {
			return fmt.Errorf("target %d: %q is not an image manifest", i, Shorten(e.MediaType))
		}
		name := e.Annotations[abi.AnnotationTarget]
		if err := CheckTarget(name); err != nil {
			return fmt.Errorf("target %d: %w", i, err)
		}
		if seen[name] {
			return fmt.Errorf("target %d: duplicate name %q", i, Shorten(name))
		}
		seen[name] = true
	}
	return nil
}

// checkArtifactDescriptor is CheckDescriptor with SHA-256 alone, the digest of
// signatures.
func checkArtifactDescriptor(desc ocispec.Descriptor) error {
	if err := CheckDescriptor(desc); err != nil {
		return err
	}
	if desc.Digest.Algorithm() != digest.SHA256 {
		return fmt.Errorf("digest %s: want sha256: %w", desc.Digest, errdef.ErrInvalidDigest)
	}
	if desc.Data != nil && (int64(len(desc.Data)) != desc.Size || digest.FromBytes(desc.Data) != desc.Digest) {
		return fmt.Errorf("%s: embedded data is other content: %w", desc.Digest, ErrCorrupt)
	}
	return nil
}
