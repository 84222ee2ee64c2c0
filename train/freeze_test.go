package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// The policy boundary trains the first and the last layer and the head, untied
// first if tied; no other tensor changes.
func TestBoundary(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Model.Tied = true
	corpus := prepare(t, cfg, dir)
	tr, _ := run(t, cfg, corpus, Options{Dir: filepath.Join(dir, "base")})
	before := weights(tr.Model())
	baseLoss := tr.best

	cfg.Base = filepath.Join(dir, "base", LastFile)
	cfg.Freeze = Freeze{Policy: "boundary", Every: 1}
	cfg.Seed = 6
	tuned, r := run(t, cfg, corpus, Options{Dir: filepath.Join(dir, "tuned")})
	if tuned.Model().Config.Tied {
		t.Error("head is still tied")
	}
	var moved []string
	for name, now := range weights(tuned.Model()) {
		old := before[name]
		if name == "output.weight" {
			old = before["token_embd.weight"]
		}
		if !cmp.Equal(old, now) {
			moved = append(moved, name)
		}
	}
	sort.Strings(moved)
	for _, name := range moved {
		if !strings.HasPrefix(name, "blk.0.") && !strings.HasPrefix(name, "blk.2.") && name != "output.weight" {
			t.Errorf("%s moved", name)
		}
	}
	if len(moved) != 2*9+1 {
		t.Errorf("%d tensors moved: %v", len(moved), moved)
	}
	if tuned.best >= baseLoss {
		t.Errorf("held-out loss went from %v to %v", baseLoss, tuned.best)
	}
	c, err := OpenLM(filepath.Join(dir, "tuned", LastFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if len(c.Header.Frozen) != len(tuned.Model().Tensors())-len(moved) || !slices.Equal(c.Header.Trainable, tuned.trainable()) {
		t.Errorf("checkpoint has %d frozen tensors and trainable %v", len(c.Header.Frozen), c.Header.Trainable)
	}
	if s := r.events[0].(Started); s.Frozen != len(c.Header.Frozen) || s.Trainable >= s.Parameters {
		t.Errorf("%+v", s)
	}
}

// One flipped bit in a sealed tensor stops the run; the error names the tensor,
// and no file contains it.
func TestMovedBitStopsTheRun(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Freeze = Freeze{Policy: "boundary", Every: 2}
	cfg.SaveEvery, cfg.Eval.Every = 0, 0
	corpus := prepare(t, cfg, dir)
	tr, err := NewLM(cfg, corpus, Options{Dir: filepath.Join(dir, "run"), Observer: &flipper{at: 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	f := tr.opt.Observer.(*flipper)
	f.tensor = tr.Model().Tensor("blk.1.ffn_gate.weight")
	err = tr.Run(context.Background())
	var moved *MovedError
	if !errors.As(err, &moved) || moved.Tensor != "blk.1.ffn_gate.weight" || moved.Want == moved.Got || moved.Step != 10 {
		t.Fatalf("%v", err)
	}
	if _, err := OpenLM(filepath.Join(dir, "run", LastFile)); err == nil {
		t.Error("saved a checkpoint")
	}
}

// flipper flips the lowest bit of one weight at the at-th report.
type flipper struct {
	tensor  *nn.Tensor[float32]
	at, now int
}

func (f *flipper) Observe(e Event) error {
	if _, ok := e.(Step); ok {
		if f.now++; f.now == f.at {
			w := &f.tensor.Data[len(f.tensor.Data)/2]
			*w = math.Float32frombits(math.Float32bits(*w) ^ 1)
		}
	}
	return nil
}

// Equal bytes of different shapes have different digests.
func TestDigestHoldsShape(t *testing.T) {
	data := make([]float32, 6)
	a, b := &nn.Tensor[float32]{Shape: []int{2, 3}, Data: data}, &nn.Tensor[float32]{Shape: []int{3, 2}, Data: data}
	if tensorDigest(a) == tensorDigest(b) {
		t.Error("digest ignores the shape")
	}
}

func TestFreezeChoices(t *testing.T) {
	c := llm.Config{Vocab: 20, Dim: 8, Layers: 4, Heads: 2, Context: 8, QKNorm: true, EmbedNorm: true}
	for name, k := range map[string]struct {
		f      Freeze
		frozen int
		some   string
	}{
		"embeddings": {Freeze{Embeddings: true}, 2, "token_embd_norm.weight"},
		"head":       {Freeze{Head: true}, 1, "output.weight"},
		"norms":      {Freeze{Norms: true}, 2 + 4*4, "blk.2.attn_k_norm.weight"},
		"layers":     {Freeze{Layers: "1-2,-1"}, 3 * 11, "blk.3.ffn_down.weight"},
		"tensors":    {Freeze{Tensors: []string{"blk.*.attn_q.weight", "output_norm.weight"}}, 5, "blk.0.attn_q.weight"},
		"boundary":   {Freeze{Policy: "boundary"}, 2 + 1 + 2*11, "output_norm.weight"},
	} {
		m, err := llm.New[float32](c)
		if err != nil {
			t.Fatal(err)
		}
		if m, err = k.f.apply(m); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, w := range m.Tensors() {
			if w.Grad == nil {
				n++
			}
		}
		if n != k.frozen || m.Tensor(k.some).Grad != nil {
			t.Errorf("%s: %d tensors frozen, want %d with %s", name, n, k.frozen, k.some)
		}
	}
	m, _ := llm.New[float32](c)
	if _, err := (Freeze{Tensors: []string{"blk.9.*"}}).apply(m); err == nil {
		t.Error("accepted a pattern without a tensor")
	}
}

// A LoRA run trains only adapters, resumes bit-identically, and merges.
func TestLoRARun(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	corpus := prepare(t, cfg, dir)
	base, _ := run(t, cfg, corpus, Options{Dir: filepath.Join(dir, "base")})
	before := weights(base.Model())
	cfg.Base, cfg.LoRA, cfg.Seed = filepath.Join(dir, "base", LastFile), &llm.LoRA{Rank: 4, Targets: []string{"attn_q", "ffn_down"}}, 6
	tuned, first := run(t, cfg, corpus, Options{Dir: filepath.Join(dir, "tuned")})
	after := weights(tuned.Model())
	adapters := 0
	for name, w := range after {
		if strings.Contains(name, ".lora_") {
			adapters++
		} else if !cmp.Equal(before[name], w) {
			t.Errorf("%s moved", name)
		}
	}
	if adapters != 2*2*3 || tuned.best >= base.best {
		t.Errorf("%d adapter matrices, held-out loss %v after %v", adapters, tuned.best, base.best)
	}

	stop := Stop{Steps: 30}
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{after: 4, cancel: cancel}
	tr, err := NewLM(cfg, corpus, Options{Dir: filepath.Join(dir, "again"), Observer: r})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	tr.Close()
	rest := &recorder{}
	if tr, err = ResumeLM(filepath.Join(dir, "again", LastFile), corpus, Options{Observer: rest, Resumed: &Resumed{Stop: stop}}); err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first.curve(), append(r.curve(), rest.curve()...)); d != "" {
		t.Error(d)
	}

	one, two := divided(t, filepath.Join(dir, "tuned", LastFile)), divided(t, filepath.Join(dir, "again", LastFile))
	if len(one) != 4 || len(two) != 4 || one[0] == two[0] || one[1] != two[1] || one[2] == two[2] || one[3] != two[3] {
		t.Fatalf("checkpoints of two runs have %d and %d pieces, want four of which the second and fourth, the core and the tokenizer, are equal", len(one), len(two))
	}
	if frozen, all := len(one[1]), 4*base.Model().Config.Parameters(); frozen < all {
		t.Errorf("the frozen piece has %d bytes, want at least the core's %d", frozen, all)
	}

	c, err := OpenLM(filepath.Join(dir, "tuned", LastFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Model()
	if err != nil {
		t.Fatal(err)
	}
	m.Refresh(nil)
	adapted, err := Evaluate(m, nil, corpus.Held, 24, 0, corpus.Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	m.Merge()
	m.Refresh(nil)
	merged, err := Evaluate(m, nil, corpus.Held, 24, 0, corpus.Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(adapted.Loss-merged.Loss) > 1e-5 {
		t.Errorf("loss %v with adapters, %v merged", adapted.Loss, merged.Loss)
	}
}

// divided returns the parts of a checkpoint between its cuts.
func divided(t *testing.T, path string) (parts []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cuts, err := Cuts(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	at := int64(0)
	for _, cut := range append(cuts, int64(len(data))) {
		parts, at = append(parts, string(data[at:cut])), cut
	}
	return parts
}

// Cuts refuses a file other than a checkpoint.
func TestCutsRefuse(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 100)} {
		if cuts, err := Cuts(strings.NewReader(text), int64(len(text))); err == nil {
			t.Errorf("%q: got %v", text, cuts)
		}
	}
}
