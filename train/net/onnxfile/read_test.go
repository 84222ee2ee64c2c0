package onnxfile_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/nettest"
	"mm-abi.org/mm/train/net/onnxfile"
)

// Weights are read back in place, transposed matrices and kernels included.
// Tensors missing from the file or of another shape are unchanged.
func TestRead(t *testing.T) {
	for name, cfg := range nettest.Networks() {
		n, err := net.New[float32](cfg)
		if err != nil {
			t.Fatal(name, err)
		}
		n.Init(7)
		for _, w := range n.Params().Tensors() {
			for i := range w.Data {
				w.Data[i] += float32(i%13) / 64
			}
		}
		for _, halves := range []bool{false, true} {
			m, err := onnxfile.Model(n, onnxfile.Options{Half: halves})
			if err != nil {
				t.Fatal(name, err)
			}
			var file bytes.Buffer
			if _, err := onnx.Write(&file, m); err != nil {
				t.Fatal(name, err)
			}
			if m, err = onnx.Parse(file.Bytes()); err != nil {
				t.Fatal(name, err)
			}
			like, _ := net.New[float32](cfg)
			like.Init(8)
			read, err := onnxfile.Read(like, m)
			if err != nil || len(read) != len(n.Params().Tensors()) {
				t.Fatalf("%s: read %v of %d: %v", name, read, len(n.Params().Tensors()), err)
			}
			for _, w := range n.Params().Tensors() {
				got := like.Params().Tensor(w.Name)
				for i, v := range w.Data {
					if d := math.Abs(float64(got.Data[i] - v)); d != 0 && (!halves || d > 1e-3*(1+math.Abs(float64(v)))) {
						t.Fatalf("%s: %s[%d] = %v, want %v", name, w.Name, i, got.Data[i], v)
					}
				}
			}
		}
	}
}

// A tensor of another shape is skipped; one of integers is an error.
func TestReadOther(t *testing.T) {
	cfg := net.Config{Inputs: []net.Port{{Name: "x", Rows: 2, Cols: 3}}, Layers: []net.Layer{{Kind: "linear", Name: "l", Out: 4}}, Outputs: []string{"l"}}
	wide := cfg
	wide.Layers = []net.Layer{{Kind: "linear", Name: "l", Out: 5}}
	n, _ := net.New[float32](cfg)
	n.Init(1)
	before := slices.Clone(n.Params().Tensors()[0].Data)
	other, _ := net.New[float32](wide)
	m, err := onnxfile.Model(other, onnxfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if read, err := onnxfile.Read(n, m); err != nil || len(read) != 0 {
		t.Errorf("read %v, %v", read, err)
	}
	if !slices.Equal(before, n.Params().Tensors()[0].Data) {
		t.Error("read a matrix of another shape")
	}
	if m, err = onnxfile.Model(n, onnxfile.Options{}); err != nil {
		t.Fatal(err)
	}
	for i, w := range m.Graph.Initializers {
		if w.DType == onnx.FLOAT {
			m.Graph.Initializers[i].DType, m.Graph.Initializers[i].Raw = onnx.INT64, make([]byte, 2*len(w.Raw))
		}
	}
	if _, err := onnxfile.Read(n, m); err == nil {
		t.Error("read weights of int64")
	}
	if m, err = onnxfile.Model(n, onnxfile.Options{}); err != nil {
		t.Fatal(err)
	}
	for i, w := range m.Graph.Initializers {
		m.Graph.Initializers[i].Raw = w.Raw[:len(w.Raw)/2]
	}
	if _, err := onnxfile.Read(n, m); err == nil {
		t.Error("read truncated weights")
	}
}

// The graph has the name of the options, by default net. In batches of one a table
// of queries is not expanded.
func TestModel(t *testing.T) {
	cfg := net.Config{Inputs: []net.Port{{Name: "x", Rows: 2, Cols: 3}}, Layers: []net.Layer{{Kind: "queries", Name: "q", Count: 2, Out: 3}, {Kind: "add", Name: "y", Inputs: []string{"x", "q"}}}, Outputs: []string{"y"}}
	n, err := net.New[float32](cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		opt    onnxfile.Options
		name   string
		expand int
	}{{onnxfile.Options{}, "net", 1}, {onnxfile.Options{Name: "eye", Batch: 1}, "eye", 0}} {
		m, err := onnxfile.Model(n, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		if m.Graph.Name != c.name || count(m, "Expand") != c.expand {
			t.Errorf("%+v: graph %q with %d Expand", c.opt, m.Graph.Name, count(m, "Expand"))
		}
	}
}

// A tensor of MaxCount numbers can be counted in float32, a larger one cannot.
func TestCountable(t *testing.T) {
	if onnxfile.Countable(onnxfile.MaxCount) != nil || float32(onnxfile.MaxCount) == float32(onnxfile.MaxCount-1) {
		t.Error("MaxCount refused")
	}
	if onnxfile.Countable(onnxfile.MaxCount+1) == nil || float32(onnxfile.MaxCount+1) != float32(onnxfile.MaxCount) {
		t.Error("MaxCount + 1 accepted")
	}
}
