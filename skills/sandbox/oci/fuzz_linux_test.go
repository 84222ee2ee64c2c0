//go:build amd64 || arm64

package oci

import (
	"archive/tar"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/skills/sandbox"
)

// FuzzLayers checks that an image of any two layers is refused or unpacked
// within its folder.
func FuzzLayers(f *testing.F) {
	link, hard := byte(tar.TypeSymlink), byte(tar.TypeLink)
	f.Add(layer(f, guest, entry{name: "a/b", text: "1"}), layer(f, entry{name: "a/.wh.b"}, entry{name: ".wh..wh..opq"}))
	f.Add(layer(f, guest, entry{name: "l", kind: link, text: "../../.."}), layer(f, entry{name: "l/x", text: "1"}))
	f.Add(layer(f, guest, entry{name: "l", kind: hard, text: "guest"}), layer(f, entry{name: "../x", text: "1"}))
	f.Add([]byte("x"), []byte{})
	f.Fuzz(func(t *testing.T, one, two []byte) {
		b := blobs{}
		ref := b.image(t, nil, layer(t, guest), one, two)
		sha, err := digest(ref)
		if err != nil {
			t.Fatal(err)
		}
		top := t.TempDir()
		e := New(Options{Dir: filepath.Join(top, "images"), Blob: b.open})
		root, _, err := e.ensure(t.Context(), sha)
		if err != nil && sandbox.KindOf(err) != sandbox.Refused {
			t.Fatal(err)
		}
		left, readErr := os.ReadDir(top)
		if readErr != nil || len(left) != 1 {
			t.Errorf("unexpected files: %v (%v)", left, readErr)
		}
		if err != nil {
			return
		}
		if info, err := os.Lstat(filepath.Join(root, "in")); err != nil || !info.IsDir() {
			t.Errorf("/in: %v, %v", info, err)
		}
	})
}
