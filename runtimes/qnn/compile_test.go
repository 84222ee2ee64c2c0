package qnn_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// engine returns the engine with the libraries of MM_QNN_LIB.
func engine(t testing.TB) *qnn.Engine {
	t.Helper()
	dir := os.Getenv("MM_QNN_LIB")
	if dir == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	runtimetest.Program(t)
	return &qnn.Engine{Library: dir}
}

// write writes a model to a file.
func write(t testing.TB, path string, m *onnx.Model) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = onnx.Write(f, m)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// mlp returns a model of two products, x [rows,8] → y [rows,4].
func mlp(rows any) *onnx.Model {
	m := onnx.New("mlp", 17)
	w := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32((i*37)%23-11) / 16
		}
		return out
	}
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, rows, 8)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, rows, 4)}
	m.Graph.Initializers = []onnx.Tensor{onnx.Floats("w", []int64{8, 16}, w(128)), onnx.Floats("v", []int64{16, 4}, w(64))}
	m.Graph.Add("MatMul", []string{"x", "w"}, "h")
	m.Graph.Add("Relu", []string{"h"}, "r")
	m.Graph.Add("MatMul", []string{"r", "v"}, "y")
	return m
}

// The same model compiles to the same bytes at any path, for the requested chip.
func TestCompile(t *testing.T) {
	e := engine(t)
	var bins [][]byte
	for range 2 {
		dir := t.TempDir()
		got, err := e.Compile(t.Context(), qnn.Compilation{Model: write(t, filepath.Join(dir, "m.onnx"), mlp(2)), SoC: 69, Out: filepath.Join(dir, "m_ctx.onnx")})
		if err != nil {
			t.Fatal(err)
		}
		if got.SoC != 69 || got.Arch != 79 || got.Nodes != 3 || got.Context != filepath.Join(dir, "m_ctx_qnn.bin") || got.Build == "" {
			t.Errorf("%+v", got)
		}
		t.Logf("%+v", got)
		data, err := os.ReadFile(got.Context)
		if err != nil {
			t.Fatal(err)
		}
		bins = append(bins, data)
	}
	if !bytes.Equal(bins[0], bins[1]) {
		t.Error("two compilations of one model differ")
	}
}

// A failed compilation leaves no files and returns the reason.
func TestNotCompiled(t *testing.T) {
	e := engine(t)
	odd := mlp(2)
	odd.Graph.Outputs = []onnx.Value{onnx.TensorValue("z", onnx.FLOAT, 2, 4)}
	odd.Graph.Add("Det", []string{"d"}, "unused")
	odd.Graph.Nodes = odd.Graph.Nodes[:3]
	odd.Graph.Add("Sinh", []string{"y"}, "z")
	odd.Graph.Nodes[3].Name = "bend"
	for name, c := range map[string]struct {
		model *onnx.Model
		soc   int
		want  string
	}{
		"dynamic":       {mlp("N"), 69, "N"},
		"unknown chip":  {mlp(2), 999, "999"},
		"odd operators": {odd, 69, `1 of the 4 nodes: Sinh "bend"`},
	} {
		dir := t.TempDir()
		_, err := e.Compile(t.Context(), qnn.Compilation{Model: write(t, filepath.Join(dir, "m.onnx"), c.model), SoC: c.soc, Out: filepath.Join(dir, "m_ctx.onnx")})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		t.Log(err)
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("%s left %v", name, left)
		}
	}
}

// A plugin next to an incompatible ONNX Runtime is reported with the version found.
func TestOtherONNXRuntime(t *testing.T) {
	e, old := engine(t), older(t)
	dir, version := t.TempDir(), ""
	for _, from := range []struct{ folder, pattern string }{{old.Library, "lib[^o]*"}, {old.Library, "libonnxruntime_*"}, {e.Library, "libonnxruntime.so.*"}} {
		files, err := filepath.Glob(filepath.Join(from.folder, from.pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.Symlink(f, filepath.Join(dir, filepath.Base(f))); err != nil {
				t.Fatal(err)
			}
			_, version, _ = strings.Cut(filepath.Base(f), ".so.")
		}
	}
	if _, err := os.Stat(filepath.Join(old.Library, "libonnxruntime.so."+version)); err == nil {
		t.Skip("skipped: both folders have the same ONNX Runtime")
	}
	_, err := (&qnn.Engine{Library: dir}).Compile(t.Context(), qnn.Compilation{Model: write(t, filepath.Join(t.TempDir(), "m.onnx"), mlp(2)), SoC: 69, Out: filepath.Join(t.TempDir(), "m_ctx.onnx")})
	if err == nil || !strings.Contains(err.Error(), "does not work with ONNX Runtime "+version) {
		t.Errorf("ONNX Runtime %s: %v", version, err)
	}
}

// The package with the libraries also installs alone: contexts run, and the missing compiler is reported.
func TestWithoutONNXRuntime(t *testing.T) {
	e := engine(t)
	c := compiled(t, e, mlp(2), 69)
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(e.Library, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := filepath.Base(f); !strings.HasPrefix(name, "libonnxruntime.so.") {
			if err := os.Symlink(f, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	home := t.TempDir()
	r, err := native.Install(t.Context(), native.Options{Home: home, Name: native.QNN, From: dir, AcceptLicense: true})
	if err != nil {
		t.Fatal(err)
	}
	half := &qnn.Engine{Home: func() (string, error) { return home, nil }}
	p, err := half.Platform(t.Context())
	if err != nil || p.Compiler != "" || !strings.HasPrefix(p.Build, "v2.") {
		t.Errorf("%+v, %v", p, err)
	}
	in := map[string]runtimes.Tensor{"x": wave(1, 2, 8)}
	if got, want := run(t, half, bundle(abi.QNN, c.Context), in), run(t, e, bundle(abi.QNN, c.Context), in); !reflect.DeepEqual(got, want) {
		t.Error("a context gives other numbers")
	}
	out := filepath.Join(t.TempDir(), "m_ctx.onnx")
	if _, err := half.Compile(t.Context(), qnn.Compilation{Model: write(t, filepath.Join(t.TempDir(), "m.onnx"), mlp(2)), SoC: 69, Out: out}); !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), "libonnxruntime.so.1") {
		t.Errorf("compiling with %s: %v", r.Version, err)
	}
}
