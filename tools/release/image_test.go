package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The container image is a valid index of two platforms, the same bytes twice,
// with notices and certificates. Another implementation of OCI reads it.
func TestImage(t *testing.T) {
	var digests []string
	for range 2 {
		r := &release{version: "1.2.3", out: t.TempDir(), work: t.TempDir(), date: time.Unix(1_700_000_000, 0).UTC()}
		r.notices = filepath.Join(r.work, "THIRD_PARTY_NOTICES.txt")
		writeFile(t, r.notices, "notices")
		for _, arch := range []string{"amd64", "arm64"} {
			for _, p := range programs {
				writeFile(t, filepath.Join(r.work, "linux-"+arch, p), "program "+arch)
			}
		}
		func() {
			t.Chdir("../..")
			defer t.Chdir("tools/release")
			if _, err := r.image(t.Context()); err != nil {
				t.Fatal(err)
			}
		}()
		dir := t.TempDir()
		unpack(t, filepath.Join(r.out, "mm-1.2.3-image.tar"), dir)
		path, err := layout.FromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		index, err := path.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Error(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("index.json: %v, %v", manifest, err)
		}
		digests = append(digests, manifest.Manifests[0].Digest.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("two runs give %v", digests)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, h.Name), string(data))
	}
}
