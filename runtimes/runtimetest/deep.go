package runtimetest

import (
	"encoding/binary"
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
)

// Deep returns a slow ONNX model of many matrix products, each of some milliseconds if there
// are many rows. in is a single row; long keeps an engine busy for seconds.
func Deep() (m *onnx.Model, in, long map[string]runtimes.Tensor) {
	const width, layers, rows = 256, 400, 2048
	m = onnx.New("deep", 17)
	w := make([]float32, width*width)
	for i := range w {
		w[i] = float32((i*7+i/width*3)%13-6) / (4 * width)
	}
	weight := m.Graph.Constant(onnx.Floats("w", []int64{width, width}, w))
	x := "x"
	for i := range layers {
		y := fmt.Sprintf("y%d", i)
		if i == layers-1 {
			y = "y"
		}
		m.Graph.Add("MatMul", []string{x, weight}, y+".product")
		m.Graph.Add("Add", []string{y + ".product", "x"}, y)
		x = y
	}
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", width)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, "N", width)}
	inputs := func(n int) map[string]runtimes.Tensor {
		t := runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{int64(n), width}, Data: make([]byte, 4*n*width)}
		for i := range n * width {
			binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(float32(i%11)/11))
		}
		return map[string]runtimes.Tensor{"x": t}
	}
	return m, inputs(1), inputs(rows)
}
