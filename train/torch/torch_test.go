package torch

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/optim"
)

// small returns the recipe of a small run.
func small() train.Config {
	return train.Config{
		Name: "small", Seed: 3, Model: llm.Config{Vocab: 300, Dim: 16, Layers: 2, Heads: 2, Context: 32, Tied: true},
		Data:      train.Data{Generate: &synth.Options{Documents: 12}},
		Tokenizer: train.Tokenizer{Pre: "mm-none", Control: []string{"<|end|>"}, EOS: "<|end|>"},
		BatchSize: 2, SeqLen: 16, Accumulate: 3, Stop: train.Stop{Steps: 40},
	}
}

func exported(t *testing.T, cfg train.Config) (string, *train.Corpus) {
	t.Helper()
	corpus, err := train.Prepare(cfg, ".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { corpus.Close() })
	dir := filepath.Join(t.TempDir(), "project")
	if err := Export(cfg, corpus, ".", dir); err != nil {
		t.Fatal(err)
	}
	return dir, corpus
}

func array1(t *testing.T, path string) *npy.Array {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := npy.Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return a
}

// The project holds the tokens of the run and the windows of the loader in
// order, over several epochs.
func TestExport(t *testing.T) {
	cfg := small()
	dir, corpus := exported(t, cfg)
	ids := array1(t, filepath.Join(dir, "data", "train_tokens.npy"))
	if ids.Type != "u2" || !bytes.Equal(ids.Data, corpus.Train.Parts().IDs) {
		t.Errorf("%s tokens differ from the corpus", ids.Type)
	}
	order := array1(t, filepath.Join(dir, "data", "order.npy"))
	loader, err := dataset.NewLoader(corpus.Train, cfg.SeqLen, dataset.Position{Seed: cfg.Seed})
	if err != nil {
		t.Fatal(err)
	}
	batch := dataset.NewBatch(1, cfg.SeqLen)
	if want := 40 * 3 * 2; order.Shape[0] != want {
		t.Fatalf("%d windows, want %d", order.Shape[0], want)
	}
	for i := range order.Shape[0] {
		loader.Next(batch)
		at, got := int(order.Data[8*i])|int(order.Data[8*i+1])<<8|int(order.Data[8*i+2])<<16, make([]int32, cfg.SeqLen)
		corpus.Train.Read(got, at)
		if d := cmp.Diff(batch.Tokens, got); d != "" {
			t.Fatalf("window %d: %s", i, d)
		}
	}
	if loader.Position().Epoch == 0 {
		t.Error("the run has one epoch; the test wants more")
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil || !strings.HasPrefix(string(readme), "# small:") {
		t.Errorf("%v: README begins with %.20q", err, readme)
	}
	if err := Export(cfg, corpus, ".", dir); !errors.Is(err, ErrExists) {
		t.Errorf("a second export: %v", err)
	}
}

// run.json names every tensor with decay, rate and freezing.
func TestRecipe(t *testing.T) {
	cfg := small()
	cfg.Optimizer = train.Optimizer{Name: "lion", Rates: map[string]float64{"token_embd*": 0.5}}
	cfg.Freeze = train.Freeze{Norms: true}
	dir, _ := exported(t, cfg)
	data, err := os.ReadFile(filepath.Join(dir, recipeFile))
	if err != nil {
		t.Fatal(err)
	}
	var r recipe
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(optimizer{Name: "lion", Rate: 3e-4, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, MuonRatio: 20. / 3, MuonMomentum: 0.95, MuonSteps: 5}, r.Optimizer); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(schedule{Kind: "wsd", Stable: 0.6}, r.Schedule); d != "" {
		t.Error(d)
	}
	want := map[string]parameter{
		"token_embd.weight":      {Name: "token_embd.weight", Shape: []int{300, 16}, Decay: true, Rate: 0.5},
		"blk.1.attn_norm.weight": {Name: "blk.1.attn_norm.weight", Shape: []int{16}, Frozen: true},
		"blk.0.ffn_up.weight":    {Name: "blk.0.ffn_up.weight", Shape: []int{64, 16}, Decay: true, Hidden: true, Rate: 1},
	}
	for _, p := range r.Parameters {
		if w, ok := want[p.Name]; ok {
			if d := cmp.Diff(w, p); d != "" {
				t.Error(d)
			}
			delete(want, p.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing %v", want)
	}
}

// The number of steps is that of the first limit.
func TestSteps(t *testing.T) {
	corpus, err := train.Prepare(small(), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	for want, stop := range map[int]train.Stop{7: {Steps: 7}, 1: {Tokens: 1}, 2: {Tokens: 97}, 3: {Tokens: 288, Steps: 9}, 5: {Tokens: 10000, Steps: 5}} {
		cfg := small()
		cfg.Stop = stop
		s, err := train.NewStart(cfg, corpus, ".")
		if err != nil || s.Steps != want {
			t.Errorf("%+v: %d steps, %v; want %d", stop, s.Steps, err, want)
		}
	}
}

func TestSupported(t *testing.T) {
	for name, change := range map[string]func(*train.Config){
		"/model/mixer": func(c *train.Config) { c.Model.Mixer = llm.RWKV },
		"/stop":        func(c *train.Config) { c.Stop = train.Stop{Seconds: 3} },
		"/stop/loss":   func(c *train.Config) { c.Stop.Loss, c.Eval.Every = 1, 5 },
		"":             func(c *train.Config) { c.Schedule = optim.Schedule{Kind: "cosine"} },
	} {
		cfg := small()
		change(&cfg)
		faults := train.Faults(Supported(cfg))
		if name == "" {
			if len(faults) > 0 {
				t.Errorf("refused: %v", faults)
			}
			continue
		}
		if len(faults) != 1 || faults[0].Path != name {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// The initial weights are a checkpoint that packs and serves as a base.
func TestWeights(t *testing.T) {
	cfg := small()
	cfg.LoRA = &llm.LoRA{Rank: 2}
	dir, _ := exported(t, cfg)
	c, err := train.OpenLM(filepath.Join(dir, weightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Model()
	if err != nil {
		t.Fatal(err)
	}
	if tok, err := c.Tokenizer(); err != nil || tok == nil {
		t.Errorf("tokenizer: %v", err)
	}
	if n := len(m.Adapters()); n != 2*7*2 || len(c.Header.Trainable) != n {
		t.Errorf("%d adapters, %d trainable", n, len(c.Header.Trainable))
	}
}
