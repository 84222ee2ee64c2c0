package pack_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/pack"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/modal"
	"mm-abi.org/mm/train/net"
)

const core = "../../catalog/core-llm/core-llm.gguf"

// staged leaves the checkpoints of an encoder's stage and of stage 1.
func staged(t *testing.T) (encoder, tuned string) {
	t.Helper()
	dir := t.TempDir()
	projector := func(dim int) modal.Network {
		return modal.Network{Net: &net.Config{Inputs: []net.Port{{Name: "patch_tokens", Rows: 16, Cols: 12}},
			Layers: []net.Layer{{Kind: "linear", Out: dim, Name: "llm_tokens"}}, Outputs: []string{"llm_tokens"}}}
	}
	r := modal.Recipe{
		Name: "enc", Stage: modal.Encode, Seed: 3,
		Modalities: []modal.Modality{{
			Modality:   modal.Image,
			Preprocess: preprocess.Spec{Layout: "NHWC", Scale: 1.0 / 255, Mean: []float64{0.5}, Std: []float64{0.5}, Picture: preprocess.Picture{Resize: []int{32, 32}}},
			Encoder: modal.Encoder{Network: modal.Network{Net: &net.Config{Inputs: []net.Port{{Name: "image", Rows: 1024, Cols: 3, Height: 32}},
				Layers:  []net.Layer{{Kind: "conv2d", Out: 12, Kernel: net.Sizes{8}, Stride: net.Sizes{8}}, {Kind: "block", Heads: 2, Hidden: 24, Name: "patch_tokens"}},
				Outputs: []string{"patch_tokens"}}}},
			Projector: projector(16),
		}},
		Core:      modal.Core{Base: core, Model: &llm.Config{Vocab: 1024, Dim: 16, Layers: 1, Heads: 2, Context: 64, Tied: true}},
		Data:      modal.Data{Scene: &modal.Scene{Kinds: []string{"shapes"}}},
		BatchSize: 2, SeqLen: 56, Settings: train.Settings{Stop: train.Stop{Steps: 2}, Eval: train.HeldOut{N: 4}},
	}
	runStage(t, r, filepath.Join(dir, "enc"))
	encoder = filepath.Join(dir, "enc", train.LastFile)
	r.Name, r.Stage = "tune", modal.Tune
	r.Modalities = []modal.Modality{{Modality: modal.Image, Encoder: modal.Encoder{Network: modal.Network{From: encoder}}, Projector: projector(256)}}
	r.Core = modal.Core{Base: core, LoRA: &llm.LoRA{Rank: 2, Targets: []string{"attn_q"}}}
	runStage(t, r, filepath.Join(dir, "tune"))
	return encoder, filepath.Join(dir, "tune", train.LastFile)
}

func runStage(t *testing.T, r modal.Recipe, dir string) {
	t.Helper()
	tr, err := modal.RunFolder(context.Background(), r, false, train.Options{Dir: dir, From: "."})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
}

// Parts of a training become modules whose manifests agree with their files;
// the engine's output for the golden input equals the network's.
func TestPart(t *testing.T) {
	encoder, tuned := staged(t)
	ref, err := abi.ParseModuleRef("core-llm@^3")
	if err != nil {
		t.Fatal(err)
	}
	shown := filepath.Join(t.TempDir(), "shown.png")
	card := filepath.Join(t.TempDir(), "README.md")
	for _, name := range []string{shown, card} {
		if err := os.WriteFile(name, []byte("seen"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		opt     pack.PartOptions
		from    string
		in, out string // of the golden files
	}{
		{pack.PartOptions{Name: "see-enc", Type: abi.Encoder}, encoder, "image", "patch_tokens"},
		{pack.PartOptions{Name: "see-proj", Type: abi.Projector, Modality: abi.Image, With: []string{shown}}, tuned, "patch_tokens", "llm_tokens"},
		{pack.PartOptions{Name: "see-lora", Type: abi.Adapter, Base: ref}, tuned, "", ""},
	} {
		c.opt.Dir, c.opt.Version, c.opt.License = filepath.Join(t.TempDir(), c.opt.Name), "1.0.0", "MIT"
		dir, err := pack.Part(t.Context(), c.from, c.opt)
		if err != nil {
			t.Fatalf("%s: %v", c.opt.Name, err)
		}
		m, list := modules.Load(dir)
		if list = append(list, m.CheckFiles(t.Context())...); list.Failed() {
			t.Fatal(list.Err())
		}
		if list := inspect.Check(m, inspect.Folder(m)); list.Failed() {
			t.Error(list.Err())
		}
		card, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil || !strings.Contains(string(card), "shapes/") {
			t.Errorf("%v: a card without figures: %s", err, card)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "shown.png")); (err == nil) != (len(c.opt.With) > 0) || err == nil && string(data) != "seen" {
			t.Errorf("%s: the file beside it: %q, %v", c.opt.Name, data, err)
		}
		if c.in == "" {
			a, err := adapter.Open(filepath.Join(dir, "see-lora.gguf"), adapter.Model{Arch: "llama", Heads: 4, KVHeads: 2, HeadDim: 64, Interleaved: true})
			if err != nil || len(a) != 4 || a["blk.0.attn_q.weight"].Rank != 2 {
				t.Errorf("%v, %v", a, err)
			}
			continue
		}
		golden(t, dir, strings.ReplaceAll(c.opt.Name, "-", "_")+".onnx", c.in, c.out)
		if c.opt.Type == abi.Encoder {
			calibration(t, m, dir)
		}
	}
	for name, c := range map[string]struct {
		opt  pack.PartOptions
		from string
	}{
		"no type":                 {pack.PartOptions{}, encoder},
		"adapters that are none":  {pack.PartOptions{Type: abi.Adapter, Base: ref}, encoder},
		"an adapter for nothing":  {pack.PartOptions{Type: abi.Adapter}, tuned},
		"a sound's encoder":       {pack.PartOptions{Type: abi.Encoder, Modality: abi.Audio}, encoder},
		"a file twice":            {pack.PartOptions{Type: abi.Projector, With: []string{card}}, tuned},
		"a file that is none":     {pack.PartOptions{Type: abi.Projector, With: []string{shown + "x"}}, tuned},
		"a checkpoint of no task": {pack.PartOptions{Type: abi.Encoder}, core},
	} {
		c.opt.Dir, c.opt.Name, c.opt.Version, c.opt.License = filepath.Join(t.TempDir(), "m"), "m", "1.0.0", "MIT"
		if _, err := pack.Part(t.Context(), c.from, c.opt); err == nil {
			t.Errorf("%s: packed", name)
		}
		if _, err := os.Stat(c.opt.Dir); err == nil {
			t.Errorf("%s: a folder was left behind", name)
		}
	}
}

// calibration wants four different pictures that the encoder learnt from, as its
// graph takes them.
func calibration(t *testing.T, m *modules.Manifest, dir string) {
	t.Helper()
	source, err := scene.New(scene.Options{Split: scene.Train, Kinds: []string{"shapes"}})
	if err != nil {
		t.Fatal(err)
	}
	var before []byte
	for i := range 4 {
		name := fmt.Sprintf("golden/train-%d.npz", i+1)
		if !slices.Contains(m.Paths(), name) {
			t.Fatalf("the manifest lists no %s: %v", name, m.Paths())
		}
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		all, err := npy.ReadArchive(bytes.NewReader(b), int64(len(b)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		x := all["image"]
		if x == nil || !slices.Equal(x.Shape, []int{1, 32, 32, 3}) || bytes.Equal(x.Data, before) {
			t.Fatalf("%s: %v", name, x)
		}
		before = x.Data
		var seen, drawn float64 // means: a picture is made smaller, not another one
		for j := 0; j < len(x.Data); j += 4 {
			seen += float64(math.Float32frombits(binary.LittleEndian.Uint32(x.Data[j:]))) / float64(len(x.Data)/4)
		}
		rgb := source.Make(i).RGB
		for _, v := range rgb {
			drawn += (float64(v)/255 - 0.5) / 0.5 / float64(len(rgb))
		}
		if math.Abs(seen-drawn) > 0.05 {
			t.Errorf("%s has the mean %.3f, the picture that was learnt from %.3f", name, seen, drawn)
		}
	}
}

// golden runs a module's ONNX file on its golden input.
func golden(t *testing.T, dir, file, in, out string) {
	t.Helper()
	x, want := array(t, filepath.Join(dir, "golden", in+".npy")), array(t, filepath.Join(dir, "golden", out+".npy"))
	model, err := onnx.Open(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	p, err := engine.Compile(t.Context(), model, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	shape := x.Shape
	if in == "image" {
		shape = []int{1, 32, 32, 3}
	}
	got, err := p.Run(t.Context(), map[string]engine.Tensor{in: {Type: onnx.FLOAT, Shape: shape, Data: x.Data}})
	if err != nil {
		t.Fatal(err)
	}
	y := got[out].Data
	var dot, a, b float64
	for i := 0; i < len(want.Data); i += 4 {
		u := float64(math.Float32frombits(binary.LittleEndian.Uint32(want.Data[i:])))
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(y[i:])))
		dot, a, b = dot+u*v, a+u*u, b+v*v
	}
	if cos := dot / math.Sqrt(a*b); !(cos > 0.99999) {
		t.Errorf("%s: cosine %v between the network and its ONNX", file, cos)
	}
}

func array(t *testing.T, path string) *npy.Array {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := npy.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// An encoder that hears takes samples, a window of them at once; what is longer
// comes to it in pieces.
func TestHears(t *testing.T) {
	signs := len(sound.Signs())
	r := modal.Recipe{
		Name: "ear", Stage: modal.Encode, Seed: 3,
		Modalities: []modal.Modality{{
			Modality:   modal.Audio,
			Preprocess: preprocess.Spec{Layout: "NTM", Sound: preprocess.Sound{SampleRate: 16000, Chunk: 8000, NMels: 16, Window: 400, Hop: 500, Uncenter: true, Log: "ln", Floor: 1e-4}},
			Encoder: modal.Encoder{Network: modal.Network{Net: &net.Config{
				Inputs:  []net.Port{{Name: "frames", Rows: 16, Cols: 16}},
				Layers:  []net.Layer{{Kind: "linear", Out: 8, Name: "frame_tokens"}, {Kind: "linear", Out: signs, Name: "signs"}},
				Outputs: []string{"frame_tokens", "signs"}}}},
			Heads: []modal.Head{{Output: "signs", Of: modal.Reading}},
		}},
		Data: modal.Data{Sound: &modal.Sound{Kinds: []string{"tones"}}}, BatchSize: 2, Settings: train.Settings{Stop: train.Stop{Steps: 1}, Eval: train.HeldOut{N: 2}},
	}
	run := t.TempDir()
	runStage(t, r, run)
	dir, err := pack.Part(t.Context(), filepath.Join(run, train.LastFile), pack.PartOptions{Name: "ear", Type: abi.Encoder, Version: "1.0.0", License: "MIT", Dir: filepath.Join(t.TempDir(), "ear")})
	if err != nil {
		t.Fatal(err)
	}
	m, list := modules.Load(dir)
	if list.Failed() {
		t.Fatal(list.Err())
	}
	if ms, _ := m.Caps.Int("window_ms"); ms != 500 || m.Inputs[0].Name != "pcm" || len(m.Outputs) != 1 {
		t.Errorf("windows of %d ms of %s, %d outputs", ms, m.Inputs[0].Name, len(m.Outputs))
	}
}
