package qdq_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/qdq"
)

// conv returns y = relu(conv(x)+b) of an opset, after a Pad whose widths are an
// attribute in older opsets.
func conv(opset int64) (*onnx.Model, map[string]qdq.Range) {
	m := onnx.New("conv", opset)
	g := &m.Graph
	g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 1, 4, 4)}
	g.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 2, 4, 4)}
	if opset < 11 {
		g.Add("Pad", []string{"x"}, "p", onnx.IntList("pads", 0, 0, 0, 0, 0, 0, 1, 1))
	} else {
		g.Add("Pad", []string{"x", g.Constant(onnx.Ints("pads", []int64{8}, []int64{0, 0, 0, 0, 0, 0, 1, 1}))}, "p")
	}
	w := g.Constant(onnx.Floats("w", []int64{2, 1, 2, 2}, []float32{1, -2, 0.5, 0, 100, 50, 0, -127}))
	b := g.Constant(onnx.Floats("b", []int64{2}, []float32{3, -4}))
	g.Add("Conv", []string{"p", w, b}, "c")
	g.Add("Relu", []string{"c"}, "y")
	return m, map[string]qdq.Range{"x": {Low: -1, High: 3}, "p": {Low: -1, High: 3}, "c": {Low: -10, High: 10}, "y": {Low: 0, High: 10}}
}

func constant(t *testing.T, m *onnx.Model, name string) []byte {
	t.Helper()
	i := slices.IndexFunc(m.Graph.Initializers, func(x onnx.Tensor) bool { return x.Name == name })
	if i < 0 {
		t.Fatalf("no constant %q", name)
	}
	raw, err := m.Graph.Initializers[i].Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func f32(raw []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
}

// Each channel has its scale, the bias that of the sums, and 0 is exactly
// representable.
func TestScales(t *testing.T) {
	m, ranges := conv(17)
	q, err := qdq.Insert(m, ranges, qdq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := constant(t, q.Model, "w_int8"); !slices.Equal(got, []byte{64, 129, 32, 0, 100, 50, 0, 129}) { // 129: −127
		t.Errorf("weights %v", got)
	}
	scales := constant(t, q.Model, "w_scale")
	if f32(scales, 0) != float32(2)/127 || f32(scales, 1) != 1 {
		t.Errorf("scales %v, %v", f32(scales, 0), f32(scales, 1))
	}
	if got := constant(t, q.Model, "x_zero"); got[0] != 64 { // 1 of 4 parts of 255
		t.Errorf("zero point of [-1, 3]: got %v", got)
	}
	bias := constant(t, q.Model, "b_int32")
	step := float64(f32(constant(t, q.Model, "x_scale"), 0)) * float64(f32(scales, 0))
	if got := int32(binary.LittleEndian.Uint32(bias)); math.Abs(float64(got)*step-3) > step {
		t.Errorf("bias 3: got %d steps of %v", got, step)
	}
	names := make(map[string]bool)
	for _, n := range q.Model.Graph.Nodes { // ONNX Runtime refuses duplicate names
		if names[n.Name] {
			t.Errorf("duplicate node name %q", n.Name)
		}
		names[n.Name] = true
	}
	if ranges["x"] != (qdq.Range{Low: -1, High: 3}) {
		t.Error("the caller's ranges changed")
	}
	for _, p := range q.Model.Check(onnx.CheckOptions{MinOpset: 13, MaxOpset: 21}) {
		t.Errorf("quantized model: %v", p)
	}
}

// An older model is raised to the opset of the pairs; 16-bit pairs use the
// domain that has them.
func TestOpsets(t *testing.T) {
	for opset, want := range map[int64]int64{7: 13, 10: 13, 13: 13, 17: 17} {
		m, ranges := conv(opset)
		q, err := qdq.Insert(m, ranges, qdq.Options{Values: 16})
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Model.Opsets[0].Version; got != want || len(q.Model.Opsets) != 2 || q.Model.Opsets[1].Domain != "com.microsoft" {
			t.Errorf("opset %d: got %+v", opset, q.Model.Opsets)
		}
		if m.Opsets[0].Version != opset {
			t.Error("original model changed")
		}
		for _, p := range q.Model.Check(onnx.CheckOptions{MinOpset: 13, MaxOpset: 21}) {
			t.Errorf("of opset %d: %v", opset, p)
		}
	}
	m, ranges := conv(9)
	m.Graph.Nodes[2].Op = "Clip"
	if _, err := qdq.Insert(m, ranges, qdq.Options{}); err == nil || !strings.Contains(err.Error(), "Clip") {
		t.Errorf("operator with a changed meaning: %v", err)
	}
}

func TestRefused(t *testing.T) {
	m, ranges := conv(17)
	for want, opt := range map[string]qdq.Options{"12 bits": {Values: 12}, `"missing"`: {Keep: []string{"missing"}}, "no operator": {Keep: []string{"p", "c", "y"}}} {
		if _, err := qdq.Insert(m, ranges, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	q, err := qdq.Insert(m, ranges, qdq.Options{Keep: []string{"y"}})
	if err != nil || len(q.Kept) != 1 || !slices.ContainsFunc(q.Kept, func(k qdq.Kept) bool { return k.Op == "Relu" && slices.Equal(k.Nodes, []string{"y"}) }) {
		t.Errorf("%+v, %v", q, err)
	}
	bad, ranges := conv(17)
	binary.LittleEndian.PutUint32(bad.Graph.Initializers[1].Raw, math.Float32bits(float32(math.NaN())))
	if _, err := qdq.Insert(bad, ranges, qdq.Options{}); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("NaN weights: %v", err)
	}
	unseen, ranges := conv(17)
	ranges["c"] = qdq.Range{Low: math.Inf(1), High: math.Inf(-1)}
	q, err = qdq.Insert(unseen, ranges, qdq.Options{})
	if err == nil {
		t.Errorf("value without observations quantized: %+v", q.Kept)
	}
}
