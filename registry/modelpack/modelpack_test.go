package modelpack_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
	"mm-abi.org/mm/registry/modelpack"
)

func openStore(t testing.TB) *registry.Store {
	t.Helper()
	s, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// module writes a skill with its license, card and program.
func module(t testing.TB, more string) *modules.Manifest {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"module.yaml": "name: calc\nversion: 0.5.0+b.1\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ndescription: adds\ncard: README.md\n" +
			"inputs: [{name: a, type: str}]\noutputs: [{name: b, type: json}]\nrequires: [ocr@^1, reg.example/t/core@2]\nruntime: {starlark: calc.star}\n" + more,
		"README.md": "# calc\n", "calc.star": "def run(a): return a\n", "LICENSE.txt": "MIT\n", "notes.txt": "not listed\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, list := modules.Load(dir)
	if list.Failed() {
		t.Fatal(list)
	}
	return m
}

const licence = "files: [{path: LICENSE.txt, sha256: f1e9e4ef9d3c6d0dd0ab0c5dfc0c2e4b1be0c31b4f0d0c2a8a4e2a1a9ab0a0b0, size: 4}]\n"

func TestPack(t *testing.T) {
	ctx, store := context.Background(), openStore(t)
	m := module(t, "")
	a, desc, err := modelpack.Pack(ctx, store, m)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range a.Layers {
		got = append(got, strings.Join([]string{l.Path, strings.TrimPrefix(l.Descriptor.MediaType, "application/vnd.cncf.model."), l.Annotations[abi.AnnotationRole], l.Annotations[abi.AnnotationFormat]}, " "))
	}
	if d := cmp.Diff([]string{"LICENSE.txt doc.v1.raw doc ", "README.md doc.v1.raw doc markdown", "calc.star code.v1.raw skill starlark", "module.yaml weight.config.v1.raw manifest yaml"}, got); d != "" {
		t.Error(d)
	}
	want := artifact.Identity{Name: "calc", Version: "0.5.0+b.1", Kind: abi.KindModule, Type: abi.Skill, ABI: abi.V1_0}
	if id, err := artifact.Identify(ctx, store, desc); err != nil || id != want {
		t.Errorf("%+v, %v", id, err)
	}
	if a.Annotations[abi.AnnotationRequires] != "ocr@^1, reg.example/t/core@2" {
		t.Errorf("requires %q", a.Annotations[abi.AnnotationRequires])
	}
	if tags, err := store.Tags(ctx); err != nil || len(tags) != 0 {
		t.Errorf("tags %v, %v", tags, err)
	}
	again, same, err := modelpack.Pack(ctx, openStore(t), m)
	if err != nil || same.Digest != desc.Digest || again.Size() != a.Size() {
		t.Errorf("again: %s, %v; first %s", same.Digest, err, desc.Digest)
	}
}

// Digest returns the digest of Pack, for every kind of module.
// A module that does not fit is refused before a file is copied; one that is in the
// store needs no space.
func TestPackRoom(t *testing.T) {
	ctx, store := context.Background(), openStore(t)
	m := module(t, "")
	var size int64
	for _, path := range m.Paths() {
		info, err := os.Stat(filepath.Join(m.Dir(), path))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	store.Free = func(string) (int64, bool) { return size - 1, true }
	if _, _, err := modelpack.Pack(ctx, store, m); !cas.IsFull(err) {
		t.Fatal(err)
	}
	if blobs, err := os.ReadDir(filepath.Join(store.Dir(), "blobs", "sha256")); err != nil || len(blobs) != 0 {
		t.Errorf("%d blobs were stored, %v", len(blobs), err)
	}
	store.Free = cas.Free
	if _, _, err := modelpack.Pack(ctx, store, m); err != nil {
		t.Fatal(err)
	}
	store.Free = func(string) (int64, bool) { return 0, true }
	if _, _, err := modelpack.Pack(ctx, store, m); err != nil {
		t.Errorf("a module that is there: %v", err)
	}
}

func TestDigest(t *testing.T) {
	ctx, store := context.Background(), openStore(t)
	for _, kind := range abi.ModuleTypes() {
		dir := t.TempDir()
		if err := seed.Write(filepath.Join(dir, "m"), seed.Options{Type: kind, Name: "m", Version: "1.0.0", DModel: 32}); err != nil {
			t.Fatal(kind, err)
		}
		m, list := modules.Load(filepath.Join(dir, "m"))
		if list.Failed() {
			t.Fatal(list)
		}
		d, err := modelpack.Digest(ctx, m)
		if err != nil {
			t.Fatal(kind, err)
		}
		_, desc, err := modelpack.Pack(ctx, store, m)
		if err != nil || desc.Digest != d {
			t.Errorf("%s: packed %s, %v; hashed %s", kind, desc.Digest, err, d)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := modelpack.Digest(cancelled, module(t, "")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Differences from the declaration are faults at their lines, in both
// functions.
func TestFaults(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		more string
		code diag.Code
		make func(dir string) error
	}{
		"missing":     {"", diag.FileMissing, func(dir string) error { return os.Remove(filepath.Join(dir, "calc.star")) }},
		"other bytes": {licence, diag.FileDiffers, nil},
		"folder": {"", diag.FileMissing, func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "calc.star")), os.Mkdir(filepath.Join(dir, "calc.star"), 0o755))
		}},
		"link out": {"", diag.FileMissing, func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "calc.star")), os.Symlink("/etc/hostname", filepath.Join(dir, "calc.star")))
		}},
		"gone": {"", diag.Unreadable, os.RemoveAll},
	} {
		m := module(t, tc.more)
		if tc.make != nil {
			if err := tc.make(m.Dir()); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := modelpack.Pack(ctx, openStore(t), m)
		_, err2 := modelpack.Digest(ctx, m)
		for _, err := range []error{err, err2} {
			if list, ok := diag.From(err); !ok || len(list) != 1 || list[0].Code != tc.code {
				t.Errorf("%s: %v, want %s", name, err, tc.code)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		m       modules.Manifest
		format  string
		in, out string
	}{
		{modules.Manifest{Type: abi.Core, Export: map[abi.Format]modules.Export{abi.GGUF: {Path: "a.gguf"}, abi.ONNX: {Path: "a.onnx"}}}, "gguf", "text", "text"},
		{modules.Manifest{Type: abi.Encoder, Modality: abi.Image, Export: map[abi.Format]modules.Export{abi.ONNX: {Path: "a.onnx"}, abi.Safetensors: {Path: "x"}}}, "onnx", "image", "embedding"},
		{modules.Manifest{Type: abi.Projector, Modality: abi.Image, Export: map[abi.Format]modules.Export{abi.Safetensors: {Path: "x"}}}, "safetensors", "embedding", "embedding"},
		{modules.Manifest{Type: abi.Decoder, Modality: abi.Audio}, "", "embedding", "audio"},
		{modules.Manifest{Type: abi.Skill}, "", "", ""},
	} {
		c := modelpack.Config(&tc.m)
		in, out := "", ""
		if k := c.Config.Capabilities; k != nil {
			in, out = strings.Join(k.InputTypes, " "), strings.Join(k.OutputTypes, " ")
		}
		if c.Config.Format != tc.format || in != tc.in || out != tc.out {
			t.Errorf("%s: format %q, input %q, output %q", tc.m.Type, c.Config.Format, in, out)
		}
	}
}
