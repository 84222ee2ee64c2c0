package onnxfile_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// runner runs a model on tensors in the order of its inputs.
type runner interface {
	run(t *testing.T, m *onnx.Model, in []engine.Tensor) []engine.Tensor
}

// local is onnx/engine.
type local struct{}

func (local) run(t *testing.T, m *onnx.Model, in []engine.Tensor) []engine.Tensor {
	t.Helper()
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	inputs := map[string]engine.Tensor{}
	for i, v := range p.Inputs() {
		inputs[v.Name] = in[i]
	}
	results, err := p.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	var out []engine.Tensor
	for _, name := range p.Outputs() {
		out = append(out, results[name])
	}
	return out
}

// runtime is ONNX Runtime.
type runtime struct {
	stdin  *bufio.Writer
	stdout *bufio.Reader
}

// newRuntime starts ONNX Runtime or skips the test.
func newRuntime(t *testing.T) *runtime {
	t.Helper()
	python := testfiles.Python(t, "onnxruntime", "numpy")
	cmd := exec.Command(python, filepath.Join(testfiles.Root(t), "onnx", "engine", "testdata", "ort.py"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &runtime{bufio.NewWriter(in), bufio.NewReader(out)}
}

func (r *runtime) ask(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Fprintf(r.stdin, format+"\n", args...)
	if err := r.stdin.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.stdout.ReadString('\n'); err != nil {
		t.Fatalf("onnx runtime ended: %v", err)
	}
}

func (r *runtime) run(t *testing.T, m *onnx.Model, in []engine.Tensor) []engine.Tensor {
	t.Helper()
	dir := t.TempDir()
	var b bytes.Buffer
	if _, err := onnx.Write(&b, m); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "m.onnx")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	types := map[onnx.DType]string{onnx.FLOAT: "f4", onnx.FLOAT16: "f2", onnx.UINT8: "u1", onnx.INT64: "i8"}
	for i, x := range in {
		data, err := npy.Encode(&npy.Array{Type: types[x.Type], Shape: x.Shape, Data: x.Data})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("in%d.npy", i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.ask(t, "load %s 1", path)
	r.ask(t, "run %s", dir)
	var out []engine.Tensor
	for i, v := range m.Graph.Outputs {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("out%d.npy", i)))
		if err != nil {
			t.Fatal(err)
		}
		a, err := npy.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, engine.Tensor{Type: v.Type.DType, Shape: a.Shape, Data: a.Data})
	}
	return out
}

func floats(shape []int, x []float32) engine.Tensor {
	t := engine.Tensor{Type: onnx.FLOAT, Shape: shape}
	for _, v := range x {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}
