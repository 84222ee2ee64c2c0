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

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/tflite"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// exported writes a model and returns it as a part in a format: tflite or nnapi.
func exported(t *testing.T, m *onnx.Model, format abi.Format, precision string, in map[string]engine.Tensor) runtimes.Bundle {
	t.Helper()
	files, _, err := export.Lowered{Form: tflite.Exporter{Delegate: format == abi.NNAPI}}.Write(t.Context(), m, "m", precision, in)
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
		Part:  builds.Part{Name: "m", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{string(format): {"m.tflite"}}},
		Files: folder(dir),
	}
}

// liteRTModule opens a module of the catalog with its golden inputs and its manifest.
func liteRTModule(t *testing.T, path string) (*onnx.Model, map[string]engine.Tensor, *modules.Manifest) {
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
	manifest, list := modules.Load(filepath.Dir(path))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return m, in, manifest
}

// tensors converts inputs of the in-tree engine.
func tensors(in map[string]engine.Tensor) map[string]runtimes.Tensor {
	out := map[string]runtimes.Tensor{}
	for name, v := range in {
		t := runtimes.Tensor{Type: runtimes.ElemOf(v.Type), Data: v.Data}
		for _, d := range v.Shape {
			t.Shape = append(t.Shape, int64(d))
		}
		out[name] = t
	}
	return out
}

func TestLiteRTConformance(t *testing.T) {
	e := engines.LiteRT{Home: runtimetest.Home(t, native.LiteRT)}
	m, in, _ := liteRTModule(t, "vision-proj/vision_proj.onnx")
	for _, format := range []abi.Format{abi.TFLite, abi.NNAPI} {
		t.Run(string(format), func(t *testing.T) {
			runtimetest.Run(t, runtimetest.Function{Engine: e, Bundle: exported(t, m, format, "fp32", in), In: tensors(in)}.Cases())
		})
	}
}

// A cancellation ends a long computation for the caller.
func TestDeep(t *testing.T) {
	e := engines.LiteRT{Home: runtimetest.Home(t, native.LiteRT)}
	m, _, in := runtimetest.Deep() // shapes are fixed
	shapes := map[string]engine.Tensor{}
	for name, v := range in {
		x := engine.Tensor{Type: v.Type.ONNX(), Data: v.Data}
		for _, d := range v.Shape {
			x.Shape = append(x.Shape, int(d))
		}
		shapes[name] = x
	}
	runtimetest.Run(t, runtimetest.Function{Engine: e, Bundle: exported(t, m, abi.TFLite, "fp32", shapes), In: in, Long: in}.LongCases())
}

// The modules of the catalog compute their golden outputs, in the types of their
// manifests.
func TestCatalog(t *testing.T) {
	e := engines.LiteRT{Home: runtimetest.Home(t, native.LiteRT)}
	for _, path := range []string{
		"vision-proj/vision_proj.onnx", "audio-enc/audio_enc.onnx", "audio-proj/audio_proj.onnx", "img-dec/img_dec.onnx", "tts-dec/tts_dec.onnx",
	} {
		m, in, manifest := liteRTModule(t, path)
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
			b := exported(t, m, abi.TFLite, precision, in)
			b.Manifest = manifest
			f, err := e.Open(t.Context(), b, runtimes.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.(runtimes.Function).Run(t.Context(), tensors(in))
			if err := errors.Join(err, f.Close()); err != nil {
				t.Errorf("%s %s: %v", path, precision, err)
				continue
			}
			for name, w := range tensors(want) {
				c := cosine(t, got[name], w)
				t.Logf("%s %s in %s: cosine %.7f", path, name, precision, c)
				if !(c >= least) {
					t.Errorf("%s %s in %s: cosine %v, want %v", path, name, precision, c, least)
				}
			}
		}
	}
}

// cosine compares tensors of one type.
func cosine(t *testing.T, a, b runtimes.Tensor) float64 {
	t.Helper()
	if a.Type != b.Type || len(a.Data) != len(b.Data) {
		t.Fatalf("got %s %v, want %s %v", a.Type, a.Shape, b.Type, b.Shape)
	}
	floats := runtimes.Retype(echo{}, map[string]runtimes.Elem{"a": runtimes.Float32, "b": runtimes.Float32}, nil)
	both, err := floats.Run(t.Context(), map[string]runtimes.Tensor{"a": a, "b": b})
	if err != nil {
		t.Fatal(err)
	}
	var xy, xx, yy float64
	for i := range len(both["a"].Data) / both["a"].Type.Size() {
		x, y := number(both["a"], i), number(both["b"], i)
		xy, xx, yy = xy+x*y, xx+x*x, yy+y*y
	}
	return xy / math.Sqrt(xx*yy)
}

func number(t runtimes.Tensor, i int) float64 {
	if t.Type == runtimes.Uint8 {
		return float64(t.Data[i])
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
}

// echo returns its inputs.
type echo struct{}

func (echo) Close() error { return nil }
func (echo) Run(_ context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	return in, nil
}

// Files that the engine does not run are refused before the library reads them.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.tflite"), []byte("\x08\x00\x00\x00TFL3\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := engines.LiteRT{Home: func() (string, error) { return dir, nil }}
	b := runtimes.Bundle{Part: builds.Part{Name: "m", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{"tflite": {"m.tflite"}}}, Files: folder(dir)}
	if _, err := e.Open(t.Context(), b, runtimes.Limits{}); err == nil || !strings.Contains(err.Error(), "checking m@1.0.0") {
		t.Errorf("a broken file: %v", err)
	}
	b.Part.Files = builds.Formats{"onnx": {"m.onnx"}}
	if _, err := e.Open(t.Context(), b, runtimes.Limits{}); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("no file of the format: %v", err)
	}
	if _, err := engines.CheckLiteRT(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Damaged models cause at most an error.
func TestDamagedFiles(t *testing.T) {
	e := engines.LiteRT{Home: runtimetest.Home(t, native.LiteRT)}
	m, in, _ := liteRTModule(t, "vision-proj/vision_proj.onnx")
	good := exported(t, m, abi.TFLite, "int8", in)
	file, err := good.Files.Path("m.tflite")
	if err != nil {
		t.Fatal(err)
	}
	check := func(path string) error {
		_, err := engines.CheckLiteRT(path)
		return err
	}
	use := func(ctx context.Context, _, path string) error {
		b := good
		b.Files = folder(filepath.Dir(path))
		f, err := e.Open(ctx, b, runtimes.Limits{Threads: 1, Memory: 1 << 30})
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.(runtimes.Function).Run(ctx, tensors(in))
		return err
	}
	runtimetest.Damaged(t, runtimetest.Hostile(t), []string{file}, runtimetest.Damage, check, runtimetest.Trial{Name: "litert", Use: use})
}
