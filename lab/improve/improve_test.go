package improve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
)

const core = "../../catalog/core-llm/core-llm.gguf"

// small is a run of seconds, which teaches little.
func small(m Method) Spec {
	return Spec{Name: "small", Method: m, Seed: 3, Core: core, Kinds: []string{synth.Arithmetic}, Examples: 6, Questions: 4, HeldOut: 4, Rounds: 1,
		Samples: 2, Steps: 3, Batch: 2, LoRA: llm.LoRA{Rank: 2}}
}

// A program must be one call of the calculator with the right result, and not
// the result itself.
func TestRight(t *testing.T) {
	v, err := newVerifier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.guest.Close()
	e := synth.Errand{Answer: "19", Result: "19"}
	for answer, want := range map[string]bool{
		` <tool_call>{"tool":"sympy-lite","args":{"expr":"12+7","op":"simplify"}}</tool_call>`:       true,
		` <tool_call>{"tool":"sympy-lite","args":{"expr":"7+12","op":"simplify"}}</tool_call>`:       true,
		` <tool_call>{"tool":"sympy-lite","args":{"expr":"12+8","op":"simplify"}}</tool_call>`:       false,
		` <tool_call>{"tool":"sympy-lite","args":{"expr":"19","op":"simplify"}}</tool_call>`:         false,
		` <tool_call>{"tool":"chartqa","args":{"expr":"12+7","op":"simplify"}}</tool_call>`:          false,
		` <tool_call>{"tool":"sympy-lite","args":{"expr":"12+7","op":"simplify"}}`:                   false,
		` <tool_call>{"tool":"sympy-lite","args":{"expr":"12+7","op":"simplify"}} 1</tool_call>`:     false,
		` <tool_call>{"tool":"sympy-lite","args":["12+7"]}</tool_call>`:                              false,
		` <tool_call>{"tool":"sympy-lite","args":{"expr":"12+7","op":"simplify"},"x":1}</tool_call>`: false,
		"19": false, "": false,
	} {
		if got, err := v.right(t.Context(), e, answer); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", answer, got, err, want)
		}
	}
}

// A run that is cut off in any round gives the result of one that is not, on
// any number of threads; a folder with another spec is refused.
func TestRun(t *testing.T) {
	for _, m := range []Method{STaR, SPIN} {
		t.Run(string(m), func(t *testing.T) {
			spec := small(m)
			spec.Threads = 1
			whole := filepath.Join(t.TempDir(), "whole")
			want, err := Run(t.Context(), spec, Options{Dir: whole, From: "."})
			if err != nil {
				t.Fatal(err)
			}
			spec.Threads = 2
			part := filepath.Join(t.TempDir(), "part")
			ctx, cancel := context.WithCancel(t.Context())
			if _, err = Run(ctx, spec, Options{Dir: part, From: ".", Say: func(Round) { cancel() }}); !errors.Is(err, context.Canceled) {
				t.Fatalf("a cancelled run: %v", err)
			}
			got, err := Run(t.Context(), spec, Options{Dir: part, From: "."})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want.Rounds, got.Rounds); d != "" {
				t.Error(d)
			}
			for _, file := range []string{learnedFile, modelFile} {
				a, err1 := os.ReadFile(filepath.Join(whole, "round-1", file))
				b, err2 := os.ReadFile(filepath.Join(part, "round-1", file))
				if err := errors.Join(err1, err2); err != nil || string(a) != string(b) {
					t.Errorf("%s differs, %v", file, err)
				}
			}
			spec.Seed++
			if _, err := Run(t.Context(), spec, Options{Dir: part, From: "."}); !errors.Is(err, ErrOther) {
				t.Errorf("another spec: %v", err)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for path, change := range map[string]func(*Spec){
		"/method": func(s *Spec) { s.Method = "x" }, "/core": func(s *Spec) { s.Core = "" }, "/kinds": func(s *Spec) { s.Kinds = []string{"tables"} },
		"/questions": func(s *Spec) { s.Questions = maxQuestions + 1 }, "/rounds": func(s *Spec) { s.Rounds = maxRounds + 1 },
		"/samples": func(s *Spec) { s.Samples = maxSamples + 1 }, "/temperature": func(s *Spec) { s.Temperature = 11 },
		"": func(s *Spec) { s.Questions, s.Rounds, s.Samples = maxQuestions, maxRounds, maxSamples },
	} {
		s := small(STaR)
		change(&s)
		faults := train.Faults(s.Validate())
		if path == "" && len(faults) > 0 || path != "" && (len(faults) != 1 || faults[0].Path != path) {
			t.Errorf("%s: %v", path, faults)
		}
	}
}

// A result is read up to a size.
func TestResultSize(t *testing.T) {
	for size, ok := range map[int]bool{maxResult: true, maxResult + 1: false} {
		dir := t.TempDir()
		r := &runner{spec: small(STaR), opt: Options{Dir: dir}, held: make([]synth.Errand, 2)}
		if err := os.Mkdir(r.folder(1), 0o755); err != nil {
			t.Fatal(err)
		}
		text := `{"round":1,"held":"10"}`
		text += strings.Repeat(" ", size-len(text))
		if err := os.WriteFile(filepath.Join(r.folder(1), resultFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := r.round(t.Context(), 1, nil); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestStudy is the study of `make improve`: MM_IMPROVE is the method.
func TestStudy(t *testing.T) {
	method := os.Getenv("MM_IMPROVE")
	if method == "" {
		t.Skip("MM_IMPROVE is not set")
	}
	spec := Spec{Name: "study", Method: Method(method), Seed: 1, Core: core, Kinds: []string{synth.Arithmetic}, Examples: 64, Questions: 240, HeldOut: 200,
		Rounds: 3, Samples: 2, Steps: 60, Batch: 8, LoRA: llm.LoRA{Rank: 16, Alpha: 32}}
	if spec.Method == STaR {
		spec.Rate = 1e-2
	}
	sum, err := Run(t.Context(), spec, Options{Dir: t.TempDir(), From: ".", Say: func(r Round) {
		low, high := r.Start.Interval()
		t.Logf("round %d: held out %d of %d right, %+.3f since round 0 (95 %% %+.3f to %+.3f); of %d questions %d right, %d more with a hint; learned %d",
			r.Round, r.Start.After, r.Start.N, r.Start.Difference(), low, high, r.Sampled, r.Right, r.Hinted, r.Learned)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("end: %s; best round %d; helps: %v", strings.ToLower(sum.Reason), sum.Best, sum.Helps)
}
