package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"mm-abi.org/mm/registry/artifact"
)

// archived is a tar archive of members; a name ending in a slash is a folder.
func archived(t testing.TB, members ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range members {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(h.Name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string, size int64) tar.Header { return tar.Header{Name: name, Size: size, Mode: 0o600} }

// packed compresses data for a packing.
func packed(t testing.TB, data []byte, p artifact.Packing) []byte {
	t.Helper()
	var b bytes.Buffer
	switch p.Compression() {
	case "gzip":
		z := gzip.NewWriter(&b)
		if _, err := z.Write(data); err != nil {
			t.Fatal(err)
		}
		z.Close()
	case "zstd":
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(data); err != nil {
			t.Fatal(err)
		}
		z.Close()
	default:
		return data
	}
	return b.Bytes()
}

// unpackTo checks out archives, each a layer, into a new folder.
func unpackTo(t testing.TB, s *Store, dir string, p artifact.Packing, layers ...[]byte) ([]string, error) {
	t.Helper()
	a := &artifact.Artifact{Foreign: "test"}
	for i, data := range layers {
		desc, err := s.AddBytes(t.Context(), "application/octet-stream", data)
		if err != nil {
			t.Fatal(err)
		}
		a.Layers = append(a.Layers, artifact.Layer{Path: fmt.Sprintf("layer-%d", i), Descriptor: desc, Packing: p})
	}
	return s.Checkout(t.Context(), a, dir, CheckoutOptions{Link: true})
}

func unpackStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestUnpack(t *testing.T) {
	s := unpackStore(t)
	tarred := archived(t, tar.Header{Name: "./"}, file("./model.gguf", 5000), tar.Header{Name: "sub/"}, file("sub/config.json", 3))
	for _, p := range []artifact.Packing{"tar", "tar+gzip", "tar+zstd"} {
		dir := filepath.Join(t.TempDir(), "out")
		for range 2 { // the second finds the same files
			got, err := unpackTo(t, s, dir, p, packed(t, tarred, p))
			if err != nil || !slices.Equal(got, []string{"model.gguf", "sub/config.json"}) {
				t.Fatalf("%s: %v, %v", p, got, err)
			}
		}
		if data, err := os.ReadFile(filepath.Join(dir, "model.gguf")); err != nil || len(data) != 5000 {
			t.Errorf("%s: %d bytes, %v", p, len(data), err)
		}
		if err := os.WriteFile(filepath.Join(dir, "sub/config.json"), []byte("yyy"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := unpackTo(t, s, dir, p, packed(t, tarred, p)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: other file: %v", p, err)
		}
	}
	for _, p := range []artifact.Packing{"gzip", "zstd"} {
		dir := filepath.Join(t.TempDir(), "out")
		got, err := unpackTo(t, s, dir, p, packed(t, []byte("GGUF"), p))
		if err != nil || !slices.Equal(got, []string{"layer-0"}) {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
}

// A hostile archive is refused and leaves no file, inside the folder or outside.
// Of an image, the folder of its files is left out, and nothing outside it is written.
func TestUnpackRoot(t *testing.T) {
	s := unpackStore(t)
	for _, c := range []struct {
		member string
		want   []string
	}{
		{"models/core/a.gguf", []string{"core/a.gguf"}},
		{"models/models/a", []string{"models/a"}},
		{"etc/passwd", nil},
		{"modelsx", nil},
		{"models/../etc/a", nil},
	} {
		desc, err := s.AddBytes(t.Context(), "application/octet-stream", archived(t, tar.Header{Name: "models/"}, file(c.member, 3)))
		if err != nil {
			t.Fatal(err)
		}
		a := &artifact.Artifact{Foreign: "test", Layers: []artifact.Layer{{Path: "core.tar", Descriptor: desc, Packing: "tar", Root: "models"}}}
		got, err := s.Checkout(t.Context(), a, filepath.Join(t.TempDir(), "out"), CheckoutOptions{Link: true})
		if !slices.Equal(got, c.want) || errors.Is(err, ErrArchive) == (c.want != nil) {
			t.Errorf("%s: %v, %v", c.member, got, err)
		}
	}
}

func TestUnpackRefuses(t *testing.T) {
	s := unpackStore(t)
	link := func(kind byte, name, to string) []byte {
		return archived(t, tar.Header{Name: name, Typeflag: kind, Linkname: to}, file(name+"/x", 1))
	}
	zeros := make([]byte, minExpansion+1)
	for name, c := range map[string]struct {
		packing artifact.Packing
		layers  [][]byte
	}{
		"parent":           {"tar", [][]byte{archived(t, file("ok", 1), file("../out-of-it", 1))}},
		"parent inside":    {"tar", [][]byte{archived(t, file("a/../../x", 1))}},
		"parent folder":    {"tar", [][]byte{archived(t, tar.Header{Name: "../evil/"})}},
		"absolute":         {"tar", [][]byte{archived(t, file("/tmp/mm-unpack-test", 1))}},
		"drive":            {"tar", [][]byte{archived(t, file("C:/x", 1))}},
		"backslash":        {"tar", [][]byte{archived(t, file(`..\x`, 1))}},
		"git":              {"tar", [][]byte{archived(t, file("m/.git/config", 1))}},
		"staging folder":   {"tar", [][]byte{archived(t, file(".mm-checkout/0", 1))}},
		"device name":      {"tar", [][]byte{archived(t, file("con.txt", 1))}},
		"symlink":          {"tar", [][]byte{link(tar.TypeSymlink, "d", "/tmp")}},
		"hard link":        {"tar", [][]byte{link(tar.TypeLink, "d", "/etc/passwd")}},
		"fifo":             {"tar", [][]byte{link(tar.TypeFifo, "d", "")}},
		"character device": {"tar", [][]byte{link(tar.TypeChar, "d", "")}},
		"block device":     {"tar", [][]byte{link(tar.TypeBlock, "d", "")}},
		"twice":            {"tar", [][]byte{archived(t, file("a", 1), file("a", 1))}},
		"case":             {"tar", [][]byte{archived(t, file("Model", 1), file("model", 1))}},
		"file as folder":   {"tar", [][]byte{archived(t, file("a", 1), file("a/b", 1))}},
		"other layer":      {"tar", [][]byte{archived(t, file("a", 1)), archived(t, file("A", 2))}},
		"not a tar":        {"tar", [][]byte{[]byte(strings.Repeat("no archive", 100))}},
		"cut":              {"tar", [][]byte{archived(t, file("a", 5000))[:1000]}},
		"size beyond":      {"tar", [][]byte{archived(t, file("a", 1<<20))[:512]}},
		"not gzip":         {"tar+gzip", [][]byte{archived(t, file("a", 1))}},
		"not zstd":         {"tar+zstd", [][]byte{archived(t, file("a", 1))}},
		"cut gzip":         {"tar+gzip", [][]byte{packed(t, archived(t, file("a", 100)), "gzip")[:60]}},
		"bomb":             {"gzip", [][]byte{packed(t, zeros, "gzip")}},
		"zstd bomb":        {"zstd", [][]byte{packed(t, zeros, "zstd")}},
		"tar bomb":         {"tar+gzip", [][]byte{packed(t, archived(t, file("a", minExpansion)), "gzip")}},
		"padding bomb":     {"tar+gzip", [][]byte{packed(t, append(archived(t, file("a", 1)), zeros...), "gzip")}},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "out")
			got, err := unpackTo(t, s, dir, c.packing, c.layers...)
			if !errors.Is(err, ErrArchive) {
				t.Errorf("%v, %v", got, err)
			}
			if entries, _ := os.ReadDir(top); len(entries) > 0 {
				t.Errorf("left %v", entries)
			}
		})
	}
	if _, err := os.Lstat("/tmp/mm-unpack-test"); err == nil {
		t.Error("an absolute path was written")
	}
}

// The limits, on either side.
func TestUnpackLimits(t *testing.T) {
	s := unpackStore(t)
	folders := func(n int) []byte {
		list := []tar.Header{file("a", 1)}
		for i := range n - 1 {
			list = append(list, tar.Header{Name: fmt.Sprintf("d%d/", i)})
		}
		return archived(t, list...)
	}
	for n, ok := range map[int]bool{maxMembers: true, maxMembers + 1: false} {
		if _, err := unpackTo(t, s, filepath.Join(t.TempDir(), "out"), "tar", folders(n)); (err == nil) != ok {
			t.Errorf("%d members: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{minExpansion: true, minExpansion + 1: false} {
		if _, err := unpackTo(t, s, filepath.Join(t.TempDir(), "out"), "gzip", packed(t, make([]byte, n), "gzip")); (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if got := expansion(1<<20, "gzip"); got != 1<<20*maxExpansion {
		t.Errorf("%d", got)
	}
	for log, ok := range map[int]bool{27: true, 28: false} {
		frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, byte(log-10) << 3, 0x21, 0x00, 0x00, 'G', 'G', 'U', 'F'}
		if _, err := unpackTo(t, s, filepath.Join(t.TempDir(), "out"), "zstd", frame); (err == nil) != ok {
			t.Errorf("window of %d bytes, limit %d: %v", 1<<log, maxWindow, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	desc, err := s.AddBytes(t.Context(), "x/y", folders(2))
	if err != nil {
		t.Fatal(err)
	}
	a := &artifact.Artifact{Layers: []artifact.Layer{{Path: "l", Descriptor: desc, Packing: "tar"}}}
	if _, err := s.Checkout(ctx, a, t.TempDir(), CheckoutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A blob that was changed in the store is not published.
func TestUnpackDigest(t *testing.T) {
	s := unpackStore(t)
	data := archived(t, file("a", 5000))
	desc, err := s.AddBytes(t.Context(), "x/y", data)
	if err != nil {
		t.Fatal(err)
	}
	blob := s.BlobPath(desc)
	if err := os.Chmod(blob, 0o600); err != nil {
		t.Fatal(err)
	}
	data[700] ^= 1
	if err := os.WriteFile(blob, data, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	a := &artifact.Artifact{Layers: []artifact.Layer{{Path: "l", Descriptor: desc, Packing: "tar"}}}
	if _, err := s.Checkout(t.Context(), a, dir, CheckoutOptions{}); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left a folder: %v", err)
	}
}

// FuzzUnpack: an archive becomes files below its folder or an error, never a link.
func FuzzUnpack(f *testing.F) {
	f.Add(uint8(0), archived(f, file("a/b", 3)))
	f.Add(uint8(1), packed(f, archived(f, file("a/b", 3)), "gzip"))
	f.Add(uint8(2), packed(f, archived(f, file("a/b", 3)), "zstd"))
	f.Add(uint8(0), archived(f, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/"}))
	f.Add(uint8(3), packed(f, []byte("x"), "gzip"))
	s := unpackStore(f)
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		packings := []artifact.Packing{"tar", "tar+gzip", "tar+zstd", "gzip", "zstd"}
		top := t.TempDir()
		got, err := unpackTo(t, s, filepath.Join(top, "out"), packings[int(kind)%len(packings)], data)
		var files []string
		walk := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			if !e.Type().IsRegular() {
				t.Errorf("%s is %s", path, e.Type())
			}
			rel, err := filepath.Rel(filepath.Join(top, "out"), path)
			files = append(files, filepath.ToSlash(rel))
			return err
		})
		slices.Sort(files)
		if walk != nil || err == nil && !slices.Equal(files, got) || err != nil && len(files) > 0 {
			t.Errorf("%v, files %v, reported %v, %v", walk, files, got, err)
		}
	})
}
