package convert_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/onnx"
)

func value(name string, dtype onnx.DType, dims ...onnx.Dim) onnx.Value {
	return onnx.Value{Name: name, Type: onnx.Type{Kind: onnx.TensorKind, DType: dtype, Dims: dims, Ranked: true}}
}

func open(name string) onnx.Dim { return onnx.Dim{Value: onnx.Unknown, Param: name} }

func size(n int64) onnx.Dim { return onnx.Dim{Value: n} }

// recurrent is a model with a state, a rate, and dimensions of strange names.
func recurrent() *onnx.Model {
	return &onnx.Model{IRVersion: 8, Opsets: []onnx.Opset{{Version: 13}}, Graph: onnx.Graph{
		Name:   "g",
		Inputs: []onnx.Value{value("x", onnx.FLOAT, open("N"), open("unk__1")), value("h", onnx.FLOAT, size(2), open("N"), size(4)), value("sr", onnx.INT64)},
		Outputs: []onnx.Value{
			value("y", onnx.FLOAT, open("N"), open("unk__1"), open("T"), open(""), open("d_model")), value("hn", onnx.FLOAT, size(2), open("N"), size(4)),
		},
		Nodes: []onnx.Node{
			{Op: "Identity", Inputs: []string{"x"}, Outputs: []string{"y"}}, {Op: "Identity", Inputs: []string{"h"}, Outputs: []string{"hn"}},
		},
	}}
}

// Ports come from the file: the batch is left out, state and constants are the
// module's own business, and open dimensions have names that may be names.
func TestDescribe(t *testing.T) {
	m, err := convert.Describe(recurrent(), convert.Function{
		State: map[string]modules.State{"hn": {From: "h"}}, Constants: map[string]modules.Constant{"sr": {Value: 16000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	name := func(n string) abi.Dim { return abi.Dim{Name: n} }
	want := modules.Tensors{
		Inputs:    []abi.Port{{Name: "x", Shape: abi.Shape{name("unk__1")}, DType: abi.FP32}},
		Outputs:   []abi.Port{{Name: "y", Shape: abi.Shape{name("unk__1"), name("T"), name("D1"), name("D2")}, DType: abi.FP32}},
		State:     map[string]modules.State{"h": {From: "hn", Shape: []int64{2, 1, 4}, DType: abi.FP32}},
		Constants: map[string]modules.Constant{"sr": {Value: 16000, DType: abi.Int64}},
	}
	if d := cmp.Diff(want, m.Tensors); d != "" {
		t.Error(d)
	}
	if m.Type != abi.Encoder || m.Modality != abi.Image {
		t.Errorf("%s of %s", m.Type, m.Modality)
	}
	m, err = convert.Describe(recurrent(), convert.Function{
		Type: abi.Decoder, Preprocess: modules.Preprocess{"": {Sound: preprocess.Sound{SampleRate: 8000}}},
		State: map[string]modules.State{"h": {From: "hn"}}, Constants: map[string]modules.Constant{"sr": {}},
	})
	if err != nil || m.Inputs[0].Shape.String() != "[S]" || m.Modality != abi.Audio || m.Preprocess["x"].SampleRate != 8000 {
		t.Errorf("%+v, %v", m, err)
	}
	for name, spoil := range map[string]func(*onnx.Model){
		"element type float64": func(m *onnx.Model) { m.Graph.Outputs[0].Type.DType = onnx.DOUBLE },
		"unknown rank":         func(m *onnx.Model) { m.Graph.Inputs[0].Type.Ranked = false },
		"is not a tensor":      func(m *onnx.Model) { m.Graph.Outputs[0].Type.Kind = onnx.SequenceKind },
	} {
		bad := recurrent()
		spoil(bad)
		if _, err := convert.Describe(bad, convert.Function{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if _, err := convert.Describe(recurrent(), convert.Function{Preprocess: modules.Preprocess{"": {}}}); err == nil {
		t.Error("a block that might be of any input")
	}
}

// A folder of the file, its data and its labels, which is sound, and nothing
// where something is wrong.
func TestONNX(t *testing.T) {
	dir := t.TempDir()
	model := recurrent()
	model.Graph.Initializers = []onnx.Tensor{{Name: "w", DType: onnx.FLOAT, Dims: []int64{2}, External: &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: "data/w.bin"}}}}}
	model.Graph.Nodes[0] = onnx.Node{Op: "Add", Inputs: []string{"x", "w"}, Outputs: []string{"y"}}
	var out bytes.Buffer
	if _, err := onnx.Write(&out, model); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "Some Model v2.onnx")
	for name, data := range map[string][]byte{file: out.Bytes(), filepath.Join(dir, "keys.txt"): []byte("a\n")} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fn := convert.Function{
		State: map[string]modules.State{"h": {From: "hn"}}, Constants: map[string]modules.Constant{"sr": {Value: 8000}}, With: []string{filepath.Join(dir, "keys.txt")},
		Postprocess: map[string]modules.Postprocess{"y": {CTC: &modules.CTC{Labels: "keys.txt"}}},
	}
	opt := convert.Options{Dir: filepath.Join(dir, "made"), Version: "1.0.0", License: "MIT"}
	if _, err := convert.ONNX(t.Context(), file, opt, fn); err == nil || !strings.Contains(err.Error(), "w.bin") {
		t.Errorf("without its data: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "w.bin"), make([]byte, 8), 0o644); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*convert.Options, *convert.Function){
		"no SPDX":   func(o *convert.Options, _ *convert.Function) { o.License = "mine" },
		"version":   func(o *convert.Options, _ *convert.Function) { o.Version = "x" },
		"no labels": func(_ *convert.Options, f *convert.Function) { f.With = nil },
		"twice":     func(_ *convert.Options, f *convert.Function) { f.With = append(f.With[:1:1], f.With...) },
		"a folder":  func(_ *convert.Options, f *convert.Function) { f.With = append(f.With[:1:1], dir) },
		"no state": func(_ *convert.Options, f *convert.Function) {
			f.State = map[string]modules.State{"h": {From: "y"}, "x": {From: "y"}}
		},
	} {
		o, f := opt, fn
		change(&o, &f)
		if _, err := convert.ONNX(t.Context(), file, o, f); err == nil {
			t.Errorf("%s: a module is made", what)
		}
		if _, err := os.Stat(opt.Dir); err == nil {
			t.Fatalf("%s: a folder is left", what)
		}
	}
	made, err := convert.ONNX(t.Context(), file, opt, fn)
	if err != nil {
		t.Fatal(err)
	}
	m, list := inspect.Module(t.Context(), made)
	if len(list) > 0 || m.Name != "some-model-v2" {
		t.Errorf("%s: %v", m.Name, list)
	}
	if d := cmp.Diff([]string{"module.yaml", "data/w.bin", "keys.txt", "some-model-v2.onnx"}, m.Paths()); d != "" {
		t.Error(d)
	}
	if files := inspect.Weights(m, inspect.Folder(m))[abi.ONNX]; !cmp.Equal(files, []string{"some-model-v2.onnx", "data/w.bin", "keys.txt"}) {
		t.Errorf("a build ships %v", files)
	}
}
