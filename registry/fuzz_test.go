package registry

import (
	"bytes"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// FuzzIndexJSON: a layout's index.json that parses can be written again and
// parses to the same
func FuzzIndexJSON(f *testing.F) {
	desc := describedAs(nil)
	desc.MediaType = ocispec.MediaTypeImageManifest
	entry := entryOf(&artifact.Manifest{Descriptor: desc, ArtifactType: abi.ArtifactModel}, "a:1")
	data, err := marshalIndex(ocispec.Index{Manifests: []ocispec.Descriptor{entry}}, "")
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
		for ref := range idx.Tags {
			if desc, err := idx.Lookup(ref); err == nil && artifact.CheckDescriptor(desc) != nil {
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
		desc := describedAs(nil)
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
		if got, err := idx.Lookup(ref); err != nil || got.Digest != desc.Digest {
			t.Fatalf("%q: %v", ref, err)
		}
	})
}

// FuzzJournal checks that records of any journal are complete, and apply and
// parse the same a second time.
func FuzzJournal(f *testing.F) {
	desc := describedAs(nil)
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

// A record with a wrong checksum does not count, though it may still be JSON:
// at the end it was cut off, before another it is damage.
func TestJournalChecksum(t *testing.T) {
	desc := describedAs(nil)
	desc.MediaType = ocispec.MediaTypeImageManifest
	line := func(ref string) []byte {
		r := record{Set: []ocispec.Descriptor{entryOf(&artifact.Manifest{Descriptor: desc}, ref)}}
		data, err := r.line()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	good, bad := line("a:1"), bytes.Replace(line("b:1"), []byte("b:1"), []byte("c:1"), 1)
	records, used, err := parseJournal(slices.Concat(good, bad))
	if err != nil || len(records) != 1 || used != int64(len(good)) {
		t.Errorf("at the end: %d records in %d bytes, %v", len(records), used, err)
	}
	if records, _, err := parseJournal(slices.Concat(bad, good)); err == nil {
		t.Errorf("before another: %d records", len(records))
	}
}

func describedAs(data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: "x/y", Digest: digest.FromBytes(data), Size: int64(len(data))}
}
