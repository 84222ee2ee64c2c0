package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/buckettest"
)

// prefixes are the addresses of the buckets of stores.
var prefixes = map[string]string{"s3": "s3://bucket/", "gs": "gs://bucket/", "azure": "azure://account/container/"}

// sourceOf returns a source of one bucket.
func sourceOf(b bucket.Bucket) *bucket.Source {
	open := func(bucket.Address) (bucket.Bucket, error) { return b, nil }
	return bucket.NewSource(bucket.Openers{"s3": open, "gs": open, "azure": open})
}

// A prefix expands to its objects in sorted order, over pages of the listing.
func TestSourceExpand(t *testing.T) {
	for name, open := range stores(t) {
		_, b := open()
		at := prefixes[name]
		for _, key := range []string{"set/b", "set/a/9", "set/a/10", "set/c", "other"} {
			if _, err := buckettest.Put(t, b, key, []byte(key), bucket.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s := sourceOf(b)
		got, err := s.Expand(t.Context(), at+"set/")
		if want := []string{at + "set/a/10", at + "set/a/9", at + "set/b", at + "set/c"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
		if got, err := s.Expand(t.Context(), at+"other"); err != nil || !slices.Equal(got, []string{at + "other"}) {
			t.Errorf("%s: an object: got %v, %v", name, got, err)
		}
		for _, none := range []string{at + "none/", at + "none"} {
			if _, err := s.Expand(t.Context(), none); !errors.Is(err, bucket.ErrMissing) || !strings.Contains(err.Error(), none) {
				t.Errorf("%s: %s: got %v", name, none, err)
			}
		}
		if _, err := s.Open(t.Context(), at+"set/"); !errors.Is(err, bucket.ErrAddress) {
			t.Errorf("%s: opening a prefix: %v", name, err)
		}
	}
}

// A connection that is cut again and again is continued, and every byte arrives
// once.
func TestSourceCut(t *testing.T) {
	data := buckettest.Bytes(1<<20, 7)
	for name, open := range stores(t) {
		store, b := open()
		if _, err := buckettest.Put(t, b, "large", data, bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		store.Set(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w = cutter{w, 200_000}
			}
			next.ServeHTTP(w, r)
		})
		r, err := sourceOf(b).Open(t.Context(), prefixes[name]+"large")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(data), err)
		}
		if n := store.Count("GET"); n < 6 {
			t.Errorf("%s: %d requests, want one after each cut", name, n)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Another version of an object is refused by its address, between two reads and
// within one; a damaged one at its end.
func TestSourceChanged(t *testing.T) {
	for name, open := range stores(t) {
		store, b := open()
		put := func(data []byte) {
			t.Helper()
			if _, err := buckettest.Put(t, b, "key", data, bucket.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		data := buckettest.Bytes(9<<20, 3) // more than a range
		at := prefixes[name] + "key"
		refused := func(what string, err, want error) {
			t.Helper()
			var e *bucket.CopyError
			if !errors.Is(err, want) || !errors.As(err, &e) || e.Address != at {
				t.Errorf("%s, %s: got %v, want %v at %s", name, what, err, want, at)
			}
		}
		put(data)
		s := sourceOf(b)
		r, err := s.Open(t.Context(), at)
		if err == nil {
			_, err = io.ReadFull(r, make([]byte, 8<<20))
		}
		if err != nil {
			t.Fatal(err)
		}
		put(slices.Concat(data[1:], data[:1]))
		_, err = io.ReadAll(r)
		refused("changed within a read", err, bucket.ErrChanged)
		if r, err = s.Open(t.Context(), at); err == nil {
			_, err = io.ReadAll(r)
		}
		refused("changed between two reads", err, bucket.ErrChanged)
		put([]byte("text of an object"))
		store.Damage("key")
		if r, err = sourceOf(b).Open(t.Context(), at); err == nil {
			_, err = io.ReadAll(r)
		}
		refused("damaged", err, bucket.ErrDigest)
	}
}

// endless is a bucket of objects of zeros, without their bytes. Ranges are
// recorded.
type endless struct {
	bucket.Bucket
	size, largest int64
	count         int
}

func (e *endless) Stat(_ context.Context, key string) (bucket.Info, error) {
	return bucket.Info{Key: key, Size: e.size, ETag: "1"}, nil
}

func (e *endless) Get(_ context.Context, key string, off, n int64, _ string) (io.ReadCloser, bucket.Info, error) {
	e.largest = max(e.largest, n)
	return io.NopCloser(io.LimitReader(zeros{}, n)), bucket.Info{Key: key, Size: e.size, ETag: "1"}, nil
}

func (e *endless) List(_ context.Context, prefix string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for i := range e.count {
			if !yield(bucket.Info{Key: fmt.Sprintf("%s%06d", prefix, i), ETag: "1"}, nil) {
				return
			}
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// An object of any size is read by ranges of one size, into the caller's buffer.
func TestSourceRanges(t *testing.T) {
	e := &endless{size: 200<<20 + 1}
	s := sourceOf(e)
	r, err := s.Open(t.Context(), "s3://bucket/key")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil || n != e.size || e.largest != bucket.RangeSize {
		t.Errorf("%d bytes in ranges of at most %d, %v; want %d, %d", n, e.largest, err, e.size, bucket.RangeSize)
	}
	buf := make([]byte, 1<<20)
	if r, err = s.Open(t.Context(), "s3://bucket/key"); err != nil {
		t.Fatal(err)
	}
	if allocs := testing.AllocsPerRun(5, func() { io.ReadFull(r, buf) }); allocs > 30 {
		t.Errorf("%v allocations for a MiB", allocs)
	}
}

// A prefix has objects up to a limit.
func TestSourceLimit(t *testing.T) {
	for n, ok := range map[int]bool{bucket.MaxExpanded: true, bucket.MaxExpanded + 1: false} {
		names, err := sourceOf(&endless{count: n}).Expand(t.Context(), "gs://bucket/set/")
		if (err == nil) != ok || ok && len(names) != n {
			t.Errorf("%d objects: got %d, %v", n, len(names), err)
		}
	}
}

// A store answers other requests while a client does not read an object to its end: a copy
// within a store reads an object into a PUT.
func TestStoreDuringGet(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // more than the buffers of a connection
	each(t, func(t *testing.T, s *buckettest.Store, b bucket.Bucket) {
		if _, err := buckettest.Put(t, b, "from", data, bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, _, err := b.Get(ctx, "from", 0, -1, "")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := b.Put(ctx, "to", bytes.NewReader(data[:part]), part, bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); err != nil || n != int64(len(data)) {
			t.Errorf("read %d bytes: %v", n, err)
		}
	})
}
