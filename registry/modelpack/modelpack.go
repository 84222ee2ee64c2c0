// Package modelpack packs a module's folder as a CNCF ModelPack artifact
// (model-spec v0.0.7): one raw layer for each file, including module.yaml.
//
// [Pack] checks that the folder holds the files that the manifest names,
// stores each, compares them with the manifest's files list and writes config
// and manifest. [Digest] computes the digest of that manifest without storing
// anything. The same folder gives the same digest on every machine: clock,
// owner and directory order do not matter.
//
// [PackCar] converts an artifact to a container image with the files of a model below
// models/, which KServe, image volumes of Kubernetes and podman read.
package modelpack

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// LinkFrom is the size in bytes from which a module's file is hard linked into
// the store rather than copied. Linked, the file loses its write permission,
// and damage to one is damage to both; below this size a copy costs too little
// to be worth that.
const LinkFrom = 64 << 20

// isModel reports whether a file is a complete model. External data of an ONNX
// model is always copied: a second name on disk would make mm refuse it
// (MM1023).
func isModel(path string) bool {
	return slices.Contains([]string{".gguf", ".onnx", ".safetensors"}, filepath.Ext(path))
}

// Pack stores the files of a module's folder and writes the OCI manifest over
// them. Missing files, and files that differ from their declaration, are
// reported as diag.Faults. The artifact gets no name.
func Pack(ctx context.Context, store *registry.Store, m *modules.Manifest) (*artifact.Artifact, ocispec.Descriptor, error) {
	if err := room(ctx, store, m); err != nil {
		return nil, ocispec.Descriptor{}, fmt.Errorf("packing %s: %w", m.ID(), err)
	}
	a, err := describe(m, func(path, media string) (ocispec.Descriptor, error) {
		info, err := os.Stat(path)
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		return store.AddFile(ctx, path, cas.AddOptions{MediaType: media, Link: linked(path, info.Size())})
	})
	if err != nil {
		return nil, ocispec.Descriptor{}, fmt.Errorf("packing %s: %w", m.ID(), err)
	}
	desc, err := artifact.Pack(ctx, store, a)
	if err != nil {
		return nil, desc, fmt.Errorf("packing %s: %w", m.ID(), err)
	}
	read, err := artifact.Read(ctx, store, desc)
	if err != nil {
		return nil, desc, fmt.Errorf("packing %s: %w", m.ID(), err)
	}
	return read, desc, nil
}

// linked reports whether Pack links the file at path.
func linked(path string, size int64) bool { return size >= LinkFrom && isModel(path) }

// room returns a [*cas.FullError] if the store has no space for the files to copy.
// They are hashed only if they might not fit.
func room(ctx context.Context, store *registry.Store, m *modules.Manifest) error {
	var total int64
	for _, path := range m.Paths() {
		if info, err := os.Stat(filepath.Join(m.Dir(), filepath.FromSlash(path))); err == nil {
			total += info.Size()
		}
	}
	if store.RoomFor(total) == nil {
		return nil
	}
	var copied []ocispec.Descriptor
	links := store.SameDisk(m.Dir())
	if _, err := describe(m, func(path, media string) (ocispec.Descriptor, error) {
		d, err := hash(ctx, path, media)
		if err == nil && !(links && linked(path, d.Size)) {
			copied = append(copied, d)
		}
		return d, err
	}); err != nil {
		return err
	}
	return store.Room(copied)
}

// Digest is the digest of the manifest that [Pack] would write. Every file of
// the module is read; nothing is stored.
func Digest(ctx context.Context, m *modules.Manifest) (digest.Digest, error) {
	a, err := describe(m, func(path, media string) (ocispec.Descriptor, error) { return hash(ctx, path, media) })
	if err != nil {
		return "", fmt.Errorf("hashing %s: %w", m.ID(), err)
	}
	desc, err := artifact.Pack(ctx, nowhere{}, a)
	if err != nil {
		return "", fmt.Errorf("hashing %s: %w", m.ID(), err)
	}
	return desc.Digest, nil
}

// describe returns the artifact of a module; add returns the blob of a file.
func describe(m *modules.Manifest, add func(path, media string) (ocispec.Descriptor, error)) (artifact.Artifact, error) {
	a := artifact.Artifact{Name: m.Name, Version: m.Version, Annotations: Annotations(m), Config: Config(m)}
	if err := present(m).Err(); err != nil {
		return a, err
	}
	for _, path := range m.Paths() {
		l := Layer(m, path)
		var err error
		if l.Descriptor, err = add(filepath.Join(m.Dir(), filepath.FromSlash(path)), l.Descriptor.MediaType); err != nil {
			return a, err
		}
		a.Layers = append(a.Layers, l)
	}
	return a, Declared(m, a.Layers).Err()
}

// hash describes a file by its bytes.
func hash(ctx context.Context, path, media string) (ocispec.Descriptor, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer f.Close()
	n, sum, err := fsx.DigestOf(fsx.Reader{Context: ctx, R: f})
	return ocispec.Descriptor{MediaType: media, Digest: digest.Digest(sum), Size: n}, err
}

// nowhere discards blobs.
type nowhere struct{}

// Push implements content.Pusher.
func (nowhere) Push(_ context.Context, _ ocispec.Descriptor, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// present reports every file that the manifest names and the folder lacks, or
// holds as something else than a regular file inside the folder.
func present(m *modules.Manifest) diag.List {
	var list diag.List
	root, err := os.OpenRoot(m.Dir())
	if err != nil {
		list.Add(diag.Unreadable, diag.Pos{File: m.Dir()}, err.Error(), "")
		return list
	}
	defer root.Close()
	for _, path := range m.Paths() {
		info, err := root.Stat(path)
		switch {
		case err != nil:
			list.Add(diag.FileMissing, m.PathPos(path), fmt.Sprintf("%s names %q, which %s does not hold", m.ID(), path, m.Dir()), "add the file or correct the name")
		case !info.Mode().IsRegular():
			list.Add(diag.FileMissing, m.PathPos(path), fmt.Sprintf("%q is not a regular file", path), "")
		}
	}
	return list
}

// Declared compares the packed files with the manifest's files list.
func Declared(m *modules.Manifest, layers []artifact.Layer) diag.List {
	var list diag.List
	for i, f := range m.Files {
		for _, l := range layers {
			if l.Path == f.Path && (l.Descriptor.Digest.Encoded() != f.SHA256 || l.Descriptor.Size != f.Size) {
				list.Add(diag.FileDiffers, m.Pos(fmt.Sprintf("/files/%d", i)), fmt.Sprintf("%q has %d bytes, sha256 %s; declared %d, %s", f.Path, l.Descriptor.Size, l.Descriptor.Digest.Encoded(), f.Size, f.SHA256), "restore the file, or declare its new digest")
			}
		}
	}
	return list
}

// Layer describes one file of a module, without its bytes.
func Layer(m *modules.Manifest, path string) artifact.Layer {
	format := formatOf(m, path)
	role, media := string(m.Type), abi.MediaWeight
	switch {
	case path == modules.FileName:
		role, media = abi.RoleManifest, abi.MediaWeightConfig
	case path == m.Card || modules.IsLegal(path) || strings.HasPrefix(filepath.Base(path), "LICENSE"):
		role, media = abi.RoleDoc, abi.MediaDoc
	case path == m.ChatTemplate || format == "":
		media = abi.MediaWeightConfig
	case abi.Format(format).Code():
		media = abi.MediaCode
	}
	notes := map[string]string{abi.AnnotationComponent: m.Name, abi.AnnotationRole: role, abi.AnnotationVersion: m.Version}
	if format != "" {
		notes[abi.AnnotationFormat] = format
	}
	return artifact.Layer{Path: path, Descriptor: ocispec.Descriptor{MediaType: media}, Annotations: notes}
}

// formatOf is the format under which the manifest exports path.
func formatOf(m *modules.Manifest, path string) string {
	for _, format := range slices.Sorted(maps.Keys(m.Export)) {
		if slices.Contains(m.Export[format].Files(), path) {
			return string(format)
		}
	}
	if path == modules.FileName {
		return "yaml"
	}
	if r := m.Runtime; r != nil {
		for format, program := range r.Programs() {
			if program == path {
				return format
			}
		}
	}
	if path == m.Card {
		return "markdown"
	}
	return ""
}
