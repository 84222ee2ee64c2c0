package engines_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/openvino"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// openvinoExported writes a model and returns it as a part.
func openvinoExported(t *testing.T, m *onnx.Model, precision string, in map[string]engine.Tensor) runtimes.Bundle {
	t.Helper()
	files, _, err := export.Lowered{Form: openvino.Form{}}.Write(t.Context(), m, "m", precision, in)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		w, err := os.Create(filepath.Join(dir, f.Path))
		if err == nil {
			err = errors.Join(f.Write(w), w.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return runtimes.Bundle{
		Part:  builds.Part{Name: "m", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{"openvino": {"m.xml", "m.bin"}}},
		Files: folder(dir),
	}
}

// openvinoModule opens a module of the catalog with its golden inputs.
func openvinoModule(t *testing.T, path string) (*onnx.Model, map[string]engine.Tensor) {
	t.Helper()
	path = filepath.Join(testfiles.Root(t), "catalog", filepath.FromSlash(path))
	m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: engine.Checks()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	in := map[string]engine.Tensor{}
	for _, v := range m.Inputs() {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), "golden", v.Name+".npy"))
		if err == nil {
			in[v.Name], err = drift.Read(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return m, in
}

func TestOpenVINOConformance(t *testing.T) {
	e := engines.OpenVINO{Home: runtimetest.Home(t, native.OpenVINO)}
	m, in := openvinoModule(t, "vision-proj/vision_proj.onnx")
	runtimetest.Run(t, runtimetest.Function{Engine: e, Bundle: openvinoExported(t, m, "fp32", in), In: tensors(in)}.Cases())
}

// A cancellation ends a long computation.
func TestOpenVINODeep(t *testing.T) {
	e := engines.OpenVINO{Home: runtimetest.Home(t, native.OpenVINO)}
	m, _, in := runtimetest.Deep() // shapes are fixed
	shapes := map[string]engine.Tensor{}
	for name, v := range in {
		x := engine.Tensor{Type: v.Type.ONNX(), Data: v.Data}
		for _, d := range v.Shape {
			x.Shape = append(x.Shape, int(d))
		}
		shapes[name] = x
	}
	runtimetest.Run(t, runtimetest.Function{Engine: e, Bundle: openvinoExported(t, m, "fp32", shapes), In: in, Long: in}.LongCases())
}

// The modules of the catalog compute what mm's engine computes.
func TestOpenVINOCatalog(t *testing.T) {
	e := engines.OpenVINO{Home: runtimetest.Home(t, native.OpenVINO)}
	for _, path := range []string{"vision-proj/vision_proj.onnx", "audio-enc/audio_enc.onnx", "tts-dec/tts_dec.onnx"} {
		m, in := openvinoModule(t, path)
		p, err := engine.Compile(t.Context(), m, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		want, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for precision, least := range map[string]float64{"fp32": 0.99999, "fp16": 0.9999, "int8": 0.98} {
			f, err := e.Open(t.Context(), openvinoExported(t, m, precision, in), runtimes.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.(runtimes.Function).Run(t.Context(), tensors(in))
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			for name, w := range tensors(want) {
				if c := openvinoCosine(t, got[name], w); !(c >= least) {
					t.Errorf("%s %s in %s: cosine %v, want %v", path, name, precision, c, least)
				}
			}
		}
	}
}

func openvinoCosine(t *testing.T, a, b runtimes.Tensor) float64 {
	t.Helper()
	if len(a.Data) != len(b.Data) {
		t.Fatalf("got shape %v, want %v", a.Shape, b.Shape)
	}
	var xy, xx, yy float64
	for i := 0; i+4 <= len(a.Data); i += 4 {
		x, y := float64(math.Float32frombits(binary.LittleEndian.Uint32(a.Data[i:]))), float64(math.Float32frombits(binary.LittleEndian.Uint32(b.Data[i:])))
		xy, xx, yy = xy+x*y, xx+x*x, yy+y*y
	}
	return xy / math.Sqrt(xx*yy)
}
