package registry

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry/artifact"
)

// TestFlipIndex flips a bit of every byte of index.json, and with
// MM_FAULTS=long all eight. Either the store does not open, or Fsck reports
// it, or the entries keep their meaning; and no name ever leads to other
// content.
func TestFlipIndex(t *testing.T) {
	sc := newScene(t)
	name := filepath.Join(sc.store(), "index.json")
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := meaning(t, good)
	refused, told, harmless, flips := 0, 0, 0, 0
	for i := range good {
		for bit := range 8 {
			if bit != i%8 && !long() {
				continue
			}
			flips++
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if err := os.WriteFile(name, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			s, err := Open(sc.store(), Options{ReadOnly: true})
			if err != nil {
				refused++
				continue
			}
			report, err := s.Fsck(ctx, FsckOptions{Quick: true})
			if err != nil {
				t.Fatal(err)
			}
			for ref, d := range sc.seals {
				if got, err := s.Resolve(ctx, ref); err == nil && got.Digest != d {
					if ok, _ := s.Exists(ctx, got); ok {
						t.Errorf("byte %d bit %d: %s leads to %s", i, bit, ref, got.Digest)
					}
				}
			}
			s.Close()
			switch {
			case len(report.Problems)+len(report.Notes) > 0:
				told++
			case maps.Equal(meaning(t, bad), want):
				harmless++
			default:
				t.Errorf("byte %d bit %d (%q) undetected", i, bit, bad[max(0, i-20):min(len(bad), i+20)])
			}
		}
	}
	t.Logf("%d flips of %d bytes: %d refused, %d told, %d without meaning, 0 undetected", flips, len(good), refused, told, harmless)
}

// meaning maps references and digests to the fields of their entries.
func meaning(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	var doc ocispec.Index
	if err := artifact.DecodeStrict(raw, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range doc.Manifests {
		out[refName(e)+" "+e.Digest.String()] = fmt.Sprint(e.Size, e.MediaType, e.ArtifactType, e.Annotations["kind"])
	}
	return out
}

// TestFlipManifest flips every bit of a manifest and of its config.
func TestFlipManifest(t *testing.T) {
	sc := newScene(t)
	s := open(t, sc.store(), Options{})
	desc, err := s.Resolve(ctx, "old:0")
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.ReadBlob(desc, artifact.MaxManifestBytes)
	if err != nil {
		t.Fatal(err)
	}
	m, err := artifact.ParseManifest(desc, data)
	if err != nil {
		t.Fatal(err)
	}
	flips := 0
	for _, target := range []digest.Digest{desc.Digest, m.Children[0].Digest} {
		path := filepath.Join(sc.store(), "blobs", "sha256", target.Encoded())
		size, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(size.Size()) {
			bit := i % 8
			flip(t, path, i, bit)
			if _, err := artifact.Read(ctx, s, desc); err == nil {
				t.Fatalf("%s byte %d: artifact read", target, i)
			}
			flip(t, path, i, bit)
			flips++
		}
	}
	if _, err := artifact.Read(ctx, s, desc); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d flips refused", flips, flips)
}

// TestFlipBlobs flips 1,000 random bits, one at a time, in the blobs of an
// artifact: Fsck, Verify and Checkout all notice, and Checkout leaves nothing.
func TestFlipBlobs(t *testing.T) {
	s := open(t, scratch(t), Options{})
	a, blobs := full()
	for i := range a.Layers {
		data := noise(uint64(i), 2000*(i+1))
		desc, err := s.AddBytes(ctx, a.Layers[i].Descriptor.MediaType, data)
		if err != nil {
			t.Fatal(err)
		}
		a.Layers[i].Descriptor = desc
	}
	clear(blobs)
	desc, err := artifact.Pack(ctx, s, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Tag(ctx, desc, "a:1"); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	out := scratch(t)
	const flips = 1000
	for n := range flips {
		l := a.Layers[rng.IntN(len(a.Layers))]
		at, bit := rng.IntN(int(l.Descriptor.Size)), rng.IntN(8)
		flip(t, s.BlobPath(l.Descriptor), at, bit)
		report, err := s.Fsck(ctx, FsckOptions{})
		if err != nil || len(report.Problems) != 1 || report.Problems[0].Digest != l.Descriptor.Digest || report.Problems[0].Ref != "a:1" {
			t.Fatalf("fsck: %+v, %v", report, err)
		}
		if s.Verify(ctx, l.Descriptor) == nil || s.VerifyCached(ctx, l.Descriptor) == nil {
			t.Fatal("verified")
		}
		dir := filepath.Join(out, "new", "out")
		if _, err := s.Checkout(ctx, &a, dir, CheckoutOptions{Link: n%2 == 0, Cached: n%4 == 0}); err == nil {
			t.Fatal("checked out")
		}
		if list, _ := os.ReadDir(out); len(list) != 0 {
			t.Fatalf("checkout left %v", list)
		}
		flip(t, s.BlobPath(l.Descriptor), at, bit)
	}
	sound(t, s)
	t.Logf("%d of %d flips found by fsck, verify and checkout", flips, flips)
}

// TestFsckRepair removes a broken blob, so that it can be stored again.
func TestFsckRepair(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	tagged(t, s, "a:1", 1)
	data := noise(1, 300)
	flip(t, s.BlobPath(described(data)), 7, 7)
	report, err := s.Fsck(ctx, FsckOptions{Repair: true})
	if err != nil || len(report.Problems) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if report, err = s.Fsck(ctx, FsckOptions{}); err != nil || len(report.Problems) != 1 {
		t.Errorf("missing now: %+v, %v", report, err)
	}
	if _, err := s.AddBytes(ctx, "x/y", data); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
}
