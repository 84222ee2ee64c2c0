package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/buckettest"
	"mm-abi.org/mm/registry/sign"
)

const part = 256 << 10

// stores starts a double of each store, with a bucket of it.
func stores(t *testing.T) map[string]func() (*buckettest.Store, bucket.Bucket) {
	must := func(b bucket.Bucket, err error) bucket.Bucket {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return map[string]func() (*buckettest.Store, bucket.Bucket){
		"s3": func() (*buckettest.Store, bucket.Bucket) {
			s := buckettest.NewS3(t)
			return s, must(bucket.NewS3("bucket", bucket.S3Options{Endpoint: s.URL, Region: "us-east-1", PartSize: part, Credentials: credentials.NewStaticV4("id", "secret", "")}))
		},
		"gs": func() (*buckettest.Store, bucket.Bucket) {
			s := buckettest.NewGS(t)
			return s, must(bucket.NewGS("bucket", bucket.GSOptions{Endpoint: s.URL, PartSize: part}))
		},
		"azure": func() (*buckettest.Store, bucket.Bucket) {
			s := buckettest.NewAzure(t)
			return s, must(bucket.NewAzure("account", "container", bucket.AzureOptions{Endpoint: s.URL, Key: []byte("key"), PartSize: part}))
		},
	}
}

func each(t *testing.T, test func(t *testing.T, s *buckettest.Store, b bucket.Bucket)) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			s, b := open()
			test(t, s, b)
		})
	}
}

func write(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func openDir(t *testing.T, path string) *fsx.Dir {
	t.Helper()
	d, err := fsx.Open(path, fsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// afterParts returns a hook that answers the requests with a large body after the
// first n by then, once the store holds those.
func afterParts(n int64, then func(w http.ResponseWriter)) func(next http.Handler, w http.ResponseWriter, r *http.Request) {
	var began, ended atomic.Int64
	stored := make(chan struct{})
	return func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.ContentLength <= part/2 {
			next.ServeHTTP(w, r)
			return
		}
		if began.Add(1) > n {
			<-stored
			then(w)
			return
		}
		next.ServeHTTP(w, r)
		if ended.Add(1) == n {
			close(stored)
		}
	}
}

// An upload that is cut after some parts goes on with the others, in another
// process.
func TestUploadResumes(t *testing.T) {
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		data := buckettest.Bytes(8*part+100, 1)
		path, sessions := write(t, data), bucket.Sessions{Dir: filepath.Join(t.TempDir(), "uploads")}
		ctx, cancel := context.WithCancel(t.Context())
		s.Set(afterParts(4, func(http.ResponseWriter) {
			cancel()
			panic(http.ErrAbortHandler)
		}))
		opt := bucket.UploadOptions{Sessions: sessions, Place: "x"}
		if _, _, err := bucket.Upload(ctx, b, "big", path, opt); err == nil {
			t.Fatal("cut upload: no error")
		}
		if _, err := b.Stat(t.Context(), "big"); !errors.Is(err, bucket.ErrMissing) {
			t.Fatalf("after the cut: %v", err)
		}
		s.Set(nil)
		before := s.Received
		info, sent, err := bucket.Upload(t.Context(), b, "big", path, opt)
		if err != nil || !sent || info.SHA256 != buckettest.Digest(data) {
			t.Fatalf("resumed: %+v, %t, %v", info, sent, err)
		}
		if again := s.Received - before; again > 7*part {
			t.Errorf("the resumed upload sent %d bytes, want at most %d", again, 7*part)
		}
		if files, _ := filepath.Glob(filepath.Join(sessions.Dir, "*")); len(files) > 0 {
			t.Errorf("states remain: %v", files)
		}
		if _, sent, err := bucket.Upload(t.Context(), b, "big", path, opt); err != nil || sent {
			t.Errorf("equal content: sent %t, %v", sent, err)
		}
	})
}

// TestHostileReads serves answers that the client must refuse.
func TestHostileReads(t *testing.T) {
	data := buckettest.Bytes(10_000, 2)
	media := func(r *http.Request) bool {
		return r.Method == http.MethodGet && (r.URL.Query().Get("alt") == "media" || !strings.Contains(r.URL.Path, "/storage/v1"))
	}
	for name, c := range map[string]struct {
		hook func(next http.Handler, w http.ResponseWriter, r *http.Request)
		want error
	}{
		"short": {func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(cutter{w, 3000}, r)
		}, nil},
		"range": {func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=1-9999")
			next.ServeHTTP(w, r)
		}, bucket.ErrAnswer},
		"whole": {func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			next.ServeHTTP(w, r)
		}, bucket.ErrAnswer},
		"redirect": {func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://198.51.100.1/secret", http.StatusTemporaryRedirect)
		}, bucket.ErrAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
				if _, err := buckettest.Put(t, b, "key", data, bucket.PutOptions{}); err != nil {
					t.Fatal(err)
				}
				s.Set(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
					if media(r) {
						c.hook(next, w, r)
						return
					}
					next.ServeHTTP(w, r)
				})
				dir := t.TempDir()
				_, _, err := bucket.Download(t.Context(), b, "key", openDir(t, dir), "file", bucket.DownloadOptions{})
				if name == "short" { // a cut answer is continued until all bytes are here
					if got, _ := os.ReadFile(filepath.Join(dir, "file")); err != nil || !bytes.Equal(got, data) {
						t.Errorf("got %d bytes, %v", len(got), err)
					}
					return
				}
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if _, err := os.Stat(filepath.Join(dir, "file")); err == nil {
					t.Error("the file has its name")
				}
			})
		})
	}
}

// cutter ends an answer after some bytes.
type cutter struct {
	http.ResponseWriter
	n int
}

func (c cutter) Write(p []byte) (int, error) {
	if len(p) > c.n {
		c.ResponseWriter.Write(p[:c.n])
		http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// A damaged object is refused and its partial file removed; a partial file of the
// same version is continued with a range.
func TestDownload(t *testing.T) {
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		data := buckettest.Bytes(100_000, 3)
		if _, err := buckettest.Put(t, b, "a/key", data, bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		d := openDir(t, dir)
		var reads atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		s.Set(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				if reads.Add(1) > 1 {
					cancel()
					panic(http.ErrAbortHandler)
				}
				w = cutter{w, 60_000}
			}
			next.ServeHTTP(w, r)
		})
		if _, _, err := bucket.Download(ctx, b, "a/key", d, "file", bucket.DownloadOptions{}); err == nil {
			t.Fatal("cut download: no error")
		}
		s.Set(nil)
		parts, _ := filepath.Glob(filepath.Join(dir, ".file.*.part"))
		if len(parts) != 1 {
			t.Fatalf("partial files: %v", parts)
		}
		stat, _ := os.Stat(parts[0])
		if _, received, err := bucket.Download(t.Context(), b, "a/key", d, "file", bucket.DownloadOptions{}); err != nil || !received {
			t.Fatal(received, err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "file")); !bytes.Equal(got, data) || stat.Size() == 0 {
			t.Errorf("got %d bytes after a part of %d", len(got), stat.Size())
		}
		s.Damage("a/key")
		os.Remove(filepath.Join(dir, "file"))
		if _, _, err := bucket.Download(t.Context(), b, "a/key", d, "file", bucket.DownloadOptions{}); !errors.Is(err, bucket.ErrDigest) {
			t.Errorf("damaged object: got %v, want %v", err, bucket.ErrDigest)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("files remain: %v", left)
		}
	})
}

// An object that is replaced between two parts of a download is refused.
func TestDownloadChanged(t *testing.T) {
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		if _, err := buckettest.Put(t, b, "key", buckettest.Bytes(50_000, 4), bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		s.Set(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				next.ServeHTTP(w, r)
				return
			}
			once.Do(func() {
				s.Set(nil)
				if _, err := buckettest.Put(t, b, "key", buckettest.Bytes(50_000, 5), bucket.PutOptions{}); err != nil {
					t.Error(err)
				}
			})
			next.ServeHTTP(w, r)
		})
		dir := t.TempDir()
		if _, _, err := bucket.Download(t.Context(), b, "key", openDir(t, dir), "file", bucket.DownloadOptions{}); !errors.Is(err, bucket.ErrChanged) {
			t.Errorf("got %v, want %v", err, bucket.ErrChanged)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("files remain: %v", left)
		}
	})
}

// A listing that repeats itself, that leaves the prefix, or that has unsafe keys
// writes nothing.
func TestHostileListings(t *testing.T) {
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		for _, key := range []string{"p/a", "p/b", "p/c"} {
			if _, err := buckettest.Put(t, b, key, []byte(key), bucket.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s.Page = 10
		openers := bucket.Openers{"s3": func(bucket.Address) (bucket.Bucket, error) { return b, nil }}
		for name, c := range map[string]struct {
			old, new string
			want     error
		}{
			"outside": {"p/a<", "q/a<", bucket.ErrAnswer},
			"parent":  {"p/a<", "p/../../a<", bucket.ErrKey},
			"both":    {"p/b<", "p/a/x<", bucket.ErrKey},
		} {
			s.Set(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
				quote := strings.NewReplacer("<", `"`)
				next.ServeHTTP(replacer{w, strings.NewReplacer(c.old, c.new, quote.Replace(c.old), quote.Replace(c.new))}, r)
			})
			dir := filepath.Join(t.TempDir(), "out")
			_, err := bucket.Copy(t.Context(), "s3://bucket/p/", dir, bucket.CopyOptions{Openers: openers})
			if !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s: the folder was written", name)
			}
		}
		s.Page = 2
		s.Set(func(next http.Handler, w http.ResponseWriter, r *http.Request) { // the first page, again and again
			q := r.URL.Query()
			q.Del("continuation-token")
			q.Del("pageToken")
			q.Del("marker")
			r.URL.RawQuery = q.Encode()
			next.ServeHTTP(w, r)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := bucket.Copy(ctx, "s3://bucket/p/", t.TempDir(), bucket.CopyOptions{Openers: openers}); !errors.Is(err, bucket.ErrAnswer) {
			t.Errorf("endless: got %v, want %v", err, bucket.ErrAnswer)
		}
	})
}

// replacer changes an answer of one write.
type replacer struct {
	http.ResponseWriter
	r *strings.Replacer
}

func (r replacer) Write(p []byte) (int, error) {
	_, err := io.WriteString(r.ResponseWriter, r.r.Replace(string(p)))
	return len(p), err
}

// Of several writers of one version exactly one wins; stages follow each other.
func TestPromote(t *testing.T) {
	private, public := keyPair(t)
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		root := bucket.Address{Scheme: "s3", Bucket: "bucket", Key: "team"}
		for i, key := range []string{"team/run1/a", "team/run1/b", "team/run2/a"} {
			if _, err := buckettest.Put(t, b, key, buckettest.Bytes(1000+i, 6), bucket.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		promote := func(stage string, paths ...string) (bucket.Pointer, error) {
			return bucket.Promote(t.Context(), b, root, "core@1.0.0", bucket.PromoteOptions{Stage: stage, Paths: paths, Signer: private, KeyID: public.KeyID(), Keys: []bucket.Key{public}})
		}
		if _, err := promote("candidate"); !errors.Is(err, bucket.ErrMissing) {
			t.Errorf("candidate before staging: %v", err)
		}
		var wins atomic.Int64
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				switch _, err := promote("staging", []string{"run1/", "run2/"}[i]); {
				case err == nil:
					wins.Add(1)
				case !errors.Is(err, bucket.ErrExists):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			t.Errorf("%d winners", wins.Load())
		}
		for _, stage := range []string{"candidate", "candidate", "prod"} { // the second is equal
			if _, err := promote(stage); err != nil {
				t.Errorf("%s: %v", stage, err)
			}
		}
		p, err := bucket.ReadPointer(t.Context(), b, root, "prod", "core@1.0.0", []bucket.Key{public})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := bucket.Fetch(t.Context(), b, root, p, dir); err != nil {
			t.Error(err)
		}
		for _, f := range p.Files {
			data, err := os.ReadFile(filepath.Join(dir, f.Name))
			if err != nil || buckettest.Digest(data) != f.SHA256 {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
		_, other := keyPair(t)
		if _, err := bucket.ReadPointer(t.Context(), b, root, "prod", "core@1.0.0", []bucket.Key{other}); !errors.Is(err, bucket.ErrPointer) {
			t.Errorf("another key: got %v, want %v", err, bucket.ErrPointer)
		}
		// Another stage's pointer under this key is refused.
		data, err := bucket.GetBytes(t.Context(), b, "team/promo/staging/core@1.0.0", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bucket.PutBytes(t.Context(), b, "team/promo/prod/core@1.0.0", data, false); err != nil {
			t.Fatal(err)
		}
		if _, err := bucket.ReadPointer(t.Context(), b, root, "prod", "core@1.0.0", []bucket.Key{public}); !errors.Is(err, bucket.ErrPointer) {
			t.Errorf("moved pointer: got %v, want %v", err, bucket.ErrPointer)
		}
	})
}

func keyPair(t *testing.T) (*sign.PrivateKey, *sign.PublicKey) {
	t.Helper()
	private, _, err := sign.Generate(sign.P256, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.LoadPrivate(private, func() ([]byte, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return key, key.Public()
}

// A mirror saves the last checkpoints, another machine restores them, and a dead
// bucket fails nothing.
func TestMirror(t *testing.T) {
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		place := bucket.Address{Scheme: "s3", Bucket: "bucket", Key: "runs/one"}
		path := write(t, buckettest.Bytes(5000, 8))
		var mu sync.Mutex
		var lines []string
		m := bucket.NewMirror(t.Context(), b, place, bucket.MirrorOptions{Report: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, text)
		}})
		m.Save("best.safetensors", path, 3, false)
		m.Save("last.safetensors", path, 3, true)
		m.Save("last.safetensors", path, 4, true)
		if failed := m.Close(); failed != 0 {
			t.Errorf("%d copies failed: %v", failed, lines)
		}
		state, err := bucket.ReadState(t.Context(), b, place)
		if err != nil || state.Step != 4 {
			t.Fatalf("state %+v, %v", state, err)
		}
		dir := t.TempDir()
		if err := bucket.Restore(t.Context(), b, place, state, dir, "best.safetensors", "metrics.jsonl"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"last.safetensors", "best.safetensors"} {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || buckettest.Digest(data) != state.SHA256 {
				t.Errorf("%s: %v", name, err)
			}
		}
		s.Set(func(_ http.Handler, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
		dead := bucket.NewMirror(t.Context(), b, place, bucket.MirrorOptions{Report: func(string) {}})
		dead.Save("last.safetensors", path, 5, true)
		if failed := dead.Close(); failed != 1 {
			t.Errorf("%d copies failed, want 1", failed)
		}
	})
}
