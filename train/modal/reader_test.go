package modal

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
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

// readingRecipe is a run that trains an encoder by signs in less than a second.
func readingRecipe() Recipe {
	r := encoding()
	m := seeing(24)
	n := m.Encoder.Net
	signs := len(scene.Signs())
	n.Layers = append(n.Layers,
		net.Layer{Kind: "linear", Name: "map", Out: signs},
		net.Layer{Kind: "linear", Inputs: []string{"patch_tokens"}, Name: "hues", Out: signs},
		net.Layer{Kind: "linear", Inputs: []string{"patch_tokens"}, Name: "order", Out: scene.Slots},
		net.Layer{Kind: "linear", Inputs: []string{"patch_tokens"}, Name: "heights", Out: scene.Levels},
		net.Layer{Kind: "linear", Inputs: []string{"patch_tokens"}, Name: "amounts", Out: scene.Most + 1},
		net.Layer{Kind: "resampler", Inputs: []string{"patch_tokens"}, Count: 64, Heads: 2, Name: "read"},
		net.Layer{Kind: "linear", Name: "signs", Out: signs},
		net.Layer{Kind: "linear", Inputs: []string{"read"}, Name: "values", Out: scene.Most + 1},
		net.Layer{Kind: "linear", Inputs: []string{"read"}, Name: "levels", Out: scene.Levels})
	n.Outputs = append(n.Outputs, "signs", "map", "hues", "order", "heights", "amounts", "values", "levels")
	m.Projector = Network{}
	m.Heads = []Head{{Output: "signs", Of: Reading}, {Output: "map", Of: Marks, Weight: 0.5}, {Output: "hues", Of: Hues}, {Output: "order", Of: Order}, {Output: "heights", Of: Heights}, {Output: "amounts", Of: Amounts}, {Output: "values", Of: Values}, {Output: "levels", Of: Levels}}
	r.Modalities, r.Core = []Modality{m}, Core{}
	r.Schedule.Kind, r.Optimizer.Rate, r.BatchSize = "constant", 5e-3, 8
	r.Data = Data{Scene: &Scene{Kinds: []string{"shapes", "charts"}, Seed: 9, Examples: 8}}
	return r
}

// An encoder learns signs, resumes bit-identically, and is saved without its
// heads, ready for a projector.
func TestReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := readingRecipe()
	full, events := run(t, r, filepath.Join(dir, "whole"), false, 1)
	var losses []float64
	for _, e := range events.events {
		if s, ok := e.(train.Step); ok {
			losses = append(losses, s.Loss)
		}
	}
	if first, last := losses[0], losses[len(losses)-1]; !(last < 0.9*first) {
		t.Errorf("losses %v", losses)
	}
	r.Stop.Steps = 5
	run(t, r, filepath.Join(dir, "half"), false, 2)
	r.Stop.Steps = 12
	resumed, _ := run(t, r, filepath.Join(dir, "half"), true, 2)
	for i, w := range full.Reader.Tensors() {
		if d := cmp.Diff(w.Data, resumed.Reader.Tensors()[i].Data); d != "" {
			t.Fatalf("%s differs after an interruption", w.Name)
		}
	}
	c, err := OpenCheckpoint(filepath.Join(dir, "whole", train.LastFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, b, err := c.Network(EncoderPart, Image)
	if err != nil {
		t.Fatal(err)
	}
	if got := n.Config().Outputs; !slices.Equal(got, []string{"patch_tokens"}) || len(n.Params().Tensors()) != 3 || b.Preprocess.Layout != "NHWC" {
		t.Errorf("encoder has outputs %v and %d tensors", got, len(n.Params().Tensors()))
	}
	if _, _, err := c.Network(ProjectorPart, Image); err == nil {
		t.Error("projector of a run without one")
	}
	all, err := Measure(context.Background(), filepath.Join(dir, "whole", train.LastFile), []Look{Actual}, MeasureOptions{N: 9, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	kinds := ""
	for _, s := range all[0].Scores {
		kinds += s.Kind + " "
	}
	for _, want := range []string{"charts/value ±5%", "charts/highest", "charts/marks", "shapes/caption", "shapes/hues"} {
		if !strings.Contains(kinds, want) {
			t.Errorf("missing score of %s in %s", want, kinds)
		}
	}
	run(t, aligning(filepath.Join(dir, "whole", train.LastFile)), filepath.Join(dir, "align"), false, 1)
}

// A longer network begins with the tensors of a shorter one.
func TestBegin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := readingRecipe()
	r.Stop.Steps = 2
	first, _ := run(t, r, filepath.Join(dir, "first"), false, 1)
	r.Modalities[0].Encoder.Begin = filepath.Join(dir, "first", train.LastFile)
	n := *r.Modalities[0].Encoder.Net
	n.Layers = append(slices.Clone(n.Layers), net.Layer{Kind: "linear", Inputs: []string{"read"}, Name: "more", Out: scene.Levels})
	n.Outputs = append(slices.Clone(n.Outputs), "more")
	r.Modalities[0].Encoder.Net, r.Seed = &n, 77
	tr, err := New(context.Background(), r, train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for i, w := range first.Reader.Tensors() {
		if got := tr.Reader.Tensors()[i]; got.Name != w.Name || !slices.Equal(got.Data, w.Data) {
			t.Errorf("%s does not begin with %s", got.Name, w.Name)
		}
	}
	other := aligning("x")
	other.Modalities[0].Encoder.Begin = "x"
	if got := train.Faults(other.Validate()); len(got) == 0 || got[0].Path != "/modalities/0/encoder" && got[0].Path != "/modalities/0/encoder/begin" {
		t.Errorf("begin without heads: %v", got)
	}
}

// An encoder and a projector begin with the files of modules exported from such
// networks, a core's adapters with a GGUF adapter.
func TestBeginModule(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	dir := t.TempDir()
	r := readingRecipe()
	r.Stop.Steps = 1
	trained, _ := run(t, r, filepath.Join(dir, "encoder"), false, 1)
	encoder := filepath.Join(dir, "encoder", train.LastFile)
	module := filepath.Join(dir, "encoder.onnx")
	exported(t, encoder, EncoderPart, module)
	r.Modalities[0].Encoder.Begin, r.Seed = module, 77
	tr, err := New(context.Background(), r, train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	heads := 0
	for i, w := range trained.Reader.Tensors() {
		if got := tr.Reader.Tensors()[i]; !slices.Equal(got.Data, w.Data) {
			heads++ // a module has no heads
		}
	}
	if heads == 0 || heads == len(trained.Reader.Tensors()) {
		t.Errorf("%d of %d tensors differ from the module", heads, len(trained.Reader.Tensors()))
	}

	aligned, _ := run(t, aligning(encoder), filepath.Join(dir, "align"), false, 1)
	tune := tuning(filepath.Join(dir, "align", train.LastFile))
	tuned, _ := run(t, tune, filepath.Join(dir, "tune"), false, 1)
	projector, low := filepath.Join(dir, "projector.onnx"), filepath.Join(dir, "low.gguf")
	exported(t, filepath.Join(dir, "tune", train.LastFile), ProjectorPart, projector)
	var file bytes.Buffer
	if err := train.ExportAdapter(&file, tuned.Task.model, *tune.Core.LoRA, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(low, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	tune.Modalities[0].Projector = Network{Net: &aligned.Task.senses[0].proj.cfg, Begin: projector}
	tune.Core.From = low
	next, err := New(context.Background(), tune, train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	for _, part := range []string{"projector of image", "adapter"} {
		if !cmp.Equal(weights(next, part), weights(tuned, part)) {
			t.Errorf("%s does not begin with the module", part)
		}
	}
	for name, change := range map[string]func(r *Recipe){
		"another rank":  func(r *Recipe) { r.Core.LoRA = &llm.LoRA{Rank: tune.Core.LoRA.Rank + 1} },
		"another scale": func(r *Recipe) { r.Core.LoRA = &llm.LoRA{Rank: tune.Core.LoRA.Rank, Alpha: 99} },
		"fewer matrices": func(r *Recipe) {
			r.Core.LoRA = &llm.LoRA{Rank: tune.Core.LoRA.Rank, Alpha: tune.Core.LoRA.Alpha, Targets: []string{"attn_q"}}
		},
		"no such adapter": func(r *Recipe) { r.Core.From = "nothing.gguf" },
		"no such module":  func(r *Recipe) { r.Modalities[0].Projector.Begin = "nothing.onnx" },
		"another part":    func(r *Recipe) { r.Modalities[0].Projector.Begin = module },
	} {
		other := tune
		other.Modalities = slices.Clone(tune.Modalities)
		change(&other)
		if n, err := New(context.Background(), other, train.Options{From: ".", Threads: 1}); err == nil {
			t.Errorf("%s: no error", name)
			n.Close()
		}
	}
}

// exported writes a part of a checkpoint as an ONNX file.
func exported(t *testing.T, checkpoint, part, path string) {
	t.Helper()
	c, err := OpenCheckpoint(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, _, err := c.Network(part, Image)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnxfile.Model(n, onnxfile.Options{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := onnx.Write(&file, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Faults of heads have their paths.
func TestHeadFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Recipe)
		want   []string
	}{
		"as it should be":  {func(*Recipe) {}, nil},
		"another stage":    {func(r *Recipe) { r.Stage = Align }, []string{"/modalities/0/encoder/net", "/stage"}},
		"a core":           {func(r *Recipe) { r.Core.Base = "x" }, []string{"/core"}},
		"a projector":      {func(r *Recipe) { r.Modalities[0].Projector.From = "x" }, []string{"/modalities/0/projector"}},
		"no such target":   {func(r *Recipe) { r.Modalities[0].Heads[1].Of = "smells" }, []string{"/modalities/0/heads/1/of"}},
		"no such output":   {func(r *Recipe) { r.Modalities[0].Heads[1].Output = "maps" }, []string{"/modalities/0/heads/1/output"}},
		"encoder's output": {func(r *Recipe) { r.Modalities[0].Heads[1].Output = "patch_tokens" }, []string{"/modalities/0/heads/1/output"}},
		"a negative share": {func(r *Recipe) { r.Modalities[0].Heads[1].Weight = -1 }, []string{"/modalities/0/heads/1/weight"}},
		"two modalities":   {func(r *Recipe) { r.Modalities = append(r.Modalities, hearing(24)); r.Data.Sound = &Sound{} }, []string{"/modalities", "/modalities/1/projector"}},
	} {
		r := readingRecipe()
		c.change(&r)
		var got []string
		for _, f := range train.Faults(r.Validate()) {
			got = append(got, f.Path)
		}
		slices.Sort(got)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	r := readingRecipe()
	r.Modalities[0].Encoder.Net.Layers[len(r.Modalities[0].Encoder.Net.Layers)-1].Out = 12
	_, err := New(context.Background(), r, train.Options{From: "."})
	if got := train.Faults(err); len(got) != 1 || got[0].Path != "/modalities/0/heads/7" {
		t.Errorf("levels of 12 classes: %v", err)
	}
}
