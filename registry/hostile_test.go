package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/fsx/fsxtest"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// TestTargetsStayInside: an index whose target's name is a path cannot be
// read, and a link in the output folder is not followed out.
func TestTargetsStayInside(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc := tagged(t, s, "sample:1", 1)
	for _, target := range []string{"../../../escaped", "/abs", "a/b", "..", ".", "", "con", ".git", "A", "a b", "a\x1b", "a..b", strings.Repeat("a", 300)} {
		e := artifact.Plain(desc)
		e.Annotations = map[string]string{abi.AnnotationTarget: target}
		ix, err := pushDoc(ctx, s, ocispec.MediaTypeImageIndex, abi.ArtifactIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2},
			MediaType: ocispec.MediaTypeImageIndex, ArtifactType: abi.ArtifactIndex, Manifests: []ocispec.Descriptor{e}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := artifact.ReadTree(ctx, s, ix); !errors.Is(err, artifact.ErrManifest) {
			t.Errorf("%q: %v", target, err)
		}
		if err := artifact.CheckTree(ctx, s, ix); !errors.Is(err, artifact.ErrManifest) {
			t.Errorf("%q: %v", target, err)
		}
	}

	other := tagged(t, s, "sample:2", 2)
	ix, err := artifact.PackIndex(ctx, s, []artifact.IndexEntry{{Descriptor: desc, Target: "laptop"}, {Descriptor: other, Target: "phone"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := artifact.ReadTree(ctx, s, ix)
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	out, outside := filepath.Join(top, "out"), filepath.Join(top, "outside")
	for _, dir := range []string{out, outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(out, "phone")); err != nil {
		t.Skip(err)
	}
	if _, err := s.CheckoutTree(ctx, tree, out, CheckoutOptions{}); err == nil {
		t.Error("a link out of the folder was followed")
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("outside: %v", left)
	}
	if left, _ := os.ReadDir(out); len(left) != 1 { // the first target went with the second
		t.Errorf("a failed checkout left %v", left)
	}
	os.Remove(filepath.Join(out, "phone"))
	paths, err := s.CheckoutTree(ctx, tree, out, CheckoutOptions{})
	if err != nil || len(paths) != 6 || paths[0] != "laptop/docs/card.md" {
		t.Errorf("%v, %v", paths, err)
	}
	paths, err = s.CheckoutTree(ctx, tree, filepath.Join(top, "one"), CheckoutOptions{Target: "phone", Only: func(l artifact.Layer) bool { return l.Path == "module.yaml" }})
	if err != nil || len(paths) != 1 || paths[0] != "module.yaml" {
		t.Errorf("%v, %v", paths, err)
	}
}

// TestFIFOs: FIFOs are refused without waiting for them.
func TestFIFOs(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	desc := tagged(t, s, "sample:1", 1)
	a, err := artifact.Read(ctx, s, desc)
	if err != nil {
		t.Fatal(err)
	}
	blob := s.BlobPath(a.Layers[0].Descriptor)
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := makeFIFO(blob); err != nil {
		t.Skip(err)
	}
	done := make(chan error, 4)
	go func() { done <- s.Verify(ctx, a.Layers[0].Descriptor) }()
	go func() {
		_, err := s.Checkout(ctx, a, t.TempDir(), CheckoutOptions{Link: true})
		done <- err
	}()
	go func() { done <- func() error { _, err := s.OpenBlob(ctx, a.Layers[0].Descriptor); return err }() }()
	go func() {
		_, err := open(t, t.TempDir(), Options{}).AddFile(ctx, blob, cas.AddOptions{Link: true})
		if errors.Is(err, fsx.ErrIrregular) {
			err = artifact.ErrCorrupt
		}
		done <- err
	}()
	for range 4 {
		select {
		case err := <-done:
			if !errors.Is(err, artifact.ErrCorrupt) {
				t.Errorf("%v, want %v", err, artifact.ErrCorrupt)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("still waiting")
		}
	}
	os.Remove(filepath.Join(dir, "index.json"))
	if err := makeFIFO(filepath.Join(dir, "index.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{ReadOnly: true}); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("a FIFO as index.json: %v", err)
	}
}

// TestMediaTypesAreShort: the index repeats artifact types, so they are bounded.
func TestMediaTypesAreShort(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc := tagged(t, s, "sample:1", 1)
	if _, err := attach(s, desc, "x/"+strings.Repeat("y", 253), "fits"); err != nil {
		t.Error(err)
	}
	if _, err := attach(s, desc, "x/"+strings.Repeat("y", 254), "does not"); err == nil {
		t.Error("an artifact type of 256 bytes was taken")
	}
}

// TestIdentity: the config's name counts, and an unknown version of the ABI
// has its own error.
func TestIdentity(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc := tagged(t, s, "sample:1", 1)
	if id, err := artifact.Identify(ctx, s, desc); err != nil || id.Name != "sample" || id.Version != "1.0.0" {
		t.Errorf("%+v, %v", id, err)
	}
	data, err := s.ReadBlob(desc, artifact.MaxManifestBytes)
	if err != nil {
		t.Fatal(err)
	}
	bare := bytes.Replace(data, []byte(`"`+abi.AnnotationName+`":"sample",`), nil, 1)
	if bytes.Equal(bare, data) {
		t.Fatal("no such annotation")
	}
	push := func(data []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: desc.MediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		if err := s.Push(ctx, d, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		return d
	}
	if id, err := artifact.Identify(ctx, s, push(bare)); err != nil || id.Name != "sample" {
		t.Errorf("without annotation: %+v, %v", id, err)
	}
	nine := push(bytes.Replace(data, []byte(`"`+abi.AnnotationName+`":`), []byte(`"`+abi.AnnotationABI+`":"mm-abi-9.0","`+abi.AnnotationName+`":`), 1))
	if err := artifact.CheckTree(ctx, s, nine); !errors.Is(err, artifact.ErrABI) {
		t.Errorf("mm-abi-9.0: %v", err)
	}
	if err := artifact.CheckTree(ctx, s, desc); err != nil {
		t.Error(err)
	}
	for version, want := range map[string]error{string(abi.V1_1): nil, "mm-abi-9.0": artifact.ErrABI} { // in the index alone
		ix, err := artifact.PackIndex(ctx, s, []artifact.IndexEntry{{Descriptor: desc, Target: "a"}}, map[string]string{abi.AnnotationABI: version})
		if err != nil {
			t.Fatal(err)
		}
		if err := artifact.CheckTree(ctx, s, ix); !errors.Is(err, want) {
			t.Errorf("an index of %s: %v", version, err)
		}
	}
}

// TestPowerCutKeepsProgress: a power cut never loses progress that a resumable
// ingest has reported as saved.
func TestPowerCutKeepsProgress(t *testing.T) {
	sc := newScene(t)
	rec, err := fsxtest.Record(sc.top)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sc.reopen(rec.Hook)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	type mark struct {
		call int
		kept int64
	}
	var marks []mark
	for _, upto := range []int64{20_000, 50_000, 80_000} {
		p, err := s.Partial(ctx, partialDesc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write(sourceBytes[p.Offset():upto]); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		marks = append(marks, mark{rec.Len(), upto})
	}
	states := 0
	for call := marks[0].call; call <= rec.Len(); call++ {
		var want int64
		for _, m := range marks {
			if m.call <= call {
				want = m.kept
			}
		}
		for _, lose := range rec.Losses(call, true, 8, 3) {
			after := scene{top: scratch(t), seals: sc.seals}
			if err := rec.Replay(after.top, call, lose); err != nil {
				t.Fatal(err)
			}
			states++
			s, err := after.reopen(nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := s.Partial(ctx, partialDesc)
			if err != nil {
				t.Fatal(err)
			}
			if p.Offset() < want {
				t.Errorf("cut after call %d: %d bytes kept of %d", call, p.Offset(), want)
			}
			if err := errors.Join(p.Close(), s.Close(), os.RemoveAll(after.top)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d states", states)
}

// TestJournal: changes of one handle are visible to another immediately, in
// the journal or in index.json, and others find a complete index.json.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{Journal: true})
	plainStore := open(t, dir, Options{})
	reader := open(t, dir, Options{ReadOnly: true})
	desc := tagged(t, s, "a:1", 1)
	if _, err := attach(s, desc, "x/sig", "one"); err != nil {
		t.Fatal(err)
	}
	raw := func() string {
		data, err := os.ReadFile(filepath.Join(dir, "index.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if strings.Contains(raw(), "a:1") {
		t.Error("index.json was written at once")
	}
	check := func(want string) {
		t.Helper()
		for _, s := range []*Store{s, plainStore, reader} {
			tags, err := s.Tags(ctx)
			var got []string
			for _, tag := range tags {
				got = append(got, tag.Ref)
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
			if sigs, err := s.Referrers(ctx, desc, ""); err != nil || len(sigs) != 1 {
				t.Errorf("%d signatures, %v", len(sigs), err)
			}
		}
	}
	check("a:1")
	if err := plainStore.Tag(ctx, desc, "a:2"); err != nil {
		t.Fatal(err)
	}
	check("a:1 a:2")
	if got := raw(); !strings.Contains(got, "a:1") || !strings.Contains(got, "a:2") {
		t.Error("index.json lacks a tag")
	}
	for i := range 30 {
		if err := s.Tag(ctx, desc, fmt.Sprintf("b:%02d", i)); err != nil {
			t.Fatal(err)
		}
		if i >= 1 {
			if err := s.Untag(ctx, fmt.Sprintf("b:%02d", i-1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("a:1 a:2 b:29")
	if report := sound(t, reader); report.Tags != 3 {
		t.Errorf("fsck: %d tags", report.Tags)
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	check("a:1 a:2 b:29")
	if left, _ := os.ReadDir(filepath.Join(dir, cas.JournalDir)); len(left) != 0 || strings.Contains(raw(), "b:28") || !strings.Contains(raw(), "b:29") {
		t.Errorf("after compacting: %v, %s", left, raw())
	}
	// Another tool rewrites index.json without mm's annotations.
	if err := s.Tag(ctx, desc, "c:1"); err != nil {
		t.Fatal(err)
	}
	bare := regexpAnnotations.ReplaceAllString(raw(), "}")
	if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(bare), 0o644); err != nil {
		t.Fatal(err)
	}
	check("a:1 a:2 b:29 c:1")
	if err := s.Tag(ctx, desc, "c:2"); err != nil {
		t.Fatal(err)
	}
	check("a:1 a:2 b:29 c:1 c:2")
	// Damage in the middle is an error.
	journal, err := filepath.Glob(filepath.Join(dir, cas.JournalDir, "*"))
	if err != nil || len(journal) != 1 {
		t.Fatal(journal, err)
	}
	data, err := os.ReadFile(journal[0])
	if err != nil {
		t.Fatal(err)
	}
	data[20] ^= 1
	if err := os.WriteFile(journal[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{ReadOnly: true}); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("a damaged record: %v", err)
	}
}

// TestGraphFollows compares the graph after many changes with one built from
// scratch.
func TestGraphFollows(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{Journal: true})
	s.names.FoldAt = 2000
	var descs []ocispec.Descriptor
	for i := range 12 {
		descs = append(descs, tagged(t, s, fmt.Sprintf("r%d/x:%d", i%3, i), uint64(i%7)))
		if i%2 == 0 {
			if _, err := attach(s, descs[i], "x/sig", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if i%3 == 2 {
			if err := s.Untag(ctx, fmt.Sprintf("r%d/x:%d", (i-1)%3, i-1)); err != nil {
				t.Fatal(err)
			}
		}
		if i == 8 {
			if err := s.Remove(ctx, descs[8].Digest.String()); err != nil {
				t.Fatal(err)
			}
		}
		fresh := open(t, dir, Options{ReadOnly: true})
		for _, d := range descs {
			got, err := s.Predecessors(ctx, d)
			want, err2 := fresh.Predecessors(ctx, d)
			if err != nil || err2 != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("step %d: %v, want %v (%v, %v)", i, got, want, err, err2)
			}
			a, err := artifact.Read(ctx, s, d)
			if err != nil {
				t.Fatal(err)
			}
			for _, repo := range []string{"r0/x", "r1/x", "r2/x", "r9/x"} {
				for _, l := range append(a.Layers, artifact.Layer{Descriptor: d}, artifact.Layer{Descriptor: artifact.Plain(ocispec.DescriptorEmptyJSON)}) {
					_, got, err := s.Shows(ctx, repo, l.Descriptor.Digest)
					_, want, err2 := fresh.Shows(ctx, repo, l.Descriptor.Digest)
					if err != nil || err2 != nil || got != want || got != showsSlowly(t, s, repo, l.Descriptor.Digest) {
						t.Fatalf("step %d: %s shows %s: %v, want %v (%v, %v)", i, repo, l.Descriptor.Digest, got, want, err, err2)
					}
				}
			}
		}
		fresh.Close()
	}
}

// showsSlowly computes Shows by walking all of a repository.
func showsSlowly(t *testing.T, s *Store, repo string, d digest.Digest) bool {
	t.Helper()
	tags, err := s.RepoTags(ctx, repo)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	var visit func(desc ocispec.Descriptor)
	visit = func(desc ocispec.Descriptor) {
		err := s.Walk(ctx, desc, func(x ocispec.Descriptor) error {
			found = found || x.Digest == d
			if artifact.IsManifest(x.MediaType) {
				refs, err := s.Referrers(ctx, x, "")
				for _, r := range refs {
					visit(r)
				}
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tag := range tags {
		visit(tag.Descriptor)
	}
	return found
}

// TestSearchDown and up find the same.
func TestSearchBothWays(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	var digests []digest.Digest
	for i := range 6 {
		desc := tagged(t, s, fmt.Sprintf("r%d:%d", i%2, i), uint64(i))
		sig, err := attach(s, desc, "x/sig", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, desc.Digest, sig.Digest, digest.FromString(fmt.Sprint(i)), ocispec.DescriptorEmptyJSON.Digest)
	}
	err := s.withGraph(context.Background(), func(g *graph, idx *nameIndex) error {
		for _, repo := range []string{"r0", "r1"} {
			for _, d := range digests {
				up, down := g.searchUp(idx, repo, d, map[digest.Digest]bool{}), g.searchDown(idx, idx.Repos[repo], d)
				if up != down {
					t.Errorf("%s, %s: %v up, %v down", repo, d, up, down)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// regexpAnnotations matches index.json's own annotations, which come last.
var regexpAnnotations = regexp.MustCompile(`,"annotations":\{[^{}]*\}\}$`)
