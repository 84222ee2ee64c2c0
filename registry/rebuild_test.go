package registry

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// damages are ways in which the files of a layout are lost.
var damages = map[string]func(dir string) error{
	"empty":        func(dir string) error { return os.WriteFile(dir+"/index.json", nil, 0o644) },
	"zeros":        func(dir string) error { return os.WriteFile(dir+"/index.json", make([]byte, 300), 0o644) },
	"cut":          func(dir string) error { return os.Truncate(dir+"/index.json", 60) },
	"not an index": func(dir string) error { return os.WriteFile(dir+"/index.json", []byte(`{"schemaVersion":1}`), 0o644) },
	"an array":     func(dir string) error { return os.WriteFile(dir+"/index.json", []byte(`[]`), 0o644) },
	"bad entry": func(dir string) error {
		return os.WriteFile(dir+"/index.json", []byte(`{"schemaVersion":2,"manifests":[{"digest":"x"}]}`), 0o644)
	},
	"missing": func(dir string) error { return os.Remove(dir + "/index.json") },
	"a folder": func(dir string) error {
		return errors.Join(os.Remove(dir+"/index.json"), os.Mkdir(dir+"/index.json", 0o755))
	},
	"no layout":    func(dir string) error { return os.Remove(dir + "/oci-layout") },
	"empty layout": func(dir string) error { return os.WriteFile(dir+"/oci-layout", nil, 0o644) },
	"neither":      func(dir string) error { return errors.Join(os.Remove(dir+"/oci-layout"), os.Remove(dir+"/index.json")) },
}

// A damaged layout is an error with its folder, and is rebuilt from its blobs.
func TestRebuild(t *testing.T) {
	ctx := context.Background()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{})
			named := map[string]string{abi.AnnotationName: "m", abi.AnnotationVersion: "0.1.0", abi.AnnotationKind: abi.KindModule}
			pack := func(text string) ocispec.Descriptor {
				d, err := s.AddBytes(ctx, "application/octet-stream", []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				a := artifact.Artifact{Name: "m", Version: "0.1.0", Annotations: named, Layers: []artifact.Layer{{Path: "x", Descriptor: d}}}
				desc, err := artifact.Pack(ctx, s, a)
				if err != nil {
					t.Fatal(err)
				}
				return desc
			}
			signed, later := pack("one"), pack("two")
			bundle, err := attach(s, signed, "test/referrer", "x")
			if err != nil {
				t.Fatal(err)
			}
			other := tagged(t, s, "other:0.1.0", 3)
			if err := errors.Join(s.Tag(ctx, signed, "m:0.1.0"), s.Close(), damage(dir)); err != nil {
				t.Fatal(err)
			}
			layoutOnly := strings.Contains(name, "layout")
			for _, opt := range []Options{{}, {ReadOnly: true}, {MustExist: true}} {
				var d *DamagedError
				if _, err := Open(dir, opt); !errors.As(err, &d) || d.Dir != dir || !errors.Is(err, artifact.ErrCorrupt) {
					t.Fatalf("%+v: %v", opt, err)
				}
			}
			refs, err := Rebuild(ctx, dir)
			if err != nil || refs == nil || !layoutOnly && !slices.Contains(refs, "m:0.1.0") {
				t.Fatalf("%q, %v", refs, err)
			}
			s = open(t, dir, Options{})
			if got, err := s.Resolve(ctx, "m:0.1.0"); err != nil || got.Digest != signed.Digest {
				t.Errorf("%v, %v, want the signed one", got, err)
			}
			if list, err := s.Referrers(ctx, signed, ""); err != nil || len(list) != 1 || list[0].Digest != bundle.Digest {
				t.Errorf("referrers: %v, %v", list, err)
			}
			if _, err := s.GC(ctx, GCOptions{Grace: -1}); err != nil {
				t.Fatal(err)
			}
			for _, d := range []ocispec.Descriptor{signed, other, bundle} {
				if err := s.Verify(ctx, d); err != nil {
					t.Error(err)
				}
			}
			if err := s.Verify(ctx, later); !layoutOnly && err != nil {
				t.Error(err)
			}
			sound(t, s)
			if _, err := os.Stat(filepath.Join(dir, "index.json.damaged")); (err == nil) != (!layoutOnly && name != "missing" && name != "neither") {
				t.Errorf("the damaged file: %v", err)
			}
			if refs, err := Rebuild(ctx, dir); err != nil || refs != nil {
				t.Errorf("a sound layout: %q, %v", refs, err)
			}
		})
	}
	if _, err := Rebuild(ctx, t.TempDir()); err == nil {
		t.Error("a folder without a layout")
	}
}
