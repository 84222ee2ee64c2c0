package train

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/train/llm"
)

// The engine computes the trainer's logits for an exported model, whatever its
// rotation, norms and head. So does the trainer after importing it.
func TestExportRunsTheSame(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	corpus := prepare(t, cfg, dir)
	base := cfg.Model
	for name, f := range map[string]func(*llm.Config){
		"half":                func(*llm.Config) {},
		"interleaved":         func(c *llm.Config) { c.Rope = llm.RopePairs },
		"qk-norm":             func(c *llm.Config) { c.QKNorm = true },
		"qk-norm interleaved": func(c *llm.Config) { c.QKNorm, c.Rope = true, llm.RopePairs },
		"tied gqa":            func(c *llm.Config) { c.Tied, c.KVHeads = true, 1 },
		"tied embed norm":     func(c *llm.Config) { c.Tied, c.EmbedNorm = true, true },
		"wide head":           func(c *llm.Config) { c.HeadDim, c.EmbedNorm = 32, true },
		"larger vocabulary":   func(c *llm.Config) { c.Vocab = 320 },
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			f(&c)
			m, err := llm.New[float32](c)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Init(llm.Init{Seed: 1, Residual: "plain"}); err != nil {
				t.Fatal(err)
			}
			for _, w := range m.Tensors() {
				if !w.Matrix() { // gains off one
					for i := range w.Data {
						w.Data[i] += float32(i%5) / 10
					}
				}
			}
			m.Refresh(nil)
			path := filepath.Join(t.TempDir(), "m.gguf")
			out, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := ExportGGUF(out, m, corpus.Tokenizer, []gguf.KV{{Key: gguf.KeyName, Value: "test"}}); err != nil {
				t.Fatal(err)
			}
			out.Close()
			back, err := ImportGGUF(path)
			if err != nil {
				t.Fatal(err)
			}
			back.Refresh(nil)
			engine, err := infer.Load(path, infer.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Close()
			s, err := engine.NewSession(infer.SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			d, imported := m.NewDecoder(), back.NewDecoder()
			for i := range c.Context {
				id := int32(i*37%280 + 3)
				want, err := d.Feed(id)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Feed(context.Background(), []int32{id}); err != nil {
					t.Fatal(err)
				}
				again, err := imported.Feed(id)
				if err != nil {
					t.Fatal(err)
				}
				for v, got := range s.Logits() {
					if math.Abs(float64(got-want[v])) > 2e-4 {
						t.Fatalf("position %d: logit %d is %v, want %v", i, v, got, want[v])
					}
					if math.Abs(float64(again[v]-want[v])) > 2e-4 {
						t.Fatalf("position %d: the imported model's logit %d is %v, want %v", i, v, again[v], want[v])
					}
				}
			}
			if n := len(s.Logits()); n != corpus.Tokenizer.Size() {
				t.Errorf("%d logits for %d tokens", n, corpus.Tokenizer.Size())
			}
		})
	}
}

func TestExportRefuses(t *testing.T) {
	c := llm.Config{Vocab: 20, Dim: 8, Layers: 1, Heads: 2, Context: 8}
	for say, f := range map[string]func(*llm.Config){
		"relu2": func(c *llm.Config) { c.Activation = llm.ReLU2 }, "rwkv": func(c *llm.Config) { c.Mixer = llm.RWKV },
	} {
		d := c
		f(&d)
		m, err := llm.New[float32](d)
		if err != nil {
			t.Fatal(err)
		}
		if err := ExportGGUF(&bytes.Buffer{}, m, nil, nil); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", say, err)
		}
	}
	m, _ := llm.New[float32](c)
	if err := m.Adapt(llm.LoRA{Rank: 2}, 1); err != nil {
		t.Fatal(err)
	}
	if err := ExportGGUF(&bytes.Buffer{}, m, nil, nil); err == nil || !strings.Contains(err.Error(), "merge") {
		t.Errorf("adapters: %v", err)
	}
}

// A trained model continues its text, and equal seeds yield equal samples.
func TestSample(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Stop.Steps = 150
	corpus := prepare(t, cfg, dir)
	tr, _ := run(t, cfg, corpus, Options{})
	greedy, err := Sample(tr.Model(), corpus.Tokenizer, "Tom saw a", SampleOptions{Tokens: 6, Temperature: -1})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(greedy, " in the ") {
		t.Errorf("model continues with %q", greedy)
	}
	a, err := Sample(tr.Model(), corpus.Tokenizer, "", SampleOptions{Seed: 3, Tokens: 12})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Sample(tr.Model(), corpus.Tokenizer, "", SampleOptions{Seed: 3, Tokens: 12})
	if a != b || a == "" {
		t.Errorf("%q and %q", a, b)
	}
}

// A run starts from a GGUF file of its shape, quantized or not, and from no
// other file.
func TestImportBase(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Model.Rope = llm.RopePairs
	cfg.Stop.Steps = 60
	corpus := prepare(t, cfg, dir)
	tr, _ := run(t, cfg, corpus, Options{})
	write := func(name string, data func(io.Writer) error) {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := data(f); err != nil {
			t.Fatal(err)
		}
	}
	write("base.gguf", func(w io.Writer) error { return ExportGGUF(w, tr.Model(), corpus.Tokenizer, nil) })
	write("other.gguf", func(w io.Writer) error {
		_, err := gguf.Write(w, []gguf.KV{{Key: gguf.KeyArchitecture, Value: "qwen2"}}, nil)
		return err
	})
	cfg.Base, cfg.Stop.Steps = "base.gguf", 1
	cfg.Optimizer.Rate = 1e-9
	again, _ := run(t, cfg, corpus, Options{From: dir})
	for i, w := range tr.Model().Tensors() {
		got := again.Model().Tensors()[i].Data
		for k := range got {
			if math.Abs(float64(got[k]-w.Data[k])) > 1e-6 {
				t.Fatalf("%s[%d] is %v, was %v", w.Name, k, got[k], w.Data[k])
			}
		}
	}
	for _, bad := range []string{"other.gguf", "none.gguf", "stories.txt"} {
		cfg.Base = bad
		if _, err := NewLM(cfg, corpus, Options{From: dir}); err == nil {
			t.Errorf("%s: accepted as base", bad)
		}
	}
	cfg.Base, cfg.Model.Layers = "base.gguf", 2
	if _, err := NewLM(cfg, corpus, Options{From: dir}); err == nil || !strings.Contains(err.Error(), "shape") {
		t.Errorf("another shape: %v", err)
	}
}
