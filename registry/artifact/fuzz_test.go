package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
)

// pairFetcher serves a manifest and, under any other digest, one config.
type pairFetcher struct {
	manifest ocispec.Descriptor
	data     []byte
	config   []byte
}

func (p pairFetcher) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	switch desc.Digest {
	case p.manifest.Digest:
		return io.NopCloser(bytes.NewReader(p.data)), nil
	case described(p.config).Digest:
		return io.NopCloser(bytes.NewReader(p.config)), nil
	}
	return nil, errdef.ErrNotFound
}

// seeds returns a good manifest, its config and a good index.
func seeds(f *testing.F) (manifest, config, index []byte) {
	m := memory.New()
	a, _ := full()
	desc, err := Pack(ctx, m, a)
	if err != nil {
		f.Fatal(err)
	}
	manifest, err = fetchSmall(ctx, m, desc)
	if err != nil {
		f.Fatal(err)
	}
	var doc ocispec.Manifest
	if err := json.Unmarshal(manifest, &doc); err != nil {
		f.Fatal(err)
	}
	if config, err = fetchSmall(ctx, m, doc.Config); err != nil {
		f.Fatal(err)
	}
	idx, err := PackIndex(ctx, m, []IndexEntry{{Descriptor: desc, Target: "laptop", Platform: &ocispec.Platform{OS: "linux", Architecture: "amd64"}}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	if index, err = fetchSmall(ctx, m, idx); err != nil {
		f.Fatal(err)
	}
	return manifest, config, index
}

// FuzzRead checks that an accepted artifact has only safe paths, and reads the
// same after packing again.
func FuzzRead(f *testing.F) {
	manifest, config, _ := seeds(f)
	f.Add(manifest, config)
	f.Add(bytes.Replace(manifest, []byte("README.md"), []byte("../x"), -1), config)
	f.Add(bytes.Replace(manifest, []byte(`"layers"`), []byte(`"Layers"`), 1), config)
	for _, config := range []string{abi.MediaModelConfig, prefixKit + "config.v1+json", prefixDocker + "model.config.v0.1+json", mediaDockerConfig, ocispec.MediaTypeEmptyJSON} {
		m := memory.New()
		data, err := fetchSmall(ctx, m, theirs(f, m, "", config, "application/vnd.cncf.model.weight.v1.tar=a", prefixKit+"model.v1.tar", prefixDocker+"gguf.v3", prefixOllama+"model"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte("{}"))
	}
	m := memory.New()
	image, err := fetchSmall(ctx, m, imageOf(f, m, func(*ocispec.Manifest, *ocispec.Image) {}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(image, []byte(`{"rootfs":{"type":"layers","diff_ids":["`+string(described([]byte("layer")).Digest)+`"]}}`))
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		desc := described(manifest)
		desc.MediaType = ocispec.MediaTypeImageManifest
		// Fix the config's digest, so that its content matters.
		var doc struct{ Config ocispec.Descriptor }
		if json.Unmarshal(manifest, &doc) == nil && doc.Config.Digest != "" {
			manifest = bytes.Replace(manifest, []byte(doc.Config.Digest), []byte(described(config).Digest), 1)
			desc = described(manifest)
			desc.MediaType = ocispec.MediaTypeImageManifest
		}
		a, err := Read(ctx, pairFetcher{desc, manifest, config}, desc)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, l := range a.Layers {
			if !filepath.IsLocal(filepath.FromSlash(l.Path)) || strings.ContainsAny(l.Path, "\\:\x00") || len(l.Path) > 255 || !l.Packing.Tar() && seen[strings.ToLower(l.Path)] {
				t.Fatalf("path %q accepted", l.Path)
			}
			if !l.Packing.Tar() {
				seen[strings.ToLower(l.Path)] = true
			}
			if a.Foreign != "" && (l.CoreModel() || l.Annotations[abi.AnnotationRole] != "") {
				t.Fatalf("%q of another tool claims a role of mm's", l.Path)
			}
			if l.Descriptor.Size < 0 || len(l.Descriptor.Digest) != 71 || l.Descriptor.URLs != nil {
				t.Fatalf("descriptor %+v accepted", l.Descriptor)
			}
		}
		if a.Name == "" || a.Foreign != "" {
			return
		}
		m := memory.New()
		again, err := Pack(ctx, m, *a)
		if err != nil {
			return // annotations that mm itself would not write
		}
		if _, err := Read(ctx, m, again); err != nil {
			t.Fatalf("packed again it does not read: %v", err)
		}
	})
}

func FuzzReadIndex(f *testing.F) {
	_, _, index := seeds(f)
	f.Add(index)
	f.Add(bytes.Replace(index, []byte("laptop"), nil, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		idx, err := parseTargets(data)
		if err != nil {
			return
		}
		if len(idx.Entries) == 0 || len(idx.Entries) > MaxTargets {
			t.Fatalf("%d entries accepted", len(idx.Entries))
		}
		for _, e := range idx.Entries {
			if e.Target == "" || e.Descriptor.MediaType != ocispec.MediaTypeImageManifest && !idx.Foreign || len(e.Descriptor.Digest) != 71 {
				t.Fatalf("%+v accepted", e)
			}
		}
	})
}

// FuzzManifest feeds ParseManifest manifests of any kind.
func FuzzManifest(f *testing.F) {
	manifest, _, index := seeds(f)
	f.Add(manifest)
	f.Add(index)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, mediaDockerManifest} {
			desc := described(data)
			desc.MediaType = mediaType
			n, err := ParseManifest(desc, data)
			if err != nil {
				continue
			}
			for _, child := range n.Children {
				if CheckDescriptor(child) != nil {
					t.Fatalf("%+v accepted", child)
				}
			}
		}
	})
}

// FuzzCheckPath: an accepted path stays inside and is one file.
func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{"a/b", "../x", "C:x", "a\\b", "nul.txt", "é", "a/./b"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		joined := filepath.Join("/base", filepath.FromSlash(p))
		if !filepath.IsLocal(p) || !strings.HasPrefix(joined, "/base/") || filepath.ToSlash(joined) != "/base/"+p {
			t.Fatalf("%q accepted", p)
		}
	})
}
