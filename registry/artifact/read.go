package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
)

// Read fetches, checks and parses the manifest desc. Nothing from src is
// trusted: digests and sizes are checked, and the manifest is refused unless
// every file has a path that is safe on every system. Descriptors' URLs are
// ignored and never fetched. If the content is refused, the error is
// [ErrManifest].
func Read(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (*Artifact, error) {
	a, err := readArtifact(ctx, src, desc)
	if err != nil {
		return nil, fmt.Errorf("read artifact %s: %w", Shorten(string(desc.Digest)), refuseManifest(err))
	}
	return a, nil
}

func readArtifact(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (*Artifact, error) {
	if desc.MediaType != ocispec.MediaTypeImageManifest && desc.MediaType != mediaDockerManifest {
		return nil, fmt.Errorf("%q is not an image manifest: %w", Shorten(desc.MediaType), errdef.ErrInvalidMediaType)
	}
	data, err := fetchSmall(ctx, src, desc)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, err
	}
	if m.form != nil {
		return m.foreign(ctx, src)
	}
	data, err = fetchSmall(ctx, src, m.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return m.artifact(data)
}

// manifest is a checked image manifest of the ModelPack kind, of an engine, or of
// another tool.
type manifest struct {
	ocispec.Manifest
	form *form // the format of another tool; nil: mm's own form
}

func parseManifest(data []byte) (*manifest, error) {
	var m manifest
	if err := DecodeStrict(data, &m.Manifest); err != nil {
		return nil, err
	}
	switch {
	case m.SchemaVersion != 2:
		return nil, fmt.Errorf("schemaVersion: got %d, want 2", m.SchemaVersion)
	case m.MediaType != "" && m.MediaType != ocispec.MediaTypeImageManifest && m.MediaType != mediaDockerManifest:
		return nil, fmt.Errorf("mediaType %q in an image manifest", Shorten(m.MediaType))
	}
	if m.form = formOf(&m.Manifest); m.form != nil {
		return &m, nil
	}
	switch {
	case m.MediaType == mediaDockerManifest, m.ArtifactType != abi.ArtifactModel && m.ArtifactType != abi.ArtifactEngine || m.Config.MediaType != abi.MediaModelConfig:
		return nil, unknownForm(&m.Manifest)
	}
	if err := checkArtifactDescriptor(m.Config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return &m, nil
}

// artifact joins the manifest with its config.
func (m *manifest) artifact(config []byte) (*Artifact, error) {
	a := &Artifact{Annotations: m.Annotations}
	if m.ArtifactType != abi.ArtifactModel {
		a.Type = m.ArtifactType
	}
	if err := DecodeStrict(config, &a.Config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	a.Name, a.Version = a.Config.Descriptor.Name, a.Config.Descriptor.Version
	for key, want := range map[string]string{abi.AnnotationName: a.Name, abi.AnnotationVersion: a.Version} {
		if got, ok := m.Annotations[key]; ok && got != want {
			return nil, fmt.Errorf("annotation %s: got %q, want %q as in the config", key, Shorten(got), Shorten(want))
		}
	}
	if len(m.Layers) > MaxLayers {
		return nil, fmt.Errorf("%d files, limit %d", len(m.Layers), MaxLayers)
	}
	for i, desc := range m.Layers {
		l, err := readLayer(desc)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		a.Layers = append(a.Layers, l)
	}
	if err := CheckLayers(a.Layers); err != nil {
		return nil, err
	}
	return a, a.checkModelFS()
}

// readLayer reads a layer's path from its annotations. Readers of ModelPack
// and of plain OCI use different ones, which must name the same file.
func readLayer(desc ocispec.Descriptor) (Layer, error) {
	file, title := desc.Annotations[abi.AnnotationFilepath], desc.Annotations[ocispec.AnnotationTitle]
	switch {
	case file == "" && title == "":
		return Layer{}, errors.New("no path")
	case file == "":
		file = title
	case title != "" && title != file && title != path.Base(file):
		return Layer{}, fmt.Errorf("path %q in one annotation and %q in another", Shorten(file), Shorten(title))
	}
	l := Layer{Path: file, Descriptor: Plain(desc)}
	for key, value := range desc.Annotations {
		switch key {
		case abi.AnnotationFilepath, abi.AnnotationFileMeta, ocispec.AnnotationTitle:
		default:
			if l.Annotations == nil {
				l.Annotations = map[string]string{}
			}
			l.Annotations[key] = value
		}
	}
	if !strings.HasSuffix(desc.MediaType, ".raw") && !strings.HasPrefix(desc.MediaType, "application/octet-stream") {
		return Layer{}, fmt.Errorf("%q is not one raw file: %w", Shorten(desc.MediaType), errdef.ErrUnsupported)
	}
	// Embedded data is held against the digest and then dropped.
	check := l.Descriptor
	check.Data = desc.Data
	return l, checkArtifactDescriptor(check)
}

// checkModelFS holds the config's list of digests against the layers: of raw
// layers they are the same.
func (a *Artifact) checkModelFS() error {
	ids := a.Config.ModelFS.DiffIDs
	if a.Config.ModelFS.Type != "layers" || len(ids) != len(a.Layers) {
		return fmt.Errorf("config: modelfs of type %q with %d digests for %d layers", Shorten(a.Config.ModelFS.Type), len(ids), len(a.Layers))
	}
	for i, id := range ids {
		if id != a.Layers[i].Descriptor.Digest {
			return fmt.Errorf("config: modelfs digest %d differs from layer %s", i, a.Layers[i].Path)
		}
	}
	return nil
}

// ReadIndex fetches, checks and parses the image index desc, as [Read] does a
// manifest.
func ReadIndex(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (*Index, error) {
	idx, err := readTargets(ctx, src, desc)
	if err != nil {
		return nil, fmt.Errorf("read index %s: %w", Shorten(string(desc.Digest)), refuseManifest(err))
	}
	return idx, nil
}

func readTargets(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (*Index, error) {
	if !isIndex(desc.MediaType) {
		return nil, fmt.Errorf("%q is not an image index: %w", Shorten(desc.MediaType), errdef.ErrInvalidMediaType)
	}
	data, err := fetchSmall(ctx, src, desc)
	if err != nil {
		return nil, err
	}
	return parseTargets(data)
}

func parseTargets(data []byte) (*Index, error) {
	var doc ocispec.Index
	if err := DecodeStrict(data, &doc); err != nil {
		return nil, err
	}
	if doc.SchemaVersion != 2 || doc.MediaType != "" && !isIndex(doc.MediaType) {
		return nil, fmt.Errorf("schemaVersion %d, mediaType %q in an image index", doc.SchemaVersion, Shorten(doc.MediaType))
	}
	if foreignIndex(&doc) {
		return platforms(doc.Manifests)
	}
	if !slices.ContainsFunc(doc.Manifests, ours) && doc.Annotations[abi.AnnotationABI] == "" {
		return nil, fmt.Errorf("an index of another tool, without targets of mm: %w", errdef.ErrUnsupported)
	}
	if err := checkTargets(doc.Manifests); err != nil {
		return nil, err
	}
	idx := &Index{Annotations: maps.Clone(doc.Annotations)}
	for _, e := range doc.Manifests {
		idx.Entries = append(idx.Entries, IndexEntry{Descriptor: Plain(e), Target: e.Annotations[abi.AnnotationTarget], Platform: e.Platform})
	}
	return idx, nil
}

// ours reports whether an entry of an index is a target of mm.
func ours(e ocispec.Descriptor) bool { return e.Annotations[abi.AnnotationTarget] != "" }

// fetchSmall fetches a manifest or config of at most MaxManifestBytes and
// checks its digest.
func fetchSmall(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) ([]byte, error) {
	if err := checkArtifactDescriptor(desc); err != nil {
		return nil, err
	}
	if desc.Size > MaxManifestBytes {
		return nil, fmt.Errorf("%d bytes, limit %d: %w", desc.Size, MaxManifestBytes, errdef.ErrSizeExceedsLimit)
	}
	rc, err := src.Fetch(ctx, desc)
	if err != nil {
		return nil, fetchError{err}
	}
	defer rc.Close()
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(rc, desc.Size+1))
	if err == nil {
		err = CheckContent(desc, n, digest.FromBytes(buf.Bytes()))
	}
	if err != nil {
		return nil, fetchError{err}
	}
	return buf.Bytes(), nil
}
