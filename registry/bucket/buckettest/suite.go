// Package buckettest holds the suite that all drivers of buckets pass, and
// doubles of three object stores in memory.
package buckettest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"mm-abi.org/mm/registry/bucket"
)

// Options configures [Run].
type Options struct {
	Prefix string // of all keys, "" or with a slash at the end
	Large  int    // bytes of the object that is sent in parts. Zero: 1 MiB
	Folder bool   // the store keeps files: a key is not both an object and a prefix
}

// Run checks that the bucket behaves as [bucket.Bucket] describes. All keys begin
// with the prefix, below which the bucket is empty.
func Run(t *testing.T, b bucket.Bucket, opt Options) {
	if opt.Large == 0 {
		opt.Large = 1 << 20
	}
	s := suite{b: b, opt: opt}
	t.Run("RoundTrip", s.roundTrip)
	t.Run("Replace", s.replace)
	t.Run("CreateOnce", s.createOnce)
	t.Run("Writers", s.writers)
	t.Run("Range", s.ranges)
	t.Run("Changed", s.changed)
	t.Run("Missing", s.missing)
	t.Run("Keys", s.keys)
	t.Run("List", s.list)
	t.Run("Short", s.short)
}

type suite struct {
	b   bucket.Bucket
	opt Options
}

// Bytes returns n bytes of a fixed sequence.
func Bytes(n int, seed uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	data := make([]byte, n)
	r.Read(data)
	return data
}

// Digest returns the SHA-256 of data in hexadecimal.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put writes data with its digest.
func Put(t *testing.T, b bucket.Bucket, key string, data []byte, opt bucket.PutOptions) (bucket.Info, error) {
	t.Helper()
	opt.SHA256 = Digest(data)
	return b.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), opt)
}

func (s suite) put(t *testing.T, key string, data []byte) bucket.Info {
	t.Helper()
	info, err := Put(t, s.b, s.opt.Prefix+key, data, bucket.PutOptions{})
	if err != nil {
		t.Fatalf("Put(%s, %d bytes): %v", key, len(data), err)
	}
	return info
}

func (s suite) get(t *testing.T, key string, off, n int64, etag string) ([]byte, error) {
	t.Helper()
	r, _, err := s.b.Get(t.Context(), s.opt.Prefix+key, off, n, etag)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (s suite) roundTrip(t *testing.T) {
	for _, n := range []int{1, 1000, s.opt.Large, s.opt.Large + 7} {
		data := Bytes(n, uint64(n))
		put := s.put(t, "round/trip", data)
		if put.Size != int64(n) || put.SHA256 != Digest(data) || put.Key != s.opt.Prefix+"round/trip" || put.ETag == "" {
			t.Errorf("Put of %d bytes: got %+v", n, put)
		}
		stat, err := s.b.Stat(t.Context(), s.opt.Prefix+"round/trip")
		if err != nil || stat != put {
			t.Errorf("Stat: got %+v, %v, want %+v", stat, err, put)
		}
		got, err := s.get(t, "round/trip", 0, -1, put.ETag)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("Get of %d bytes: got %d bytes, %v", n, len(got), err)
		}
	}
	s.put(t, "empty", nil)
	if stat, err := s.b.Stat(t.Context(), s.opt.Prefix+"empty"); err != nil || stat.Size != 0 {
		t.Errorf("empty object: got %+v, %v", stat, err)
	}
}

func (s suite) replace(t *testing.T) {
	a, b := s.put(t, "replace", []byte("one")), s.put(t, "replace", []byte("two!"))
	if a.ETag == b.ETag {
		t.Errorf("one ETag %s for two versions", a.ETag)
	}
	if got, err := s.get(t, "replace", 0, -1, ""); err != nil || string(got) != "two!" {
		t.Errorf("got %q, %v", got, err)
	}
}

func (s suite) createOnce(t *testing.T) {
	for _, n := range []int{10, s.opt.Large + 1} {
		key, data := fmt.Sprintf("%sonce/%d", s.opt.Prefix, n), Bytes(n, 3)
		if _, err := Put(t, s.b, key, data, bucket.PutOptions{IfAbsent: true}); err != nil {
			t.Fatalf("first: %v", err)
		}
		if _, err := Put(t, s.b, key, Bytes(n, 4), bucket.PutOptions{IfAbsent: true}); !errors.Is(err, bucket.ErrExists) {
			t.Errorf("second of %d bytes: got %v, want %v", n, err, bucket.ErrExists)
		}
		if stat, err := s.b.Stat(t.Context(), key); err != nil || stat.SHA256 != Digest(data) {
			t.Errorf("after the second: got %+v, %v", stat, err)
		}
	}
}

// writers has several concurrent writers of one key.
func (s suite) writers(t *testing.T) {
	for round := range 5 {
		var wg sync.WaitGroup
		var wins, winner atomic.Int64
		for i := range 6 {
			wg.Go(func() {
				_, err := Put(t, s.b, fmt.Sprintf("%srace/%d", s.opt.Prefix, round), Bytes(100+i, 5), bucket.PutOptions{IfAbsent: true})
				switch {
				case err == nil:
					wins.Add(1)
					winner.Store(int64(100 + i))
				case !errors.Is(err, bucket.ErrExists):
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		stat, err := s.b.Stat(t.Context(), fmt.Sprintf("%srace/%d", s.opt.Prefix, round))
		if err != nil || wins.Load() != 1 || stat.Size != winner.Load() {
			t.Errorf("round %d: %d winners, size %d of %d, %v", round, wins.Load(), stat.Size, winner.Load(), err)
		}
	}
}

func (s suite) ranges(t *testing.T) {
	data := Bytes(5000, 6)
	etag := s.put(t, "range", data).ETag
	for _, c := range []struct{ off, n int64 }{{0, 1}, {0, 5000}, {10, 90}, {4999, 1}, {4000, -1}, {1, -1}} {
		want := data[c.off:]
		if c.n >= 0 {
			want = want[:c.n]
		}
		if got, err := s.get(t, "range", c.off, c.n, etag); err != nil || !bytes.Equal(got, want) {
			t.Errorf("Get(%d, %d): got %d bytes, %v", c.off, c.n, len(got), err)
		}
	}
	if _, err := s.get(t, "range", 5001, -1, etag); err == nil {
		t.Error("range behind the end: no error")
	}
}

func (s suite) changed(t *testing.T) {
	old := s.put(t, "changed", []byte("first")).ETag
	s.put(t, "changed", []byte("second"))
	if _, err := s.get(t, "changed", 1, -1, old); !errors.Is(err, bucket.ErrChanged) {
		t.Errorf("got %v, want %v", err, bucket.ErrChanged)
	}
}

func (s suite) missing(t *testing.T) {
	if _, err := s.b.Stat(t.Context(), s.opt.Prefix+"no/such"); !errors.Is(err, bucket.ErrMissing) {
		t.Errorf("Stat: got %v, want %v", err, bucket.ErrMissing)
	}
	if _, err := s.get(t, "no/such", 0, -1, ""); !errors.Is(err, bucket.ErrMissing) {
		t.Errorf("Get: got %v, want %v", err, bucket.ErrMissing)
	}
	s.put(t, "gone", []byte("x"))
	if err := s.b.Delete(t.Context(), s.opt.Prefix+"gone"); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if _, err := s.b.Stat(t.Context(), s.opt.Prefix+"gone"); !errors.Is(err, bucket.ErrMissing) {
		t.Errorf("Stat after Delete: %v", err)
	}
	if err := s.b.Delete(t.Context(), s.opt.Prefix+"gone"); err != nil && !errors.Is(err, bucket.ErrMissing) {
		t.Errorf("Delete twice: %v", err)
	}
}

func (s suite) keys(t *testing.T) {
	for _, key := range []string{"a b", "plus+and%25", "ünï/cödé", "q=1&r?", "tilde~(x)!*'", "dots...x", "very/deep/a/b/c/d"} {
		data := []byte(key)
		s.put(t, "keys/"+key, data)
		if got, err := s.get(t, "keys/"+key, 0, -1, ""); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q: got %q, %v", key, got, err)
		}
	}
	for _, key := range []string{"", "/abs", "a/../b", "..", "a//b", "a/", "./a", "a\\b", "a\x00b", "a\nb", string(bytes.Repeat([]byte("k"), 1025))} {
		if _, err := s.b.Put(t.Context(), key, bytes.NewReader(nil), 0, bucket.PutOptions{}); !errors.Is(err, bucket.ErrKey) {
			t.Errorf("Put(%.20q): got %v, want %v", key, err, bucket.ErrKey)
		}
	}
}

func (s suite) list(t *testing.T) {
	want := []string{"list/a", "list/a.b", "list/a/1", "list/a/2", "list/b"}
	for _, key := range []string{"list/b", "list/a/2", "list/a.b", "list/a/1"} {
		s.put(t, key, []byte(key))
	}
	if s.opt.Folder {
		want = want[1:]
	} else {
		s.put(t, "list/a", []byte("list/a"))
	}
	for _, c := range []struct {
		prefix string
		want   []string
	}{{"list/", want}, {"list/a/", []string{"list/a/1", "list/a/2"}}, {"list/b", []string{"list/b"}}, {"list/c", nil}} {
		var got []string
		for info, err := range s.b.List(t.Context(), s.opt.Prefix+c.prefix) {
			if err != nil {
				t.Fatalf("List(%s): %v", c.prefix, err)
			}
			got = append(got, info.Key[len(s.opt.Prefix):])
			if info.Size != int64(len(info.Key)-len(s.opt.Prefix)) || info.Modified.IsZero() {
				t.Errorf("List(%s): got %+v", c.prefix, info)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("List(%s): got %q, want %q", c.prefix, got, c.want)
		}
	}
}

// short writes from a reader that ends early: no object appears.
func (s suite) short(t *testing.T) {
	for _, n := range []int{100, s.opt.Large + 1} {
		_, err := s.b.Put(t.Context(), s.opt.Prefix+"short", bytes.NewReader(Bytes(n-1, 7)), int64(n), bucket.PutOptions{})
		if err == nil {
			t.Errorf("Put of %d bytes with %d: no error", n, n-1)
		}
		if _, err := s.b.Stat(t.Context(), s.opt.Prefix+"short"); !errors.Is(err, bucket.ErrMissing) {
			t.Errorf("Stat after a short Put: got %v, want %v", err, bucket.ErrMissing)
		}
	}
}
