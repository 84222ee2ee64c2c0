package engine_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// Claims lists every unsupported operator once, without reading weights, also
// in subgraphs; nodes that no result needs are ignored.
func TestClaims(t *testing.T) {
	m := onnx.New("g", 17)
	g := &m.Graph
	g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1), onnx.TensorValue("c", onnx.BOOL)}
	branch := &onnx.Graph{Name: "b"}
	branch.Add("Inner", []string{"x"}, "i")
	branch.Outputs = []onnx.Value{{Name: "i"}}
	g.Nodes = append(g.Nodes, onnx.Node{Op: "If", Inputs: []string{"c"}, Outputs: []string{"a"}, Attributes: []onnx.Attribute{
		{Name: "then_branch", Type: onnx.AttrGraph, Graph: branch}, {Name: "else_branch", Type: onnx.AttrGraph, Graph: branch}}})
	g.Add("Outer", []string{"a"}, "y")
	g.Add("Outer", []string{"y"}, "z")
	g.Add("Nobody", []string{"y"}, "n")
	g.Outputs = []onnx.Value{onnx.TensorValue("z", onnx.FLOAT, 1)}
	err := engine.Claims(m)
	if err == nil || err.Error() != "operator Inner is not supported\noperator Outer is not supported" {
		t.Errorf("%v", err)
	}
	if _, compiled := engine.Compile(t.Context(), m, engine.Options{Threads: 1}); compiled == nil || !strings.HasSuffix(compiled.Error(), err.Error()) {
		t.Errorf("Compile: %v", compiled)
	}
	far := onnx.New("g", 17)
	far.Graph.Constant(onnx.Tensor{Name: "w", DType: onnx.FLOAT, Dims: []int64{1 << 40}, External: &onnx.External{}})
	if err := engine.Claims(far); err != nil {
		t.Errorf("weights were read: %v", err)
	}
}
