package modal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/net"
)

// The reference core of the repository.
const coreFile = "../../catalog/core-llm/core-llm.gguf"

// seeing is a small modality: images of 32×32 pixels, 16 patches, 4 vectors.
func seeing(dim int) Modality {
	return Modality{
		Modality:   Image,
		Preprocess: preprocess.Spec{Layout: "NHWC", Scale: 1.0 / 255, Mean: []float64{0.5}, Std: []float64{0.5}, Picture: preprocess.Picture{Resize: []int{32, 32}}},
		Encoder: Encoder{Network: Network{Net: &net.Config{
			Inputs:  []net.Port{{Name: "image", Rows: 1024, Cols: 3, Height: 32}},
			Layers:  []net.Layer{{Kind: "conv2d", Out: 12, Kernel: net.Sizes{8}, Stride: net.Sizes{8}}, {Kind: "position"}, {Kind: "gelu", Name: "patch_tokens"}},
			Outputs: []string{"patch_tokens"},
		}}},
		Projector: Network{Net: projecting(dim)},
	}
}

func projecting(dim int) *net.Config {
	return &net.Config{
		Inputs:  []net.Port{{Name: "patch_tokens", Rows: 16, Cols: 12}},
		Layers:  []net.Layer{{Kind: "reshape", Rows: 4, Cols: 48}, {Kind: "linear", Out: dim, Name: "llm_tokens"}},
		Outputs: []string{"llm_tokens"},
	}
}

// encoding is a run of the stage "encoder" that takes less than a second.
func encoding() Recipe {
	return Recipe{
		Name: "enc", Stage: Encode, Seed: 3, Modalities: []Modality{seeing(24)},
		Core:      Core{Base: coreFile, Model: &llm.Config{Vocab: 1024, Dim: 24, Layers: 1, Heads: 2, Context: 64, Tied: true}},
		Data:      Data{Scene: &Scene{Kinds: []string{"shapes"}, Seed: 9}, Turns: 2, Spell: []string{"*/count"}},
		BatchSize: 3, SeqLen: 48, Settings: train.Settings{Optimizer: train.Optimizer{Rate: 5e-3}, Stop: train.Stop{Steps: 12}, Eval: train.HeldOut{Every: 6, N: 6}, LogEvery: 4},
	}
}

// aligning is stage 0 with the encoder of a checkpoint.
func aligning(encoder string) Recipe {
	r := encoding()
	r.Name, r.Stage, r.Stop.Steps, r.SaveEvery, r.Eval.Every, r.SealEvery = "align", Align, 4, 2, 0, 1
	r.Core = Core{Base: coreFile}
	r.Modalities[0] = Modality{Modality: Image, Encoder: Encoder{Network: Network{From: encoder}}, Projector: Network{Net: projecting(256)}}
	return r
}

// tuning is stage 1 on a checkpoint of stage 0.
func tuning(aligned string) Recipe {
	r := aligning(aligned)
	r.Name, r.Stage = "tune", Tune
	r.Core.LoRA = &llm.LoRA{Rank: 2, Targets: []string{"attn_q", "attn_v"}}
	r.Modalities[0].Projector = Network{From: aligned}
	return r
}

// recorder keeps the events of a run.
type recorder struct{ events []train.Event }

func (r *recorder) Observe(e train.Event) error { r.events = append(r.events, e); return nil }

func (r *recorder) finished(t testing.TB) train.Finished {
	t.Helper()
	for _, e := range r.events {
		if f, ok := e.(train.Finished); ok {
			return f
		}
	}
	t.Fatal("the run did not finish")
	return train.Finished{}
}

// losses returns the reported losses, of training and on held-out examples.
func (r *recorder) losses() (out []float64) {
	for _, e := range r.events {
		switch e := e.(type) {
		case train.Step:
			out = append(out, e.Loss)
		case train.Evaluated:
			out = append(out, e.Loss)
		}
	}
	return out
}

// run trains a recipe in a folder and returns its events.
func run(t testing.TB, r Recipe, dir string, resume bool, threads int) (*Trainer, *recorder) {
	t.Helper()
	events := &recorder{}
	tr, err := RunFolder(context.Background(), r, resume, train.Options{Dir: dir, From: ".", Observer: events, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr, events
}

func weights(t *Trainer, prefix string) map[string][]float32 {
	out := map[string][]float32{}
	for _, w := range t.Task.Tensors() {
		if t.Task.Part(w.Name) == prefix {
			out[w.Name] = append([]float32(nil), w.Data...)
		}
	}
	return out
}

// The stages run in sequence: an encoder, a projector, adapters. Each changes
// only its parts, as its hashes prove. Interrupted and resumed on another
// number of threads, the result is bit-identical.
func TestStages(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	dir := t.TempDir()
	enc := filepath.Join(dir, "enc")
	first, events := run(t, encoding(), enc, false, 1)
	losses := events.losses()
	if a, b := losses[0], losses[len(losses)-1]; !(b < a-1) {
		t.Errorf("losses %v: nothing was learned", losses)
	}
	if f := events.finished(t); len(f.Sealed) != 0 {
		t.Errorf("sealed %v in a stage that trains everything", f.Sealed)
	}

	r := aligning(filepath.Join(enc, train.LastFile))
	aligned, events := run(t, r, filepath.Join(dir, "align"), false, 2)
	want := []string{"encoder of image", "core"}
	var sealed []string
	for _, s := range events.finished(t).Sealed {
		sealed = append(sealed, s.Part)
		if s.Before != s.After || s.Trained != 0 || s.Tensors == 0 {
			t.Errorf("%+v", s)
		}
	}
	if d := cmp.Diff(want, sealed); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(weights(first, "encoder of image"), weights(aligned, "encoder of image")); d != "" {
		t.Error("encoder differs from its checkpoint")
	}
	core, _, err := train.OpenBase(coreFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range core.Tensors() {
		if !cmp.Equal(w.Data, weights(aligned, "core")[w.Name]) {
			t.Errorf("core tensor %s changed", w.Name)
		}
	}

	// In two parts, on one thread.
	half := r
	half.Stop.Steps = 2
	run(t, half, filepath.Join(dir, "half"), false, 1)
	again, _ := run(t, r, filepath.Join(dir, "half"), true, 1)
	if !cmp.Equal(weights(aligned, "projector of image"), weights(again, "projector of image")) {
		t.Error("resumed projector differs")
	}
	if cmp.Equal(weights(aligned, "projector of image"), weights(first, "projector of image")) {
		t.Error("projector is that of the encoder's stage")
	}

	tuned, events := run(t, tuning(filepath.Join(dir, "align", train.LastFile)), filepath.Join(dir, "tune"), false, 2)
	if f := events.finished(t); len(f.Sealed) != 2 || f.Sealed[1].Part != "core" || f.Sealed[1].Before != f.Sealed[1].After {
		t.Errorf("sealed: %+v", f.Sealed)
	}
	for name, w := range weights(tuned, "adapter") {
		if filepath.Ext(name) == ".lora_b" && cmp.Equal(w, make([]float32, len(w))) {
			t.Errorf("%s did not change", name)
		}
	}
	if cmp.Equal(weights(tuned, "projector of image"), weights(aligned, "projector of image")) {
		t.Error("stage 1 did not change the projector")
	}
}

// While encoders wait, the core learns and they do not change; afterwards they
// do.
func TestWait(t *testing.T) {
	t.Parallel()
	r := encoding()
	r.Optimizer.Name, r.Wait, r.Eval = "muon", 3, train.HeldOut{N: 1}
	start, err := New(context.Background(), r, train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer start.Close()
	for steps, moves := range map[int]bool{3: false, 4: true} {
		r.Stop.Steps = steps
		tr, _ := run(t, r, filepath.Join(t.TempDir(), "wait"), false, 1)
		for _, part := range []string{"encoder of image", "projector of image"} {
			if same := cmp.Equal(weights(start, part), weights(tr, part)); same == moves {
				t.Errorf("after %d steps: %s changed: %v", steps, part, !same)
			}
		}
		if cmp.Equal(weights(start, "core"), weights(tr, "core")) {
			t.Errorf("after %d steps: core did not learn", steps)
		}
	}
}

// A projector learns with the core and the adapter of a build: the core is
// changed as the adapter says, and both are frozen.
func TestFrozenAdapter(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	dir := t.TempDir()
	enc, low := filepath.Join(dir, "enc"), filepath.Join(dir, "low.gguf")
	run(t, encoding(), enc, false, 1)
	enc = filepath.Join(enc, train.LastFile)
	plain, _ := run(t, aligning(enc), filepath.Join(dir, "plain"), false, 1)
	tune := tuning(filepath.Join(dir, "plain", train.LastFile))
	tuned, _ := run(t, tune, filepath.Join(dir, "tune"), false, 1)
	var file bytes.Buffer
	if err := errors.Join(train.ExportAdapter(&file, tuned.Task.model, *tune.Core.LoRA, nil), os.WriteFile(low, file.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	tuned.Task.model.Merge()
	want := map[string][]float32{}
	for _, w := range tuned.Task.model.Tensors() {
		want[w.Name] = w.Data
	}

	r := aligning(enc)
	r.Core.Adapter = low
	got, events := run(t, r, filepath.Join(dir, "beside"), false, 1)
	changed := 0
	before := weights(plain, "core")
	for name, w := range weights(got, "core") {
		if !slices.Equal(w, before[name]) {
			changed++
		}
		for i, v := range w {
			if math.Abs(float64(v-want[name][i])) > 1e-5 {
				t.Errorf("%s[%d] = %v, want %v", name, i, v, want[name][i])
				break
			}
		}
	}
	if changed != 8 { // attn_q and attn_v of 4 layers
		t.Errorf("adapter changed %d matrices", changed)
	}
	if f := events.finished(t); len(f.Sealed) != 2 {
		t.Errorf("sealed %v, want the encoder and the core", f.Sealed)
	}
	if cmp.Equal(weights(got, "projector of image"), weights(plain, "projector of image")) {
		t.Error("projector does not depend on the adapter")
	}
	r.Core.Adapter = "nothing.gguf"
	if tr, err := New(context.Background(), r, train.Options{From: ".", Threads: 1}); err == nil {
		tr.Close()
		t.Error("missing adapter: no error")
	}
}

// A mixture reads documents and images, trains only the adapters, and resumes
// in both sources.
func TestMixture(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.txt")
	var lines string
	for i := range 40 {
		lines += fmt.Sprintf("What is %d plus %d? The answer is %d, and so it goes on.<|endoftext|>", i, i, 2*i)
	}
	if err := os.WriteFile(text, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, encoding(), filepath.Join(dir, "enc"), false, 2)
	run(t, aligning(filepath.Join(dir, "enc", train.LastFile)), filepath.Join(dir, "align"), false, 2)
	r := tuning(filepath.Join(dir, "align", train.LastFile))
	r.Stage = Mix
	r.Data.Text = &Text{Data: train.Data{Files: []string{text}}, Weight: 1}
	full, events := run(t, r, filepath.Join(dir, "whole"), false, 1)
	if f := events.finished(t); len(f.Sealed) != 3 {
		t.Errorf("sealed: %+v", f.Sealed)
	}
	half := r
	half.Stop.Steps = 2
	first, _ := run(t, half, filepath.Join(dir, "half"), false, 2)
	if at := first.Task.loader.Position(); at.Next == 0 && at.Epoch == 0 {
		t.Error("no document read")
	}
	rest, _ := run(t, r, filepath.Join(dir, "half"), true, 2)
	if !cmp.Equal(weights(full, "adapter"), weights(rest, "adapter")) {
		t.Error("resumed adapters differ")
	}
}

// Features of frozen encoders are cached for repeated examples, without effect
// on the result.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	dir := t.TempDir()
	run(t, encoding(), filepath.Join(dir, "enc"), false, 2)
	for name, change := range map[string]func(*Recipe){
		"": func(*Recipe) {},
		// As many vectors as signs in a reading, with words as targets.
		"words": func(r *Recipe) {
			r.Data.Words, r.SeqLen = 5, 112
			r.Modalities[0].Projector.Net = projecting(256)
			r.Modalities[0].Projector.Net.Layers[0] = net.Layer{Kind: "reshape", Rows: 64, Cols: 3}
		},
	} {
		r := aligning(filepath.Join(dir, "enc", train.LastFile))
		r.Data.Scene.Examples = 4
		change(&r)
		kept, _ := run(t, r, filepath.Join(dir, "kept"+name), false, 2)
		if n := len(kept.Task.senses[0].memory.held); n != 4 {
			t.Errorf("%s: %d examples cached, want 4", name, n)
		}
		tr, err := New(context.Background(), r, train.Options{From: ".", Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		tr.Task.senses[0].memory.size = maxFeatures // the cache is full
		if err := tr.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := len(tr.Task.senses[0].memory.held); n != 0 {
			t.Fatalf("%s: %d examples cached", name, n)
		}
		if !cmp.Equal(weights(kept, "projector of image"), weights(tr, "projector of image")) {
			t.Errorf("%s: cached features differ", name)
		}
	}
}

// The header of a checkpoint is untrusted.
func FuzzHeader(f *testing.F) {
	task, err := json.Marshal(Header{Recipe: encoding(), Modalities: []Built{{Modality: Image}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(task)
	f.Add([]byte(`{"recipe":{"stage":0,"modalities":[{}]},"next":-1}`))
	f.Fuzz(func(t *testing.T, task []byte) {
		h, err := parseHeader(train.Header{Kind: kind, Task: task})
		if err == nil && (h.Next < 0 || len(h.Modalities) == 0 || h.Recipe.Validate() != nil) {
			t.Errorf("accepted: %+v", h)
		}
	})
}

// A checkpoint of another task, and one of another core, are refused.
func TestCheckpointRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run(t, encoding(), filepath.Join(dir, "enc"), false, 2)
	r := aligning(filepath.Join(dir, "enc", train.LastFile))
	r.Modalities[0].Modality = Audio
	r.Modalities[0].Preprocess.SampleRate = 16000
	r.Data.Scene = nil
	if _, err := New(context.Background(), r, train.Options{From: "."}); err == nil {
		t.Error("accepted an image encoder for sounds")
	}
	r = aligning(filepath.Join(dir, "enc", train.LastFile))
	r.Modalities[0].Projector.Net.Layers[1].Out = 24
	_, err := New(context.Background(), r, train.Options{From: "."})
	var f train.Fault
	if !errors.As(err, &f) || f.Path != "/modalities/0/projector" {
		t.Errorf("vectors of 24 numbers for a core of 256: %v", err)
	}
	if _, err := train.OpenLM(filepath.Join(dir, "enc", train.LastFile)); err == nil {
		t.Error("opened as a language model")
	}
}
