package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/op"
)

// example is a model of one operator with the results of ONNX's reference
// evaluator, written by testdata/cases.py.
type example struct {
	Name  string            `json:"name"`
	Model []byte            `json:"model"`
	In    map[string][]byte `json:"in"`
	Out   [][]byte          `json:"out"`
}

func examples(t *testing.T) []example {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The results of every operator equal the reference, for any number of threads.
func TestOperators(t *testing.T) {
	seen := make(map[string]bool)
	for _, e := range examples(t) {
		name, _, _ := strings.Cut(e.Name, "/")
		t.Run(e.Name, func(t *testing.T) {
			m, err := onnx.Parse(e.Model)
			if err != nil {
				t.Fatal(err)
			}
			seen[m.Graph.Nodes[0].Op] = true
			p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1 + len(name)%3})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			in := make(map[string]engine.Tensor)
			for k, b := range e.In {
				in[k] = tensorOf(t, b)
			}
			for range 2 { // again, on used memory
				out, err := p.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				for i, b := range e.Out {
					if err := same(out[p.Outputs()[i]], tensorOf(t, b)); err != nil {
						t.Errorf("output %d: %v", i, err)
					}
				}
			}
		})
	}
	for _, e := range microsoft(t) {
		if m, err := onnx.Parse(e.Model); err == nil && m.Graph.Nodes[0].Domain == "" {
			seen[m.Graph.Nodes[0].Op] = true
		}
	}
	for _, name := range op.Names() {
		switch name { // not testable with one node, or missing in the reference
		case "ImageScaler", "Constant", "If", "Loop", "Upsample", "Scatter", "GlobalLpPool", "CumProd":
		default:
			if !seen[name] {
				t.Errorf("missing case of %s", name)
			}
		}
	}
}

func tensorOf(t *testing.T, b []byte) engine.Tensor {
	t.Helper()
	a, err := parseTensor(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
