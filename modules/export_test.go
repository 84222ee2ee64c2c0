package modules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

// An export is a path, or a path with the files next to it; one with nothing more
// than a path is written as one.
func TestExportForms(t *testing.T) {
	const with = "export:\n  onnx: {path: a.onnx, with: [a.data, b.data]}\n  xyz: one/model.xyz\n"
	m, list := modules.Parse("module.yaml", []byte(encoder+with))
	if len(list) > 0 {
		t.Fatal(list)
	}
	want := map[abi.Format]modules.Export{"onnx": {Path: "a.onnx", With: []string{"a.data", "b.data"}}, "xyz": {Path: "one/model.xyz"}}
	if d := cmp.Diff(want, m.Export); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"module.yaml", "a.data", "a.onnx", "b.data", "one/model.xyz"}, m.Paths()); d != "" {
		t.Errorf("paths (-want +got):\n%s", d)
	}
	text, err := json.Marshal(m.Export)
	if err != nil || string(text) != `{"onnx":{"path":"a.onnx","with":["a.data","b.data"]},"xyz":"one/model.xyz"}` {
		t.Errorf("written as %s, %v", text, err)
	}
}

func TestExportFaults(t *testing.T) {
	for in, want := range map[string]diag.Code{
		"{onnx: ../a.onnx}":                       diag.BadPath,
		"{onnx: {path: /a.onnx}}":                 diag.BadPath,
		"{onnx: {path: a.onnx, with: [../b]}}":    diag.BadPath,
		"{onnx: {path: a.onnx, with: [b, b]}}":    diag.RepeatedItem,
		"{onnx: {with: [b]}}":                     diag.MissingKey,
		"{onnx: {path: a, beside: [b]}}":          diag.UnknownKey,
		"{onnx: [a]}":                             diag.WrongType,
		"{On nx: a}":                              diag.WrongForm,
		"{onnx: {path: a, with: [b]}}\nfiles: []": diag.FileMissing,
	} {
		_, list := modules.Parse("module.yaml", []byte(encoder+"export: "+in+"\n"))
		if len(list) == 0 || list[0].Code != want {
			t.Errorf("%s: %v, want %s", in, list, want)
		}
	}
}

// A missing file is reported where the manifest names it, each at its
// own place.
func TestMissingFilesHavePlaces(t *testing.T) {
	dir := t.TempDir()
	text := encoder + "export:\n  onnx: {path: a.onnx, with: [b.data]}\n  gguf: c.gguf\ncard: README.md\n"
	if err := os.WriteFile(filepath.Join(dir, "module.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, list := modules.Load(dir)
	if m == nil {
		t.Fatal(list)
	}
	var got []string
	for _, d := range m.CheckFiles(context.Background()) {
		got = append(got, fmt.Sprintf("%s %d:%d", d.Code, d.Pos.Line, d.Pos.Col))
	}
	want := []string{"MM0205 12:7", "MM0205 10:16", "MM0205 10:31", "MM0205 11:9"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
