package coreml

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// counter returns a graph that adds n rows to a cache.
func counter(name string, n int) export.Named {
	weights := &lower.Value{Name: "w", Shape: []int{8, 8}, Const: &lower.Const{Floats: make([]float32, 64)}}
	x, past := &lower.Value{Name: "x", Shape: []int{n, 8}}, &lower.Value{Name: "past", Shape: []int{1, 8}}
	y, sum, next := &lower.Value{Name: "y", Shape: []int{n, 8}}, &lower.Value{Name: "sum", Shape: []int{1, 8}}, &lower.Value{Name: "next", Shape: []int{1, 8}}
	return export.Named{Name: name, Graph: &lower.Graph{Inputs: []*lower.Value{x, past}, Outputs: []*lower.Value{y, next}, Nodes: []*lower.Node{
		{Op: lower.MatMul, Name: "product", In: []*lower.Value{x, weights}, Out: y},
		{Op: lower.ReduceSum, Name: "sum", In: []*lower.Value{y}, Out: sum, Axes: []int{0}, Keep: true},
		{Op: lower.Add, Name: "add", In: []*lower.Value{past, sum}, Out: next},
	}}}
}

// Keep writes functions over the same weights, whose cache is a state of 16-bit floats
// that each reads first and writes last.
func TestStates(t *testing.T) {
	for precision, casts := range map[string]int{fp32: 4, fp16: 4} {
		files, problems, err := Exporter{}.Keep([]export.Named{counter("decode", 1), counter("prefill", 4)}, map[string]string{"past": "next"}, "m", precision)
		if err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		dir := t.TempDir()
		for _, f := range files {
			var b bytes.Buffer
			path := filepath.Join(dir, filepath.FromSlash(f.Path))
			if err := errors.Join(f.Write(&b), os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		p, err := Open(filepath.Join(dir, "m"+Extension))
		if err != nil {
			t.Fatal(err)
		}
		if p.Specification != 9 || p.Opset != "CoreML8" || !slices.Equal(p.Functions, []string{"decode", "prefill"}) {
			t.Errorf("%s: got specification %d, opset %s, functions %v", precision, p.Specification, p.Opset, p.Functions)
		}
		if len(p.Inputs) != 1 || len(p.Outputs) != 1 || p.Outputs[0].Name != "y" || len(p.States) != 1 || p.States[0].Name != "past" ||
			p.States[0].Type.DType != Float16 || !slices.Equal(p.States[0].Type.Shape, []int{1, 8}) {
			t.Errorf("%s: got inputs %v, states %v, outputs %v", precision, p.Inputs, p.States, p.Outputs)
		}
		if p.Operations["read_state"] != 2 || p.Operations["write_state"] != 2 || p.Operations["cast"] != casts || p.Count != 64 {
			t.Errorf("%s: got operations %v, %d parameters", precision, p.Operations, p.Count)
		}
	}
}

// A state that is not of 16-bit floats or has an open dimension is refused, and a
// function without states stays readable by older systems.
func TestBadStates(t *testing.T) {
	for want, state := range map[string]Value{
		`state "s": float32 is not a type of states`: {"s", Type{Float32, []int{1}}},
		`"s": bad dimension in the shape [0]`:        {"s", Type{Float16, []int{0}}},
		`the name "x" occurs twice`:                  {"x", Type{Float16, []int{1}}},
	} {
		p := little()
		p.More = []*Function{{Name: "other", Inputs: []Value{{"x", Type{Float32, []int{1}}}}, States: []Value{state}}}
		if _, err := p.Files(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	p, err := Open(write(t, little()))
	if err != nil || p.Specification != 7 || len(p.States) != 0 {
		t.Errorf("got specification %d, states %v, %v", p.Specification, p.States, err)
	}
}
