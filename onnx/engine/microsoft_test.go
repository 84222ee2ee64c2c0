package engine_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op"
)

// microsoft reads the cases of testdata/microsoft.py.
func microsoft(t testing.TB) []example {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "microsoft.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	if err := json.NewDecoder(z).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// near compares floats to 1e-4 of the largest, 16-bit ones to 4e-3, and
// integers exactly.
func near(got, want engine.Tensor) error {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("%s %v, want %s %v", got.Type, got.Shape, want.Type, want.Shape)
	}
	bound := 1e-4
	switch got.Type {
	case onnx.FLOAT16, onnx.BFLOAT16:
		bound = 4e-3
	case onnx.FLOAT, onnx.DOUBLE:
	default:
		return same(got, want)
	}
	a, b, most := values(got), values(want), 1e-3
	for _, v := range b {
		most = max(most, math.Abs(v))
	}
	for i, v := range a {
		if v != b[i] && !(math.IsNaN(v) && math.IsNaN(b[i])) && !(math.Abs(v-b[i]) <= bound*most) {
			return fmt.Errorf("element %d: got %v, want %v", i, v, b[i])
		}
	}
	return nil
}

// The results of operators of com.microsoft equal ONNX Runtime's.
func TestMicrosoft(t *testing.T) {
	seen := make(map[string]int)
	for _, e := range microsoft(t) {
		m, err := onnx.Parse(e.Model)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(e.Name, "/")
		seen[name]++
		p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1 + len(seen)%3})
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		in := make(map[string]engine.Tensor)
		for k, b := range e.In {
			in[k] = tensorOf(t, b)
		}
		for range 2 { // again, on used memory
			out, err := p.Run(t.Context(), in)
			if err != nil {
				t.Errorf("%s %v: %v", e.Name, m.Graph.Nodes[0].Attributes, err)
				break
			}
			for i, b := range e.Out {
				if err := near(out[p.Outputs()[i]], tensorOf(t, b)); err != nil {
					t.Errorf("%s: output %d: %v", e.Name, i, err)
				}
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range op.Contributed() {
		switch name {
		case "QuantizeLinear", "DequantizeLinear": // the kernels of ai.onnx
		default:
			if seen[name] == 0 {
				t.Errorf("missing case of %s", name)
			}
		}
	}
	t.Log(seen)
}

// Operators with inputs of other shapes, types and numbers, or without some of
// them, return results or an error that blames the model.
func TestMicrosoftHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: forty variations of every case")
	}
	r := rand.New(rand.NewPCG(14, 14))
	for _, e := range slices.Concat(microsoft(t), examples(t)) {
		for range 40 {
			m, err := onnx.Parse(slices.Clone(e.Model))
			if err != nil {
				t.Fatal(err)
			}
			g, in := &m.Graph, make(map[string]engine.Tensor)
			for i := range g.Inputs {
				a := tensorOf(t, e.In[g.Inputs[i].Name])
				twist(r, &a)
				g.Inputs[i].Type.DType, g.Inputs[i].Type.Dims = a.Type, make([]onnx.Dim, len(a.Shape))
				for k, d := range a.Shape {
					g.Inputs[i].Type.Dims[k].Value = int64(d)
				}
				in[g.Inputs[i].Name] = a
			}
			n := &g.Nodes[0]
			switch r.IntN(4) {
			case 0:
				if len(n.Inputs) > 0 {
					n.Inputs[r.IntN(len(n.Inputs))] = ""
				}
			case 1:
				if len(g.Inputs) > 0 {
					n.Inputs = append(n.Inputs, g.Inputs[r.IntN(len(g.Inputs))].Name)
				}
			case 2:
				edit(m, []byte{byte(r.IntN(32) * 8), 0, byte(r.IntN(256))})
			}
			p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1, Memory: 8 << 20})
			if err == nil {
				_, err = p.Run(t.Context(), in)
				_ = p.Close()
			}
			if errors.Is(err, engine.ErrInternal) {
				t.Fatalf("%s %v with %v: %v", e.Name, n.Attributes, in, err)
			}
		}
	}
}

// twist changes the shape, the type or a number of a tensor, most often nothing.
func twist(r *rand.Rand, a *engine.Tensor) {
	switch r.IntN(6) {
	case 0: // another size
		if len(a.Shape) > 0 {
			a.Shape[r.IntN(len(a.Shape))] = r.IntN(4)
		}
	case 1: // another rank
		if r.IntN(2) == 0 && len(a.Shape) > 0 {
			a.Shape = a.Shape[1:]
		} else {
			a.Shape = append([]int{1}, a.Shape...)
		}
	case 2: // another type
		a.Type = []onnx.DType{onnx.FLOAT, onnx.INT64, onnx.UINT8, onnx.FLOAT16, onnx.DOUBLE, onnx.INT32}[r.IntN(6)]
	case 3: // another number
		if len(a.Data) >= 8 {
			at := r.IntN(len(a.Data) / 8)
			binary.LittleEndian.PutUint64(a.Data[8*at:], uint64(hostile[r.IntN(len(hostile))]))
		}
	}
	size, n := kernel.Size(a.Type), 1
	for _, d := range a.Shape {
		n *= d
	}
	data := make([]byte, n*size)
	copy(data, a.Data)
	a.Data = data
}
