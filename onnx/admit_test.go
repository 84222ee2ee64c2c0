package onnx_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/onnxtest"
)

// external writes a model whose weight is in data/w.bin.
func external(t *testing.T) (dir, path string) {
	t.Helper()
	m := onnx.New("m", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 2)}
	w := m.Graph.Constant(onnx.Tensor{Name: "w", DType: onnx.FLOAT, Dims: []int64{2}, External: &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: "data/w.bin"}, {Key: "offset", Value: "4"}}}})
	m.Graph.Add("Add", []string{"x", w}, "y")
	dir = t.TempDir()
	path = filepath.Join(dir, "m.onnx")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onnx.Write(f, m); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), os.Mkdir(filepath.Join(dir, "data"), 0o700), os.WriteFile(filepath.Join(dir, "data", "w.bin"), []byte("----abcdefgh"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// A model is returned with the contents of its files.
func TestFile(t *testing.T) {
	dir, path := external(t)
	m, err := onnx.Admit(path, onnx.AdmitOptions{Open: onnx.FolderOpener(dir, nil)})
	if err != nil {
		t.Fatal(err)
	}
	locations, size := m.Attached()
	if w := m.Graph.Initializers[0]; string(w.Raw) != "abcdefgh" || w.External != nil || len(locations) != 1 || size != 12 {
		t.Errorf("%+v, %v, %d", w, locations, size)
	}
	if p := m.Check(onnx.CheckOptions{}); len(p) > 0 {
		t.Error(p)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for name, open := range map[string]onnx.Opener{"no files": nil, "none declared": onnx.FolderOpener(dir, func(string) bool { return false })} {
		var refused *onnx.Refused
		if _, err := onnx.Admit(path, onnx.AdmitOptions{Open: open}); !errors.As(err, &refused) || refused.Problems[0].Rule != onnx.RuleFile || !strings.Contains(err.Error(), "data/w.bin") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := onnx.Admit(filepath.Join(dir, "none.onnx"), onnx.AdmitOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A file that shrinks after the check is an error, not a fault.
func TestFileShrinks(t *testing.T) {
	dir, path := external(t)
	calls := 0
	open := func(location string) (*os.File, error) {
		if calls++; calls == 2 { // once for the check, once for its bytes
			if err := os.Truncate(filepath.Join(dir, "data", "w.bin"), 8); err != nil {
				t.Fatal(err)
			}
		}
		return onnx.FolderOpener(dir, nil)(location)
	}
	if m, err := onnx.Admit(path, onnx.AdmitOptions{Open: open}); err == nil || !strings.Contains(err.Error(), `bytes 4 to 12 exceed "data/w.bin" of 8 bytes`) {
		t.Errorf("%v, %v", m, err)
	}
}

// Files of a store may have several names; files in a folder may not, and in
// either only named files are opened.
func TestNamed(t *testing.T) {
	dir, _ := external(t)
	blob := filepath.Join(t.TempDir(), "blob")
	if err := os.Link(filepath.Join(dir, "data", "w.bin"), blob); err != nil {
		t.Skip("skipped: ", err)
	}
	stored := func(name string) (string, error) {
		if name == "enc/data/w.bin" {
			return blob, nil
		}
		return filepath.Join(dir, "m.onnx"), nil
	}
	lying := func(name string) (string, error) {
		return filepath.Join(dir, strings.TrimPrefix(name, "enc/")), nil
	}
	names := []string{"enc/m.onnx", "enc/data/w.bin"}
	for name, c := range map[string]struct {
		open     onnx.Opener
		location string
		want     error
	}{
		"of a store":          {onnx.NamedOpener(names, stored, true), "data/w.bin", nil},
		"linked":              {onnx.NamedOpener(names, stored, false), "data/w.bin", onnx.ErrLinked},
		"linked in a folder":  {onnx.NamedOpener(names, lying, false), "data/w.bin", onnx.ErrLinked},
		"not named":           {onnx.NamedOpener(names[:1], stored, true), "data/w.bin", fs.ErrNotExist},
		"not below the model": {onnx.NamedOpener(append(names, "w.bin"), stored, true), "w.bin", fs.ErrNotExist},
	} {
		size, err := c.open.Size(c.location)
		if !errors.Is(err, c.want) || c.want == nil && size != 12 {
			t.Errorf("%s: %d, %v", name, size, err)
		}
	}
	if _, err := onnx.NamedOpener(append(names, "w.bin"), stored, true).Size("../w.bin"); err == nil {
		t.Error("file above the model's folder opened")
	}
}

// The attacks also fail against a folder's opener.
func TestAttacks(t *testing.T) {
	for _, a := range onnxtest.Attacks() {
		path := a.Plant(t)
		declared := func(location string) bool {
			for _, d := range a.Declared {
				if d == location {
					return true
				}
			}
			return false
		}
		var refused *onnx.Refused
		if _, err := onnx.Admit(path, onnx.AdmitOptions{Open: onnx.FolderOpener(filepath.Dir(path), declared)}); !errors.As(err, &refused) || refused.Problems[0].Rule != a.Rule {
			t.Errorf("%s: got %v, want rule %s", a.Name, err, a.Rule)
		}
	}
}
