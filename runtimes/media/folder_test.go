package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/fsx"
)

func open(t testing.TB, path string, limit int64) *VectorCache {
	t.Helper()
	f, err := OpenVectorCache(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func put(t testing.TB, f *VectorCache, k Key, v Vectors) {
	t.Helper()
	if err := f.Put(t.Context(), k, v); err != nil {
		t.Fatal(err)
	}
}

// Stored vectors are available to another process, for their user only, and other keys are not.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "features")
	v := Vectors{Numbers: []float32{1, -2.5, 3e-9, 4}, Width: 2, Assumed: []string{"it is a picture"}}
	put(t, open(t, dir, 0), Key{1}, v)
	f := open(t, dir, 0)
	got, ok := f.Get(Key{1})
	if d := cmp.Diff(v, got); !ok || d != "" {
		t.Errorf("%v (-put +got):\n%s", ok, d)
	}
	if _, ok := f.Get(Key{2}); ok {
		t.Error("what nobody put is there")
	}
	if runtime.GOOS != "windows" {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				err = fmt.Errorf("%s is %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil { // as another program left it
			t.Fatal(err)
		}
		open(t, dir, 0)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	for name, v := range map[string]Vectors{"no width": {Numbers: []float32{1}}, "half a vector": {Numbers: []float32{1, 2, 3}, Width: 2}} {
		if err := f.Put(t.Context(), Key{3}, v); err == nil {
			t.Errorf("%s was put", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Put(ctx, Key{4}, v); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if n, size, err := f.Clear(true); n != 1 || size == 0 || err != nil {
		t.Errorf("%d files of %d bytes would go, %v", n, size, err)
	}
	if n, _, err := f.Clear(false); n != 1 || err != nil {
		t.Errorf("%d files went, %v", n, err)
	}
	if _, ok := f.Get(Key{1}); ok {
		t.Error("it has not gone")
	}
}

// Entries with a changed byte, truncated or foreign ones, folders, links and NaN are refused and
// removed.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 0)
	k, v := Key{7}, Vectors{Numbers: []float32{1, 2, 3, 4}, Width: 4}
	path := filepath.Join(dir, entryName(k))
	entry, err := encode(k, v)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := encode(Key{8}, v)
	none, _ := encode(k, Vectors{Numbers: []float32{1, float32(math.NaN())}, Width: 2})
	cases := map[string][]byte{"empty": {}, "another's": other, "NaN": none, "longer": append(slices.Clone(entry), 0), "another format": []byte(strings.Repeat("x", 200))}
	for i := range entry {
		flipped := slices.Clone(entry)
		flipped[i] ^= 0x10
		cases[fmt.Sprintf("byte %d", i)] = flipped
		cases[fmt.Sprintf("cut at %d", i)] = entry[:i]
	}
	for what, data := range cases {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := f.Get(k); ok {
			t.Errorf("%s: %v", what, got)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is still there: %v", what, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "elsewhere"), entry, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", path); err == nil {
		if _, ok := f.Get(k); ok {
			t.Error("a link was followed")
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Get(k); ok {
		t.Error("a folder is an entry")
	}
	put(t, f, k, v)
	if _, ok := f.Get(k); !ok {
		t.Error("it cannot be put again")
	}
}

// The folder stays under its limit: recently used entries stay, and old files of interrupted
// writers are removed.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	v := Vectors{Numbers: make([]float32, 256), Width: 256}
	one, err := encode(Key{}, v)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, dir, int64(3*len(one)))
	when := time.Now().Add(-24 * time.Hour)
	age := func(k Key, by time.Duration) {
		if err := os.Chtimes(filepath.Join(dir, entryName(k)), when.Add(by), when.Add(by)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range byte(3) {
		put(t, f, Key{n}, v)
		age(Key{n}, time.Duration(n)*time.Minute)
	}
	if _, ok := f.Get(Key{0}); !ok { // used again
		t.Error("three do not fit")
	}
	for name, at := range map[string]time.Time{".tmp-old": when, ".tmp-new": time.Now(), "mine": when} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, f, Key{3}, v)
	for n, want := range map[byte]bool{0: true, 1: false, 2: true, 3: true} {
		if _, ok := f.Get(Key{n}); ok != want {
			t.Errorf("entry %d is there: %v", n, ok)
		}
	}
	for name, want := range map[string]bool{".tmp-old": false, ".tmp-new": true, "mine": true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v", name, err == nil)
		}
	}
	put(t, f, Key{9}, Vectors{Numbers: make([]float32, 4096), Width: 1}) // larger than all there is room for
	if _, ok := f.Get(Key{9}); ok {
		t.Error("it was kept over the limit")
	}
	if _, ok := f.Get(Key{3}); !ok {
		t.Error("another went for it")
	}
}

// Put lists the folder only after it wrote half of the room that was left: an old file of an
// interrupted writer stays until then.
func TestPutLists(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 1<<20)
	stale := func() string {
		path := filepath.Join(dir, fsx.TempPrefix+"left")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		long := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		return path
	}
	v := Vectors{Numbers: make([]float32, 1<<10), Width: 4} // 4 KiB
	stale()
	put(t, f, Key{0}, v)
	path := stale()
	for i := range byte(255) {
		_, err := os.Stat(path)
		if listed := err != nil; listed != (i > 124) {
			t.Fatalf("after %d entries of 4 KiB of 1 MiB: listed %v", i+1, listed)
		}
		if err != nil {
			return
		}
		put(t, f, Key{i + 1}, v)
	}
}

// Concurrent processes: each reads exactly what was stored under the key.
func TestAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for g := range 4 {
		f := open(t, dir, 4096)
		wg.Go(func() {
			for i := range 60 {
				k := Key{byte((g + i) % 7)}
				if v, ok := f.Get(k); ok {
					if len(v.Numbers) != 64 || v.Numbers[0] != float32(k[0]) || v.Numbers[63] != float32(k[0]) {
						t.Errorf("key %d gives %v", k[0], v.Numbers)
					}
					continue
				}
				if err := f.Put(context.Background(), k, Vectors{Numbers: slices.Repeat([]float32{float32(k[0])}, 64), Width: 64}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzDecode(f *testing.F) {
	good, _ := encode(Key{1}, Vectors{Numbers: []float32{1, 2, 3, 4}, Width: 2, Assumed: []string{"x"}})
	f.Add(good)
	f.Add(good[:len(good)-32])
	f.Add([]byte("MMF1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decode(Key{1}, data)
		if err != nil {
			// With a matching digest, so that the check after it runs.
			if len(data) < 32 {
				return
			}
			data = sealed(data[:len(data)-32])
			if v, err = decode(Key{1}, data); err != nil {
				return
			}
		}
		if v.Width < 1 || len(v.Numbers) == 0 || len(v.Numbers)%v.Width != 0 || 4*len(v.Numbers) > len(data) {
			t.Fatalf("%d numbers of %d out of %d bytes", len(v.Numbers), v.Width, len(data))
		}
		again, err := encode(Key{1}, v)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := decode(Key{1}, again); err != nil || !slices.Equal(w.Numbers, v.Numbers) || !bytes.Equal(again[:4], data[:4]) {
			t.Fatalf("it is written as another, %v", err)
		}
	})
}
