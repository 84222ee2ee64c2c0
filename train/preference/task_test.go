package preference

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/optim"
)

// folder returns a folder with a small core and pairs of questions.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	docs := func(yield func(string) bool) {
		for _, s := range []string{"who is up? tom is up.", "who is in? sam is in.", "who is out? tom is out.", `<tool_call>{"tool":"sympy-lite","args":`} {
			if !yield(s) {
				return
			}
		}
	}
	v, err := tokenizer.Train(docs, tokenizer.TrainOptions{VocabSize: 280, Control: []string{"<eos>", "<tool_call>", "</tool_call>"}, EOS: "<eos>"})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	m, err := llm.New[float32](llm.Config{Vocab: tok.Size(), Dim: 32, Layers: 2, Heads: 2, Hidden: 48, Context: 160, Rope: llm.RopePairs})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Init(llm.Init{Seed: 5}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := train.ExportGGUF(&b, m, tok, nil); err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("core.gguf", b.Bytes())
	write("pairs.jsonl", []byte(`{"prompt": "who is up?", "chosen": " tom is up.", "rejected": " sam is in."}
{"prompt": "who is in?", "chosen": " sam is in.", "rejected": " tom is up."}

{"prompt": "who is out?", "chosen": " tom is out.", "rejected": " who?", "source": 3}
{"prompt": "who is here?", "chosen": " sam is here.", "rejected": " tom is out."}
`))
	return dir
}

func recipe() Recipe {
	return Recipe{
		Stage: Preference, Seed: 3, Core: Core{Base: "core.gguf", LoRA: &llm.LoRA{Rank: 4, Alpha: 8}},
		Data: Data{Files: []string{"pairs.jsonl"}, HeldOut: 0.3}, BatchSize: 2, SeqLen: 32, Accumulate: 2,
		Settings: train.Settings{Optimizer: train.Optimizer{Name: "adamw", Rate: 5e-3}, Schedule: optim.Schedule{Warmup: 2}, Stop: train.Stop{Steps: 8}, SaveEvery: 4, Eval: train.HeldOut{Every: 4, N: 6}},
	}
}

// A run learns the pairs, the core beneath its adapters is sealed, and the
// result is equal on any number of threads and after an interruption.
func TestRun(t *testing.T) {
	dir := folder(t)
	for _, o := range []Objective{{}, {Kind: IPO, Beta: 0.5}, {Kind: ORPO, Beta: 0.5}, {Kind: KTO, SFT: 0.1}} {
		r := recipe()
		r.Objective = o
		r.Stop.Steps = 24
		run := func(name string, threads, stop int, resume bool) *Trainer {
			t.Helper()
			r := r
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			seen := 0
			tr, err := RunFolder(ctx, r, resume, train.Options{Dir: filepath.Join(dir, string(o.Kind)+name), From: dir, Threads: threads,
				Observer: observer(func(e train.Event) {
					if _, ok := e.(train.Saved); ok {
						if seen++; seen == stop {
							cancel()
						}
					}
				})})
			if stop > 0 {
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("%s: %v", name, err)
				}
				return nil
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			t.Cleanup(func() { tr.Close() })
			return tr
		}
		one := run("one", 1, 0, false)
		run("two", 3, 2, false)
		two := run("two", 2, 0, true)
		for i, w := range one.Task.Tensors() {
			if !cmp.Equal(w.Data, two.Task.Tensors()[i].Data) {
				t.Fatalf("%s: %s differs after an interruption", o.Kind, w.Name)
			}
		}
		e, verdicts, err := one.Task.Try()
		if err != nil {
			t.Fatal(err)
		}
		again, err := one.Task.Evaluate()
		if err != nil || !cmp.Equal(e, again) || len(verdicts) == 0 || e.Predictions != len(verdicts) {
			t.Errorf("%s: %+v, then %+v, %v", o.Kind, e, again, err)
		}
		c, err := OpenCheckpoint(filepath.Join(dir, string(o.Kind)+"two", train.LastFile))
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Core("")
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range m.Tensors() {
			if !cmp.Equal(w.Data, one.Task.Tensors()[i].Data) {
				t.Errorf("%s: %s of the checkpoint differs", o.Kind, w.Name)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		// Every pair that was learned is in the right order.
		_, learned, err := func() (train.Evaluation, []Verdict, error) {
			one.Task.held = one.Task.learned
			return one.Task.Try()
		}()
		for _, v := range learned {
			if !v.Prefers || err != nil {
				t.Errorf("%s: a learned pair is in the wrong order, %v", o.Kind, err)
			}
		}
	}
}

type observer func(train.Event)

func (f observer) Observe(e train.Event) error { f(e); return nil }

// Errands: greedy answers replace rejected ones, verdicts count calls, and a
// measurement compares a checkpoint with its start.
func TestErrands(t *testing.T) {
	dir := folder(t)
	r := recipe()
	r.Data = Data{Errands: &Errands{N: 6, Seed: 4, Own: true}}
	r.SeqLen, r.Stop.Steps, r.Objective.SFT = 150, 2, 1
	out := filepath.Join(dir, "out")
	tr, err := RunFolder(t.Context(), r, false, train.Options{Dir: out, From: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for _, e := range tr.Task.held {
		s := e.answers[0]
		text, want := "", e.Route
		for _, id := range s.tokens[s.prompt : s.prompt+s.route] {
			text += tr.Task.tok.Piece(id)
		}
		if !bytes.HasPrefix([]byte(text), []byte(want)) || s.route < 2 {
			t.Errorf("route %q, want %q", text, want)
		}
		best := make([]int32, 150)
		copy(best, s.tokens[1:])
		if v := verdict(e, best, true); !v.Right || !v.Routes {
			t.Errorf("the chosen answer: %+v", v)
		}
		best[s.prompt+s.route-1]++ // the token after the tool's name
		if v := verdict(e, best, true); v.Right || !v.Routes {
			t.Errorf("another argument: %+v", v)
		}
		best[s.prompt+s.route-2]++
		if v := verdict(e, best, true); v.Right || v.Routes {
			t.Errorf("another tool: %+v", v)
		}
	}
	m, err := Measure(t.Context(), filepath.Join(out, train.LastFile), MeasureOptions{N: 9})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Changes) != 8 || m.Changes[0].N != 9 || m.Before.Predictions != 9 || m.Before.Loss == m.After.Loss {
		t.Errorf("%+v", m)
	}
}

// A run whose data has changed does not continue.
func TestResumeRefused(t *testing.T) {
	dir := folder(t)
	r := recipe()
	tr, err := RunFolder(t.Context(), r, false, train.Options{Dir: filepath.Join(dir, "out"), From: dir})
	if err != nil {
		t.Fatal(err)
	}
	tr.Close()
	b, err := os.ReadFile(filepath.Join(dir, "pairs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pairs.jsonl"), bytes.ReplaceAll(b, []byte("sam"), []byte("tim")), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Stop.Steps = 12
	if _, err := RunFolder(t.Context(), r, true, train.Options{Dir: filepath.Join(dir, "out"), From: dir}); err == nil || !bytes.Contains([]byte(err.Error()), []byte("pairs have changed")) {
		t.Errorf("other pairs: %v", err)
	}
}
