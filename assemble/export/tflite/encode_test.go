package tflite

import (
	"bytes"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx/htp"
)

// little returns a model that adds its weights to its input.
func little() *Model {
	return &Model{
		Description: "little",
		Metadata:    []Entry{{"min_runtime_version", "2.16.0"}},
		Tensors: []Tensor{
			{Name: "x", Type: Float32, Shape: []int{1, 2}},
			{Name: "w", Type: Float32, Shape: []int{2}, Data: make([]byte, 8)},
			{Name: "y", Type: Float32, Shape: []int{1, 2}},
		},
		Inputs:    []Port{{"x", 0}},
		Outputs:   []Port{{"y", 2}},
		Operators: []Operator{{Code: Add, Inputs: []int{0, 1}, Outputs: []int{2}, Options: []Option{{0, int8(0)}}}},
	}
}

// The reader of foreign files reads the file, and two encodings are equal.
func TestEncode(t *testing.T) {
	data, err := little().Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := little().Encode()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("two encodings differ: %v", err)
	}
	m, err := htp.ReadLiteRT(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	g := m.Subgraphs[0]
	if len(m.Subgraphs) != 1 || g.Inputs[0].Name != "x" || g.Outputs[0].Name != "y" || g.Left[0] != (htp.Operator{Name: "ADD", Count: 1}) || m.MinRuntime != "2.16.0" {
		t.Errorf("read %+v", m)
	}
}

// Faults that runtimes accept, or crash on, are refused before a file is written.
func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Model){
		"wrong size of data: got 8 bytes, want 12": func(m *Model) { m.Tensors[1].Shape = []int{3} },
		"open dimension":                    func(m *Model) { m.Tensors[0].Shape[0] = -1 },
		"input 1 is not computed before it": func(m *Model) { m.Tensors[1].Data = nil },
		"output 0 is computed twice":        func(m *Model) { m.Operators = append(m.Operators, m.Operators[0]) },
		`output "y" is not computed`:        func(m *Model) { m.Operators = nil },
		`input "x": bad tensor 3`:           func(m *Model) { m.Inputs[0].Tensor = 3 },
		"got 1 scales along axis 0":         func(m *Model) { m.Tensors[1].Scales = []float32{1} },
		"got 3 scales along axis 0": func(m *Model) {
			m.Tensors[1] = Tensor{Name: "w", Type: Int8, Shape: []int{2}, Data: make([]byte, 2), Scales: []float32{1, 1, 1}}
		},
		"bad scale 0": func(m *Model) {
			m.Tensors[1] = Tensor{Name: "w", Type: Int8, Shape: []int{2}, Data: make([]byte, 2), Scales: []float32{1, 0}}
		},
	} {
		m := little()
		change(m)
		if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for n, ok := range map[int]bool{maxModel: true, maxModel + 1: false} {
		if err := checkSize(n); (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
