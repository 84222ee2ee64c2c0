package lower

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// samples returns random inputs for a model; unknown dimensions are 2.
func samples(t testing.TB, m *onnx.Model) map[string]engine.Tensor {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	out := map[string]engine.Tensor{}
	for _, in := range m.Inputs() {
		v := engine.Tensor{Type: in.Type.DType}
		n := 1
		for _, d := range in.Type.Dims {
			size := int(d.Value)
			if d.Param != "" || d.Value == onnx.Unknown {
				size = 2
			}
			v.Shape, n = append(v.Shape, size), n*size
		}
		for range n {
			switch in.Type.DType {
			case onnx.FLOAT16:
				b := make([]byte, 2)
				quant.Quantize(b, []float32{float32(r.NormFloat64())}, tensor.F16)
				v.Data = append(v.Data, b...)
			case onnx.FLOAT:
				v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(float32(r.NormFloat64())))
			case onnx.INT64:
				v.Data = binary.LittleEndian.AppendUint64(v.Data, uint64(r.IntN(3)))
			case onnx.BOOL:
				v.Data = append(v.Data, byte(r.IntN(2)))
			default:
				t.Fatalf("input %s of type %s", in.Name, in.Type.DType)
			}
		}
		out[in.Name] = v
	}
	return out
}

func run(t testing.TB, m *onnx.Model, in map[string]engine.Tensor) map[string]engine.Tensor {
	t.Helper()
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	out, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// widened returns tensors with float32 in place of 16-bit floats.
func widened(in map[string]engine.Tensor) map[string]engine.Tensor {
	out := map[string]engine.Tensor{}
	for name, v := range in {
		if v.Type == onnx.FLOAT16 {
			x := make([]float32, len(v.Data)/2)
			quant.Dequantize(x, v.Data, tensor.F16)
			v.Type, v.Data = onnx.FLOAT, make([]byte, 4*len(x))
			quant.Quantize(v.Data, x, tensor.F32)
		}
		out[name] = v
	}
	return out
}

// compare lowers a model and compares what both compute.
func compare(t *testing.T, m *onnx.Model, in map[string]engine.Tensor) *Graph {
	t.Helper()
	g, problems, err := Lower(t.Context(), m, in)
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v, %v", problems, err)
	}
	want, got := run(t, m, in), run(t, g.Model(), widened(in))
	tolerance := 1e-5
	for name, w := range want {
		if w.Type == onnx.FLOAT16 { // rounded by the model
			w, tolerance = widened(map[string]engine.Tensor{"": w})[""], 2e-3
		}
		if len(got[name].Data) != len(w.Data) {
			t.Fatalf("%s: got shape %v, want %v", name, got[name].Shape, w.Shape)
		}
		for i := 0; w.Type == onnx.FLOAT && i+4 <= len(w.Data); i += 4 {
			a, b := math.Float32frombits(binary.LittleEndian.Uint32(got[name].Data[i:])), math.Float32frombits(binary.LittleEndian.Uint32(w.Data[i:]))
			if !(math.Abs(float64(a-b)) <= tolerance*max(1, math.Abs(float64(b)))) {
				t.Fatalf("%s: element %d is %v, want %v", name, i/4, a, b)
			}
		}
		if w.Type != onnx.FLOAT && string(w.Data) != string(got[name].Data) {
			t.Errorf("%s differs", name)
		}
	}
	return g
}

// The modules of the catalog, and models of others where they exist, compute the
// same after lowering.
func TestModules(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testfiles.Root(t), "catalog", "*", "*.onnx"))
	if err != nil || len(files) < 6 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	more, _ := filepath.Glob(filepath.Join(testfiles.Root(t), "..", "shared", "data", "onnx", "mnist.onnx"))
	for _, file := range append(files, more...) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".onnx"), func(t *testing.T) {
			m, err := onnx.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			g := compare(t, m, samples(t, m))
			t.Logf("%d nodes of %d", len(g.Nodes), len(m.Graph.Nodes))
		})
	}
	if len(more) == 0 {
		t.Log("skipped: no ../shared/data")
	}
}
