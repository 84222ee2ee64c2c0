// Package export contains what the exporters of formats share: the files of a
// resolved module, and the [Sink] for their output. [Verbatim] exports files
// unchanged.
//
// An exporter converts a module to the files of a format, the entry first, and
// returns them as layers. The same input gives the same bytes, so results are
// cached by the digest of the input and the recipe. Package assemble declares the
// interface; cmd/mm lists the exporters.
package export

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// Sink receives the files of exporters.
type Sink struct {
	Store *registry.Store // contains the modules and the results
	Cache string          // folder of cached results; if empty, nothing is cached
	Dir   string          // folder of the graph, which contains its files
	// Adapters are those of the core that is exported.
	Adapters []Adapter
}

// GraphFile is the content of a file that a graph names.
type GraphFile struct {
	Path   string // relative to the graph's folder
	Digest string // "sha256:…"
	Data   []byte
}

// maxGraphFile is the size limit of a file next to a graph, in bytes.
const maxGraphFile = 256 << 20

// ReadFile reads a file next to the graph.
func (s Sink) ReadFile(path string) (*GraphFile, error) {
	data, err := fsx.ReadFile(filepath.Join(s.Dir, filepath.FromSlash(path)), maxGraphFile)
	if err != nil {
		return nil, err
	}
	return &GraphFile{Path: path, Digest: digest.FromBytes(data).String(), Data: data}, nil
}

// Open opens a file of the module.
func (s Sink) Open(ctx context.Context, m *resolve.Module, path string) (*os.File, artifact.Layer, error) {
	l, err := s.Layer(m, path)
	if err != nil {
		return nil, l, err
	}
	f, err := s.Store.OpenBlob(ctx, l.Descriptor)
	return f, l, err
}

// Layer returns a file of the module as a weight layer.
func (s Sink) Layer(m *resolve.Module, path string) (artifact.Layer, error) {
	l, ok := m.Layer(path)
	if !ok {
		return l, fmt.Errorf("the artifact of %s does not contain %s", m.Manifest.ID(), path)
	}
	desc := l.Descriptor
	desc.MediaType = abi.MediaWeight
	return artifact.Layer{Path: path, Descriptor: desc}, nil
}

// Write stores a new file, whose bytes write produces.
func (s Sink) Write(ctx context.Context, path string, write func(io.Writer) error) (l artifact.Layer, err error) {
	dir := s.Cache
	if dir == "" {
		dir = os.TempDir()
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return l, err
	}
	defer d.Close()
	tmp, err := d.CreateTemp(".", "export-", 0o644) // may become the blob itself
	if err != nil {
		return l, err
	}
	defer d.Remove(tmp.Name())
	w := bufio.NewWriterSize(tmp, 1<<20)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return l, err
	}
	desc, err := s.Store.AddFile(ctx, filepath.Join(dir, tmp.Name()), cas.AddOptions{MediaType: abi.MediaWeight, Link: true})
	return artifact.Layer{Path: path, Descriptor: desc}, err
}

// Files locates a module's files among the blobs of the store.
func Files(store *registry.Store, m *resolve.Module) inspect.Locate {
	return func(path string) (string, int64, bool) {
		l, ok := m.Layer(path)
		if !ok {
			return "", 0, false
		}
		return store.BlobPath(l.Descriptor), l.Descriptor.Size, true
	}
}

// remembered is a cache entry.
type remembered struct {
	Files []rememberedFile `json:"files"`
	Notes []string         `json:"notes,omitempty"`
}

type rememberedFile struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Recall returns a cached result whose blobs are still in the store. The key
// consists of the exporter's name and generation, the digests of the input and the
// recipe.
func (s Sink) Recall(ctx context.Context, key string) (layers []artifact.Layer, notes []string, ok bool) {
	if s.Cache == "" {
		return nil, nil, false
	}
	data, err := os.ReadFile(s.entry(key))
	if err != nil {
		return nil, nil, false
	}
	var r remembered
	if json.Unmarshal(data, &r) != nil {
		return nil, nil, false
	}
	for _, f := range r.Files {
		desc := ocispec.Descriptor{MediaType: abi.MediaWeight, Digest: digest.Digest(f.Digest), Size: f.Size}
		if desc.Digest.Validate() != nil {
			return nil, nil, false
		}
		if _, err := s.Store.Exists(ctx, desc); err != nil { // protects it from a concurrent gc
			return nil, nil, false
		}
		if s.Store.VerifyCached(ctx, desc) != nil {
			return nil, nil, false
		}
		layers = append(layers, artifact.Layer{Path: f.Path, Descriptor: desc})
	}
	return layers, r.Notes, len(layers) > 0
}

// Remember caches a result. A failure only costs time later.
func (s Sink) Remember(key string, layers []artifact.Layer, notes []string) {
	if s.Cache == "" {
		return
	}
	r := remembered{Notes: notes}
	for _, l := range layers {
		r.Files = append(r.Files, rememberedFile{l.Path, l.Descriptor.Digest.String(), l.Descriptor.Size})
	}
	data, err := json.Marshal(r)
	if err != nil {
		return
	}
	if d, err := fsx.Create(filepath.Dir(s.entry(key)), 0o755, fsx.Options{}); err == nil {
		_ = d.WriteFile(filepath.Base(s.entry(key)), data, 0o644)
		_ = d.Close()
	}
}

func (s Sink) entry(key string) string {
	return filepath.Join(s.Cache, "export", fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
}
