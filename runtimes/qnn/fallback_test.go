package qnn_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx/htp/htptest"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
)

// A model with an operator that the NPU lacks never runs as qnn: the operator is named in the refusal, and
// if another engine is allowed, the result names both engines.
func TestFallback(t *testing.T) {
	e := engine(t)
	dir := t.TempDir()
	c := compiled(t, e, mlp(2), 69)
	f, err := qnnfile.Open(c.Context)
	if err != nil {
		t.Fatal(err)
	}
	graph := f.Parts[0].Context.Graphs[0].Name
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.Context)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "m.onnx"), mlp(2))
	const atan2 = 156
	if err := os.WriteFile(filepath.Join(dir, "m.tflite"), htptest.LiteRT{Stamp: "SM8750", Parts: []htptest.Part{{Graph: graph, Context: data}}, Left: []uint32{atan2}}.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	in := wave(3, 2, 8)
	args := []part.Argument{{Name: "m.x", Input: modality.Input{Tensor: &in}}}
	compute := func(opt part.Options) ([]part.Computed, error) {
		t.Helper()
		opt.Engines, opt.Engine = []runtimes.Engine{engines.ONNX{}, e}, "qnn"
		s, err := part.Open(t.Context(), twoFormats(dir), opt)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Compute(t.Context(), args)
	}
	if out, err := compute(part.Options{}); err == nil || !strings.Contains(err.Error(), "ATAN2") || !strings.Contains(err.Error(), "backend qnn") {
		t.Fatalf("without leave: %v, %v", out, err)
	} else {
		t.Logf("refused: %v", err)
	}
	var fell []part.Fallback
	out, err := compute(part.Options{Fallback: func(f part.Fallback) { fell = append(fell, f) }})
	if err != nil || len(fell) != 1 || !strings.Contains(fell[0].Why.Error(), "ATAN2") {
		t.Fatalf("with leave: %v, %+v", err, fell)
	}
	got := out[0]
	if got.Backend != "onnx" || got.Simulated || got.Facts[part.FactDevice] != "cpu" || got.Facts[part.FactInsteadOf] != "qnn" || strings.Contains(got.Step("", 0, "").Backend, "qnn") {
		t.Errorf("it is labelled %q, simulated %v, %v", got.Backend, got.Simulated, got.Facts)
	}
	t.Logf("with leave: backend %s, %v", got.Backend, got.Facts)
	if want := run(t, engines.ONNX{}, bundle(abi.ONNX, filepath.Join(dir, "m.onnx")), map[string]runtimes.Tensor{"x": in}); !reflect.DeepEqual(got.Outputs, want) {
		t.Error("it gives other numbers than the engine whose name it bears")
	}
}

// twoFormats returns a build of one encoder, m, as ONNX and as the output of a LiteRT compiler.
func twoFormats(dir string) *builds.Build {
	port := func(name string, width int64) abi.Port {
		return abi.Port{Name: name, Shape: abi.Shape{{Size: 2}, {Size: width}}, DType: abi.FP32}
	}
	m := &modules.Manifest{Name: "m", Version: "1.0.0", Type: abi.Encoder, Modality: abi.Image, Tensors: modules.Tensors{Inputs: []abi.Port{port("x", 8)}, Outputs: []abi.Port{port("y", 4)}}}
	p := builds.Part{Name: "m", Version: "1.0.0", Type: abi.Encoder, Modality: abi.Image, Files: builds.Formats{string(abi.ONNX): {"m.onnx"}, string(abi.QNN): {"m.tflite"}}}
	return &builds.Build{
		Assembly:  &builds.Assembly{Name: "b", Target: "phone", Modalities: []builds.ModalityPart{{Modality: abi.Image, Encoder: p}}},
		Manifests: map[string]*modules.Manifest{"m": m}, Files: folder(dir),
	}
}
