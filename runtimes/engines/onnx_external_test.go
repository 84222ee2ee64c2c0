package engines_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/onnxtest"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
)

// External data outside the model's files is refused before the engine reads it.
func TestAttacks(t *testing.T) {
	for _, a := range onnxtest.Attacks() {
		t.Run(a.Name, func(t *testing.T) {
			b := bundle(filepath.Dir(a.Plant(t)), onnxtest.Model)
			b.Part.Files["onnx"] = append(b.Part.Files["onnx"], a.Declared...)
			m, err := engines.ONNX{}.Open(t.Context(), b, runtimes.Limits{})
			if err == nil {
				m.Close()
			}
			var refused *onnx.Refused
			if !errors.As(err, &refused) || refused.Problems[0].Rule != a.Rule {
				t.Errorf("%v, not refused by the rule %s", err, a.Rule)
			}
		})
	}
}

// External weights are read, including those of a Constant and in a subfolder, and count as memory.
func TestExternalData(t *testing.T) {
	m := dense()
	data := append(floats(9, 9), m.Graph.Initializers[0].Raw...)
	outside := func(t onnx.Tensor, offset string) onnx.Tensor {
		t.External = &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: "data/w.bin"}, {Key: "offset", Value: offset}}}
		return t
	}
	m.Graph.Initializers[0] = outside(onnx.Tensor{Name: "w", DType: onnx.FLOAT, Dims: []int64{2, 3}}, "8")
	one := outside(onnx.Tensor{DType: onnx.FLOAT, Dims: []int64{1}}, "0")
	m.Graph.Nodes[1].Outputs[0] = "r"
	m.Graph.Nodes = append(m.Graph.Nodes, onnx.Node{Op: "Constant", Outputs: []string{"c"}, Attributes: []onnx.Attribute{onnxtest.TensorAttr("value", one)}})
	m.Graph.Add("Add", []string{"r", "c"}, "y")
	b := write(t, m)
	file := filepath.Join(string(b.Files.(folder)), "data", "w.bin")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Part.Files["onnx"] = append(b.Part.Files["onnx"], "data/w.bin")
	open, err := engines.ONNX{}.Open(t.Context(), b, runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	out, err := open.(runtimes.Function).Run(t.Context(), map[string]runtimes.Tensor{"x": {Type: runtimes.Float32, Shape: []int64{1, 2}, Data: floats(1, 1)}})
	if err != nil || string(out["y"].Data) != string(floats(14, 16, 9)) {
		t.Errorf("%v, %v", out["y"].Data, err)
	}
	info, err := os.Stat(filepath.Join(string(b.Files.(folder)), "m.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := (engines.ONNX{}).Open(t.Context(), b, runtimes.Limits{Memory: info.Size() + int64(len(data)) - 1}); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("beyond the memory: %v, %v", m, err)
	}
}
