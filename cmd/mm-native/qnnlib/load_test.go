package qnnlib_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/cmd/mm-native/qnnlib"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// The number of loads, the number before the first measurement, and the tolerated growth between in
// bytes.
const (
	loads    = 200
	warm     = 20
	mostMore = 5 << 20
)

// A context that is loaded, run and freed repeatedly leaves nothing in the process. The baseline is the
// maximum of the first loads: the library sometimes keeps a block of 5.3 MB until the next load.
func TestLoadedOften(t *testing.T) {
	dir := os.Getenv("MM_QNN_LIB")
	if dir == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	e, err := qnnlib.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	own := opening(t, dir, e)
	in := map[string]runtimes.Tensor{"x": {Type: runtimes.Float32, Shape: []int64{2, 8}, Data: []byte(strings.Repeat("\x00\x00\x80\x3f", 16))}}
	var first map[string]runtimes.Tensor
	var before int64
	for i := range warm + loads {
		m, err := e.OpenOwn(t.Context(), runtimes.Bundle{}, runtimes.Limits{}, own)
		if err != nil {
			t.Fatalf("load %d: %v", i+1, err)
		}
		out, err := m.(runtimes.Function).Run(t.Context(), in)
		if err := errors.Join(err, m.Close()); err != nil {
			t.Fatalf("run %d: %v", i+1, err)
		}
		if first == nil {
			first = out
		} else if !reflect.DeepEqual(out, first) {
			t.Fatalf("run %d gives other numbers than the first", i+1)
		}
		if i < warm {
			before = max(before, resident(t))
		}
	}
	more := resident(t) - before
	t.Logf("%d loads, after %d: the process grew from %d KiB by %d KiB", loads, warm, before>>10, more>>10)
	if more > mostMore {
		t.Errorf("it grew by %d bytes, at most %d are wanted", more, mostMore)
	}
}

// opening compiles a model and returns how to open its context.
func opening(t *testing.T, libs string, e *qnnlib.Engine) []byte {
	t.Helper()
	runtimetest.Program(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "m.onnx")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = onnx.Write(f, product())
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := (&qnn.Engine{Library: libs}).Compile(t.Context(), qnn.Compilation{Model: file, SoC: 69, Out: filepath.Join(dir, "m_ctx.onnx")})
	if err != nil {
		t.Fatal(err)
	}
	o := ask.Open{File: ask.File{Path: c.Context, Size: c.Bytes, Digest: c.Digest}, Profile: true}
	args, err := json.Marshal(o.File)
	if err != nil {
		t.Fatal(err)
	}
	description, err := e.Answer(t.Context(), ask.Describe, args)
	if err != nil {
		t.Fatal(err)
	}
	g := description.(ask.Description).Graphs[0]
	o.Graph, o.Inputs, o.Outputs = g.Name, g.Inputs, g.Outputs
	own, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// product returns x [2,8] → y [2,256], with weights of some size.
func product() *onnx.Model {
	m := onnx.New("product", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2, 8)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 2, 256)}
	w := make([]float32, 8*256)
	for i := range w {
		w[i] = float32(i%17) / 16
	}
	m.Graph.Initializers = []onnx.Tensor{onnx.Floats("w", []int64{8, 256}, w)}
	m.Graph.Add("MatMul", []string{"x", "w"}, "y")
	return m
}

// resident returns the resident memory of this process in bytes, after a garbage collection.
func resident(t *testing.T) int64 {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("skipped: this system does not tell the memory of a process: %v", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
