package engines_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

func ortBundle(path string) runtimes.Bundle {
	return runtimes.Bundle{
		Part:  builds.Part{Name: "m", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{"onnx": {filepath.Base(path)}}},
		Files: folder(filepath.Dir(path)),
	}
}

// inputs returns tensors for all inputs of a model, with open dimensions of one and of many.
func inputs(t *testing.T, path string, many int64) map[string]runtimes.Tensor {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := make(map[string]runtimes.Tensor)
	for _, v := range m.Inputs() {
		typ := map[string]runtimes.Elem{"float32": runtimes.Float32, "uint8": runtimes.Uint8, "float16": runtimes.Float16, "int64": runtimes.Int64}[v.Type.DType.String()]
		if typ == "" {
			t.Fatalf("input %s is of %s", v.Name, v.Type.DType)
		}
		x := runtimes.Tensor{Type: typ}
		n := typ.Size()
		for i, d := range v.Type.Dims {
			size := d.Value
			if size < 0 {
				size = many
				if i == 0 {
					size = 1
				}
			}
			x.Shape = append(x.Shape, size)
			n *= int(size)
		}
		x.Data = make([]byte, n)
		for i := range x.Data {
			x.Data[i] = byte(i % 50) // no float of these bytes is large or NaN
		}
		in[v.Name] = x
	}
	return in
}

func TestONNXRuntimeConformance(t *testing.T) {
	e := engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)}
	for name, many := range map[string]int64{"vision-proj/vision_proj.onnx": 3, "audio-enc/audio_enc.onnx": 1600, "vision-enc/vision_enc.onnx": 32} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			path := filepath.Join(testfiles.Root(t), "catalog", filepath.FromSlash(name))
			runtimetest.Run(t, runtimetest.Function{Engine: e, Bundle: ortBundle(path), In: inputs(t, path, many)}.Cases())
		})
	}
}

// A cancellation ends a long computation.
func TestONNXRuntimeDeep(t *testing.T) {
	e := engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)}
	m, in, long := runtimetest.Deep()
	path := filepath.Join(t.TempDir(), "deep.onnx")
	ortWrite(t, path, m)
	runtimetest.Run(t, runtimetest.Function{Engine: e, Bundle: ortBundle(path), In: in, Long: long}.Cases())
}

// ortWrite writes a model next to others.
func ortWrite(t *testing.T, path string, m *onnx.Model) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = onnx.Write(f, m)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Tensors of every type are passed in and out.
func TestTypes(t *testing.T) {
	e := engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)}
	dir := t.TempDir()
	for n, typ := range map[onnx.DType]runtimes.Elem{
		1: runtimes.Float32, 2: runtimes.Uint8, 3: runtimes.Int8, 4: runtimes.Uint16, 5: runtimes.Int16, 6: runtimes.Int32, 7: runtimes.Int64,
		9: runtimes.Bool, 10: runtimes.Float16, 11: runtimes.Float64, 12: runtimes.Uint32, 13: runtimes.Uint64, 16: runtimes.BFloat16,
	} {
		m := onnx.New("same", 17)
		m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", n, "N", 2)}
		m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", n, "N", 2)}
		m.Graph.Add("Identity", []string{"x"}, "y")
		path := filepath.Join(dir, fmt.Sprint(n, ".onnx"))
		ortWrite(t, path, m)
		open, err := e.Open(t.Context(), ortBundle(path), runtimes.Limits{Threads: 1})
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		for _, rows := range []int64{3, 0} {
			data := make([]byte, int(rows)*2*typ.Size())
			for i := range data {
				data[i] = byte(i % 2)
			}
			out, err := open.(runtimes.Function).Run(t.Context(), map[string]runtimes.Tensor{"x": {Type: typ, Shape: []int64{rows, 2}, Data: data}})
			if y := out["y"]; err != nil || y.Type != typ || string(y.Data) != string(data) || len(y.Shape) != 2 || y.Shape[0] != rows {
				t.Errorf("%s: %d rows came back as %+v, %v", typ, rows, y, err)
			}
		}
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The library leaves no files and sends nothing: pending telemetry would be in the folder for temporary
// files.
func TestNoTelemetry(t *testing.T) {
	e := engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)}
	dir := t.TempDir()
	for _, name := range []string{"TMPDIR", "HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, dir)
	}
	path := filepath.Join(testfiles.Root(t), "catalog", "vision-proj", "vision_proj.onnx")
	m, err := e.Open(t.Context(), ortBundle(path), runtimes.Limits{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.(runtimes.Function).Run(t.Context(), inputs(t, path, 3)); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// Invalid inputs are refused before the library reads them.
func TestRefuses(t *testing.T) {
	e := engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	model := func(location, domain string) *onnx.Model {
		m := onnx.New("sum", 17)
		m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", 1, 2)}
		m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", 1, 2)}
		w := onnx.Floats("w", []int64{2}, []float32{1, 2})
		if location != "" {
			w.Raw, w.External = nil, &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: location}}}
		}
		m.Graph.Initializers = []onnx.Tensor{w}
		m.Graph.Add("Add", []string{"x", "w"}, "y")
		m.Graph.Nodes[0].Domain = domain
		return m
	}
	x := map[string]runtimes.Tensor{"x": {Type: runtimes.Float32, Shape: []int64{2}, Data: make([]byte, 8)}}
	for name, c := range map[string]struct {
		location, domain string
		files            []string
		opens            bool
	}{
		"plain":             {opens: true},
		"declared":          {location: "w.bin", files: []string{"w.bin"}, opens: true},
		"not declared":      {location: "w.bin"},
		"outside":           {location: "../w.bin", files: []string{"../w.bin"}},
		"absent":            {location: "v.bin", files: []string{"v.bin"}},
		"an unknown domain": {domain: "com.example"},
		"an address":        {location: "*/_ORT_MEM_ADDR_/*", files: []string{"*/_ORT_MEM_ADDR_/*"}},
	} {
		path := filepath.Join(dir, "m.onnx")
		ortWrite(t, path, model(c.location, c.domain))
		b := ortBundle(path)
		b.Part.Files["onnx"] = append(b.Part.Files["onnx"], c.files...)
		m, err := e.Open(t.Context(), b, runtimes.Limits{})
		if (err == nil) != c.opens {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if _, err := m.(runtimes.Function).Run(t.Context(), x); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		m.Close()
	}
}
