package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
)

const (
	goodEncoder = "name: enc\nversion: 1.0.0\ntype: encoder\nmodality: image\nabi: mm-abi-1.0\nlicense: MIT\n" +
		"inputs:\n  - {name: image, shape: [3, 8, 8], dtype: fp16}\noutputs:\n  - {name: patch, shape: [4, 16], dtype: fp16}\nexport: {onnx: enc.onnx}\n"
	bareGraph = "core:\n  llm: {ref: core-llm@^3}\n"
)

// Validate reads documents by their kind, joins graphs with the modules that
// would be chosen, reports every fault at its position, and stores nothing.
func TestValidate(t *testing.T) {
	w := newWorld(t)
	w.write("modules/enc/module.yaml", goodEncoder)
	w.write("modules/bad/module.yaml", strings.Replace(goodEncoder, "name: enc", "name: bad\ncolour: red", 1))
	w.write("a.graph.yaml", bareGraph)
	w.write("notes.yaml", "hello: world\n")
	w.write("mm.yaml", "modules: [modules]\n")
	w.write(".hidden/module.yaml", "nonsense\n")
	w.write("testdata/module.yaml", "nonsense\n")
	ws := w.open(workspace.Options{})
	codes := func(opt workspace.ValidateOptions, paths ...string) ([]string, int) {
		t.Helper()
		v, err := ws.Validate(context.Background(), paths, opt)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range v.Diagnostics {
			got = append(got, filepath.ToSlash(d.Pos.File)+" "+string(d.Code))
		}
		return got, v.Checked
	}
	for _, tc := range []struct {
		name    string
		files   bool
		paths   []string
		want    []string
		checked int
	}{
		{"a folder, what is ours in it", false, []string{"."}, []string{"a.graph.yaml " + string(diag.NotChecked), "modules/bad/module.yaml " + string(diag.UnknownKey)}, 4},
		{"a module alone", false, []string{"modules/enc"}, nil, 1},
		{"with its files", true, []string{"modules/enc"}, []string{"modules/enc/module.yaml " + string(diag.FileMissing)}, 1},
		{"one document named that is none of ours", false, []string{"notes.yaml"}, []string{"notes.yaml " + string(diag.NotMM)}, 1},
		{"nothing there", false, []string{"gone"}, []string{"gone " + string(diag.Unreadable)}, 0},
		{"the settings", false, []string{"mm.yaml"}, nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, checked := codes(workspace.ValidateOptions{Files: tc.files}, tc.paths...)
			if d := cmp.Diff(tc.want, got); d != "" || checked != tc.checked {
				t.Errorf("%d checked, want %d (-want +got):\n%s", checked, tc.checked, d)
			}
		})
	}
	// A module that mm lock does not find is warned of, unless a registry may have it.
	w.write("apart/module.yaml", strings.Replace(goodEncoder, "name: enc", "name: apart", 1))
	w.write("b.graph.yaml", "core:\n  llm: {ref: core-llm@^3}\nmodalities:\n  - enc: {ref: apart@^1}\n    proj: {ref: none@^1}\n")
	for settings, warns := range map[string]bool{"modules: [modules]\n": true, "modules: [modules, .]\n": false, "modules: [modules]\nregistries: [registry.example/team]\n": false} {
		w.write("mm.yaml", settings)
		got, _ := codes(workspace.ValidateOptions{}, ".")
		if slices.Contains(got, "b.graph.yaml "+string(diag.Unlisted)) != warns || slices.Contains(got, "a.graph.yaml "+string(diag.Unlisted)) {
			t.Errorf("%q: got %v, want %s %v", settings, got, diag.Unlisted, warns)
		}
	}
	if _, err := os.Stat(ws.StoreDir()); !os.IsNotExist(err) {
		t.Errorf("validating made a store: %v", err)
	}
}

// Served opens the home's store, or the named layout.
func TestServed(t *testing.T) {
	w := newWorld(t)
	ws := w.open(workspace.Options{})
	own, err := ws.Served(t.Context(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ws.Served(t.Context(), "layout", false)
	if err != nil {
		t.Fatal(err)
	}
	if own.Dir() != ws.StoreDir() || filepath.Base(other.Dir()) != "layout" {
		t.Errorf("%s, %s", own.Dir(), other.Dir())
	}
}
