package engines_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// write writes a model to a folder and returns its bundle.
func write(t *testing.T, m *onnx.Model) runtimes.Bundle {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "m.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onnx.Write(f, m); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return bundle(dir, "m.onnx")
}

func bundle(dir, name string) runtimes.Bundle {
	return runtimes.Bundle{
		Part:  builds.Part{Name: "enc", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{"onnx": {name}}},
		Files: folder(dir),
	}
}

// dense returns y = relu(x·w) with x of [N, 2].
func dense() *onnx.Model {
	m := onnx.New("dense", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", 2)}
	w := m.Graph.Constant(onnx.Floats("w", []int64{2, 3}, []float32{1, 2, 3, 4, 5, -6}))
	m.Graph.Add("MatMul", []string{"x", w}, "z")
	m.Graph.Add("Relu", []string{"z"}, "y")
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, "N", 3)}
	return m
}

func floats(v ...float32) []byte {
	var out []byte
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

func TestONNXConformance(t *testing.T) {
	m, in, long := runtimetest.Deep()
	for name, f := range map[string]runtimetest.Function{
		"dense": {Bundle: write(t, dense()), In: map[string]runtimes.Tensor{"x": {Type: runtimes.Float32, Shape: []int64{1, 2}, Data: floats(1, 2)}}},
		"deep":  {Bundle: write(t, m), In: in, Long: long},
	} {
		t.Run(name, func(t *testing.T) {
			f.Engine = engines.ONNX{}
			runtimetest.Run(t, f.Cases())
		})
	}
}

func TestRun(t *testing.T) {
	m, err := engines.ONNX{}.Open(t.Context(), write(t, dense()), runtimes.Limits{Threads: 2, Time: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	out, err := m.(runtimes.Function).Run(t.Context(), map[string]runtimes.Tensor{"x": {Type: runtimes.Float32, Shape: []int64{2, 2}, Data: floats(1, 2, -1, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := out["y"]; string(got.Data) != string(floats(9, 12, 0, 3, 3, 0)) || got.Shape[0] != 2 || got.Shape[1] != 3 {
		t.Errorf("y is %v %v", got.Shape, got.Data)
	}
}

// An unsupported operator is named when the model is opened.
func TestRefusals(t *testing.T) {
	m := dense()
	m.Graph.Nodes[1].Op = "Frobnicate"
	if _, err := (engines.ONNX{}).Open(t.Context(), write(t, m), runtimes.Limits{}); err == nil || !strings.Contains(err.Error(), "Frobnicate") {
		t.Errorf("an unknown operator: %v", err)
	}
	f, err := engines.ONNX{}.Open(t.Context(), write(t, dense()), runtimes.Limits{Time: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	in := map[string]runtimes.Tensor{"x": {Type: runtimes.Float32, Shape: []int64{1, 2}, Data: floats(1, 2)}}
	if _, err := f.(runtimes.Function).Run(t.Context(), in); !errors.Is(err, runtimes.ErrTime) {
		t.Errorf("a nanosecond: %v", err)
	}
}

// A core is opened by the engine of language models, in any order of engines and with any files.
func TestSelection(t *testing.T) {
	both := builds.Formats{"gguf": {"a"}, "onnx": {"b"}}
	for _, engines := range [][]runtimes.Engine{{engines.Core{}, engines.ONNX{}}, {engines.ONNX{}, engines.Core{}}} {
		e, err := runtimes.Select(context.Background(), engines, "", builds.Part{Name: "core", Version: "1.0.0", Type: abi.Core, Files: both})
		if err != nil || e.Name() != "core" {
			t.Errorf("a core: %v, %v", e, err)
		}
		e, err = runtimes.Select(context.Background(), engines, "", builds.Part{Name: "enc", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{"onnx": {"b"}}})
		if err != nil || e.Name() != "onnx" {
			t.Errorf("an encoder: %v, %v", e, err)
		}
	}
	if _, err := runtimes.Select(context.Background(), []runtimes.Engine{engines.Core{}, engines.ONNX{}}, "onnx", builds.Part{Type: abi.Core, Files: both}); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("a core by name: %v", err)
	}
}
