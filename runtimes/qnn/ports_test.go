package qnn_test

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	backend "mm-abi.org/mm/runtimes/qnn"
)

// The quantization of the model below.
const (
	inScale, inZero   = float32(0.01), 128
	outScale, outZero = float32(0.03), 120
)

// bytesModel returns a quantized model, y [2,4] of x [2,8].
func bytesModel() *onnx.Model {
	m := onnx.New("bytes", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.UINT8, 2, 8)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.UINT8, 2, 4)}
	scale := func(name string, v float32) {
		m.Graph.Initializers = append(m.Graph.Initializers, onnx.Floats(name, nil, []float32{v}))
	}
	bytes := func(name string, dims []int64, v ...byte) {
		// Of eight bits with a sign the library has a constructor, of none not.
		t := onnx.Int8s(name, dims, make([]int8, len(v)))
		t.DType, t.Raw = onnx.UINT8, v
		m.Graph.Initializers = append(m.Graph.Initializers, t)
	}
	scale("xs", inScale)
	bytes("xz", nil, inZero)
	scale("ys", outScale)
	bytes("yz", nil, outZero)
	scale("ws", 0.02)
	bytes("wz", nil, 128)
	w := make([]byte, 32)
	for i := range w {
		w[i] = byte(i*53 + 7)
	}
	bytes("w", []int64{8, 4}, w...)
	m.Graph.Add("DequantizeLinear", []string{"x", "xs", "xz"}, "xf")
	m.Graph.Add("DequantizeLinear", []string{"w", "ws", "wz"}, "wf")
	m.Graph.Add("MatMul", []string{"xf", "wf"}, "yf")
	m.Graph.Add("QuantizeLinear", []string{"yf", "ys", "yz"}, "y")
	return m
}

// A graph of bytes takes and returns floats, or bytes if the module declares them; both match the model
// within a step.
func TestQuantised(t *testing.T) {
	e := engine(t)
	c := compiled(t, e, bytesModel(), 57)
	x := wave(2, 2, 8)
	raw := runtimes.Tensor{Type: runtimes.Uint8, Shape: x.Shape}
	for _, v := range floats(x) {
		raw.Data = append(raw.Data, byte(min(max(math.RoundToEven(v/float64(inScale))+inZero, 0), 255)))
	}
	want := run(t, engines.ONNX{}, bundle(abi.ONNX, filepath.Join(filepath.Dir(c.Context), "m.onnx")), map[string]runtimes.Tensor{"x": raw})["y"]
	b := bundle(abi.QNN, c.Context)
	got := run(t, e, b, map[string]runtimes.Tensor{"x": x})["y"]
	if got.Type != runtimes.Float32 {
		t.Fatalf("it gives %s", got.Type)
	}
	b.Manifest = ports("x", "y", abi.DType(runtimes.Uint8))
	b.Manifest.Outputs[0].DType = abi.DType(runtimes.Uint8)
	bytes := run(t, e, b, map[string]runtimes.Tensor{"x": raw})["y"]
	off := 0
	for i, v := range want.Data {
		if d := math.Abs(float64(bytes.Data[i]) - float64(v)); d > 1 {
			t.Errorf("byte %d is %d, not %d", i, bytes.Data[i], v)
		} else if d > 0 {
			off++
		}
		if f, value := floats(got)[i], float64(float32((float64(bytes.Data[i])-outZero)*float64(outScale))); math.Abs(f-value) > 1e-6 {
			t.Errorf("number %d is %g, and %d stands for %g", i, f, bytes.Data[i], value)
		}
	}
	t.Logf("%d of %d bytes are a step off", off, len(want.Data))
}

// Numbers become the nearest integers and back; NaN is refused.
func TestPorts(t *testing.T) {
	quantised := func(d htp.DType, scale float32, offset int32) htp.Tensor {
		return htp.Tensor{Name: "x", DType: d, Dims: []uint32{4}, Quant: htp.Quantization{Encoding: htp.ScaleOffset, Scales: []float32{scale}, Offsets: []int32{offset}}}
	}
	plain := func(d htp.DType) htp.Tensor {
		return htp.Tensor{Name: "x", DType: d, Dims: []uint32{4}, Quant: htp.Quantization{Encoding: htp.Unquantized}}
	}
	inf := float32(math.Inf(1))
	for name, c := range map[string]struct {
		tensor htp.Tensor
		outer  runtimes.Elem // the declared type; "": undeclared
		in     []float32
		back   []float32
	}{
		"bytes":             {quantised(htp.UFixed8, 0.5, -128), "", []float32{0, 0.24, -64, inf}, []float32{0, 0, -64, 63.5}},
		"signed bytes":      {quantised(htp.SFixed8, 0.25, 0), "", []float32{-32, -100, 0.375, 1}, []float32{-32, -32, 0.5, 1}},
		"words":             {quantised(htp.UFixed16, 0.001, -32768), "", []float32{1, -1, 0.0004, -inf}, []float32{1, -1, 0, -32.768}},
		"signed words":      {quantised(htp.SFixed16, 2, 5), "", []float32{10, 11, 0, 1e30}, []float32{10, 12, 0, 65544}},
		"halves, numbers":   {plain(htp.Float16), runtimes.Float32, []float32{1, 0.5, -2048, 65504}, []float32{1, 0.5, -2048, 65504}},
		"numbers as bytes":  {quantised(htp.UFixed8, 0.5, -128), runtimes.Uint8, nil, nil},
		"floats":            {plain(htp.Float32), runtimes.Float32, []float32{1, 2, 3, 4}, []float32{1, 2, 3, 4}},
		"long, and its end": {plain(htp.Int32), runtimes.Int64, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in, back, err := backend.Through(c.tensor, c.outer, c.in)
			if err != nil {
				t.Fatal(err)
			}
			if c.in != nil && !slices.Equal(back, c.back) {
				t.Errorf("%v became %v and came back as %v, not %v", c.in, in, back, c.back)
			}
		})
	}
	if _, _, err := backend.Through(quantised(htp.UFixed8, 0.5, 0), "", []float32{0, 1, float32(math.NaN()), 2}); err == nil || !strings.Contains(err.Error(), "element 2") {
		t.Errorf("no number: %v", err)
	}
	for what, x := range map[string]htp.Tensor{"a scale of 0": quantised(htp.UFixed8, 0, 0), "no scale": quantised(htp.UFixed8, float32(math.NaN()), 0), "four bits": plain(htp.UFixed4), "an open dimension": {Name: "x", DType: htp.Float32, Dims: []uint32{0}}} {
		if _, _, err := backend.Through(x, "", []float32{0, 0, 0, 0}); err == nil {
			t.Errorf("%s passed", what)
		}
	}
	long := binary.LittleEndian.AppendUint64(nil, 1<<40)
	if err := backend.Long(plain(htp.Int32), append(long, make([]byte, 24)...)); err == nil || !strings.Contains(err.Error(), "32 bits") {
		t.Errorf("a number that does not fit: %v", err)
	}
}
