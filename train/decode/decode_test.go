package decode

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/onnxfile"
)

// reading trains a small core that reads text and returns its file.
func reading(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	src, err := scene.New(scene.Options{Kinds: []string{scene.Shapes}, Plain: true, Size: 64})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range 60 {
		text.WriteString(src.Make(i).Draw + "\n")
	}
	if err := os.WriteFile(filepath.Join(dir, "text.txt"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := train.Config{
		Seed: 3, Model: llm.Config{Vocab: 400, Dim: 24, Layers: 1, Heads: 2, Context: 128},
		Data: train.Data{Files: []string{"text.txt"}, Separator: "\n", Held: 0.1}, BatchSize: 2, SeqLen: 32, Stop: train.Stop{Steps: 1},
	}
	corpus, err := train.Prepare(cfg, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	run, err := train.RunFolder(t.Context(), cfg, corpus, false, train.Options{Dir: dir, From: dir, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	run.Close()
	return filepath.Join(dir, train.LastFile)
}

// drawing is a flow that trains in less than a second: images of 64×64 pixels
// in four squares.
func drawing(core string) Recipe {
	return Recipe{
		Name: "draw", Stage: Decoders, Seed: 3, Modality: Image, Core: Core{Base: core, States: 20, Noise: 0.05},
		Decoder: Decoder{Net: &net.Config{
			Inputs: []net.Port{{Name: States, Rows: 20, Cols: 24}, {Name: Noise, Rows: 4096, Cols: 3, Height: 64}, {Name: Time, Rows: 1, Cols: 1}},
			Layers: []net.Layer{
				{Name: "clock", Kind: "time", Inputs: []string{Time}, Out: 8},
				{Name: "seen", Kind: "patches", Inputs: []string{Noise}, Out: 16, Kernel: net.Sizes{32}},
				{Name: "grid", Kind: "position"},
				{Name: "read", Kind: "cross_attention", Heads: 2, Memory: States, Residual: "grid"},
				{Name: "pace", Kind: "linear", Inputs: []string{"clock"}, Out: 32},
				{Name: "paced", Kind: "modulate", Inputs: []string{"read", "pace"}},
				{Name: "squares", Kind: "linear", Out: 3072},
				{Name: "picture", Kind: "pixel_shuffle", Factor: 32, Height: 2},
			},
			Outputs: []string{"picture"},
		}},
		Objective: Objective{Kind: Flow, Steps: 3},
		Data:      Data{Scene: &Scene{Seed: 9, Pixels: 64, Examples: 4}},
		BatchSize: 4, Settings: train.Settings{Optimizer: train.Optimizer{Rate: 1e-2}, Stop: train.Stop{Steps: 12}, Eval: train.HeldOut{Every: 6, N: 4}, LogEvery: 4, SealEvery: 1},
	}
}

// regressing is the regression for the same task.
func regressing(core string) Recipe {
	r := drawing(core)
	r.Decoder.Net = &net.Config{
		Inputs: []net.Port{{Name: States, Rows: 20, Cols: 24}},
		Layers: []net.Layer{{Kind: "reshape", Rows: 1, Cols: 480}, {Kind: "mlp", Hidden: 24, Out: 12288},
			{Kind: "reshape", Rows: 4096, Cols: 3, Height: 64, Name: "picture"}},
		Outputs: []string{"picture"},
	}
	r.Objective, r.Core.Noise = Objective{Kind: Regression, Distance: net.Huber}, 0
	return r
}

// recorder keeps the events of a run.
type recorder struct{ events []train.Event }

func (r *recorder) Observe(e train.Event) error { r.events = append(r.events, e); return nil }

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
	tr, err := RunFolder(t.Context(), r, resume, train.Options{Dir: dir, From: ".", Observer: events, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr, events
}

// Four images are memorized by each objective, and the core does not change.
func TestLearns(t *testing.T) {
	core := reading(t)
	velocity := drawing(core)
	velocity.Objective.Predicts = Velocity
	for name, r := range map[string]Recipe{"flow": drawing(core), "velocity": velocity, "regression": regressing(core)} {
		t.Run(name, func(t *testing.T) {
			r.Stop.Steps, r.Eval.Every, r.LogEvery = 60, 0, 10
			_, events := run(t, r, t.TempDir(), false, 1)
			l := events.losses()
			least := 0.5
			if name == "velocity" { // the noise is never memorized
				least = 0.9
			}
			if first, last := l[0], l[len(l)-2]; !(last < least*first) {
				t.Errorf("loss from %v to %v", first, last)
			}
			end := events.events[len(events.events)-1].(train.Finished)
			if len(end.Sealed) != 1 || end.Sealed[0].Part != CorePart || end.Sealed[0].Before != end.Sealed[0].After || end.Sealed[0].Tensors == 0 {
				t.Errorf("sealed: %+v", end.Sealed)
			}
		})
	}
}

// A run interrupted and resumed on another number of threads is bit-identical
// in losses and weights to an uninterrupted one.
func TestResume(t *testing.T) {
	r := drawing(reading(t))
	r.SaveEvery, r.Schedule.Kind = 4, "constant" // the other schedules decay towards the end
	straight, events := run(t, r, t.TempDir(), false, 2)
	dir := t.TempDir()
	half := r
	half.Stop.Steps = 8
	_, first := run(t, half, dir, false, 1)
	again, second := run(t, r, dir, true, 2)
	if d := cmp.Diff(weights(straight), weights(again)); d != "" {
		t.Errorf("weights: %s", d)
	}
	want, got := events.losses(), append(first.losses(), second.losses()...)
	if want[len(want)-1] != got[len(got)-1] {
		t.Errorf("losses %v, and resumed %v", want, got)
	}
}

func weights(t *Trainer) map[string][]float32 {
	out := map[string][]float32{}
	for _, w := range t.Task.tensors {
		out[w.Name] = w.Data
	}
	return out
}

// A core that changes stops the run before anything is saved.
func TestCoreMoves(t *testing.T) {
	r := drawing(reading(t))
	dir := t.TempDir()
	tr, err := New(r, train.Options{Dir: dir, From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	tr.Task.reader.model.Tensors()[0].Data[3]++
	var moved *train.MovedError
	if err := tr.Run(context.Background()); !errors.As(err, &moved) {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, train.LastFile)); err == nil {
		t.Error("checkpoint saved")
	}
}

// Measuring a checkpoint equals the last evaluation of its run; a decoder
// continues from a checkpoint; with another prompt the score drops.
func TestCheckpoint(t *testing.T) {
	r := drawing(reading(t))
	dir := t.TempDir()
	tr, events := run(t, r, dir, false, 1)
	path := filepath.Join(dir, train.LastFile)
	all, err := Measure(t.Context(), path, []Look{Actual, Another}, MeasureOptions{N: 4, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	l := events.losses()
	if all[0].Loss != l[len(l)-1] || all[1].Loss == all[0].Loss || len(all[0].Scores) != 6 {
		t.Errorf("%+v, %v", all, l)
	}
	next := r
	next.Decoder, next.Stop.Steps = Decoder{From: path}, 1
	c, err := New(next, train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if d := cmp.Diff(weights(tr), weights(c)); d != "" {
		t.Errorf("weights of the checkpoint: %s", d)
	}
	if _, err := train.Open(path); err != nil {
		t.Error(err)
	}
	module := filepath.Join(dir, "decoder.onnx")
	m, err := onnxfile.Model(tr.Task.net, onnxfile.Options{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := onnx.Write(&file, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(module, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	next.Decoder, next.Seed = Decoder{Net: r.Decoder.Net, Begin: module}, 99
	b, err := New(next, train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if d := cmp.Diff(weights(tr), weights(b)); d != "" {
		t.Errorf("weights of the module: %s", d)
	}
	if _, err := OpenCheckpoint(r.Core.Base); err == nil || !strings.Contains(err.Error(), `want "decoding"`) {
		t.Errorf("a language model's checkpoint: %v", err)
	}
}

// Only the image of the scene is judged right.
func TestJudge(t *testing.T) {
	src, _, err := Data{Scene: &Scene{Seed: 5}}.open(heldSplit, "")
	if err != nil {
		t.Fatal(err)
	}
	right := func(i int, output []float32) map[string]bool {
		out := map[string]bool{}
		for _, v := range src.(Judge).Judge(i, output) {
			out[v.Kind] = v.Want == v.Got
		}
		return out
	}
	for i := range 5 {
		s := src.Make(i)
		for kind, ok := range right(i, s.Target) {
			if !ok {
				t.Errorf("%q: the scene's image lacks the %s", s.Prompt, kind)
			}
		}
		if right(i, src.Make(i+1).Target)["shapes/all"] {
			t.Errorf("%q: another image is right", s.Prompt)
		}
		white := make([]float32, len(s.Target))
		if right(i, white)["shapes/count"] {
			t.Errorf("%q: an empty image is right", s.Prompt)
		}
	}
}

// The gradient of each objective agrees with differences of the loss.
func TestGradient(t *testing.T) {
	core := reading(t)
	velocity := drawing(core)
	velocity.Objective.Predicts = Velocity
	for name, r := range map[string]Recipe{"flow": drawing(core), "velocity": velocity, "regression": regressing(core)} {
		tr, err := New(r, train.Options{From: ".", Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		d := tr.Task
		terms, err := d.Batches(1)
		if err != nil {
			t.Fatal(err)
		}
		pass := func() float64 {
			d.Refresh()
			sum, err := d.Pass(0, 1/float64(terms), false)
			if err != nil {
				t.Fatal(err)
			}
			return sum / float64(terms)
		}
		pass()
		w := d.tensors[len(d.tensors)-2] // last matrix
		var slope float64
		for _, g := range w.Grad {
			slope += float64(g) * float64(g)
		}
		slope = math.Sqrt(slope)
		direction := make([]float32, len(w.Data)) // direction of steepest ascent
		for i, g := range w.Grad {
			direction[i] = float32(float64(g) / slope)
		}
		const by = 5e-2
		at := func(f float32) float64 {
			for i := range w.Data {
				w.Data[i] += f * direction[i]
			}
			return pass()
		}
		up := at(by)
		down := at(-2 * by)
		if measured := (up - down) / (2 * by); !(math.Abs(measured-slope) < 1e-2*slope) {
			t.Errorf("%s: loss rises by %v, gradient %v", name, measured, slope)
		}
	}
}

// Held-out prompts differ from training prompts, except for some of the few
// prompts with one shape.
func TestHeldPrompts(t *testing.T) {
	d := Data{Scene: &Scene{Seed: 31, Pixels: 64}}
	learnt, _, err := d.open(trainSplit, "")
	if err != nil {
		t.Fatal(err)
	}
	held, _, err := d.open(heldSplit, "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range 2000 {
		seen[learnt.Make(i).Prompt] = true
	}
	one, more, trained := 0, 0, map[bool]int{}
	for i := range 300 {
		p := held.Make(i).Prompt
		several := strings.Contains(p, " and ")
		if several {
			more++
		} else {
			one++
		}
		if seen[p] {
			trained[several]++
		}
	}
	t.Logf("held out: %d prompts of one shape, %d of them in training; %d others, %d of them in training", one, trained[false], more, trained[true])
	if one < 60 || more < 120 || trained[false] > one/2 || trained[true] > 0 {
		t.Errorf("held out: %d prompts of one shape, %d of them in training; %d others, %d of them in training", one, trained[false], more, trained[true])
	}
}
