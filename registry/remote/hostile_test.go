package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/registrytest"
	"mm-abi.org/mm/registry/sign"
)

// TestHostileGraphs pulls graphs that no honest registry serves.
func TestHostileGraphs(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	config := content.NewDescriptorFromBytes("application/json", []byte(`{}`))
	for name, build := range map[string]func(raw func(string, any) ocispec.Descriptor) ocispec.Descriptor{
		"nested indexes": func(raw func(string, any) ocispec.Descriptor) ocispec.Descriptor {
			d := raw(ocispec.MediaTypeImageManifest, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, Config: config})
			for range maxNesting + 2 {
				d = raw(ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: []ocispec.Descriptor{d}})
			}
			return d
		},
		"negative size": func(raw func(string, any) ocispec.Descriptor) ocispec.Descriptor {
			bad := config
			bad.Size = -1
			return raw(ocispec.MediaTypeImageManifest, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, Config: bad})
		},
		"digest with a path": func(raw func(string, any) ocispec.Descriptor) ocispec.Descriptor {
			bad := config
			bad.Digest = "sha256:../../../etc/passwd"
			return raw(ocispec.MediaTypeImageManifest, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, Config: bad})
		},
		"two sizes": func(raw func(string, any) ocispec.Descriptor) ocispec.Descriptor {
			bad := config
			bad.Size++
			return raw(ocispec.MediaTypeImageManifest, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, Config: config, Layers: []ocispec.Descriptor{bad}})
		},
		"index over blobs": func(raw func(string, any) ocispec.Descriptor) ocispec.Descriptor {
			return raw(ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: []ocispec.Descriptor{config}})
		},
		"many layers": func(raw func(string, any) ocispec.Descriptor) ocispec.Descriptor {
			m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, Config: config}
			for i := range 15_000 {
				m.Layers = append(m.Layers, content.NewDescriptorFromBytes("x", []byte(fmt.Sprint(i))))
			}
			var index ocispec.Index
			for i := range 8 {
				m.Annotations = map[string]string{"n": fmt.Sprint(i)}
				index.Manifests = append(index.Manifests, raw(ocispec.MediaTypeImageManifest, m))
			}
			return raw(ocispec.MediaTypeImageIndex, index)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := registrytest.New()
			root := build(s.AddJSON)
			host := serve(t, s)
			dst := openStore(t)
			c := newClient(t, Options{})
			_, report, err := c.Pull(context.Background(), host+"/x@"+root.Digest.String(), dst, PullOptions{})
			if !errors.Is(err, ErrHostile) || report.Bytes != 0 {
				t.Errorf("%v, %d bytes", err, report.Bytes)
			}
		})
	}
}

// digestOf is the last element of a request's path, if it is a blob's.
func digestOf(r *http.Request) digest.Digest {
	if _, d, ok := strings.Cut(r.URL.Path, "/blobs/"); ok {
		return digest.Digest(d)
	}
	return ""
}

// signWith signs desc with a new key.
func signWith(t testing.TB, s *registry.Store, desc ocispec.Descriptor) ([]sign.Signature, error) {
	t.Helper()
	private, _, err := sign.Generate(sign.Ed25519, nil)
	if err != nil {
		return nil, err
	}
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		return nil, err
	}
	return sign.Sign(context.Background(), s, desc, key, sign.Options{})
}
