package qnn_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp/htptest"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/qnn"
)

// A LiteRT model of one context runs like the context.
func TestLiteRT(t *testing.T) {
	e := engine(t)
	c := compiled(t, e, mlp(2), 69)
	f, err := qnnfile.Open(c.Context)
	if err != nil {
		t.Fatal(err)
	}
	name := f.Parts[0].Context.Graphs[0].Name
	data, err := os.ReadFile(c.Context)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.tflite")
	if err := os.WriteFile(path, htptest.LiteRT{Stamp: "SM8750", Parts: []htptest.Part{{Graph: name, Context: data}}}.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	in := map[string]runtimes.Tensor{"x": wave(5, 2, 8)}
	if a, b := run(t, e, bundle(abi.QNN, path), in), run(t, e, bundle(abi.QNN, c.Context), in); !reflect.DeepEqual(a, b) {
		t.Error("the model and its context give other numbers")
	}
}

// aot compiles models with LiteRT's compiler plugin and the libraries of QAIRT 2.47
// (scripts/litert-aot.py) and returns their folder. The plugin needs more libraries than mm keeps.
func aot(t *testing.T, chip string) string {
	t.Helper()
	python, libs := os.Getenv("MM_QNN_LITERT"), os.Getenv("MM_QNN_LITERT_LIB")
	if python == "" || libs == "" {
		t.Skip("skipped: MM_QNN_LITERT names no Python with ai-edge-litert 2.2.0, or MM_QNN_LITERT_LIB no folder with all libraries of QAIRT 2.47")
	}
	dir := t.TempDir()
	out, err := exec.Command(python, filepath.Join(testfiles.Root(t), "scripts", "litert-aot.py"), libs, dir, chip).CombinedOutput()
	if err != nil {
		t.Fatalf("compiling with LiteRT: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	return dir
}

// connected adds FULLY_CONNECTED as in scripts/litert-aot.py: x [2,inner] → y [2,width], with weights and
// biases of the same formulas.
func connected(m *onnx.Model, name, x string, width, inner int64) {
	w, b := make([]float32, width*inner), make([]float32, width)
	for i := range w {
		w[i] = float32(i*37%23-11) / 16
	}
	for i := range b {
		b[i] = float32(i%5-2) / 8
	}
	m.Graph.Initializers = append(m.Graph.Initializers, onnx.Floats(name+".w", []int64{width, inner}, w), onnx.Floats(name+".b", []int64{width}, b))
	m.Graph.Add("Gemm", []string{x, name + ".w", name + ".b"}, name, onnx.Int("transB", 1))
}

// source returns the equivalent of a LiteRT model for mm's own engine.
func source(t *testing.T, width, inner int64, relu bool) string {
	t.Helper()
	m := onnx.New("fc", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2, inner)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 2, width)}
	to := "y"
	if relu {
		to = "h"
	}
	connected(m, to, "x", width, inner)
	if relu {
		m.Graph.Add("Relu", []string{"h"}, "y")
	}
	return write(t, filepath.Join(t.TempDir(), "fc.onnx"), m)
}

// Models compiled by LiteRT for three chips are for those chips and return the numbers of mm's own engine,
// with both SDKs.
func TestLiteRTCompiled(t *testing.T) {
	for _, chip := range []string{"SM8550", "SM8650", "SM8750"} {
		dir := aot(t, chip)
		for _, e := range []*qnn.Engine{older(t), engine(t)} {
			b := bundle(abi.QNN, filepath.Join(dir, "fc.tflite"))
			m, err := e.Open(t.Context(), b, runtimes.Limits{Device: chip})
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]runtimes.Tensor{"x": wave(7, 2, 16)}
			got, err := m.(runtimes.Function).Run(t.Context(), in)
			facts := m.(runtimes.Documented).Facts()
			if err := errors.Join(err, m.Close()); err != nil {
				t.Fatal(err)
			}
			want := run(t, engines.ONNX{}, bundle(abi.ONNX, source(t, 8, 16, true)), in)
			near := cosine(got["y"], want["y"])
			if !(near >= 0.99999) || !strings.HasPrefix(facts["chip"], chip) {
				t.Errorf("cosine %.8f for %s", near, facts["chip"])
			}
			t.Logf("%s, libraries %s: cosine %.8f", facts["chip"], facts["libraries"], near)
		}
	}
}

// A model with an operator left to the processor is refused with the operator's name; both its contexts can
// be extracted, and each returns the numbers of mm's own engine.
func TestLiteRTMixed(t *testing.T) {
	dir, e := aot(t, "SM8650"), older(t)
	path := filepath.Join(dir, "mixed.tflite")
	m, err := e.Open(t.Context(), bundle(abi.QNN, path), runtimes.Limits{})
	if err == nil {
		m.Close()
		t.Fatal("it opened")
	}
	if !strings.Contains(err.Error(), "2 contexts") || !strings.Contains(err.Error(), "ATAN2") {
		t.Errorf("it is refused as %v", err)
	}
	t.Logf("refused: %v", err)
	x, err := qnnfile.Extract(t.Context(), path, t.TempDir(), false)
	if err != nil || len(x.Files) != 2 || len(x.Left) != 1 || x.Left[0].Name != "ATAN2" {
		t.Fatalf("%+v, %v", x, err)
	}
	for i, c := range []struct {
		in, out string
		inner   int64
	}{{"x", "h", 16}, {"a", "y", 8}} {
		data := wave(i, 2, c.inner)
		got := run(t, e, bundle(abi.QNN, x.Files[i].File), map[string]runtimes.Tensor{c.in: data})
		want := run(t, engines.ONNX{}, bundle(abi.ONNX, source(t, 8, c.inner, false)), map[string]runtimes.Tensor{"x": data})
		near := cosine(got[c.out], want["y"])
		if !(near >= 0.99999) {
			t.Errorf("context %d: cosine %.8f", i, near)
		}
		t.Logf("context %d of 2, %s -> %s: cosine %.8f", i+1, c.in, c.out, near)
	}
}

// The sample of LiteRT 2.2.0, made elsewhere, yields the same with both SDKs, and for each row alone. Its
// weights are unknown, so its expected results are too: [TestLiteRTCompiled] has known weights.
func TestLiteRTSample(t *testing.T) {
	b := bundle(abi.QNN, testfiles.Shared(t, "qnn", "fc.SM8650.litert2.2.0.q2.47.tflite"))
	const rows, inner, width = 4, 16, 8
	in := wave(9, rows, inner)
	old := run(t, older(t), b, map[string]runtimes.Tensor{"x": in})["y"]
	now := run(t, engine(t), b, map[string]runtimes.Tensor{"x": in})["y"]
	if near := cosine(old, now); !(near >= 0.99999) {
		t.Errorf("cosine %.8f between the SDKs", near)
	} else {
		t.Logf("cosine %.8f between the SDKs", near)
	}
	turned := runtimes.Tensor{Type: in.Type, Shape: in.Shape, Data: slices.Concat(in.Data[4*inner:], in.Data[:4*inner])}
	got := run(t, engine(t), b, map[string]runtimes.Tensor{"x": turned})["y"]
	if want := slices.Concat(now.Data[4*width:], now.Data[:4*width]); !reflect.DeepEqual(got.Data, want) {
		t.Error("rows that change places give other numbers")
	}
}
