package demo

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// The reference modules come from a checkout above, from an archive next to the
// program or in ../share/mm, or from the place that is named.
func TestSource(t *testing.T) {
	const module, graph = "catalog/core-llm/module.yaml", "builds/playbook.graph.yaml"
	tree := func(dir string) {
		for _, name := range []string{module, graph, "builds/build.go", "builds/testdata/x.yaml"} {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	top := t.TempDir()
	checkout, empty, prefix := filepath.Join(top, "checkout"), filepath.Join(top, "empty"), filepath.Join(top, "usr")
	tree(checkout)
	for _, dir := range []string{empty, filepath.Join(prefix, "bin"), filepath.Join(prefix, "share", "mm"), filepath.Join(checkout, "a", "b")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(prefix, "bin", "mm")
	if _, _, err := Source("", empty, program); !errors.Is(err, ErrNoSource) {
		t.Errorf("nowhere: got %v", err)
	}
	if _, _, err := Source(empty, empty, program); !errors.Is(err, ErrNoSource) {
		t.Errorf("an empty folder: got %v", err)
	}
	archive := filepath.Join(prefix, "share", "mm", ArchiveName)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := errors.Join(w.AddFS(os.DirFS(checkout)), w.Close(), os.WriteFile(archive, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][3]string{
		"a checkout above":     {"", filepath.Join(checkout, "a", "b"), program},
		"an installed archive": {"", empty, program},
		"a named folder":       {checkout, empty, program},
		"a named archive":      {archive, empty, program},
	} {
		source, closer, err := Source(args[0], args[1], args[2])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out := t.TempDir()
		if err := copySource(source, out, fsx.CopyFS); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for file, want := range map[string]bool{"modules/core-llm/module.yaml": true, graph: true, "builds/build.go": false, "builds/testdata": false} {
			if _, err := os.Stat(filepath.Join(out, filepath.FromSlash(file))); (err == nil) != want {
				t.Errorf("%s: %s: got %v", name, file, err)
			}
		}
		if err := closer(); err != nil {
			t.Error(err)
		}
	}
}

// An archive that announces maxSource bytes is opened, one byte more is refused.
func TestSourceLimit(t *testing.T) {
	for announced, good := range map[uint32]bool{maxSource: true, maxSource + 1: false} {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		if _, err := w.CreateRaw(&zip.FileHeader{Name: "x", UncompressedSize64: uint64(announced)}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "a.zip")
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, closer, err := openArchive(file); (err == nil) != good {
			t.Errorf("%d bytes: got %v", announced, err)
		} else if err == nil {
			_ = closer()
		}
	}
}
