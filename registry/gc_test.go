package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
)

// age makes everything in the store older than any grace period.
func age(t *testing.T, s *Store) {
	t.Helper()
	old := time.Now().Add(-30 * 24 * time.Hour)
	err := filepath.WalkDir(s.Dir(), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(p, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, s *Store, opt GCOptions) GCReport {
	t.Helper()
	report, err := s.GC(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestGC checks that named blobs remain with their signatures, and others are
// removed.
func TestGC(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	a, b := tagged(t, s, "a:1", 1), tagged(t, s, "b:1", 2)
	idx, err := artifact.PackIndex(ctx, s, []artifact.IndexEntry{{Descriptor: a, Target: "laptop"}}, nil)
	if err == nil {
		err = s.Tag(ctx, idx, "a:all")
	}
	if err != nil {
		t.Fatal(err)
	}
	var refs [4]ocispec.Descriptor
	for i, subject := range []ocispec.Descriptor{a, b, idx} {
		if refs[i], err = attach(s, subject, "x/sig", fmt.Sprint("on ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if refs[3], err = attach(s, refs[1], "x/sig", "on the signature of b"); err != nil {
		t.Fatal(err)
	}
	before := sound(t, s).Blobs
	// a is untagged, yet the index holds it.
	for _, ref := range []string{"a:1", "b:1"} {
		if err := s.Untag(ctx, ref); err != nil {
			t.Fatal(err)
		}
	}
	if report := collect(t, s, GCOptions{}); len(report.Blobs)+len(report.Referrers) != 0 || report.Young == 0 {
		t.Errorf("within the grace period: %+v", report)
	}
	age(t, s)
	dry := collect(t, s, GCOptions{DryRun: true})
	if got := sound(t, s).Blobs; got != before {
		t.Errorf("dry run: %d blobs of %d left", got, before)
	}
	report := collect(t, s, GCOptions{})
	if len(report.Blobs) != len(dry.Blobs) || report.Bytes != dry.Bytes || len(report.Referrers) != 2 {
		t.Errorf("announced %+v, did %+v", dry, report)
	}
	for name, tc := range map[string]struct {
		desc ocispec.Descriptor
		want bool
	}{
		"manifest in an index": {a, true}, "its signature": {refs[0], true}, "the index's signature": {refs[2], true},
		"untagged": {b, false}, "its signature too": {refs[1], false}, "the signature's": {refs[3], false},
	} {
		if ok, err := s.Exists(ctx, tc.desc); ok != tc.want || err != nil {
			t.Errorf("%s: there %v, %v", name, ok, err)
		}
	}
	if got := sound(t, s); got.Blobs != before-len(report.Blobs) || got.Blobs != report.Kept {
		t.Errorf("%d blobs before, %d collected, %d kept, %d there", before, len(report.Blobs), report.Kept, got.Blobs)
	}
	age(t, s)
	if report := collect(t, s, GCOptions{}); len(report.Blobs)+report.Temp != 0 {
		t.Errorf("again: %+v", report)
	}
}

// TestGCLinks: a manifest that a repository shows stays without a tag.
func TestGCLinks(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc, err := sample(s, "sample", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Link(ctx, "some/repo", desc); err != nil {
		t.Fatal(err)
	}
	sig, err := attach(s, desc, "x/sig", "one")
	if err == nil {
		err = s.Link(ctx, "some/repo", sig)
	}
	if err != nil {
		t.Fatal(err)
	}
	age(t, s)
	if report := collect(t, s, GCOptions{}); len(report.Blobs) != 0 {
		t.Errorf("collected %v", report.Blobs)
	}
	if repos, err := s.Repos(ctx); err != nil || len(repos) != 1 || repos[0] != "some/repo" {
		t.Errorf("repositories: %v, %v", repos, err)
	}
	if err := s.Unlink(ctx, "some/repo", desc.Digest); err != nil {
		t.Fatal(err)
	}
	age(t, s)
	collect(t, s, GCOptions{})
	if got := sound(t, s); got.Blobs != 0 {
		t.Errorf("%d blobs left", got.Blobs)
	}
	if _, state, err := s.Linked(ctx, "some/repo", desc.Digest); state != Unlinked || err != nil {
		t.Errorf("record of a blob that is gone: %v, %v", state, err)
	}
	for _, repo := range []string{"", "A", "a/../b", "a//b", "_links", "a/_links", "/a", "a/"} {
		if err := s.Link(ctx, repo, desc); err == nil {
			t.Errorf("repository %q", repo)
		}
	}
	if err := s.Link(ctx, "a", described([]byte("none"))); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("linked what is not there: %v", err)
	}
}

// TestGCLeftovers: old files of interrupted work go, young ones stay, and an
// ingest that a process holds stays whatever its age.
func TestGCLeftovers(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(s.Dir(), name), []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	leftovers := []string{".tmp-x", ".mm/ingest/abc-1", ".mm/digest/.tmp-y", ".mm/partial/sha256-0", ".mm/partial/sha256-0.state", ".mm/upload/q", ".mm/partial/.tmp-z"}
	for _, name := range leftovers {
		write(name)
	}
	held, err := s.Partial(ctx, described(noise(1, 100)))
	if err != nil {
		t.Fatal(err)
	}
	held.Write(noise(1, 50))
	if report := collect(t, s, GCOptions{}); report.Temp != 0 {
		t.Errorf("young: %+v", report)
	}
	write("readme.txt")
	age(t, s)
	collect(t, s, GCOptions{})
	for _, name := range leftovers {
		if _, err := os.Stat(filepath.Join(s.Dir(), name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Dir(), "readme.txt")); err != nil {
		t.Error("a stranger's file went")
	}
	if _, err := held.Write(noise(1, 100)[50:]); err != nil {
		t.Error(err)
	}
	if err := held.Commit(); err != nil {
		t.Errorf("held: %v", err)
	}
}

// TestGCStopsAtDamage: the references of a damaged manifest are unknown, so
// nothing is removed.
func TestGCStopsAtDamage(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	desc := tagged(t, s, "a:1", 1)
	flip(t, s.BlobPath(desc), 10, 1)
	age(t, s)
	again := open(t, s.Dir(), Options{})
	if _, err := again.GC(ctx, GCOptions{}); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	if report, _ := again.Fsck(ctx, FsckOptions{Quick: true}); report.Blobs != 5 {
		t.Errorf("%d blobs left", report.Blobs)
	}
}

// TestFsckFinds: a missing blob is reported with the tag that needs it.
func TestFsckFinds(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	tagged(t, s, "a:1", 1)
	layer := described(noise(1, 300))
	os.Remove(s.BlobPath(layer))
	report, err := s.Fsck(ctx, FsckOptions{})
	if err != nil || len(report.Problems) != 1 || report.Problems[0].Digest != layer.Digest || report.Problems[0].Ref != "a:1" {
		t.Errorf("%+v, %v", report.Problems, err)
	}
	os.WriteFile(filepath.Join(s.Dir(), "index.json"), []byte("{"), 0o644)
	if report, err = s.Fsck(ctx, FsckOptions{}); err != nil || len(report.Problems) != 1 {
		t.Errorf("%+v, %v", report.Problems, err)
	}
	if _, err := Open(s.Dir(), Options{}); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
	os.Remove(filepath.Join(s.Dir(), "index.json"))
	if _, err := Open(s.Dir(), Options{}); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("open without index: %v", err)
	}
}
