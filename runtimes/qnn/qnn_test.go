package qnn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// folder contains the files of a build.
type folder string

func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

func bundle(format abi.Format, paths ...string) runtimes.Bundle {
	b := runtimes.Bundle{Part: builds.Part{Name: "m", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{}}, Files: folder(filepath.Dir(paths[0]))}
	for _, p := range paths {
		b.Part.Files[string(format)] = append(b.Part.Files[string(format)], filepath.Base(p))
	}
	return b
}

// compiled compiles a model for a chip.
func compiled(t testing.TB, e *qnn.Engine, m *onnx.Model, soc int) qnn.Compiled {
	t.Helper()
	dir := t.TempDir()
	c, err := e.Compile(t.Context(), qnn.Compilation{Model: write(t, filepath.Join(dir, "m.onnx"), m), SoC: soc, Out: filepath.Join(dir, "m_ctx.onnx")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wave returns numbers of a shape, the same for the same seed.
func wave(seed int, shape ...int64) runtimes.Tensor {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	t := runtimes.Tensor{Type: runtimes.Float32, Shape: shape}
	for i := range n {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(math.Sin(float64(i*7+int64(seed))))))
	}
	return t
}

func floats(t runtimes.Tensor) []float64 {
	out := make([]float64, len(t.Data)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
	}
	return out
}

// cosine returns the cosine of two results.
func cosine(a, b runtimes.Tensor) float64 {
	var ab, aa, bb float64
	x, y := floats(a), floats(b)
	if len(x) != len(y) {
		return math.NaN()
	}
	for i := range x {
		ab, aa, bb = ab+x[i]*y[i], aa+x[i]*x[i], bb+y[i]*y[i]
	}
	return ab / math.Sqrt(aa*bb)
}

// run opens a bundle and computes once.
func run(t testing.TB, e runtimes.Engine, b runtimes.Bundle, in map[string]runtimes.Tensor) map[string]runtimes.Tensor {
	t.Helper()
	m, err := e.Open(t.Context(), b, runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.(runtimes.Function).Run(t.Context(), in)
	if err = errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

// byPlugin computes with ONNX Runtime and its plugin.
func byPlugin(t testing.TB, e *qnn.Engine, c qnn.Compiled, in map[string]runtimes.Tensor) map[string]runtimes.Tensor {
	t.Helper()
	opt, err := native.At(native.QNNCompiler, e.Library, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := worker.Open(t.Context(), opt, wire.Open{Name: "m", Version: "1.0.0", Type: abi.Encoder, Format: abi.ONNX, Path: c.Wrapper})
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.(runtimes.Function).Run(t.Context(), in)
	if err = errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConformance(t *testing.T) {
	e := engine(t)
	c := compiled(t, e, mlp(1), 57)
	in := map[string]runtimes.Tensor{"x": wave(1, 1, 8)}
	for name, b := range map[string]runtimes.Bundle{"context": bundle(abi.QNN, c.Context), "wrapper": bundle(abi.QNN, c.Wrapper, c.Context)} {
		t.Run(name, func(t *testing.T) {
			runtimetest.Run(t, runtimetest.Function{Engine: e, Bundle: b, In: in}.Cases())
		})
	}
}

// convolution returns a model of 8-bit integers, quantized except for its ends: x [1,3,12,12] →
// y [1,8,12,12].
func convolution() *onnx.Model {
	m := onnx.New("convolution", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 3, 12, 12)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 8, 12, 12)}
	w, bias := make([]int8, 8*3*3*3), make([]byte, 4*8)
	for i := range w {
		w[i] = int8(i*53%255 - 127)
	}
	for i := range 8 {
		binary.LittleEndian.PutUint32(bias[4*i:], uint32(int32(i*700-2400)))
	}
	m.Graph.Initializers = []onnx.Tensor{
		onnx.Int8s("w", []int64{8, 3, 3, 3}, w), onnx.RawTensor("b", onnx.INT32, []int64{8}, bias),
		onnx.Floats("ws", nil, []float32{0.01}), onnx.Int8s("wz", nil, []int8{0}), onnx.Floats("bs", nil, []float32{0.01 * 2 / 255}), onnx.RawTensor("bz", onnx.INT32, nil, make([]byte, 4)),
		onnx.Floats("xs", nil, []float32{2. / 255}), onnx.RawTensor("xz", onnx.UINT8, nil, []byte{128}), onnx.Floats("ys", nil, []float32{0.06}), onnx.RawTensor("yz", onnx.UINT8, nil, []byte{128}),
	}
	m.Graph.Add("QuantizeLinear", []string{"x", "xs", "xz"}, "xq")
	m.Graph.Add("DequantizeLinear", []string{"xq", "xs", "xz"}, "xf")
	m.Graph.Add("DequantizeLinear", []string{"w", "ws", "wz"}, "wf")
	m.Graph.Add("DequantizeLinear", []string{"b", "bs", "bz"}, "bf")
	m.Graph.Add("Conv", []string{"xf", "wf", "bf"}, "c", onnx.IntList("pads", 1, 1, 1, 1))
	m.Graph.Add("QuantizeLinear", []string{"c", "ys", "yz"}, "yq")
	m.Graph.Add("DequantizeLinear", []string{"yq", "ys", "yz"}, "y")
	return m
}

// A model compiled for a chip declares the chip, compiles to the same bytes again, approximates the model's
// numbers, and returns the same bits by either way of running it.
func TestChips(t *testing.T) {
	e := engine(t)
	for _, c := range []struct {
		name, path, in, out string
		x                   runtimes.Tensor
		least               float64
	}{
		{"mlp", write(t, filepath.Join(t.TempDir(), "mlp.onnx"), mlp(2)), "x", "y", wave(3, 2, 8), 0.99999},
		{"convolution of bytes", write(t, filepath.Join(t.TempDir(), "conv.onnx"), convolution()), "x", "y", wave(3, 1, 3, 12, 12), 0.9999},
		{"mnist", filepath.Join(testfiles.Root(t), "..", "shared", "data", "onnx", "mnist.onnx"), "Input3", "Plus214_Output_0", wave(3, 1, 1, 28, 28), 0.99999},
	} {
		if _, err := os.Stat(c.path); err != nil {
			t.Logf("left out: %v", err)
			continue
		}
		in := map[string]runtimes.Tensor{c.in: c.x}
		want := run(t, engines.ONNX{}, bundle(abi.ONNX, c.path), in)[c.out]
		for chip, soc := range map[string]int{"SM8550": 43, "SM8650": 57, "SM8750": 69, "SM8850": 87} {
			t.Run(c.name+"/"+chip, func(t *testing.T) {
				compiled := func() qnn.Compiled {
					got, err := e.Compile(t.Context(), qnn.Compilation{Model: c.path, SoC: soc, Out: filepath.Join(t.TempDir(), "m_ctx.onnx")})
					if err != nil {
						t.Fatal(err)
					}
					return got
				}
				first := compiled()
				if first.SoC != uint32(soc) {
					t.Errorf("compiled for %d, not %d", first.SoC, soc)
				}
				if again := compiled(); again.Digest != first.Digest {
					t.Errorf("compiled again, it is %s, not %s", again.Digest, first.Digest)
				}
				got := run(t, e, bundle(abi.QNN, first.Context), in)
				if near := cosine(got[c.out], want); !(near >= c.least) {
					t.Errorf("cosine %.8f", near)
				} else {
					t.Logf("%d bytes, cosine %.8f", first.Bytes, near)
				}
				if again := run(t, e, bundle(abi.QNN, first.Context), in); !reflect.DeepEqual(got, again) {
					t.Error("loaded again, it gives other numbers")
				}
				if other := byPlugin(t, e, first, in); !reflect.DeepEqual(got, other) {
					t.Errorf("%v, by ONNX Runtime %v", floats(got[c.out]), floats(other[c.out]))
				}
			})
		}
	}
}

// mm's reader and QnnSystem find the same in a file.
func TestDescribe(t *testing.T) {
	e := engine(t)
	files := map[string]string{"floats": compiled(t, e, mlp(2), 87).Context, "bytes": compiled(t, e, bytesModel(), 87).Context}
	// Those of elsewhere: of LiteRT, whose tensors have another version, of the
	// backend for processors, of an older SDK.
	for _, pattern := range []string{"*.bin", "*.tflite"} {
		samples, err := filepath.Glob(filepath.Join(testfiles.Root(t), "..", "shared", "data", "qnn", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range samples {
			files[filepath.Base(path)] = path
		}
	}
	for name, path := range files {
		f, err := qnnfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		p := f.Parts[0]
		got, err := e.Describe(t.Context(), p)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := p.Context
		version := func(v htp.Version) ask.Version { return ask.Version{v.Major, v.Minor, v.Patch} }
		want := ask.Description{Build: c.Build, Backend: uint32(c.Backend), Core: version(c.Core), API: version(c.API), Blob: version(c.Blob), SoC: c.SoC, Graphs: got.Graphs}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, by our reader %+v", name, got, want)
		}
		if len(got.Graphs) != len(c.Graphs) {
			t.Fatalf("%s: %d graphs, by our reader %d", name, len(got.Graphs), len(c.Graphs))
		}
		for i, g := range c.Graphs {
			if read := (ask.Graph{Name: g.Name, Inputs: qnn.WireTensors(g.Inputs), Outputs: qnn.WireTensors(g.Outputs)}); !reflect.DeepEqual(got.Graphs[i], read) {
				t.Errorf("%s: %+v, by our reader %+v", name, got.Graphs[i], read)
			}
		}
		t.Logf("%s: backend %d, build %q, model %d", name, got.Backend, got.Build, got.SoC)
	}
}
