package openvino

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/lower"
	"mm-abi.org/mm/onnx/ovir"
)

// model has a convolution of groups, a normalization and a linear layer that two
// nodes share.
func model() (*onnx.Model, map[string]engine.Tensor) {
	m := onnx.New("m", 17)
	g := &m.Graph
	g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 8, 8, 8)}
	g.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 8, 64, 64), onnx.TensorValue("s", onnx.FLOAT, 1, 8, 64, 64)}
	w := func(name string, dims ...int64) string {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i*7%13-6) / 16
		}
		return g.Constant(onnx.Floats(name, dims, x))
	}
	c := g.Add("Conv", []string{"x", w("c", 8, 4, 3, 3), w("b", 8)}, "c1", onnx.Int("group", 2), onnx.IntList("pads", 1, 1, 1, 1))
	r := g.Add("Reshape", []string{c, g.Constant(onnx.Ints("shape", []int64{4}, []int64{1, 8, 1, 64}))}, "r")
	e := g.Add("Expand", []string{r, g.Constant(onnx.Ints("wide", []int64{4}, []int64{1, 8, 64, 64}))}, "e")
	l := g.Add("LayerNormalization", []string{e, w("gain", 64), w("bias", 64)}, "l", onnx.Int("axis", -1))
	p := g.Add("MatMul", []string{l, w("p", 64, 64)}, "p1")
	g.Add("Relu", []string{g.Add("MatMul", []string{p, "p"}, "p2")}, "y")
	g.Add("Softmax", []string{p}, "s", onnx.Int("axis", -1))
	x := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, 8, 8, 8}}
	for i := range 512 {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(float32(i%17)/17))
	}
	return m, map[string]engine.Tensor{"x": x}
}

// files writes the model in a precision.
func files(t *testing.T, precision string) (text, weights []byte) {
	t.Helper()
	m, in := model()
	g, problems, err := lower.Lower(t.Context(), m, in)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	out, problems, err := Form{}.Files(g, "m", precision)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	var a, b bytes.Buffer
	if err := out[0].Write(&a); err != nil {
		t.Fatal(err)
	}
	if err := out[1].Write(&b); err != nil {
		t.Fatal(err)
	}
	if out[0].Path != "m.xml" || out[1].Path != "m.bin" {
		t.Errorf("got files %s and %s", out[0].Path, out[1].Path)
	}
	return a.Bytes(), b.Bytes()
}

// Every precision has the same bytes twice, passes the reader's checks, and stores
// shared weights and equal constants once.
func TestFiles(t *testing.T) {
	for precision, want := range map[string]map[string]int64{
		fp32: {"f32": 288 + 8 + 64 + 4096}, fp16: {"f16": 288 + 4096, "f32": 8 + 64},
		int8s: {"i8": 288 + 4096, "f32": 8 + 64 + 8 + 64}, int4s: {"i8": 288, "i4": 4096, "f32": 8 + 64 + 8 + 128},
	} {
		text, weights := files(t, precision)
		again, same := files(t, precision)
		if !bytes.Equal(text, again) || !bytes.Equal(weights, same) {
			t.Errorf("%s: the bytes differ", precision)
		}
		m, err := ovir.Read(bytes.NewReader(text), int64(len(weights)))
		if err != nil {
			t.Fatalf("%s: %v", precision, err)
		}
		for typ, n := range want {
			if m.Weights[typ] != n {
				t.Errorf("%s: got %d of %s, want %d", precision, m.Weights[typ], typ, n)
			}
		}
		if m.Operations["GroupConvolution"] != 1 || m.Operations["MVN"] != 1 || m.Operations["MatMul"] != 2 || len(m.Outputs) != 2 || m.Outputs[0].Name != "y" {
			t.Errorf("%s: got %v, outputs %v", precision, m.Operations, m.Outputs)
		}
		if strings.Contains(string(text), "NaN") {
			t.Errorf("%s: a number is NaN", precision)
		}
	}
}

// All nodes that cannot be written are reported.
func TestProblems(t *testing.T) {
	x := &lower.Value{Name: "x", Shape: []int{1, 1, 2, 2}}
	y, z := &lower.Value{Name: "y", Shape: []int{1, 1, 4, 4}}, &lower.Value{Name: "z", Shape: []int{1, 1, 4, 4}}
	g := &lower.Graph{Inputs: []*lower.Value{x}, Outputs: []*lower.Value{z}, Nodes: []*lower.Node{
		{Op: lower.Resize, Name: "up", In: []*lower.Value{x}, Out: y, Mode: "cubic", Corner: "half_pixel"},
		{Op: "Other", Name: "last", In: []*lower.Value{y}, Out: z},
	}}
	_, problems, err := Form{}.Files(g, "m", fp32)
	if err != nil || len(problems) != 2 || problems[0].Node != "up" || problems[1].Node != "last" {
		t.Errorf("got %v, %v", problems, err)
	}
}

// Small constants are shared up to the limit; larger ones are written as often as
// they are used.
func TestShared(t *testing.T) {
	for size, want := range map[int]int{maxShared: 1, maxShared + 4: 2} {
		w := newWriter(fp32)
		for range 2 {
			w.raw(f32, []int{size / 4}, make([]byte, size))
		}
		if len(w.layers) != want {
			t.Errorf("%d bytes: got %d constants, want %d", size, len(w.layers), want)
		}
	}
}

// A node that the format does not have and a precision that loses too much are
// diagnostics.
func TestRefused(t *testing.T) {
	x := export.Lowered{Form: Form{}}
	m, in := model()
	m.Graph.Outputs = append(m.Graph.Outputs, onnx.TensorValue("z", onnx.FLOAT, 1, 8, 8, 8))
	m.Graph.Add("Mish", []string{"x"}, "z")
	_, _, err := x.Write(t.Context(), m, "m", fp32, in)
	if list, ok := diag.From(err); !ok || len(list) != 1 || list[0].Code != diag.NotLowered {
		t.Errorf("got %v, want %s", err, diag.NotLowered)
	}
	m = onnx.New("m", 17) // one weight, whose input is 0, dominates each group of four bits
	w, input := make([]float32, 64*64), engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, 64}}
	for k := range w {
		if w[k] = float32(k%7-3) / 100; k/64%32 == 0 {
			w[k] = 1
		}
	}
	for k := range 64 {
		input.Data = binary.LittleEndian.AppendUint32(input.Data, math.Float32bits(float32(k%32)))
	}
	m.Graph.Inputs, m.Graph.Outputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 64)}, []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 64)}
	m.Graph.Add("MatMul", []string{"x", m.Graph.Constant(onnx.Floats("w", []int64{64, 64}, w))}, "y")
	in = map[string]engine.Tensor{"x": input}
	_, cosine, err := x.Write(t.Context(), m, "m", int4s, in)
	if list, ok := diag.From(err); !ok || len(list) != 1 || list[0].Code != diag.ExportDrift {
		t.Errorf("got cosine %v, %v, want %s", cosine, err, diag.ExportDrift)
	}
}
