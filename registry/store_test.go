package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

var (
	_ oras.GraphTarget = (*Store)(nil)
	_ content.Untagger = (*Store)(nil)
)

// ctx is the tests' context.
var ctx = context.Background()

// open opens a store and closes it with the test.
func open(t testing.TB, dir string, opt Options) *Store {
	t.Helper()
	s, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// noise returns n bytes that depend on seed.
func noise(seed uint64, n int) []byte {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	r.Read(data)
	return data
}

// sample packs a small artifact of three files into s without a tag.
func sample(s *Store, name string, seed uint64) (ocispec.Descriptor, error) {
	a := artifact.Artifact{Name: name, Version: "1.0.0", Annotations: map[string]string{abi.AnnotationKind: abi.KindModule}}
	for _, f := range []struct {
		path, media, role, format string
		size                      int
	}{
		{"module.yaml", abi.MediaWeightConfig, abi.RoleManifest, "yaml", 40},
		{"weights/core.gguf", abi.MediaWeight, "core", "gguf", 300},
		{"docs/card.md", abi.MediaDoc, abi.RoleDoc, "md", 20},
	} {
		desc, err := s.AddBytes(ctx, f.media, noise(seed, f.size))
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		a.Layers = append(a.Layers, artifact.Layer{Path: f.path, Descriptor: desc,
			Annotations: map[string]string{abi.AnnotationRole: f.role, abi.AnnotationFormat: f.format}})
	}
	return artifact.Pack(ctx, s, a)
}

// tagged packs and tags a sample.
func tagged(t testing.TB, s *Store, ref string, seed uint64) ocispec.Descriptor {
	t.Helper()
	desc, err := sample(s, "sample", seed)
	if err == nil {
		err = s.Tag(ctx, desc, ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	return desc
}

// attach adds a referrer of subject with its own blob.
func attach(s content.Pusher, subject ocispec.Descriptor, artifactType, text string) (ocispec.Descriptor, error) {
	blob := []byte(text)
	layer := ocispec.Descriptor{MediaType: "text/plain", Digest: digest.FromBytes(blob), Size: int64(len(blob))}
	for _, b := range []struct {
		desc ocispec.Descriptor
		data []byte
	}{{layer, blob}, {artifact.Plain(ocispec.DescriptorEmptyJSON), []byte("{}")}} {
		if err := s.Push(ctx, b.desc, bytes.NewReader(b.data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return ocispec.Descriptor{}, err
		}
	}
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType,
		Config: artifact.Plain(ocispec.DescriptorEmptyJSON), Layers: []ocispec.Descriptor{layer}, Subject: &subject,
		Annotations: map[string]string{"note": text}}
	m.SchemaVersion = 2
	return pushDoc(ctx, s, m.MediaType, artifactType, m)
}

// pushDoc stores v as a blob and returns its descriptor.
func pushDoc(ctx context.Context, s content.Pusher, mediaType, artifactType string, v any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err = s.Push(ctx, desc, bytes.NewReader(data)); errors.Is(err, errdef.ErrAlreadyExists) {
		err = nil
	}
	desc.ArtifactType = artifactType
	return desc, err
}

// sound fails the test unless Fsck finds nothing.
func sound(t testing.TB, s *Store) FsckReport {
	t.Helper()
	report, err := s.Fsck(ctx, FsckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(report.Problems, report.Notes) {
		t.Errorf("fsck: %s", p)
	}
	return report
}

func TestPushFetch(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for _, a := range []digest.Algorithm{digest.SHA256, digest.SHA512} {
		data := noise(1, 1000)
		desc := ocispec.Descriptor{MediaType: "x/y", Digest: a.FromBytes(data), Size: 1000}
		if ok, err := s.Exists(ctx, desc); ok || err != nil {
			t.Errorf("%s: exists before: %v, %v", a, ok, err)
		}
		if err := s.Push(ctx, desc, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if err := s.Push(ctx, desc, bytes.NewReader(data)); !errors.Is(err, errdef.ErrAlreadyExists) {
			t.Errorf("%s: second push: %v", a, err)
		}
		got, err := content.FetchAll(ctx, s, desc)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: fetched %d bytes, %v", a, len(got), err)
		}
		fi, err := os.Stat(s.BlobPath(desc))
		if err != nil || fi.Mode().Perm() != 0o444 {
			t.Errorf("%s: mode %v, %v; want 0444", a, fi.Mode(), err)
		}
		if err := s.Verify(ctx, desc); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	sound(t, s)
}

// TestPushRefuses pushes content that is not as described; nothing may stay.
func TestPushRefuses(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	data := noise(2, 100)
	right := ocispec.Descriptor{MediaType: "x/y", Digest: digest.FromBytes(data), Size: 100}
	with := func(edit func(*ocispec.Descriptor)) ocispec.Descriptor { d := right; edit(&d); return d }
	for _, tc := range []struct {
		name string
		desc ocispec.Descriptor
		want error
	}{
		{"other bytes", with(func(d *ocispec.Descriptor) { d.Digest = digest.FromString("x") }), artifact.ErrCorrupt},
		{"too short", with(func(d *ocispec.Descriptor) { d.Size = 101 }), artifact.ErrCorrupt},
		{"too long", with(func(d *ocispec.Descriptor) { d.Size = 99 }), artifact.ErrCorrupt},
		{"upper case", with(func(d *ocispec.Descriptor) {
			d.Digest = digest.Digest("sha256:" + strings.ToUpper(right.Digest.Encoded()))
		}), errdef.ErrInvalidDigest},
		{"path in digest", with(func(d *ocispec.Descriptor) { d.Digest = "sha256:../../../../etc/passwd" }), errdef.ErrInvalidDigest},
		{"short digest", with(func(d *ocispec.Descriptor) { d.Digest = "sha256:abcd" }), errdef.ErrInvalidDigest},
		{"other algorithm", with(func(d *ocispec.Descriptor) { d.Digest = digest.SHA384.FromBytes(data) }), errdef.ErrInvalidDigest},
		{"negative size", with(func(d *ocispec.Descriptor) { d.Size = -1 }), nil},
		{"huge manifest", with(func(d *ocispec.Descriptor) {
			d.MediaType, d.Size = ocispec.MediaTypeImageManifest, artifact.MaxManifestBytes+1
		}), errdef.ErrSizeExceedsLimit},
	} {
		err := s.Push(ctx, tc.desc, bytes.NewReader(data))
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if report := sound(t, s); report.Blobs != 0 || report.Temp != 0 {
		t.Errorf("left behind: %+v", report)
	}
}

func TestTagResolve(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	a, b := tagged(t, s, "sample:1", 1), tagged(t, s, "other/sample:2+x", 2)
	tagged(t, s, "[::1]:5000/sample:1", 1)
	tagged(t, s, "sample:1-again", 1)
	if err := s.Tag(ctx, b, "sample:1"); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, Options{ReadOnly: true})
	for ref, want := range map[string]digest.Digest{
		"sample:1": b.Digest, "sample:1-again": a.Digest, "other/sample:2+x": b.Digest,
		a.Digest.String(): a.Digest, "whatever@" + a.Digest.String(): a.Digest,
	} {
		got, err := again.Resolve(ctx, ref)
		if err != nil || got.Digest != want || got.MediaType != ocispec.MediaTypeImageManifest {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	tags, err := again.Tags(ctx)
	var refs []string
	for _, tag := range tags {
		refs = append(refs, tag.Ref)
	}
	if diff := cmp.Diff([]string{"[::1]:5000/sample:1", "other/sample:2+x", "sample:1", "sample:1-again"}, refs); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, ref := range []string{"", "none", "sample", "sha256:" + strings.Repeat("0", 64)} {
		if _, err := again.Resolve(ctx, ref); err == nil {
			t.Errorf("%q resolved", ref)
		}
	}
	if err := s.Untag(ctx, "sample:1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Untag(ctx, "sample:1"); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("second untag: %v", err)
	}
	if _, err := again.Resolve(ctx, "sample:1"); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("resolved after untag: %v", err)
	}
	for _, ref := range []string{"", "a b", "a@b", "-a", "a\n", "[", "[::1", "[g]/a:1", "a[::1]:1", a.Digest.String(), strings.Repeat("a", 513)} {
		if err := s.Tag(ctx, a, ref); !errors.Is(err, errdef.ErrInvalidReference) {
			t.Errorf("tag %q: %v", ref, err)
		}
	}
	sound(t, s)
}

// TestTagWantsAll refuses a name for an artifact of which a part is missing.
func TestTagWantsAll(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc, err := sample(s, "sample", 1)
	if err != nil {
		t.Fatal(err)
	}
	a, err := artifact.Read(ctx, s, desc)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(s.BlobPath(a.Layers[1].Descriptor))
	if err := s.Tag(ctx, desc, "sample:1"); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("tag: %v, want ErrNotFound", err)
	}
	if tags, _ := s.Tags(ctx); len(tags) != 0 {
		t.Errorf("tags: %v", tags)
	}
}

func TestOpen(t *testing.T) {
	for _, opt := range []Options{{ReadOnly: true}, {MustExist: true}} {
		for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
			if _, err := Open(dir, opt); !errors.Is(err, errdef.ErrNotFound) {
				t.Errorf("%+v: %v, want ErrNotFound", opt, err)
			}
			if list, _ := os.ReadDir(dir); len(list) != 0 {
				t.Errorf("%+v: made %v", opt, list)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	open(t, dir, Options{})
	s := open(t, dir, Options{ReadOnly: true})
	if _, err := s.AddBytes(ctx, "x/y", nil); !errors.Is(err, cas.ErrReadOnly) {
		t.Errorf("write to a read-only store: %v", err)
	}
	os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"2.0.0"}`), 0o644)
	if _, err := Open(dir, Options{}); !errors.Is(err, errdef.ErrUnsupportedVersion) {
		t.Errorf("layout 2.0.0: %v", err)
	}
}

func TestPredecessors(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	desc := tagged(t, s, "sample:1", 1)
	other := tagged(t, s, "sample:2", 2)
	sig, err := attach(s, desc, "x/sig", "one")
	if err != nil {
		t.Fatal(err)
	}
	sbom, err := attach(s, desc, "x/sbom", "two")
	if err != nil {
		t.Fatal(err)
	}
	onSig, err := attach(s, sig, "x/sig", "three")
	if err != nil {
		t.Fatal(err)
	}
	idx, err := artifact.PackIndex(ctx, s, []artifact.IndexEntry{{Descriptor: desc, Target: "laptop"}, {Descriptor: other, Target: "phone"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Tag(ctx, idx, "sample:all"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, open(t, dir, Options{ReadOnly: true})} {
		check := func(name string, got []ocispec.Descriptor, err error, want ...ocispec.Descriptor) {
			t.Helper()
			var g, w []string
			for _, d := range got {
				g = append(g, d.Digest.String())
			}
			for _, d := range want {
				w = append(w, d.Digest.String())
			}
			slices.Sort(w)
			if diff := cmp.Diff(w, g); diff != "" || err != nil {
				t.Errorf("%s: %v %s", name, err, diff)
			}
		}
		got, err := s.Predecessors(ctx, desc)
		check("predecessors", got, err, sig, sbom, idx)
		got, err = s.Referrers(ctx, desc, "")
		check("referrers", got, err, sig, sbom)
		got, err = s.Referrers(ctx, desc, "x/sbom")
		check("referrers of one type", got, err, sbom)
		if len(got) == 1 && (got[0].ArtifactType != "x/sbom" || got[0].Annotations["note"] != "two") {
			t.Errorf("referrer not filled in: %+v", got[0])
		}
		got, err = s.Referrers(ctx, sig, "")
		check("referrers of a signature", got, err, onSig)
		got, err = s.Referrers(ctx, other, "")
		check("referrers of another", got, err)
	}
}

// TestOrasReads reads a store through oras-go's layout reader and copies an
// artifact with its referrers out of it and back.
func TestOrasReads(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	desc := tagged(t, s, "v1", 1)
	if _, err := attach(s, desc, "x/sig", "one"); err != nil {
		t.Fatal(err)
	}
	theirs, err := oci.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := theirs.Resolve(ctx, "v1"); err != nil || got.Digest != desc.Digest {
		t.Errorf("oras resolves %v, %v", got, err)
	}
	if got, err := theirs.Predecessors(ctx, desc); err != nil || len(got) != 1 {
		t.Errorf("oras finds predecessors %v, %v", got, err)
	}
	ours := open(t, t.TempDir(), Options{})
	if _, err := oras.ExtendedCopy(ctx, theirs, "v1", ours, "v2", oras.DefaultExtendedCopyOptions); err != nil {
		t.Fatal(err)
	}
	if got, err := ours.Referrers(ctx, desc, "x/sig"); err != nil || len(got) != 1 {
		t.Errorf("after copying in: referrers %v, %v", got, err)
	}
	sound(t, ours)
	// A layout that oras wrote opens, and keeps its names when we add one.
	dir3 := t.TempDir()
	third, err := oci.New(dir3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := oras.ExtendedCopy(ctx, ours, "v2", third, "v3", oras.DefaultExtendedCopyOptions); err != nil {
		t.Fatal(err)
	}
	s3 := open(t, dir3, Options{MustExist: true})
	tagged(t, s3, "v4", 4)
	for _, ref := range []string{"v3", "v4"} {
		if _, err := s3.Resolve(ctx, ref); err != nil {
			t.Error(err)
		}
	}
	if got, err := s3.Referrers(ctx, desc, ""); err != nil || len(got) != 1 {
		t.Errorf("referrers in a layout of oras: %v, %v", got, err)
	}
}

// TestGGCRReads reads a store through go-containerregistry's layout reader,
// which cosign uses.
func TestGGCRReads(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	desc := tagged(t, s, "v1", 1)
	if _, err := attach(s, desc, "x/sig", "one"); err != nil {
		t.Fatal(err)
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	idx, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	m, err := idx.IndexManifest()
	if err != nil || len(m.Manifests) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, d := range m.Manifests {
		img, err := idx.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := img.Digest(); err != nil || got != d.Digest {
			t.Errorf("%s: %v", got, err)
		}
		if d.Annotations["kind"] == "dev.cosignproject.cosign/image" && d.Digest.String() != desc.Digest.String() {
			t.Errorf("cosign would verify %s", d.Digest)
		}
	}
}

// TestCosignKinds checks the annotations that cosign reads in a layout.
func TestCosignKinds(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc := tagged(t, s, "sample:1", 1)
	idx, err := artifact.PackIndex(ctx, s, []artifact.IndexEntry{{Descriptor: desc, Target: "laptop"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := attach(s, desc, "x/sig", "one")
	if err != nil {
		t.Fatal(err)
	}
	legacy := "sha256-" + desc.Digest.Encoded() + ".sig"
	for ref, d := range map[string]ocispec.Descriptor{"sample:all": idx, legacy: desc} {
		if err := s.Tag(ctx, d, ref); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := s.names.Entries()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range entries {
		key := refName(e)
		if e.Digest == sig.Digest {
			key = "signature"
		}
		got[key] = e.Annotations["kind"]
	}
	want := map[string]string{"sample:1": "dev.cosignproject.cosign/image", "sample:all": "dev.cosignproject.cosign/image", legacy: "dev.cosignproject.cosign/sigs", "signature": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestIndexIsDeterministic creates the same store twice in different orders.
func TestIndexIsDeterministic(t *testing.T) {
	var last []byte
	for round := range 2 {
		dir := t.TempDir()
		s := open(t, dir, Options{})
		seeds := []uint64{1, 2, 3}
		if round == 1 {
			slices.Reverse(seeds)
		}
		for _, seed := range seeds {
			desc := tagged(t, s, fmt.Sprintf("sample:%d", seed), seed)
			if _, err := attach(s, desc, "x/sig", fmt.Sprint(seed)); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(filepath.Join(dir, "index.json"))
		if err != nil {
			t.Fatal(err)
		}
		if last != nil && !bytes.Equal(last, data) {
			t.Errorf("index.json differs:\n%s\n%s", last, data)
		}
		last = data
	}
}

func TestRemove(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc := tagged(t, s, "sample:1", 1)
	tagged(t, s, "sample:2", 1)
	keep := tagged(t, s, "sample:3", 3)
	if _, err := attach(s, desc, "x/sig", "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := attach(s, keep, "x/sig", "two"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(ctx, "sample:2"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(ctx, "sample:1"); err != nil {
		t.Error(err)
	}
	if err := s.Remove(ctx, desc.Digest.String()); err != nil {
		t.Fatal(err)
	}
	entries, err := s.names.Entries()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(entries); n != 2 {
		t.Errorf("%d entries left, want the third sample and its signature", n)
	}
	if err := s.Remove(ctx, desc.Digest.String()); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("second removal: %v", err)
	}
}

// TestFetchIsFile keeps sendfile possible.
func TestFetchIsFile(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc, err := s.AddBytes(ctx, "x/y", []byte("abc"))
	if err != nil {
		t.Fatal(err)
	}
	rc, err := s.Fetch(ctx, desc)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if _, ok := rc.(*os.File); !ok {
		t.Errorf("Fetch returns a %T", rc)
	}
	if got, _ := io.ReadAll(rc); string(got) != "abc" {
		t.Errorf("%q", got)
	}
}
