package pack_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/pack"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
)

// trained leaves a checkpoint of a tiny model in a new folder.
func trained(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.Repeat("the cat sat on the mat\nthe dog sat on the log\n", 20)
	if err := os.WriteFile(filepath.Join(dir, "text.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := train.Config{
		Name: "tiny", Seed: 3, Model: llm.Config{Vocab: 300, Dim: 32, Layers: 1, Heads: 2, Context: 16},
		Data: train.Data{Files: []string{"text.txt"}, Separator: "\n", Held: 0.2}, BatchSize: 2, Stop: train.Stop{Steps: 2},
	}
	corpus, err := train.Prepare(cfg, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	opt := train.Options{Dir: filepath.Join(dir, "run"), From: dir}
	run, err := train.RunFolder(t.Context(), cfg, corpus, false, opt)
	if err != nil {
		t.Fatal(err)
	}
	run.Close()
	if _, err := train.RunFolder(t.Context(), cfg, corpus, false, opt); !errors.Is(err, train.ErrHeld) {
		t.Errorf("a second run in the folder: %v", err)
	}
	cfg.Stop.Steps = 4
	if run, err = train.RunFolder(t.Context(), cfg, corpus, true, opt); err != nil {
		t.Fatal(err)
	}
	run.Close()
	metrics, err := os.ReadFile(filepath.Join(opt.Dir, train.MetricsFile))
	if err != nil || strings.Count(string(metrics), `"event":"step","step":1,`) != 1 || !strings.Contains(string(metrics), `"event":"finished","step":4,`) {
		t.Errorf("%v: %s", err, metrics)
	}
	return filepath.Join(opt.Dir, train.LastFile)
}

// A checkpoint becomes a module whose manifest agrees with its files.
func TestCheckpoint(t *testing.T) {
	ck := trained(t)
	dir := t.TempDir()
	recipe, err := quantize.Recipe("fp16")
	if err != nil {
		t.Fatal(err)
	}
	about := filepath.Join(dir, "about.txt")
	if err := os.WriteFile(about, []byte("\nA cat.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	of, err := abi.ParseModuleRef("core-llm@3.1.0")
	if err != nil {
		t.Fatal(err)
	}
	opt := pack.Options{Dir: filepath.Join(dir, "one"), Name: "tiny", Version: "1.0.0", License: "MIT", Quant: "fp16", Recipe: recipe, About: about}
	for typ, draft := range map[abi.ModuleType]abi.Ref{abi.Core: {}, abi.DraftCore: of} {
		opt.Dir, opt.Draft = filepath.Join(dir, string(typ)), draft
		made, err := pack.Checkpoint(t.Context(), ck, opt)
		if err != nil {
			t.Fatal(err)
		}
		m, list := modules.Load(made)
		if list = append(list, m.CheckFiles(t.Context())...); list.Failed() {
			t.Fatal(list.Err())
		}
		if list := inspect.Check(m, inspect.Folder(m)); list.Failed() {
			t.Error(list.Err())
		}
		if m.Type != typ || m.For != draft {
			t.Errorf("%s for %s, want %s for %s", m.Type, m.For, typ, draft)
		}
		card, err := os.ReadFile(filepath.Join(made, "README.md"))
		if err != nil || !strings.Contains(string(card), "\n\nA cat.\n\n") || strings.Contains(string(card), "| base |") {
			t.Errorf("%s, %v", card, err)
		}
	}
	if _, err := pack.Checkpoint(t.Context(), ck, opt); err == nil {
		t.Error("a module was written over")
	}

	// A file that is not a checkpoint, or has no text for the card, leaves no files.
	opt.Dir, opt.About = filepath.Join(dir, "none"), filepath.Join(dir, "missing")
	if _, err := pack.Checkpoint(t.Context(), ck, opt); err == nil {
		t.Error("packed without its text")
	}
	if _, err := pack.Checkpoint(t.Context(), about, opt); err == nil {
		t.Error("a text was packed")
	}
	if _, err := os.Stat(opt.Dir); err == nil {
		t.Error("a folder was left behind")
	}
}

// Measuring finds the data where the run found them, and says how to where it
// does not.
func TestMeasure(t *testing.T) {
	ck := trained(t)
	m, err := train.Measure(t.Context(), ck, train.MeasureOptions{NGram: true, Samples: []string{"the"}})
	if err != nil {
		t.Fatal(err)
	}
	if m.Loss <= 0 || m.NGram == nil || len(m.Samples) != 1 || !strings.HasPrefix(m.Samples[0], "the") {
		t.Errorf("%+v", m)
	}
	_, err = train.Measure(t.Context(), ck, train.MeasureOptions{Dir: t.TempDir()})
	var way interface{ Hint() string }
	if !errors.As(err, &way) || !strings.Contains(way.Hint(), "--data") {
		t.Errorf("%v", err)
	}
}
