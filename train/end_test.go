package train

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/train/llm"
)

// Resuming a finished run changes nothing.
func TestResumeAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	corpus := prepare(t, cfg, dir)
	tr, _ := run(t, cfg, corpus, Options{Dir: dir})
	want := weights(tr.Model())
	again, err := ResumeLM(filepath.Join(dir, LastFile), corpus, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if again.step != cfg.Stop.Steps {
		t.Errorf("continued to step %d", again.step)
	}
	for name, data := range weights(again.Model()) {
		for i, v := range data {
			if v != want[name][i] {
				t.Fatalf("%s moved", name)
			}
		}
	}
}

// failing fails on the first matching event.
type failing func(Event) bool

func (f failing) Observe(e Event) error {
	if f(e) {
		return errors.New("no room")
	}
	return nil
}

// A failure at the end of a run does not lose the run, and a failure to write a
// checkpoint is reported even if the run was interrupted.
func TestFailureAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Stop.Steps, cfg.SaveEvery, cfg.Eval.Every = 6, 0, 0
	corpus := prepare(t, cfg, dir)
	for name, fails := range map[string]failing{
		"report":     func(e Event) bool { s, ok := e.(Step); return ok && s.Step == 6 },
		"evaluation": func(e Event) bool { _, ok := e.(Evaluated); return ok },
	} {
		out := t.TempDir()
		tr, err := NewLM(cfg, corpus, Options{Dir: out, Observer: fails})
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Run(context.Background()); err == nil {
			t.Errorf("%s: no error", name)
		}
		tr.Close()
		ck, err := OpenLM(filepath.Join(out, LastFile))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if ck.Header.Step != 6 {
			t.Errorf("%s: checkpoint of step %d", name, ck.Header.Step)
		}
		ck.Close()
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tr, err := NewLM(cfg, corpus, Options{Dir: filepath.Join(file, "no-folder")})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Run(ctx); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("lost checkpoint: %v", err)
	}
}

// A single document leaves no held-out data, which the functions that need some
// report.
func TestNothingHeldOut(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Data.Separator = "\x00"
	corpus := prepare(t, cfg, dir)
	if corpus.Held != nil {
		t.Fatal("split one document")
	}
	tr, _ := run(t, cfg, corpus, Options{})
	if _, err := Evaluate(tr.Model(), nil, corpus.Held, 8, 0, nil); err == nil {
		t.Error("evaluated without held-out data")
	}
	cfg.Stop.Loss = 1
	if _, err := NewLM(cfg, corpus, Options{}); err == nil {
		t.Error("accepted a target loss without held-out data")
	}
}

// A small file does not cause a large allocation.
func TestHugeCheckpoint(t *testing.T) {
	_, _, good := saved(t)
	for name, grow := range map[string]func(*llm.Config){
		"heads":  func(c *llm.Config) { c.Heads, c.KVHeads, c.HeadDim, c.Dim = 1<<20, 1<<20, 1<<20, 1<<20 },
		"vocab":  func(c *llm.Config) { c.Vocab, c.Dim, c.Hidden, c.Layers = 1<<20, 1<<20, 1<<20, 1024 },
		"larger": func(c *llm.Config) { c.Hidden = 1 << 18 },
	} {
		path := filepath.Join(t.TempDir(), "c.safetensors")
		data := rewrite(t, good, func(_ *Header, h *LMHeader) { grow(&h.Model); grow(&h.Config.Model) }, func(all []safetensors.Source) []safetensors.Source { return all[:1] })
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		ck, err := OpenLM(path)
		if err != nil {
			continue // already refused
		}
		if _, err := ck.Model(); err == nil || !strings.Contains(err.Error(), "weights") {
			t.Errorf("%s: %v", name, err)
		}
		ck.Close()
	}
}

// A base with another tokenizer is refused, and a run with control tokens is
// not resumed without them.
func TestOtherTokens(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Stop.Steps = 2
	corpus := prepare(t, cfg, dir)
	run(t, cfg, corpus, Options{Dir: dir})
	other := cfg
	other.Base, other.Tokenizer.Pre = LastFile, "mm-none"
	if _, err := NewLM(other, prepare(t, other, dir), Options{From: dir}); err == nil || !strings.Contains(err.Error(), "tokenizer differs") {
		t.Errorf("base: %v", err)
	}
	other = cfg
	other.Base = LastFile
	run(t, other, corpus, Options{From: dir})
	other = cfg
	other.Data.Special = true
	if _, err := ResumeLM(filepath.Join(dir, LastFile), prepare(t, other, dir), Options{}); err == nil {
		t.Error("resumed with different tokens")
	}
}

// Files of token ids train like the documents they come from.
func TestTokenFiles(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Stop.Steps = 3
	corpus := prepare(t, cfg, dir)
	tr, r := run(t, cfg, corpus, Options{})
	f, err := os.Create(filepath.Join(dir, "tok.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := ExportGGUF(f, tr.Model(), corpus.Tokenizer, nil); err != nil {
		t.Fatal(err)
	}
	f.Close()
	ids := make([]int32, corpus.Train.Len())
	corpus.Train.Read(ids, 0)
	var b []byte
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint16(b, uint16(id))
	}
	if err := os.WriteFile(filepath.Join(dir, "ids.bin"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Data = Data{Files: []string{"ids.bin"}, HeldFiles: []string{"ids.bin"}, Format: "uint16"}
	if cfg.Validate() == nil {
		t.Error("accepted token ids without a tokenizer")
	}
	cfg.Tokenizer = Tokenizer{File: "tok.gguf"}
	mapped := prepare(t, cfg, dir)
	_, again := run(t, cfg, mapped, Options{})
	var want, got []Step
	for _, e := range r.curve() {
		if s, ok := e.(Step); ok {
			want = append(want, s)
		}
	}
	for _, e := range again.curve() {
		if s, ok := e.(Step); ok {
			got = append(got, s)
		}
	}
	if len(want) == 0 || len(got) != len(want) || got[len(got)-1].Loss != want[len(want)-1].Loss {
		t.Errorf("from token files %+v, from text %+v", got, want)
	}
	cfg.Data.JoinLines = true
	if cfg.Validate() == nil {
		t.Error("accepted token ids with lines to join")
	}
}

// A checkpoint finds the folder of its configuration if both move together.
func TestCheckpointDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	recipes := filepath.Join(dir, "a")
	cfg := smallConfig(t, recipes)
	cfg.Stop.Steps = 1
	run(t, cfg, prepare(t, cfg, recipes), Options{Dir: filepath.Join(dir, "a", "runs", "x"), From: recipes})
	if err := os.Rename(recipes, filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	c, err := OpenLM(filepath.Join(dir, "b", "runs", "x", LastFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Dir() != filepath.Join(dir, "b") || c.LM.From != "../.." {
		t.Errorf("%s from %s", c.Dir(), c.LM.From)
	}
	if corpus := prepare(t, c.LM.Config, c.Dir()); !c.Of(corpus) {
		t.Error("data differs")
	}
}
