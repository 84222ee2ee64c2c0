package onnx_test

import (
	"fmt"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
)

// build returns a model with the given nodes and constants.
func build(opset int64, tensors []onnx.Tensor, nodes ...onnx.Node) *onnx.Model {
	m := onnx.New("m", opset)
	m.Graph.Initializers, m.Graph.Nodes = tensors, nodes
	return m
}

func node(op string, inputs ...string) onnx.Node {
	return onnx.Node{Op: op, Inputs: inputs, Outputs: []string{op + "_out"}}
}

// raw returns a tensor of zeros.
func raw(name string, d onnx.DType, bytes int, dims ...int64) onnx.Tensor {
	return onnx.Tensor{Name: name, DType: d, Dims: dims, Raw: make([]byte, bytes)}
}

func TestQuantization(t *testing.T) {
	w8, scale, scales := raw("w", onnx.INT8, 6, 2, 3), raw("s", onnx.FLOAT, 4), raw("s", onnx.FLOAT, 12, 3)
	zero := raw("z", onnx.INT8, 1)
	bits := node("MatMulNBits", "x", "w", "s")
	bits.Attributes = []onnx.Attribute{onnx.Int("bits", 4)}
	for name, c := range map[string]struct {
		m    *onnx.Model
		want string
	}{
		"floats":          {build(17, []onnx.Tensor{scales}, node("Mul", "x", "s")), "{[] [] [] false}"},
		"weights":         {build(17, []onnx.Tensor{w8, scale}, node("DequantizeLinear", "w", "s"), node("MatMul", "x", "DequantizeLinear_out")), "{[weights] [int8] [] false}"},
		"by channel":      {build(17, []onnx.Tensor{w8, scales}, node("DequantizeLinear", "w", "s")), "{[weights] [int8] [] true}"},
		"cast weights":    {build(9, []onnx.Tensor{w8, scales}, node("Cast", "w"), node("Mul", "Cast_out", "s")), "{[weights] [int8] [] true}"},
		"QDQ":             {build(17, []onnx.Tensor{w8, scale, zero}, node("QuantizeLinear", "x", "s", "z"), node("DequantizeLinear", "w", "s")), "{[QDQ] [int8] [int8] false}"},
		"QDQ, no zero":    {build(17, []onnx.Tensor{scale}, node("QuantizeLinear", "x", "s")), "{[QDQ] [] [uint8] false}"},
		"QOperator":       {build(17, []onnx.Tensor{w8}, node("QLinearConv", "x", "xs", "xz", "w", "ws", "wz")), "{[QOperator] [int8] [uint8] false}"},
		"dynamic":         {build(17, []onnx.Tensor{w8}, node("DynamicQuantizeLinear", "x"), node("MatMulInteger", "DynamicQuantizeLinear_out", "w")), "{[DynamicQuantizeLinear QOperator] [int8] [uint8] false}"},
		"blocks of 4 bit": {build(17, []onnx.Tensor{raw("w", onnx.UINT8, 64, 64)}, bits), "{[MatMulNBits] [int4] [] false}"},
	} {
		if got := fmt.Sprint(onnx.QuantizationOf(c.m)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestPrecision(t *testing.T) {
	bits := node("MatMulNBits", "x", "w")
	for want, m := range map[string]*onnx.Model{
		"":     build(17, nil),
		"fp32": build(17, []onnx.Tensor{raw("a", onnx.FLOAT, 400, 100), raw("b", onnx.INT64, 800, 100), raw("c", onnx.INT8, 99, 99)}),
		"fp16": build(17, []onnx.Tensor{raw("a", onnx.FLOAT16, 200, 100), raw("b", onnx.FLOAT, 40, 10)}),
		"int8": build(17, []onnx.Tensor{raw("a", onnx.INT8, 100, 100), raw("b", onnx.FLOAT, 40, 10)}),
		"int4": build(17, []onnx.Tensor{raw("w", onnx.UINT8, 100, 100), raw("b", onnx.FLOAT, 40, 10)}, bits),
	} {
		if got := onnx.Precision(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	external := build(17, []onnx.Tensor{{Name: "w", DType: onnx.FLOAT, Dims: []int64{5}, External: &onnx.External{}}})
	if w := onnx.WeightBytes(external); w["float32"] != 20 {
		t.Errorf("external weights: %v", w)
	}
}

func TestMinRuntime(t *testing.T) {
	for opset, want := range map[int64]string{7: "1.9", 15: "1.9", 17: "1.12", 18: "1.14", 21: "1.18", 26: "1.30", 27: ""} { // of IR version 8
		if got := onnx.MinRuntime(build(opset, nil)); got != want {
			t.Errorf("opset %d: got %q, want %q", opset, got, want)
		}
	}
	m := build(9, nil)
	m.IRVersion = 3
	if got := onnx.MinRuntime(m); got != "1.0" {
		t.Errorf("IR version 3: %s", got)
	}
	m.Opsets = append(m.Opsets, onnx.Opset{Domain: "ai.onnx.ml", Version: 4})
	if got := onnx.MinRuntime(m); got != "1.17" {
		t.Errorf("ai.onnx.ml 4: %s", got)
	}
}

// The facts of the real models match their documentation.
func TestRealModels(t *testing.T) {
	m, err := onnx.Open(testfiles.Shared(t, "onnx", "squeezenet_tensor_input.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if p, q := onnx.Precision(m), onnx.QuantizationOf(m); p != "fp32" || len(q.Forms) != 0 {
		t.Errorf("%s, %+v", p, q)
	}
}
