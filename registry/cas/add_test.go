package cas

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/fsx"
)

// writeOld writes a file whose times are past the clock's tick.
func writeOld(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
}

func TestAddFile(t *testing.T) {
	noLink := func(op *fsx.Op, do func() error) error {
		if op.Kind == fsx.OpLink {
			return syscall.EXDEV
		}
		return do()
	}
	for _, tc := range []struct {
		name   string
		opt    AddOptions
		hook   fsx.Hook
		linked bool
	}{
		{"copy", AddOptions{}, nil, false},
		{"link", AddOptions{Link: true}, nil, true},
		{"link across disks", AddOptions{Link: true}, noLink, false},
	} {
		for _, size := range []int{0, 1000, cacheMin + 1} {
			s := open(t, t.TempDir(), fsx.Options{Hook: tc.hook})
			path := filepath.Join(t.TempDir(), "f")
			data := noise(1, size)
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				desc, err := s.AddFile(ctx, path, tc.opt)
				if err != nil {
					t.Fatal(err)
				}
				want := described(data)
				want.MediaType = "application/octet-stream"
				if desc.Digest != want.Digest || desc.Size != want.Size || desc.MediaType != want.MediaType {
					t.Errorf("%s: %+v", tc.name, desc)
				}
				if err := s.Verify(ctx, desc); err != nil {
					t.Error(err)
				}
				src, _ := os.Stat(path)
				blob, err := os.Stat(s.BlobPath(desc))
				if err != nil || os.SameFile(src, blob) != tc.linked || blob.Mode().Perm() != 0o444 {
					t.Errorf("%s: same file %v, mode %v, %v", tc.name, os.SameFile(src, blob), blob.Mode(), err)
				}
				if want := fs.FileMode(0o644); !tc.linked && src.Mode().Perm() != want {
					t.Errorf("%s: the source has mode %v", tc.name, src.Mode())
				}
			}
			if blobs, temp := sound(t, s); temp != 0 || blobs != 1 {
				t.Errorf("%s: %d blobs, %d leftovers", tc.name, blobs, temp)
			}
		}
	}
}

func TestAddFileRefuses(t *testing.T) {
	s := open(t, t.TempDir(), fsx.Options{})
	if _, err := s.AddFile(ctx, t.TempDir(), AddOptions{}); err == nil {
		t.Error("a folder was added")
	}
	if _, err := s.AddFile(ctx, filepath.Join(t.TempDir(), "none"), AddOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestAddThroughSymlink stores the file, not the link.
func TestAddThroughSymlink(t *testing.T) {
	s := open(t, t.TempDir(), fsx.Options{})
	dir := t.TempDir()
	writeOld(t, filepath.Join(dir, "f"), []byte("bytes"))
	if err := os.Symlink("f", filepath.Join(dir, "l")); err != nil {
		t.Skip("skipped: no symlinks here")
	}
	desc, err := s.AddFile(ctx, filepath.Join(dir, "l"), AddOptions{Link: true})
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(s.BlobPath(desc)); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("the blob is %v, %v", fi.Mode(), err)
	}
}

// cacheHit reports whether the file's digest is cached.
func cacheHit(t *testing.T, s *Blobs, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	key, ok := KeyOf(f)
	return ok && s.Cached(key) != ""
}

// TestAddFileSwapped puts another file in the path's place between hashing and
// linking.
func TestAddFileSwapped(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	writeOld(t, path, []byte("hashed"))
	writeOld(t, path+"2", []byte("linked"))
	s := open(t, t.TempDir(), fsx.Options{Hook: func(op *fsx.Op, do func() error) error {
		if op.Kind == fsx.OpLink {
			if err := os.Rename(path+"2", path); err != nil {
				t.Error(err)
			}
		}
		return do()
	}})
	if _, err := s.AddFile(ctx, path, AddOptions{Link: true}); !errors.Is(err, ErrChanged) {
		t.Errorf("%v, want ErrChanged", err)
	}
	if blobs, temp := sound(t, s); blobs != 0 || temp != 0 {
		t.Errorf("left behind: %d blobs, %d leftovers", blobs, temp)
	}
}

// TestAddFileOtherInodes stores a file where a link has another inode number: it is
// copied, and stays writable.
func TestAddFileOtherInodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	writeOld(t, path, []byte("content"))
	s := open(t, t.TempDir(), fsx.Options{})
	s.same = func(_, _ fs.FileInfo) bool { return false }
	desc, err := s.AddFile(t.Context(), path, AddOptions{Link: true})
	if err != nil {
		t.Fatal(err)
	}
	if blobs, temp := sound(t, s); blobs != 1 || temp != 0 {
		t.Errorf("%d blobs, %d leftovers", blobs, temp)
	}
	blob, err := os.Stat(s.BlobPath(desc))
	file, other := os.Stat(path)
	if err := errors.Join(err, other); err != nil {
		t.Fatal(err)
	}
	if os.SameFile(blob, file) || file.Mode().Perm()&0o200 == 0 {
		t.Errorf("a link, or mode %s", file.Mode())
	}
}

// TestDigestCache checks which records are kept and which changes invalidate
// them.
func TestDigestCache(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("skipped: no change time here")
	}
	data := noise(1, cacheMin+1)
	other := bytes.Clone(data)
	other[5] ^= 1
	for _, link := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(t.TempDir(), "f")
		s := open(t, dir, fsx.Options{})
		writeOld(t, path, data)
		add := func(opt AddOptions) string {
			t.Helper()
			opt.Link = link
			desc, err := s.AddFile(ctx, path, opt)
			if err != nil {
				t.Fatal(err)
			}
			return string(desc.Digest)
		}
		first := add(AddOptions{})
		if !cacheHit(t, s, path) || !cacheHit(t, open(t, dir, fsx.Options{}), path) {
			t.Errorf("link %v: not remembered", link)
		}
		// Same size, same modification time: only the change time differs.
		fi, _ := os.Stat(path)
		os.Remove(path)
		writeOld(t, path, other)
		os.Chtimes(path, fi.ModTime(), fi.ModTime())
		if got := add(AddOptions{}); got == first {
			t.Errorf("link %v: an edited file keeps its digest", link)
		}
		fi, _ = os.Stat(path)
		os.Chmod(path, 0o644)
		os.WriteFile(path, data, 0o644)
		os.Chtimes(path, fi.ModTime(), fi.ModTime())
		if cacheHit(t, s, path) {
			t.Errorf("link %v: a file edited in place is remembered", link)
		}
		if !link {
			if got := add(AddOptions{}); got != first {
				t.Errorf("edited back: %s", got)
			}
		}
	}
}

// TestDigestCacheDamaged flips every bit of a record: it is never believed.
func TestDigestCacheDamaged(t *testing.T) {
	s := open(t, t.TempDir(), fsx.Options{})
	path := filepath.Join(t.TempDir(), "f")
	writeOld(t, path, noise(1, cacheMin+1))
	if _, err := s.AddFile(ctx, path, AddOptions{}); err != nil {
		t.Fatal(err)
	}
	if !cacheHit(t, s, path) {
		t.Skip("skipped: no digest cache here")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	key, _ := KeyOf(f)
	name := filepath.Join(s.path, recordName(key))
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	flips := 0
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if err := os.WriteFile(name, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			if d := s.Cached(key); d != "" {
				t.Errorf("byte %d bit %d believed: %s", i, bit, d)
			}
			flips++
		}
	}
	for _, bad := range [][]byte{nil, good[:len(good)/2], append(good, good...), noise(1, 5000)} {
		os.WriteFile(name, bad, 0o644)
		if d := s.Cached(key); d != "" {
			t.Errorf("%q believed", bad)
		}
	}
	// A false record does not matter if hashing is requested.
	lie := cacheRecord(key, described([]byte("lie")).Digest)
	os.WriteFile(name, lie, 0o644)
	desc, err := s.AddFile(ctx, path, AddOptions{Rehash: true})
	if err != nil || desc.Digest != described(noise(1, cacheMin+1)).Digest {
		t.Errorf("rehash: %s, %v", desc.Digest, err)
	}
	t.Logf("%d flips, none believed", flips)
}

// TestAddFileChanging writes to the file while it is added: an error, or the
// bytes of one moment.
func TestAddFileChanging(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	writeOld(t, path, noise(1, 3<<20))
	refused := 0
	for i := range 30 {
		s := open(t, t.TempDir(), fsx.Options{})
		stop, stopped := make(chan bool), make(chan bool)
		go func() {
			defer close(stopped)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
					f.WriteAt([]byte{byte(n)}, n*4097%(3<<20))
				}
			}
		}()
		desc, err := s.AddFile(ctx, path, AddOptions{})
		close(stop)
		<-stopped
		if err == nil {
			err = s.Verify(ctx, desc)
			if err != nil {
				t.Errorf("round %d: %v", i, err)
			}
		} else {
			refused++
		}
	}
	if refused == 0 {
		t.Error("never noticed")
	}
	t.Logf("%d of 30 refused", refused)
}

// ctx is the tests' context.
var ctx = context.Background()

// open opens a folder of blobs and closes it with the test.
func open(t testing.TB, path string, opt fsx.Options) *Blobs {
	t.Helper()
	dir, err := fsx.Create(path, 0o755, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	s := New(dir, path, Options{})
	if err := s.MakeDirs(); err != nil {
		t.Fatal(err)
	}
	return s
}

// sound verifies every blob and counts blobs and leftovers.
func sound(t testing.TB, s *Blobs) (blobs, leftovers int) {
	t.Helper()
	err := s.EachBlob(func(_ string, d digest.Digest, fi fs.FileInfo) error {
		blobs++
		return s.Verify(ctx, ocispec.Descriptor{Digest: d, Size: fi.Size()})
	})
	if err != nil {
		t.Error(err)
	}
	leftovers, err = s.Sweep(ctx, time.Now().Add(time.Hour), true)
	if err != nil {
		t.Error(err)
	}
	return blobs, leftovers
}

// noise returns n bytes that depend on seed.
func noise(seed uint64, n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(data)
	return data
}

func described(data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: "x/y", Digest: digest.FromBytes(data), Size: int64(len(data))}
}
