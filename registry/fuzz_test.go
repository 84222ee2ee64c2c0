package registry

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

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
			if desc, err := idx.lookup(ref); err == nil && artifact.CheckDescriptor(desc) != nil {
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
		doc := ocispec.Index{Manifests: []ocispec.Descriptor{entryOf(&artifact.Manifest{Descriptor: desc, ArtifactType: abi.ArtifactModel}, ref)}}
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
	r := record{Set: []ocispec.Descriptor{entryOf(&artifact.Manifest{Descriptor: desc}, "a:1")}, Drop: []entryName{{Ref: "b:1"}, {Digest: desc.Digest}}}
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
			if artifact.CheckDescriptor(e) != nil {
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
