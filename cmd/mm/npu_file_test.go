package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// ranFile is what mm run wrote of the output of a file that was given an array.
func ranFile(t *testing.T, file, input string, more ...string) []float32 {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.npy")
	stdout, stderr, code := mm(t, append([]string{"run", file, "--input", input, "--output", out, "--json"}, more...)...)
	var got struct{ Parts []part.Report }
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
		t.Fatalf("%s: exit %d: %s%v", file, code, stderr, err)
	}
	if a := got.Parts[0]; len(more) == 0 && (a.Backend != "qnn (emulated)" || !a.Simulated || a.Facts["digest"] == "") {
		t.Errorf("%s ran on %s, simulated %v, %v", file, a.Backend, a.Simulated, a.Facts)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	a, err := npy.Decode(data)
	if err != nil || a.Type != "f4" {
		t.Fatalf("%s: %v, %v", file, a, err)
	}
	return floatsOf(a.Data)
}

func floatsOf(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// farthest is the largest difference of numbers.
func farthest(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most := 0.0
	for i := range a {
		most = max(most, math.Abs(float64(a[i]-b[i])))
	}
	return most
}

// What mm qnn compile writes runs by itself, by its context and by the model
// around it, on no backend that anybody named.
func TestRunCompiled(t *testing.T) {
	libs := os.Getenv("MM_QNN_LIB")
	if libs == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	runtimetest.Program(t)
	npuHome(t, libs)
	t.Chdir(t.TempDir())
	model := onnx.New("m", 17)
	model.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2, 4)}
	model.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 2, 3)}
	model.Graph.Initializers = []onnx.Tensor{onnx.Floats("w", []int64{4, 3}, []float32{1, -2, 3, 0.5, 0.25, -1, 2, 1, 0, -1, 1, 1})}
	model.Graph.Add("MatMul", []string{"x", "w"}, "h")
	model.Graph.Add("Relu", []string{"h"}, "y")
	f, err := os.Create("m.onnx")
	if err == nil {
		_, err = onnx.Write(f, model)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	array(t, "x.npy", []int{2, 4}, []float32{1, 2, 3, 4, -1, 0.5, 0.25, 2})
	must(t, "qnn", "compile", "m.onnx", "--target", "SM8750", "--out", "m.bin")
	want := ranFile(t, "m.onnx", "x.npy", "--backend", "onnx")
	one, other := ranFile(t, "m.bin", "x=x.npy"), ranFile(t, "m_ctx.onnx", "x.npy")
	if d := farthest(one, want); d > 0.02 || len(one) != 6 {
		t.Errorf("the context gives %v, our own engine %v", one, want)
	}
	if !slices.Equal(one, other) {
		t.Errorf("the context gives %v, the model around it %v", one, other)
	}
}

// So do files that others compiled.
func TestRunSamples(t *testing.T) {
	libs := os.Getenv("MM_QNN_LIB")
	if libs == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	runtimetest.Program(t)
	npuHome(t, libs)
	samples := testfiles.Shared(t, "qnn")
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		file, beside, in, want string
		shape                  []int
		far                    float64
	}{
		{"fc_add_relu.sm8750.q2.51.bin", "", "fc_add_relu.in.x.f32", "fc_add_relu.ref.y.f32", []int{2, 16}, 0.01},
		{"mlp.sm8750.q2.51_ctx.onnx", "mlp.sm8750.q2.51_ctx_qnn.bin", "mlp.sm8750.q2.51_ctx.in.x.f32", "mlp.sm8750.q2.51_ctx.htp.y.f32", []int{4, 16}, 0},
		{"mnist.sm8650.q2.51_ctx_qnn.bin", "", "mnist.sm8650.q2.51_ctx.in.Input3.f32", "mnist.sm8650.q2.51_ctx.htp.Plus214_Output_0.f32", []int{1, 1, 28, 28}, 0},
		{"fc.SM8650.litert2.2.0.q2.47.tflite", "", "mlp.sm8750.q2.51_ctx.in.x.f32", "", []int{4, 16}, 0},
	} {
		read := func(name string) []byte {
			data, err := os.ReadFile(filepath.Join(samples, name))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		for _, name := range []string{c.file, c.beside} {
			if name == "" {
				continue
			}
			if err := os.WriteFile(name, read(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		array(t, "in.npy", c.shape, floatsOf(read(c.in)))
		got := ranFile(t, c.file, "in.npy")
		if c.want == "" {
			continue
		}
		if d := farthest(got, floatsOf(read(c.want))); d > c.far {
			t.Errorf("%s is %g from what it should be", c.file, d)
		}
	}
}

// array writes numbers as an .npy file.
func array(t *testing.T, name string, shape []int, v []float32) {
	t.Helper()
	a := npy.Array{Type: "f4", Shape: shape}
	for _, x := range v {
		a.Data = binary.LittleEndian.AppendUint32(a.Data, math.Float32bits(x))
	}
	data, err := npy.Encode(&a)
	if err == nil {
		err = os.WriteFile(name, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Where two versions of the libraries are installed either computes when it is
// asked for, and results name it; the older takes no context of the newer.
func TestRunVersions(t *testing.T) {
	libs, old := os.Getenv("MM_QNN_LIB"), os.Getenv("MM_QNN_LIB_OLD")
	if libs == "" || old == "" {
		t.Skip("skipped: MM_QNN_LIB and MM_QNN_LIB_OLD name no folders with two versions of Qualcomm's libraries")
	}
	samples := testfiles.Shared(t, "qnn")
	runtimetest.Program(t)
	npuHome(t, libs)
	must(t, "runtime", "install", "qnn", "--accept-license", "--from", old)
	in, err := os.ReadFile(filepath.Join(samples, "fc_add_relu.in.x.f32"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	array(t, "x.npy", []int{2, 16}, floatsOf(in))
	file := filepath.Join(samples, "fc_add_relu.sm8650.q2.47.bin")
	for backend, want := range map[string]string{"qnn": "v2.51.", "qnn@2.51": "v2.51.", "qnn@2.47": "v2.47."} {
		stdout, stderr, code := mm(t, "run", file, "--input", "x.npy", "--backend", backend, "--json")
		var got struct{ Parts []part.Report }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
			t.Fatalf("%s: exit %d: %s%v", backend, code, stderr, err)
		}
		if with := got.Parts[0].Facts["libraries"]; !strings.HasPrefix(with, want) {
			t.Errorf("%s computes with %s", backend, with)
		}
	}
	if _, stderr, code := mm(t, "run", filepath.Join(samples, "fc_add_relu.sm8750.q2.51.bin"), "--input", "x.npy", "--backend", "qnn@2.47"); code != diag.ExitInvalid || !strings.Contains(stderr, "MM1113") {
		t.Errorf("a context of 2.51 by the libraries of 2.47: exit %d: %s", code, stderr)
	}
}
