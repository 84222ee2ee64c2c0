package builds_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

var update = flag.Bool("update", false, "rewrite the want section of the archives")

// Each archive of testdata/check holds module manifests, a graph and, under
// "want", the expected diagnostics.
func TestCheck(t *testing.T) {
	paths, _ := filepath.Glob("testdata/check/*.txtar")
	if len(paths) < 6 {
		t.Fatalf("found %d archives", len(paths))
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			list := checkArchive(ar)
			var got bytes.Buffer
			if err := list.Text(&got); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				if i < 0 {
					ar.Files = append(ar.Files, txtar.File{Name: "want"})
					i = len(ar.Files) - 1
				}
				ar.Files[i].Data = got.Bytes()
				if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if i < 0 {
				t.Fatal("no want section")
			}
			if d := cmp.Diff(string(ar.Files[i].Data), got.String()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func checkArchive(ar *txtar.Archive) diag.List {
	var list diag.List
	resolved := builds.Resolved{}
	var graph *builds.Graph
	for _, f := range ar.Files {
		switch {
		case strings.HasSuffix(f.Name, "module.yaml"):
			m, faults := modules.Parse(f.Name, f.Data)
			list = append(list, faults...)
			if m != nil {
				resolved[m.Name] = m
			}
		case strings.HasSuffix(f.Name, ".graph.yaml"):
			g, faults := builds.Parse(f.Name, f.Data)
			list = append(list, faults...)
			graph = g
		}
	}
	if graph != nil {
		list = append(list, graph.Check(resolved)...)
	}
	list.Sort()
	return list
}

// A module of another major version of the ABI belongs in no build of this one.
func TestOtherABI(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/check/abi11.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[abi.Version]bool{abi.V1_0: false, abi.V1_1: false, "mm-abi-2.0": true, "mm-abi-10.1": true} {
		resolved := builds.Resolved{}
		var graph *builds.Graph
		for _, f := range ar.Files {
			if strings.HasSuffix(f.Name, "module.yaml") {
				m, _ := modules.Parse(f.Name, f.Data)
				resolved[m.Name] = m
			} else if strings.HasSuffix(f.Name, ".graph.yaml") {
				graph, _ = builds.Parse(f.Name, f.Data)
			}
		}
		resolved["audio-enc"].ABI = version
		list := graph.Check(resolved)
		i := slices.IndexFunc(list, func(d diag.Diagnostic) bool { return d.Code == diag.ABIDiffers })
		if (i >= 0) != want {
			t.Errorf("%s: %v", version, list)
		}
		if i >= 0 && (list[i].Pos.Line != 5 || !strings.Contains(list[i].Detail, string(version))) {
			t.Errorf("%s: %v", version, list[i])
		}
	}
}

// The broken build has at least twelve different faults, and one run reports
// them all.
func TestAllFaultsAtOnce(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/check/broken.txtar")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[diag.Code]bool{}
	for _, d := range checkArchive(ar) {
		if d.Severity == diag.Error {
			codes[d.Code] = true
		}
	}
	if len(codes) < 12 {
		t.Errorf("%d different faults, want at least 12: %v", len(codes), codes)
	}
}

// Every invalid reference is reported at its own position.
func TestBadRefsAreToldAtOnce(t *testing.T) {
	_, list := builds.Parse("x.graph.yaml", []byte(`core:
  llm: {ref: "core-llm@"}
  draft: {ref: Draft}
decoders:
  - {ref: "img-dec:latest", T_img: 4}
skills:
  - {ref: "chartqa@0.6.2"}
runtime:
  sandbox: {ref: "sha256:00"}
`))
	var got []string
	for _, d := range list {
		if d.Code == diag.BadRef {
			got = append(got, d.Pos.String())
		}
	}
	want := []string{"x.graph.yaml:2:14", "x.graph.yaml:3:16", "x.graph.yaml:5:11", "x.graph.yaml:9:18"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%v", d, list)
	}
}
