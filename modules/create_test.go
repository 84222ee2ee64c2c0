package modules_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
)

// fill writes a module.yaml and the listed files.
func fill(manifest string, files ...string) func(*fsx.Dir) error {
	return func(d *fsx.Dir) error {
		for _, name := range files {
			if err := d.WriteFile(name, []byte(name), 0o644); err != nil {
				return err
			}
		}
		return d.WriteFile(modules.FileName, []byte(manifest), 0o644)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A module appears complete, in a new folder or among other files.
func TestCreate(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a", "m")
	m, list, err := modules.Create(dir, fill(encoder, "w.onnx"))
	if err != nil || len(list) != 0 || m.Dir() != dir {
		t.Fatal(m, list, err)
	}
	if d := cmp.Diff([]string{".gitattributes", "module.yaml", "w.onnx"}, names(t, dir)); d != "" {
		t.Error(d)
	}
	if _, _, err := modules.Create(dir, fill(encoder)); err == nil || !strings.Contains(err.Error(), "already contains a module") {
		t.Errorf("%v", err)
	}
	other := filepath.Join(parent, "b")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"train.yaml", ".gitattributes"} { // the user's are kept
		if err := os.WriteFile(filepath.Join(other, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := modules.Create(other, fill(encoder, "w.onnx", "train.yaml")); err == nil || !strings.Contains(err.Error(), " exists") {
		t.Errorf("%v", err)
	}
	if d := cmp.Diff([]string{".gitattributes", "train.yaml"}, names(t, other)); d != "" {
		t.Errorf("half a module: %s", d)
	}
	if _, _, err := modules.Create(other, fill(encoder, "w.onnx")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".gitattributes", "module.yaml", "train.yaml", "w.onnx"}, names(t, other)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a", "b"}, names(t, parent)); d != "" {
		t.Errorf("left over: %s", d)
	}
}

// Whatever fails, nothing is left, and a fault has no position in a file that does not
// exist.
func TestCreateLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "m")
	stop := errors.New("stop")
	if _, _, err := modules.Create(dir, func(d *fsx.Dir) error { return errors.Join(fill(encoder)(d), stop) }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	_, _, err := modules.Create(dir, fill(strings.Replace(encoder, "MIT", "Foo", 1)))
	list, ok := diag.From(err)
	if !ok || len(list) != 1 || list[0].Code != diag.BadLicense || list[0].Pos != (diag.Pos{}) || !strings.Contains(list[0].Detail, dir+" was not created") {
		t.Errorf("%v", err)
	}
	if _, _, err := modules.Create(dir, func(*fsx.Dir) error { return nil }); err == nil {
		t.Error("a module without a manifest")
	}
	if left := names(t, parent); left != nil {
		t.Errorf("left %v", left)
	}
}
