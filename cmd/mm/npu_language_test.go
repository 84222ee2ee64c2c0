package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// A language model that is compiled by mm qnn compile tells by mm run what the
// engine of language models tells, and its answer says what it ran on.
func TestNPULanguage(t *testing.T) {
	libs := os.Getenv("MM_QNN_LIB")
	if libs == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	weights, vocab := testfiles.Shared(t, "models", "stories260K.bin"), testfiles.Shared(t, "models", "tok512.bin")
	runtimetest.Program(t)
	npuHome(t, libs)
	t.Chdir(t.TempDir())
	must(t, "module", "import", "llama2c", weights, "--tokenizer", vocab, "--name", "stories", "--version", "1.0.0", "--license", "MIT")
	gguf := filepath.Join("stories", "stories.gguf")
	var made struct {
		Record struct {
			Context, SDK string
			Cosine       float64
			Simulated    bool
		}
	}
	if err := json.Unmarshal([]byte(must(t, "qnn", "compile", gguf, "--target", "SM8750", "--window", "64", "--out", filepath.Join("stories", "stories.sm8750.bin"), "--json")), &made); err != nil {
		t.Fatal(err)
	}
	if r := made.Record; !r.Simulated || r.Cosine < 0.999 {
		t.Errorf("%+v", r)
	}
	tell := func(backend string) runner.Report {
		stdout := must(t, "run", gguf, "Once upon a time", "--backend", backend, "--max-tokens", "31", "--temperature", "0", "--trace", "--json")
		var got runner.Report
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want, got := tell("core"), tell("qnn")
	t.Logf("cosine %.7f; %q", made.Record.Cosine, got.Text)
	if got.Text != want.Text || !strings.Contains(got.Text, "there was a little girl named Lily") {
		t.Errorf("it tells %q, by the engine core %q", got.Text, want.Text)
	}
	steps := 0
	for _, s := range got.Trace {
		if s.Backend != "qnn (emulated)" {
			continue
		}
		steps++
		if !s.Simulated || s.Facts["digest"] != made.Record.Context || s.Facts["chip"] != "SM8750 (69, v79)" || s.Facts["sdk"] != made.Record.SDK {
			t.Errorf("%+v, want the context %s of %s", s.Step, made.Record.Context, made.Record.SDK)
		}
	}
	if len(got.Backends) != 1 || got.Backends[0].Engine != "qnn (emulated)" || !got.Backends[0].Simulated || steps == 0 {
		t.Errorf("%+v, %d steps in emulation", got.Backends, steps)
	}
}
