package servers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestManifest(t *testing.T) {
	const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	image := Publication{Name: "p-lite", Place: "registry.example/team/p-lite", Digest: digest, Image: true}
	target := Publication{Name: "p-lite", Place: "registry.example/team/p-lite", Digest: digest, Core: true}
	named := func(p Publication, name string) Publication { p.Name = name; return p }
	opt := ManifestOptions{Server: "registry.example/server:1"}
	for name, c := range map[string]struct {
		p    Publication
		kind Kind
		opt  ManifestOptions
		want string // in the document, or in the error after !
	}{
		"kserve":       {image, KServe, ManifestOptions{}, `storageUri: "oci://registry.example/team/p-lite@` + digest + `"`},
		"format":       {image, KServe, ManifestOptions{Format: "mm"}, "name: mm\n"},
		"bad format":   {image, KServe, ManifestOptions{Format: "a: b"}, "!model format"},
		"k8s":          {image, Kubernetes, opt, `reference: "registry.example/team/p-lite@` + digest + `"`},
		"no server":    {image, Kubernetes, ManifestOptions{}, "!server image"},
		"bad server":   {image, Kubernetes, ManifestOptions{Server: "a\"\nb"}, "!server image"},
		"digest":       {image, Kubernetes, ManifestOptions{Server: "a/b@" + digest}, "a/b@" + digest},
		"bad digest":   {image, Kubernetes, ManifestOptions{Server: "a/b@sha256:12"}, "!server image"},
		"no image":     {target, Kubernetes, opt, "!want a container image"},
		"compose":      {target, Compose, opt, `model: "registry.example/team/p-lite@` + digest + `"`},
		"no core":      {image, Compose, opt, "!want a target with a core"},
		"dots":         {named(image, "p_lite.v1"), KServe, opt, "name: p-lite-v1\n"},
		"digit":        {named(image, "1p"), KServe, opt, "!lower-case letter first"},
		"longest name": {named(image, strings.Repeat("a", maxResource)), KServe, opt, "name: aaa"},
		"long name":    {named(image, strings.Repeat("a", maxResource+1)), KServe, opt, "!at most 63"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := Manifest(c.p, c.kind, c.opt)
			want, refused := strings.CutPrefix(c.want, "!")
			if refused {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
				return
			}
			if err != nil || len(files) != 2 || !strings.Contains(string(files[1].Text), want) {
				t.Errorf("got %v, %s, want %q", err, files, want)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "out")
	files := []File{{Path: "x/y", Text: []byte("text")}}
	if err := Write(t.Context(), dir, files, nil); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "x", "y")); err != nil || string(data) != "text" {
		t.Errorf("got %q, %v", data, err)
	}
	if err := Write(t.Context(), dir, files, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder with files: %v", err)
	}
}
