package servers

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
)

// imported returns a build with a core of a folder of transformers, and that folder.
func imported(t *testing.T) (*builds.Build, string) {
	t.Helper()
	from, root := filepath.Join(testfiles.Root(t), "modules", "convert", "testdata", "peft"), t.TempDir()
	dir, err := convert.HuggingFace(t.Context(), from, convert.Options{Dir: filepath.Join(root, "core"), Name: "core", Version: "1.0.0", License: "MIT"})
	if err != nil {
		t.Fatal(err)
	}
	m, list := modules.Load(dir)
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return &builds.Build{
		Files: catalogFiles(root), Manifests: map[string]*modules.Manifest{"core": m},
		Assembly: &builds.Assembly{Name: "small", Core: builds.Part{Name: "core", Type: abi.Core, Manifest: "core/module.yaml", Files: builds.Formats{"gguf": {"core/core.gguf"}}}},
	}, from
}

// A core is written as the folder that it was imported from, with the same bytes.
func TestCore(t *testing.T) {
	b, from := imported(t)
	b.Assembly.Adapters = []builds.AdapterPart{{}}
	dir := filepath.Join(t.TempDir(), "out")
	names, notes, err := Core(t.Context(), b, dir)
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "1 adapters") {
		t.Fatalf("%v, notes %v", err, notes)
	}
	if want := []string{"README.md", "config.json", "model.safetensors", "tokenizer.json"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	for _, name := range names[1:] {
		got, err := os.ReadFile(filepath.Join(dir, name))
		want, errWant := os.ReadFile(filepath.Join(from, name))
		if err != nil || errWant != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs, or %v, %v", name, err, errWant)
		}
	}
	if _, _, err := Core(t.Context(), b, dir); err == nil {
		t.Error("a folder with files is written to")
	}
}

func TestCoreRefuses(t *testing.T) {
	b, _ := imported(t)
	for name, c := range map[string]struct {
		change func(b *builds.Build)
		want   string
	}{
		"no core":    {func(b *builds.Build) { b.Assembly.Core = builds.Part{} }, "got no core in GGUF"},
		"no GGUF":    {func(b *builds.Build) { b.Assembly.Core.Files = builds.Formats{"coreml": {"x"}} }, "got no core in GGUF"},
		"not kept":   {func(b *builds.Build) { b.Manifests = map[string]*modules.Manifest{"core": {}} }, "got no configuration of transformers"},
		"not stored": {func(b *builds.Build) { b.Assembly.Core.Manifest = "other/module.yaml" }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			changed, assembly := *b, *b.Assembly
			changed.Assembly = &assembly
			c.change(&changed)
			dir := filepath.Join(t.TempDir(), "out")
			if _, _, err := Core(t.Context(), &changed, dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("files are written")
			}
		})
	}
	root := t.TempDir()
	b.Files = catalogFiles(root)
	for size, accepted := range map[int64]bool{maxKept: true, maxKept + 1: false} {
		f, err := os.Create(filepath.Join(root, "x"))
		if err == nil {
			err = f.Truncate(size)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if data, err := readKept(b, "x"); (err == nil) != accepted || accepted && int64(len(data)) != maxKept {
			t.Errorf("%d bytes, maxKept %d: %v", size, int64(maxKept), err)
		}
	}
}
