package sign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry"
)

// openStore creates a store in a folder of the test.
func openStore(t testing.TB) *registry.Store {
	t.Helper()
	s, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// assembly stores an index over two artifacts that share a config.
func assembly(t testing.TB, s *registry.Store) ocispec.Descriptor {
	t.Helper()
	return putIndex(t, s, putManifest(t, s, "laptop"), putManifest(t, s, "mobile"))
}

func TestStoreHoldsSignatures(t *testing.T) {
	s := openStore(t)
	index := assembly(t, s)
	k := newKey(t, P256)
	made := sign(t, s, index, k)
	if len(made) != 3 {
		t.Fatalf("%d signatures, want 3", len(made))
	}
	again, err := registry.Open(s.Dir(), registry.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, m := range made {
		if _, err := verify(t, policy(map[string]key{"release": k}), again, repository, m.Subject); err != nil {
			t.Error(err)
		}
	}
}

func TestVerifyTreeCountsEachBlobOnce(t *testing.T) {
	s := openStore(t)
	index := assembly(t, s)
	tree, err := VerifyTree(context.Background(), s, index, TreeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want Tree // index, two manifests, one shared config, two layers
	err = s.Walk(context.Background(), index, func(d ocispec.Descriptor) error {
		want.Blobs++
		want.Bytes += d.Size
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if tree != want || tree.Blobs != 6 {
		t.Errorf("read %+v, want %+v", tree, want)
	}
}

// TestVerifyTreeFindsEveryFlip changes each byte of each blob of an artifact
// in turn, in the files of a store.
func TestVerifyTreeFindsEveryFlip(t *testing.T) {
	s := openStore(t)
	index := assembly(t, s)
	ctx := context.Background()
	var all []ocispec.Descriptor
	if err := s.Walk(ctx, index, func(d ocispec.Descriptor) error { all = append(all, d); return nil }); err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, d := range all {
		path := s.BlobPath(d)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		replace := func(content []byte) error {
			// A new store for each case: an open one may have cached a
			// manifest.
			overwrite(t, path, content)
			src, err := registry.Open(s.Dir(), registry.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			_, err = VerifyTree(ctx, src, index, TreeOptions{Workers: 2})
			points++
			return err
		}
		for i := range data {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << (i % 8)
			var r *Refusal
			if err := replace(bad); !errors.As(err, &r) || r.Reason != Tampered || r.Subject != d.Digest {
				t.Fatalf("%s, byte %d: %v", d.Digest, i, err)
			}
		}
		for _, other := range [][]byte{data[:len(data)-1], append(bytes.Clone(data), 0), {}} {
			if err := replace(other); !errors.Is(err, &Refusal{Reason: Tampered}) {
				t.Fatalf("%s with %d bytes: %v", d.Digest, len(other), err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyTree(ctx, s, index, TreeOptions{}); !errors.Is(err, &Refusal{Reason: Missing}) {
			t.Fatalf("%s missing: %v", d.Digest, err)
		}
		overwrite(t, path, data)
	}
	if _, err := VerifyTree(ctx, s, index, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d changes, all found", points)
}

// overwrite puts a file in the place of a read-only one.
func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o444); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyTreeOnly(t *testing.T) {
	s := openStore(t)
	desc := putManifest(t, s, "laptop")
	var layer ocispec.Descriptor
	err := s.Walk(context.Background(), desc, func(d ocispec.Descriptor) error { layer = d; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.BlobPath(layer)); err != nil {
		t.Fatal(err)
	}
	but := func(d ocispec.Descriptor) bool { return d.Digest != layer.Digest }
	if _, err := VerifyTree(context.Background(), s, desc, TreeOptions{Only: but}); err != nil {
		t.Error(err)
	}
	if _, err := VerifyTree(context.Background(), s, desc, TreeOptions{}); !errors.Is(err, &Refusal{Reason: Missing}) {
		t.Errorf("%v, want %s", err, Missing)
	}
}

func TestVerifyTreeRefusesHostileManifests(t *testing.T) {
	ctx := context.Background()
	layer := ocispec.Descriptor{MediaType: "application/octet-stream", Digest: digest.FromString("x"), Size: 1}
	manifest := func(layers ...ocispec.Descriptor) ocispec.Manifest {
		return ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: layer, Layers: layers}
	}
	bomb := manifest()
	for i := range 12_000 {
		bomb.Layers = append(bomb.Layers, ocispec.Descriptor{MediaType: "x", Digest: digest.FromString(fmt.Sprint(i))})
	}
	for name, build := range map[string]func(s *rawSource) ocispec.Descriptor{
		"negative size": func(s *rawSource) ocispec.Descriptor {
			return s.json(manifest(ocispec.Descriptor{Digest: layer.Digest, Size: -1}))
		},
		"two sizes": func(s *rawSource) ocispec.Descriptor {
			return s.json(manifest(ocispec.Descriptor{Digest: layer.Digest, Size: 2}))
		},
		"digest in capitals": func(s *rawSource) ocispec.Descriptor {
			return s.json(manifest(ocispec.Descriptor{Digest: "sha256:" + digest.Digest(bytes.ToUpper([]byte(layer.Digest.Encoded())))}))
		},
		"no digest": func(s *rawSource) ocispec.Descriptor { return s.json(manifest(ocispec.Descriptor{})) },
		"path as digest": func(s *rawSource) ocispec.Descriptor {
			return s.json(manifest(ocispec.Descriptor{Digest: "sha256:../../etc/passwd"}))
		},
		"layers twice": func(s *rawSource) ocispec.Descriptor {
			return s.raw([]byte(`{"schemaVersion":2,"layers":[],"Layers":[]}`))
		},
		"not JSON": func(s *rawSource) ocispec.Descriptor { return s.raw([]byte(`{`)) },
		"many layers": func(s *rawSource) ocispec.Descriptor {
			var index ocispec.Index
			d := s.json(bomb)
			for range 10 {
				index.Manifests = append(index.Manifests, d)
			}
			d = s.json(index)
			d.MediaType = ocispec.MediaTypeImageIndex
			return d
		},
		"too long": func(s *rawSource) ocispec.Descriptor {
			d := s.json(manifest())
			d.Size = maxManifest + 1
			return d
		},
	} {
		s := &rawSource{t: t}
		d := build(s)
		if _, err := VerifyTree(ctx, s, d, TreeOptions{}); !errors.Is(err, &Refusal{Reason: Hostile}) {
			t.Errorf("%s: %v, want %s", name, err, Hostile)
		}
	}
}

func TestVerifyTreeStopsWhenCancelled(t *testing.T) {
	s := openStore(t)
	index := assembly(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := VerifyTree(ctx, s, index, TreeOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// BenchmarkVerifyTree reads an artifact of 256 MiB in four layers.
func BenchmarkVerifyTree(b *testing.B) {
	s := openStore(b)
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	m.Config = put(b, s, "application/vnd.cncf.model.config.v1+json", []byte(`{}`))
	for i := range 4 {
		m.Layers = append(m.Layers, put(b, s, "application/octet-stream", bytes.Repeat([]byte{byte(i)}, 64<<20)))
	}
	desc := putJSON(b, s, ocispec.MediaTypeImageManifest, m)
	b.SetBytes(256 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := VerifyTree(context.Background(), s, desc, TreeOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(mem.Sys)/(1<<20), "MiB-sys")
}
