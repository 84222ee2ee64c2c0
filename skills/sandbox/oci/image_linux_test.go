//go:build amd64 || arm64

package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/process"
	"mm-abi.org/mm/skills/skilltest"
)

var guest = entry{name: skilltest.NativeName, text: "x", mode: 0o755}

// listing returns the files below the root of an unpacked image: contents of
// files, targets of links.
func listing(t *testing.T, root string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil || rel == ".":
			return err
		case e.IsDir():
			got[rel] = "/"
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			got[rel] = "-> " + to
			return err
		default:
			b, err := os.ReadFile(path)
			got[rel] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLayers covers the order of layers, whiteouts and links as in the
// specification.
func TestLayers(t *testing.T) {
	dir, link, hard := byte(tar.TypeDir), byte(tar.TypeSymlink), byte(tar.TypeLink)
	for name, c := range map[string]struct {
		layers [][]entry
		want   map[string]string
	}{
		"a file over a file":              {[][]entry{{{name: "a", text: "1"}}, {{name: "./a", text: "2"}}}, map[string]string{"a": "2"}},
		"a folder over a file":            {[][]entry{{{name: "a", text: "1"}}, {{name: "a/", kind: dir}, {name: "a/b", text: "2"}}}, map[string]string{"a": "/", "a/b": "2"}},
		"a file over a folder":            {[][]entry{{{name: "a/b", text: "1"}}, {{name: "a", text: "2"}}}, map[string]string{"a": "2"}},
		"a folder again":                  {[][]entry{{{name: "a/b", text: "1"}}, {{name: "a", kind: dir}}}, map[string]string{"a": "/", "a/b": "1"}},
		"a whiteout":                      {[][]entry{{{name: "a/b", text: "1"}, {name: "a/c", text: "1"}}, {{name: "a/.wh.b"}}}, map[string]string{"a": "/", "a/c": "1"}},
		"a whiteout of a folder":          {[][]entry{{{name: "a/b/c", text: "1"}}, {{name: "a/.wh.b"}}}, map[string]string{"a": "/"}},
		"a whiteout of a missing file":    {[][]entry{{{name: "a", text: "1"}}, {{name: ".wh.b"}}}, map[string]string{"a": "1"}},
		"a whiteout and the same name":    {[][]entry{{{name: "a/x", text: "1"}}, {{name: "a/y", text: "2"}, {name: ".wh.a"}}}, map[string]string{"a": "/", "a/y": "2"}},
		"a whiteout spares its own layer": {[][]entry{{{name: "x", text: "1"}}, {{name: "a", text: "2"}, {name: ".wh.a"}}}, map[string]string{"a": "2", "x": "1"}},
		"an opaque folder":                {[][]entry{{{name: "a/b/c", text: "1"}, {name: "a/d", text: "1"}}, {{name: "a/b/e", text: "2"}, {name: "a/.wh..wh..opq"}}}, map[string]string{"a": "/", "a/b": "/", "a/b/e": "2"}},
		"an opaque root":                  {[][]entry{{{name: "a", text: "1"}}, {{name: ".wh..wh..opq"}, guest}}, map[string]string{}},
		"links keep their targets":        {[][]entry{{{name: "a", kind: link, text: "/etc/passwd"}, {name: "b", kind: link, text: "../../../../etc"}}}, map[string]string{"a": "-> /etc/passwd", "b": "-> ../../../../etc"}},
		"a file below a link to a folder": {[][]entry{{{name: "usr/bin/a", text: "1"}, {name: "bin", kind: link, text: "usr/bin"}}, {{name: "bin/b", text: "2"}}}, map[string]string{"usr": "/", "usr/bin": "/", "usr/bin/a": "1", "usr/bin/b": "2", "bin": "-> usr/bin"}},
		"below a link far upwards":        {[][]entry{{{name: "etc/a", text: "1"}, {name: "up", kind: link, text: "../../../etc"}}, {{name: "up/b", text: "2"}}}, map[string]string{"etc": "/", "etc/a": "1", "etc/b": "2", "up": "-> ../../../etc"}},
		"a file replaces a link":          {[][]entry{{{name: "a", kind: link, text: "/etc/passwd"}}, {{name: "a", text: "2"}}}, map[string]string{"a": "2"}},
		"a hard link":                     {[][]entry{{{name: "d/a", text: "1"}, {name: "b", kind: hard, text: "d/a"}}, {{name: "d/.wh.a"}}}, map[string]string{"d": "/", "b": "1"}},
		"a hard link to a link":           {[][]entry{{{name: "a", kind: link, text: "/x"}, {name: "b", kind: hard, text: "/a"}}}, map[string]string{"a": "-> /x", "b": "-> /x"}},
		"a hard link that was replaced":   {[][]entry{{{name: "a", text: "1"}, {name: "b", kind: hard, text: "a"}}, {{name: "a", text: "2"}}}, map[string]string{"a": "2", "b": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := blobs{}
			var layers [][]byte
			for _, l := range append([][]entry{{guest}}, c.layers...) {
				layers = append(layers, layer(t, l...))
			}
			ref := b.image(t, nil, layers...)
			sha, err := digest(ref)
			if err != nil {
				t.Fatal(err)
			}
			e := executor(t, b)
			root, _, err := e.ensure(t.Context(), sha)
			if err != nil {
				t.Fatal(err)
			}
			c.want["in"], c.want[skilltest.NativeName] = "/", "x"
			if d := cmp.Diff(c.want, listing(t, root)); d != "" {
				t.Error(d)
			}
			clear(b) // not read again
			if again, _, err := e.ensure(t.Context(), sha); err != nil || again != root {
				t.Errorf("%s, %v", again, err)
			}
		})
	}
}

// TestHostileImages checks that malicious and invalid images are refused and
// leave no files.
func TestHostileImages(t *testing.T) {
	link, hard := byte(tar.TypeSymlink), byte(tar.TypeLink)
	one := func(e ...entry) func(*testing.T, blobs) string {
		return func(t *testing.T, b blobs) string { return b.image(t, nil, layer(t, append([]entry{guest}, e...)...)) }
	}
	changed := func(f func(c *ocispec.Image, m *ocispec.Manifest)) func(*testing.T, blobs) string {
		return func(t *testing.T, b blobs) string { return b.image(t, f, layer(t, guest)) }
	}
	over := func(second ...entry) func(*testing.T, blobs) string {
		return func(t *testing.T, b blobs) string {
			return b.image(t, nil, layer(t, guest, entry{name: "f", text: "1"}, entry{name: "loop", kind: link, text: "loop"}, entry{name: "out", kind: link, text: "/nowhere"}), layer(t, second...))
		}
	}
	images := map[string]func(*testing.T, blobs) string{
		"a name that goes up":          one(entry{name: "../../etc/passwd", text: "x"}),
		"a name that goes up inside":   one(entry{name: "a/../../b", text: "x"}),
		"a device":                     one(entry{name: "dev/null", kind: tar.TypeChar}),
		"a block device":               one(entry{name: "dev/sda", kind: tar.TypeBlock}),
		"a pipe":                       one(entry{name: "p", kind: tar.TypeFifo}),
		"an unknown kind":              one(entry{name: "p", kind: '9'}),
		"a hard link out of the image": one(entry{name: "a", kind: hard, text: "../../../etc/passwd"}),
		"a hard link to nothing":       one(entry{name: "a", kind: hard, text: "/etc/passwd"}),
		"a hard link to a folder":      one(entry{name: "d/x", text: ""}, entry{name: "a", kind: hard, text: "d"}),
		"a hard link over a link":      one(entry{name: "l", kind: link, text: "/etc"}, entry{name: "a", kind: hard, text: "l/passwd"}),
		"a file below a file":          over(entry{name: "f/x", text: "x"}),
		"a file below a loop":          over(entry{name: "loop/x", text: "x"}),
		"a file below a dead link":     over(entry{name: "out/x", text: "x"}),
		"a whiteout of nothing":        over(entry{name: ".wh."}),
		"a whiteout upwards":           over(entry{name: "f2", text: ""}, entry{name: ".wh..."}),
		"a long name":                  one(entry{name: strings.Repeat("x", 256), text: "x"}),
		"a deep name":                  one(entry{name: strings.Repeat("d/", 65) + "x", text: "x"}),
		"a long link":                  one(entry{name: "a", kind: link, text: strings.Repeat("x", 4097)}),
		"/in is a link":                one(entry{name: "in", kind: link, text: "/etc"}),
		"/in is a file":                one(entry{name: "in", text: "x"}),
		"no program":                   changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.Config.Entrypoint = nil }),
		"a missing program":            changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.Config.Entrypoint = []string{"/bin/sh"} }),
		"a program out of the image":   changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.Config.Entrypoint = []string{"../../../../bin/sh"} }),
		"a working folder elsewhere":   changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.Config.WorkingDir = "/work" }),
		"too many variables":           changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.Config.Env = []string{strings.Repeat("x", 70<<10)} }),
		"another architecture":         changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.Architecture = "riscv64" }),
		"another system":               changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.OS = "windows" }),
		"not an image":                 changed(func(_ *ocispec.Image, m *ocispec.Manifest) { m.Config.MediaType = "application/json" }),
		"layers of another type":       changed(func(_ *ocispec.Image, m *ocispec.Manifest) { m.Layers[0].MediaType += "+x" }),
		"no layers":                    changed(func(c *ocispec.Image, m *ocispec.Manifest) { m.Layers, c.RootFS.DiffIDs = nil, nil }),
		"a config of more layers": changed(func(c *ocispec.Image, _ *ocispec.Manifest) {
			c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, "sha256:"+godigest.Digest(strings.Repeat("0", 64)))
		}),
		"other bytes when unpacked": changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.RootFS.DiffIDs[0] = godigest.FromString("x") }),
		"no digest in the config":   changed(func(c *ocispec.Image, _ *ocispec.Manifest) { c.RootFS.DiffIDs[0] = "x" }),
		"a missing layer":           changed(func(_ *ocispec.Image, m *ocispec.Manifest) { m.Layers[0].Digest = godigest.FromString("x") }),
		"an invalid digest":         changed(func(_ *ocispec.Image, m *ocispec.Manifest) { m.Layers[0].Digest = "sha256:../../etc" }),
		"a layer of other bytes": func(t *testing.T, b blobs) string {
			return b.image(t, func(_ *ocispec.Image, m *ocispec.Manifest) {
				b[m.Layers[0].Digest.Encoded()] = compress(t, append(layer(t, guest), 0))
			}, layer(t, guest))
		},
		"a layer cut off": func(t *testing.T, b blobs) string {
			return b.image(t, func(_ *ocispec.Image, m *ocispec.Manifest) {
				data := b[m.Layers[0].Digest.Encoded()]
				b[m.Layers[0].Digest.Encoded()] = data[:len(data)/2]
			}, layer(t, guest, entry{name: "big", text: strings.Repeat("0123456789", 1000)}))
		},
		"a layer without gzip": func(t *testing.T, b blobs) string {
			return b.image(t, func(_ *ocispec.Image, m *ocispec.Manifest) { b[m.Layers[0].Digest.Encoded()] = []byte("x") }, layer(t, guest))
		},
		"not a tar": func(t *testing.T, b blobs) string { return b.image(t, nil, []byte(strings.Repeat("junk", 1000))) },
		"a file with holes": func(t *testing.T, b blobs) string {
			return b.image(t, nil, sparse(t))
		},
		"a manifest of other bytes": func(t *testing.T, b blobs) string {
			ref := b.image(t, nil, layer(t, guest))
			b[ref[len(ref)-64:]] = []byte(`{}`)
			return ref
		},
		"a manifest of nothing": func(t *testing.T, b blobs) string { return "x@" + b.add([]byte("null"), "").Digest.String() },
		"an index of indexes": func(t *testing.T, b blobs) string {
			p := &ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}
			inner := b.document(t, ocispec.Index{Manifests: []ocispec.Descriptor{}}, ocispec.MediaTypeImageIndex)
			inner.Platform = p
			return "x@" + b.document(t, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{inner}}, ocispec.MediaTypeImageIndex).Digest.String()
		},
		"a tag alone": func(t *testing.T, b blobs) string { b.image(t, nil, layer(t, guest)); return "example.org/tool:1" },
	}
	var list []skilltest.Hostile
	for _, name := range slices.Sorted(maps.Keys(images)) {
		own := blobs{} // images may share a blob that one of them damages
		ref := images[name](t, own)
		e := New(Options{Dir: filepath.Join(t.TempDir(), "images"), Blob: own.open, Programs: process.New()})
		list = append(list, skilltest.Hostile{Name: name, Program: program(ref, ""), Ends: []sandbox.Kind{sandbox.Refused}, Executor: e})
	}
	skilltest.Corpus(t, nil, needs, list)
	for _, h := range list {
		dir := h.Executor.(*Executor).opt.Dir
		left, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("%s left %v", h.Name, left)
		}
	}
}

// sparse returns a layer with a file of 1 TiB that is one hole (PAX sparse
// format 1.0).
func sparse(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	body := make([]byte, 512)
	copy(body, "0\n")
	h := &tar.Header{Name: "GNUSparseFile.0/big", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(body)), Format: tar.FormatPAX, PAXRecords: map[string]string{
		"XYZ.sparse.major": "1", "XYZ.sparse.minor": "0", "XYZ.sparse.name": "big", "XYZ.sparse.realsize": "1099511627776",
	}}
	if err := errors.Join(w.WriteHeader(h), func() error { _, err := w.Write(body); return err }(), w.Close()); err != nil {
		t.Fatal(err)
	}
	// The writer refuses GNU records: they are written under a name as long.
	return bytes.ReplaceAll(buf.Bytes(), []byte("XYZ.sparse."), []byte("GNU.sparse."))
}
