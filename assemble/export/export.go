// Package export turns a module's weights into the files of a target and
// checks that weights are what the module's manifest says.
//
// [Inspect] compares a weight file with its manifest from the file alone.
// [GGUF] rewrites a language model in the precision a target asks for, tensor
// by tensor in bounded memory; a file that is in that precision already is
// taken as it is. The same input gives the same bytes, so results are
// remembered by the digest of the input and the recipe.
package export

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/resolve"
)

// Options for GGUF.
type Options struct {
	Quant abi.DType       // precision of the weights
	Store *registry.Store // where modules are and the result goes
	Cache string          // folder of remembered results. Empty: nothing is remembered
}

// Exported is a file of a target.
type Exported struct {
	Descriptor ocispec.Descriptor
	Notes      []string // what is not exactly as asked for, for people
}

// generation is part of every cache key: it changes when exporters write other
// bytes for the same input.
const generation = 1

// remembered is a cache entry.
type remembered struct {
	Digest string   `json:"digest"`
	Size   int64    `json:"size"`
	Notes  []string `json:"notes,omitempty"`
}

// recall finds an earlier result whose blob is still in the store.
func (o Options) recall(ctx context.Context, key, media string) (Exported, bool) {
	if o.Cache == "" {
		return Exported{}, false
	}
	data, err := os.ReadFile(o.entry(key))
	if err != nil {
		return Exported{}, false
	}
	var r remembered
	if json.Unmarshal(data, &r) != nil || digest.Digest(r.Digest).Validate() != nil {
		return Exported{}, false
	}
	desc := ocispec.Descriptor{MediaType: media, Digest: digest.Digest(r.Digest), Size: r.Size}
	if _, err := o.Store.Exists(ctx, desc); err != nil { // keeps it from a gc that runs meanwhile
		return Exported{}, false
	}
	return Exported{desc, r.Notes}, o.Store.VerifyCached(ctx, desc) == nil
}

// remember notes a result. A result that is not remembered costs time only.
func (o Options) remember(key string, e Exported) {
	if o.Cache == "" {
		return
	}
	data, err := json.Marshal(remembered{e.Descriptor.Digest.String(), e.Descriptor.Size, e.Notes})
	if err == nil && os.MkdirAll(filepath.Dir(o.entry(key)), 0o755) == nil {
		_ = fsx.WriteFile(o.entry(key), data, 0o644)
	}
}

func (o Options) entry(key string) string {
	return filepath.Join(o.Cache, "export", fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
}

// layer finds the file that a module exports in a format.
func layer(m *resolve.Module, format string) (registry.Layer, error) {
	path := m.Manifest.Entry(abi.Format(format))
	if path == "" {
		return registry.Layer{}, fmt.Errorf("its manifest exports no %s", format)
	}
	l, ok := m.Layer(path)
	if !ok {
		return registry.Layer{}, fmt.Errorf("its artifact does not hold %s", path)
	}
	return l, nil
}
