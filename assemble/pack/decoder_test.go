package pack_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/pack"
	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/decode"
	"mm-abi.org/mm/train/net"
)

// drawing leaves the checkpoint of a decoder that has seen one picture.
func drawing(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	r := decode.Recipe{
		Name: "draw", Stage: decode.Decoders, Seed: 3, Modality: decode.Image, Core: decode.Core{Base: core, States: 12},
		Decoder: decode.Decoder{Net: &net.Config{
			Inputs: []net.Port{{Name: decode.States, Rows: 12, Cols: 256}, {Name: decode.Noise, Rows: 4096, Cols: 3, Height: 64}, {Name: decode.Time, Rows: 1, Cols: 1}},
			Layers: []net.Layer{
				{Name: "clock", Kind: "time", Inputs: []string{decode.Time}, Out: 32},
				{Name: "seen", Kind: "patches", Inputs: []string{decode.Noise}, Out: 16, Kernel: net.Sizes{32}},
				{Name: "words", Kind: "linear", Inputs: []string{decode.States}, Out: 16},
				{Name: "read", Kind: "cross_attention", Inputs: []string{"seen"}, Heads: 2, Memory: "words", Residual: "seen"},
				{Name: "paced", Kind: "modulate", Inputs: []string{"read", "clock"}},
				{Name: "squares", Kind: "linear", Out: 3072},
				{Name: "picture", Kind: "pixel_shuffle", Factor: 32, Height: 2},
			},
			Outputs: []string{"picture"},
		}},
		Objective: decode.Objective{Kind: decode.Flow, Steps: 3},
		Data:      decode.Data{Scene: &decode.Scene{Pixels: 64, Examples: 1}},
		BatchSize: 1, Settings: train.Settings{Stop: train.Stop{Steps: 2}, Eval: train.HeldOut{N: 1}},
	}
	tr, err := decode.RunFolder(context.Background(), r, false, train.Options{Dir: dir, From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	tr.Close()
	return filepath.Join(dir, train.LastFile)
}

// A decoder becomes a module with all its steps in one file, half the size of its
// weights, of whose golden input our engine makes the golden picture.
func TestDecoder(t *testing.T) {
	from := drawing(t)
	opt := pack.PartOptions{Name: "draw", Version: "1.0.0", License: "MIT", Type: abi.Decoder, Dir: filepath.Join(t.TempDir(), "draw")}
	dir, err := pack.Part(t.Context(), from, opt)
	if err != nil || dir != opt.Dir {
		t.Fatalf("%s, %v", dir, err)
	}
	m, list := modules.Load(dir)
	if list = append(list, m.CheckFiles(t.Context())...); list.Failed() {
		t.Fatal(list.Err())
	}
	if list := inspect.Check(m, inspect.Folder(m)); list.Failed() {
		t.Error(list.Err())
	}
	for name, want := range map[string]int64{"T_dec": 12, "d_model": 256, "size": 64, "steps": 3} {
		if got, ok := m.Params.Int(name); !ok || got != want {
			t.Errorf("%s is %d, %v; %d is wanted", name, got, ok, want)
		}
	}
	if in, out := m.Inputs[0].String(), m.Outputs[0].String(); in != "latent_tokens [T_dec, d_model] fp16" || out != "image [64, 64, 3] uint8" {
		t.Errorf("it takes %s and gives %s", in, out)
	}
	card, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil || !strings.Contains(string(card), "shapes/all") || !strings.Contains(string(card), "plain scenes") {
		t.Errorf("%v: a card without figures: %s", err, card)
	}
	info, err := os.Stat(filepath.Join(dir, "draw.onnx"))
	if err != nil || info.Size() > 450_000 { // of 201,872 weights
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	model, err := onnx.Open(filepath.Join(dir, "draw.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	p, err := engine.Compile(t.Context(), model, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	given := map[string]engine.Tensor{}
	for name, typ := range map[string]onnx.DType{"latent_tokens": onnx.FLOAT16, "noise": onnx.FLOAT} {
		a := array(t, filepath.Join(dir, "golden", name+".npy"))
		given[name] = engine.Tensor{Type: typ, Shape: a.Shape, Data: a.Data}
	}
	got, err := p.Run(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	want := array(t, filepath.Join(dir, "golden", "image.npy"))
	same(t, got["image"].Data, want)

	opt.Dir = filepath.Join(t.TempDir(), "none")
	if _, err := pack.Part(t.Context(), core, opt); err == nil {
		t.Error("a core was packed as a decoder")
	}
	if _, err := os.Stat(opt.Dir); err == nil {
		t.Error("a folder was left behind")
	}
}

// same holds a picture against the golden one: a byte apart at most.
func same(t *testing.T, got []byte, want *npy.Array) {
	t.Helper()
	if len(got) != len(want.Data) {
		t.Fatalf("%d bytes, %d are wanted", len(got), len(want.Data))
	}
	seen := map[byte]bool{}
	for i, b := range want.Data {
		seen[b] = true
		if math.Abs(float64(b)-float64(got[i])) > 1 {
			t.Fatalf("byte %d is %d, not %d", i, got[i], b)
		}
	}
	if len(seen) < 20 {
		t.Errorf("the picture has %d levels: it shows nothing", len(seen))
	}
}
