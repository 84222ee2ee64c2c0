package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// FuzzReadArtifact: what is accepted has only safe paths, and packs again to
// something that reads the same.
func FuzzReadArtifact(f *testing.F) {
	manifest, config, _ := seeds(f)
	f.Add(manifest, config)
	f.Add(bytes.Replace(manifest, []byte("README.md"), []byte("../x"), -1), config)
	f.Add(bytes.Replace(manifest, []byte(`"layers"`), []byte(`"Layers"`), 1), config)
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		desc := described(manifest)
		desc.MediaType = ocispec.MediaTypeImageManifest
		// Let the config's digest be right, so that its content matters.
		var doc struct{ Config ocispec.Descriptor }
		if json.Unmarshal(manifest, &doc) == nil && doc.Config.Digest != "" {
			manifest = bytes.Replace(manifest, []byte(doc.Config.Digest), []byte(described(config).Digest), 1)
			desc = described(manifest)
			desc.MediaType = ocispec.MediaTypeImageManifest
		}
		a, err := ReadArtifact(ctx, pairFetcher{desc, manifest, config}, desc)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, l := range a.Layers {
			if !filepath.IsLocal(filepath.FromSlash(l.Path)) || strings.ContainsAny(l.Path, "\\:\x00") || len(l.Path) > 255 || seen[strings.ToLower(l.Path)] {
				t.Fatalf("path %q accepted", l.Path)
			}
			seen[strings.ToLower(l.Path)] = true
			if l.Descriptor.Size < 0 || len(l.Descriptor.Digest) != 71 || l.Descriptor.URLs != nil {
				t.Fatalf("descriptor %+v accepted", l.Descriptor)
			}
		}
		if a.Name == "" {
			return
		}
		m := memory.New()
		again, err := Pack(ctx, m, *a)
		if err != nil {
			return // annotations that mm itself would not write
		}
		if _, err := ReadArtifact(ctx, m, again); err != nil {
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
			if e.Target == "" || e.Descriptor.MediaType != ocispec.MediaTypeImageManifest || len(e.Descriptor.Digest) != 71 {
				t.Fatalf("%+v accepted", e)
			}
		}
	})
}

// FuzzIndexJSON: a layout's index.json that parses can be written again and
// parses to the same names.
func FuzzIndexJSON(f *testing.F) {
	dir := f.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		f.Fatal(err)
	}
	defer s.Close()
	tagged(f, s, "a:1", 1)
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schemaVersion":2,"manifests":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		idx, err := parseIndex(data)
		if err != nil {
			return
		}
		for ref := range idx.tags {
			if desc, err := idx.lookup(ref); err == nil && checkDescriptor(desc) != nil {
				t.Fatalf("%q leads to %+v", ref, desc)
			}
		}
		doc := idx.doc
		doc.Manifests = idx.all()
		again, err := marshalIndex(doc, "7")
		if err != nil {
			t.Fatal(err)
		}
		second, err := parseIndex(again)
		if err != nil || len(second.all()) != len(idx.all()) {
			t.Fatalf("written again: %v", err)
		}
	})
}

// FuzzManifest: the parser of the graph, which sees manifests of any kind.
func FuzzManifest(f *testing.F) {
	manifest, _, index := seeds(f)
	f.Add(manifest)
	f.Add(index)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, mediaDockerManifest} {
			desc := described(data)
			desc.MediaType = mediaType
			n, err := parseNode(desc, data)
			if err != nil {
				continue
			}
			for _, child := range n.children {
				if checkDescriptor(child) != nil {
					t.Fatalf("%+v accepted", child)
				}
			}
		}
		sniff(data)
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

// FuzzRef: an accepted reference name survives index.json.
func FuzzRef(f *testing.F) {
	for _, ref := range []string{"a:1", "a/b:1.0.0+x", "a@b", "sha256:abc"} {
		f.Add(ref)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		if checkRef(ref) != nil {
			return
		}
		desc := described(nil)
		desc.MediaType = ocispec.MediaTypeImageManifest
		doc := ocispec.Index{Manifests: []ocispec.Descriptor{entryOf(&node{desc: desc, artifactType: abi.ArtifactModel}, ref)}}
		raw, err := marshalIndex(doc, "")
		if err != nil {
			t.Fatal(err)
		}
		idx, err := parseIndex(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := idx.lookup(ref); err != nil || got.Digest != desc.Digest {
			t.Fatalf("%q: %v", ref, err)
		}
	})
}

// FuzzJournal: whatever a journal holds, what is taken from it is whole, and
// applies and reads the same a second time.
func FuzzJournal(f *testing.F) {
	desc := described(nil)
	desc.MediaType = ocispec.MediaTypeImageManifest
	r := record{Set: []ocispec.Descriptor{entryOf(&node{desc: desc}, "a:1")}, Drop: []entryName{{Ref: "b:1"}, {Digest: desc.Digest}}}
	line, err := r.line()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(append(slices.Clone(line), line[:20]...))
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, used, err := parseJournal(data)
		if err != nil {
			return
		}
		idx, err := parseIndex([]byte(`{"schemaVersion":2}`))
		if err != nil {
			t.Fatal(err)
		}
		var again []byte
		for _, r := range records {
			r.apply(idx)
			line, err := r.line()
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, line...)
		}
		for _, e := range idx.all() {
			if checkDescriptor(e) != nil {
				t.Fatalf("%+v accepted", e)
			}
		}
		if more, _, err := parseJournal(data[:used]); err != nil || len(more) != len(records) {
			t.Fatalf("%d records, then %d: %v", len(records), len(more), err)
		}
		if more, _, err := parseJournal(again); err != nil || len(more) != len(records) {
			t.Fatalf("%d records, written again %d: %v", len(records), len(more), err)
		}
	})
}
