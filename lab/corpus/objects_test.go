package corpus

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/buckettest"
)

// objectsOf starts a double of S3 with the files of dir, and returns its source.
func objectsOf(t *testing.T, dir string) (*buckettest.Store, bucket.Bucket, *bucket.Source) {
	t.Helper()
	store := buckettest.NewS3(t)
	b, err := bucket.NewS3("bucket", bucket.S3Options{Endpoint: store.URL, Region: "us-east-1", Credentials: credentials.NewStaticV4("id", "secret", "")})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			_, err = buckettest.Put(t, b, "set/"+e.Name(), data, bucket.PutOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return store, b, bucket.NewSource(bucket.Openers{"s3": func(bucket.Address) (bucket.Bucket, error) { return b, nil }})
}

// Sources in a bucket yield the documents of the same files, in parts too, and their
// addresses and digests are in the lineage.
func TestObjectSources(t *testing.T) {
	dir := t.TempDir()
	text := ""
	for i := range 300 {
		text += fmt.Sprintf(`{"text":"row %d of a source"}`+"\n", i)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(strings.ReplaceAll(text, "row", "line")))
	z.Close()
	table, err := os.ReadFile("testdata/plain.parquet")
	if err != nil {
		t.Fatal(err)
	}
	sources := source(t, dir, "a.jsonl", text, "") + source(t, dir, "b.jsonl.gz", packed.String(), "") +
		source(t, dir, "c.parquet", string(table), "")
	local := manifest(t, sources, "faults: skip\n")
	want, err := Build(t.Context(), local, Options{Dir: dir, Out: filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	_, _, objects := objectsOf(t, dir)
	remote := manifest(t, strings.ReplaceAll(sources, "path: ", "path: s3://bucket/set/"), "faults: skip\n")
	above := t.TempDir()
	got, err := Build(t.Context(), remote, Options{Out: filepath.Join(above, "out"), Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Files, got.Files); d != "" {
		t.Error(d)
	}
	for i, s := range got.Sources {
		if s.Path != "s3://bucket/set/"+want.Sources[i].Path || s.SHA256 != want.Sources[i].SHA256 || s.Counts != want.Sources[i].Counts {
			t.Errorf("source %+v, want %+v", s, want.Sources[i])
		}
	}
	var parts []string
	for i := range 2 {
		parts = append(parts, filepath.Join(above, fmt.Sprint("part", i)))
		if err := WritePart(t.Context(), remote, Part{i, 2}, Options{Out: parts[i], Objects: objects}); err != nil {
			t.Fatal(err)
		}
	}
	joined, err := Build(t.Context(), remote, Options{Out: filepath.Join(above, "joined"), Parts: parts})
	if err != nil || cmp.Diff(got.Files, joined.Files) != "" {
		t.Errorf("parts: %v, %v", joined, err)
	}
	if list, err := remote.CheckSources(t.Context(), Options{Objects: objects}); err != nil || list.Failed() {
		t.Errorf("check: %v, %v", list, err)
	}
	if all, _ := filepath.Glob(filepath.Join(above, ".*")); len(all) > 0 {
		t.Errorf("temporary files remain: %v", all)
	}
}

// A changed object is a fault of its digest or, while it is read, an error with its
// address; a missing one is an error; without a store, addresses are faults.
func TestObjectSourcesRefused(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat(`{"text":"a row"}`+"\n", 700_000) // more than a range
	sources := source(t, dir, "a.jsonl", text, "")
	m := manifest(t, strings.ReplaceAll(sources, "path: ", "path: s3://bucket/set/"), "")
	store, b, objects := objectsOf(t, dir)
	out := Options{Out: filepath.Join(t.TempDir(), "out")}
	if _, err := Build(t.Context(), m, out); !slices.Contains(codes(err), diag.SourceFile) {
		t.Errorf("no store: %v", err)
	}
	store.Set(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") { // the second range
			store.Set(nil)
			if _, err := buckettest.Put(t, b, "set/a.jsonl", []byte(text[1:]+"\n"), bucket.PutOptions{}); err != nil {
				t.Error(err)
			}
		}
		next.ServeHTTP(w, r)
	})
	out.Objects = objects
	if _, err := Build(t.Context(), m, out); !errors.Is(err, bucket.ErrChanged) || !strings.Contains(err.Error(), "s3://bucket/set/a.jsonl") {
		t.Errorf("changed while it was read: %v", err)
	}
	out.Objects = bucket.NewSource(bucket.Openers{"s3": func(bucket.Address) (bucket.Bucket, error) { return b, nil }})
	m.Faults = Skip
	if _, err := Build(t.Context(), m, out); !slices.Contains(codes(err), diag.SourceDigest) {
		t.Errorf("another content: %v", err)
	}
	if err := b.Delete(t.Context(), "set/a.jsonl"); err != nil {
		t.Fatal(err)
	}
	out.Objects = bucket.NewSource(bucket.Openers{"s3": func(bucket.Address) (bucket.Bucket, error) { return b, nil }})
	if _, err := Build(t.Context(), m, out); !errors.Is(err, bucket.ErrMissing) {
		t.Errorf("missing: %v", err)
	}
	if _, err := os.Stat(out.Out); err == nil {
		t.Error("a data set of refused sources exists")
	}
}

// The path of a source is a file below the folder of the manifest or an object.
func TestSourceAddress(t *testing.T) {
	digest := strings.Repeat("0", 64)
	for path, ok := range map[string]bool{
		"s3://bucket/a.jsonl": true, "gs://bucket/a/b.txt": true, "azure://account/container/a.parquet": true, "a.jsonl": true,
		"s3://bucket/": false, "s3://bucket": false, "s3://bucket/a/../b.jsonl": false, "ftp://bucket/a.jsonl": false, "file:///etc/a.jsonl": false,
		"s3://bucket/a.jsonl?x": false, "../a.jsonl": false, "/a.jsonl": false,
	} {
		_, list := Parse("m.data.yaml", []byte(fmt.Sprintf("version: 1\nname: m\nsources:\n  - {id: a, path: %q, sha256: %q, license: MIT}\n", path, digest)))
		if list.Failed() == ok {
			t.Errorf("%s: %v", path, list.Err())
		}
	}
}
