package loose_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/onnxtest"
	"mm-abi.org/mm/workspace/loose"
)

// dense is y = relu(x·w + b).
func dense() *onnx.Model {
	m := onnx.New("dense", 17)
	g := &m.Graph
	g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", 2)}
	z := g.Add("MatMul", []string{"x", g.Constant(onnx.Floats("w", []int64{2, 3}, []float32{1, 2, 3, 4, 5, -6}))}, "z")
	s := g.Add("Add", []string{z, g.Constant(onnx.Floats("b", []int64{3}, []float32{1, 2, 3}))}, "s")
	g.Add("Relu", []string{s}, "y")
	g.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, "N", 3)}
	return m
}

// changed alters the dense model.
func changed(f func(m *onnx.Model, g *onnx.Graph)) []byte {
	m := dense()
	f(m, &m.Graph)
	var b bytes.Buffer
	if _, err := onnx.Write(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// place writes a file into a new folder.
func place(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// deep nests graphs in attributes.
func deep(g *onnx.Graph, n int) {
	for range n {
		inner := *g
		*g = onnx.Graph{Name: "g", Nodes: []onnx.Node{{Op: "If", Attributes: []onnx.Attribute{{Name: "then_branch", Type: onnx.AttrGraph, Graph: &inner}}}}}
	}
}

// outside moves the weights out of the file.
func outside(g *onnx.Graph, entries ...string) {
	e := &onnx.External{}
	for i := 0; i+1 < len(entries); i += 2 {
		e.Entries = append(e.Entries, onnx.Entry{Key: entries[i], Value: entries[i+1]})
	}
	g.Initializers[0] = onnx.Tensor{Name: "w", DType: onnx.FLOAT, Dims: []int64{2, 3}, External: e}
}

// Each rule of ONNX files has a bad file, built here, and a separate code.
func TestCodes(t *testing.T) {
	cut := changed(func(*onnx.Model, *onnx.Graph) {})
	for _, c := range []struct {
		name string
		file []byte
		opt  loose.Options
		code diag.Code
		warn bool
	}{
		{"cut off", cut[:len(cut)-9], loose.Options{}, "MM1001", false},
		{"bytes behind it", append(slices.Clone(cut), 0xff), loose.Options{}, "MM1001", false},
		{"text", []byte(`{"no": "model"}`), loose.Options{}, "MM1001", false},
		{"pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), loose.Options{}, "MM1002", false},
		{"depth", changed(func(_ *onnx.Model, g *onnx.Graph) { deep(g, 40) }), loose.Options{}, "MM1003", false},
		{"name of 70,000 bytes", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Name = strings.Repeat("n", 70000) }), loose.Options{}, "MM1003", false},
		{"IR version", changed(func(m *onnx.Model, _ *onnx.Graph) { m.IRVersion = 99 }), loose.Options{}, "MM1004", false},
		{"field behind it", append(slices.Clone(cut), 0x90, 0x03, 0x01), loose.Options{}, "MM1005", false},
		{"opset", changed(func(m *onnx.Model, _ *onnx.Graph) { m.Opsets[0].Version = 99 }), loose.Options{}, "MM1011", false},
		{"no opset", changed(func(m *onnx.Model, _ *onnx.Graph) { m.Opsets = nil }), loose.Options{}, "MM1011", false},
		{"opset of ai.onnx.ml", changed(func(m *onnx.Model, _ *onnx.Graph) {
			m.Opsets = append(m.Opsets, onnx.Opset{Domain: "ai.onnx.ml", Version: 9})
		}), loose.Options{}, "MM1011", false},
		{"custom operator", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Domain = "evil.corp" }), loose.Options{}, "MM1012", false},
		{"preview operator", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Domain = "ai.onnx.preview.training" }), loose.Options{}, "MM1012", false},
		{"node", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Op = "" }), loose.Options{}, "MM1013", false},
		{"device code", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Domain, g.Nodes[2].Op = "com.microsoft", "EPContext" }), loose.Options{}, "MM1014", false},
		{"session options", changed(func(m *onnx.Model, _ *onnx.Graph) {
			m.Metadata = []onnx.Entry{{Key: "session.use_env_allocators", Value: "1"}}
		}), loose.Options{}, "MM1014", false},
		{"key", changed(func(_ *onnx.Model, g *onnx.Graph) { outside(g, "location", "w.bin", "__init__", "x") }), loose.Options{}, "MM1021", false},
		{"path", changed(func(_ *onnx.Model, g *onnx.Graph) { outside(g, "location", "../w.bin") }), loose.Options{}, "MM1022", false},
		{"file", changed(func(_ *onnx.Model, g *onnx.Graph) { outside(g, "location", "w.bin") }), loose.Options{}, "MM1024", false},
		{"range", changed(func(_ *onnx.Model, g *onnx.Graph) { outside(g, "location", "w.bin", "length", "5") }), loose.Options{}, "MM1025", false},
		{"type", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Initializers[0].DType = 99 }), loose.Options{}, "MM1031", false},
		{"dimensions", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Initializers[0].Dims = []int64{1 << 62, 8} }), loose.Options{}, "MM1032", false},
		{"raw_data", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Initializers[0].Raw = g.Initializers[0].Raw[:23] }), loose.Options{}, "MM1033", false},
		{"size", cut, loose.Options{MaxBytes: 100}, "MM1042", false},
		{"name twice", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Outputs[0] = "z" }), loose.Options{}, "MM1051", false},
		{"circle", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[0].Inputs[0] = "s" }), loose.Options{}, "MM1052", false},
		{"dangling", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[0].Inputs[0] = "ghost" }), loose.Options{}, "MM1053", false},
		{"output", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Outputs[0].Name = "ghost" }), loose.Options{}, "MM1054", false},
		{"unused", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Constant(onnx.Ints("spare", []int64{1}, []int64{1})) }), loose.Options{}, "MM1055", true},
		{"recursion", changed(func(m *onnx.Model, _ *onnx.Graph) {
			m.Functions = []onnx.Function{{Name: "F", Domain: "mine", Inputs: []string{"a"}, Outputs: []string{"b"}, Opsets: m.Opsets,
				Nodes: []onnx.Node{{Op: "F", Domain: "mine", Inputs: []string{"a"}, Outputs: []string{"b"}}}}}
		}), loose.Options{}, "MM1056", false},
		{"random", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Op = "RandomNormalLike" }), loose.Options{}, "MM1057", true},
		{"branch", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Op = "If" }), loose.Options{NPU: true}, "MM1058", false},
		{"training", changed(func(m *onnx.Model, _ *onnx.Graph) { m.Training = []onnx.Graph{{Name: "t"}} }), loose.Options{}, "MM1061", true},
		{"not claimed", changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Op = "Frobnicate" }), loose.Options{Core: true}, "MM1071", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := place(t, c.file)
			list, err := loose.Check(t.Context(), path, c.opt)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(list, func(d diag.Diagnostic) bool { return d.Code == c.code })
			if i < 0 {
				t.Fatalf("%v, nothing of %s", list, c.code)
			}
			d := list[i]
			if d.Hint == "" || d.Detail == "" || d.Pos.File != path || (d.Severity == diag.Warning) != c.warn {
				t.Errorf("%+v", d)
			}
			if list.Failed() == c.warn {
				t.Errorf("failed: %v", list)
			}
		})
	}
	for opt, name := range map[*loose.Options]string{{}: "sound", {Core: true}: "sound for our engine", {NPU: true, MaxBytes: 1 << 20}: "sound for others"} {
		if list, err := loose.Check(t.Context(), place(t, cut), *opt); err != nil || len(list) > 0 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

// All faults of a file are reported together.
func TestAllAtOnce(t *testing.T) {
	file := changed(func(m *onnx.Model, g *onnx.Graph) {
		m.IRVersion = 99
		m.Opsets[0].Version = 1
		outside(g, "location", "/etc/passwd")
		g.Nodes[2].Inputs[0] = "ghost"
		g.Initializers[1].DType = 77
	})
	list, err := loose.Check(t.Context(), place(t, file), loose.Options{})
	var codes []string
	for _, d := range list {
		codes = append(codes, string(d.Code))
	}
	if want := "[MM1004 MM1011 MM1022 MM1031 MM1053]"; fmt.Sprint(codes) != want || err != nil {
		t.Errorf("%v, %v, not %s", codes, err, want)
	}
}

// Links and overlaps, which need files on disk.
func TestAttacks(t *testing.T) {
	codes := map[onnx.Rule]diag.Code{onnx.RuleLocation: "MM1022", onnx.RuleLink: "MM1023", onnx.RuleKey: "MM1021", onnx.RuleFile: "MM1024", onnx.RuleRange: "MM1025", onnx.RuleOverlap: "MM1026"}
	for _, a := range onnxtest.Attacks() {
		if a.Name == "not declared" { // a file on its own declares nothing
			continue
		}
		list, err := loose.Check(t.Context(), a.Plant(t), loose.Options{})
		if err != nil || !slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Code == codes[a.Rule] && d.Severity == diag.Error }) {
			t.Errorf("%s: %v, %v, nothing of %s", a.Name, list, err, codes[a.Rule])
		}
		if m, err := loose.Open(a.Plant(t), loose.Options{}); err == nil {
			t.Errorf("%s: it was opened", a.Name)
			m.Close()
		}
	}
}

// Writing is atomic; an existing file stays unless it
// is forced.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "m.onnx")
	n, err := loose.Write(path, dense(), false)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := loose.Write(path, dense(), false); err == nil {
		t.Errorf("written over: %d", again)
	}
	if again, err := loose.Write(path, dense(), true); err != nil || again != n {
		t.Errorf("%d bytes, then %d, %v", n, again, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Without a choice of engine, an operator that mm's own engine does not run is a
// warning that names it.
func TestCheckWarnsOfOwnEngine(t *testing.T) {
	path := place(t, changed(func(_ *onnx.Model, g *onnx.Graph) { g.Nodes[2].Op = "Det" }))
	list, err := loose.Check(t.Context(), path, loose.Options{})
	if err != nil || len(list) != 1 || list[0].Severity != diag.Warning || list[0].Code != diag.NotClaimed || !strings.Contains(list[0].Detail, "Det") {
		t.Errorf("got %v, %v", list, err)
	}
}
