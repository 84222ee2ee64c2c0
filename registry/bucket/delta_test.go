package bucket_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/buckettest"
)

// thirds divides a file at its first 100 bytes and at 4*part.
func thirds(_ io.ReaderAt, _ int64) ([]int64, error) { return []int64{100, 4 * part}, nil }

// version returns a file whose first and last third are of a step.
func version(step byte) []byte {
	data := buckettest.Bytes(5*part, 9)
	copy(data, buckettest.Bytes(100, uint64(step)))
	copy(data[4*part:], buckettest.Bytes(part, uint64(step)+100))
	return data
}

// keysOf lists the keys below a prefix.
func keysOf(t *testing.T, b bucket.Bucket, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range b.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// A mirror with cuts sends the pieces that changed, another machine restores the
// whole file, and pieces of old versions are removed.
func TestMirrorDelta(t *testing.T) {
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		place := bucket.Address{Scheme: "s3", Bucket: "bucket", Key: "runs/one"}
		save := func(step byte, names ...string) int64 {
			before := s.Received
			m := bucket.NewMirror(t.Context(), b, place, bucket.MirrorOptions{Cuts: thirds, Report: func(text string) { t.Log(text) }})
			for _, name := range names {
				m.Save(name, write(t, version(step)), int(step), name == "last.safetensors")
			}
			if failed := m.Close(); failed != 0 {
				t.Fatalf("%d copies failed", failed)
			}
			return s.Received - before
		}
		if _, err := bucket.PutBytes(t.Context(), b, "runs/one/last.safetensors", []byte("of an earlier run"), false); err != nil {
			t.Fatal(err)
		}
		if n := save(1, "last.safetensors"); n < 5*part {
			t.Errorf("the first version: sent %d bytes, want at least %d", n, 5*part)
		}
		if n := save(2, "last.safetensors", "best.safetensors"); n > 2*part {
			t.Errorf("the next version: sent %d bytes, want about %d", n, part+100)
		}
		state, err := bucket.ReadState(t.Context(), b, place)
		if err != nil || state.Step != 2 || state.SHA256 != buckettest.Digest(version(2)) {
			t.Fatalf("state %+v, %v", state, err)
		}
		dir := t.TempDir()
		if err := bucket.Restore(t.Context(), b, place, state, dir, "best.safetensors", "metrics.jsonl"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"last.safetensors", "best.safetensors"} {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || buckettest.Digest(data) != state.SHA256 {
				t.Errorf("%s differs: %v", name, err)
			}
		}
	})
}

// Pieces that no delta names go with the second save after, not before; those that
// others name stay.
func TestMirrorSweeps(t *testing.T) {
	b, err := bucket.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	place := bucket.Address{Scheme: "file", Key: "run"}
	m := bucket.NewMirror(t.Context(), b, place, bucket.MirrorOptions{Cuts: thirds})
	saved := func(name string, step byte, last bool) {
		m.Save(name, write(t, version(step)), int(step), last)
		m.Close()
		m = bucket.Continue(t.Context(), m)
	}
	pieces := func() int { return len(keysOf(t, b, "run/pieces/")) }
	for _, c := range []struct {
		name string
		step byte
		want int
	}{
		{"last", 1, 3},
		{"epoch-1", 1, 3}, // the same
		{"last", 2, 5},
		{"last", 3, 7}, // those of 2 are named no more
		{"last", 4, 7}, // and are removed; those of 3 are not yet
		{"last", 4, 5},
	} {
		saved(c.name, c.step, false)
		if got := pieces(); got != c.want {
			t.Errorf("%s of step %d: %d pieces, want %d", c.name, c.step, got, c.want)
		}
	}
	m.Close()
	if got := keysOf(t, b, "run/epoch-1"); len(got) != 1 || !strings.HasSuffix(got[0], bucket.DeltaSuffix) {
		t.Errorf("got %v", got)
	}
}

// A delta that is cut while it is sent goes on with the pieces and parts that the
// store lacks; until then the version before counts.
func TestDeltaResumes(t *testing.T) {
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		opt := bucket.UploadOptions{Sessions: bucket.Sessions{Dir: filepath.Join(t.TempDir(), "uploads")}, Place: "x"}
		path := write(t, version(1))
		s.Set(afterParts(3, func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }))
		if _, _, err := bucket.UploadDelta(t.Context(), b, "run/last", path, thirds, opt); err == nil {
			t.Fatal("cut upload: no error")
		}
		s.Set(nil)
		if w, err := bucket.Assembled(t.Context(), b, "run/last"); err != nil {
			t.Fatal(err)
		} else if _, err := w.Stat(t.Context(), "run/last"); !errors.Is(err, bucket.ErrMissing) {
			t.Errorf("after the cut: %v", err)
		}
		before := s.Received
		if _, _, err := bucket.UploadDelta(t.Context(), b, "run/last", path, thirds, opt); err != nil {
			t.Fatal(err)
		}
		if again := s.Received - before; again > 4*part {
			t.Errorf("the resumed upload sent %d bytes, want at most %d", again, 4*part)
		}
		if info, sent, err := bucket.UploadDelta(t.Context(), b, "run/last", path, thirds, opt); err != nil || sent != 0 || info.SHA256 != buckettest.Digest(version(1)) {
			t.Errorf("equal content: sent %d, %+v, %v", sent, info, err)
		}
		// A download that is cut in a piece goes on.
		var reads atomic.Int64
		s.Set(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && reads.Add(1) == 3 {
				next.ServeHTTP(cutter{w, part}, r)
				return
			}
			next.ServeHTTP(w, r)
		})
		w, err := bucket.Assembled(t.Context(), b, "run/last")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, _, err := bucket.Download(t.Context(), w, "run/last", openDir(t, dir), "last", bucket.DownloadOptions{Digested: true}); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "last")); err != nil || buckettest.Digest(data) != buckettest.Digest(version(1)) {
			t.Errorf("differs: %v", err)
		}
		// A damaged piece is refused.
		s.Set(nil)
		for _, key := range keysOf(t, b, "run/pieces/") {
			s.Damage(key)
		}
		if _, _, err := bucket.Download(t.Context(), w, "run/last", openDir(t, t.TempDir()), "last", bucket.DownloadOptions{}); !errors.Is(err, bucket.ErrDigest) {
			t.Errorf("damaged piece: %v", err)
		}
	})
}

// A promoted version in pieces can be fetched after the run has replaced it and
// removed pieces without a name.
func TestPromoteDelta(t *testing.T) {
	private, public := keyPair(t)
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		root := bucket.Address{Scheme: "s3", Bucket: "bucket", Key: "team"}
		place := root.Under("run")
		save := func(steps ...byte) {
			for _, step := range steps {
				if _, _, err := bucket.UploadDelta(t.Context(), b, place.Under("best").Key, write(t, version(step)), thirds, bucket.UploadOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := bucket.Sweep(t.Context(), b, place); err != nil {
					t.Fatal(err)
				}
			}
		}
		save(1)
		opt := bucket.PromoteOptions{Stage: "staging", Paths: []string{"run/"}, Signer: private, KeyID: public.KeyID(), Keys: []bucket.Key{public}}
		p, err := bucket.Promote(t.Context(), b, root, "core@1.0.0", opt)
		if err != nil || len(p.Files) != 1 || p.Files[0].Name != "best" {
			t.Fatalf("%+v, %v", p.Files, err)
		}
		save(2, 3, 4)
		dir := t.TempDir()
		if err := bucket.Fetch(t.Context(), b, root, p, dir); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "best")); err != nil || buckettest.Digest(data) != buckettest.Digest(version(1)) {
			t.Errorf("differs: %v", err)
		}
		p, err = bucket.Promote(t.Context(), b, root, "core@1.0.1", opt)
		if err != nil || len(p.Files) != 1 || p.Files[0].SHA256 != buckettest.Digest(version(4)) {
			t.Errorf("the next version: %+v, %v", p.Files, err)
		}
		for _, key := range keysOf(t, b, "team/run/pieces/") {
			if err := b.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := bucket.Promote(t.Context(), b, root, "core@1.0.2", opt); !errors.Is(err, bucket.ErrMissing) {
			t.Errorf("without pieces: %v", err)
		}
		if err := bucket.Fetch(t.Context(), b, root, p, t.TempDir()); !errors.Is(err, bucket.ErrMissing) {
			t.Errorf("fetching without pieces: %v", err)
		}
	})
}

// A prefix with deltas is copied as the files that they describe.
func TestCopyDelta(t *testing.T) {
	store := t.TempDir()
	b, err := bucket.OpenDir(store)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, _, err := bucket.UploadDelta(t.Context(), b, "run/last", write(t, version(1)), thirds, bucket.UploadOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.PutBytes(t.Context(), b, "run/run.json", []byte("{}"), false); err != nil {
		t.Fatal(err)
	}
	from := "file://" + filepath.ToSlash(filepath.Join(store, "run"))
	for _, c := range []struct {
		from, file string
		files      int
	}{{from + "/", "last", 2}, {from + "/last", "last", 1}} {
		to := t.TempDir()
		done, err := bucket.Copy(t.Context(), c.from, to, bucket.CopyOptions{Openers: bucket.Openers{"file": bucket.OpenLocal}, Digested: true})
		if err != nil || done.Files != c.files {
			t.Errorf("%s: %+v, %v", c.from, done, err)
		}
		if data, err := os.ReadFile(filepath.Join(to, c.file)); err != nil || buckettest.Digest(data) != buckettest.Digest(version(1)) {
			t.Errorf("%s: differs: %v", c.from, err)
		}
		if _, err := os.Stat(filepath.Join(to, "pieces")); err == nil {
			t.Errorf("%s: pieces were copied", c.from)
		}
	}
}
