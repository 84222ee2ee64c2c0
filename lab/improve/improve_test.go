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
	"mm-abi.org/mm/train/plot"
)

const core = "../../catalog/core-llm/core-llm.gguf"

// small is a run of seconds, which teaches little.
func small(m Method) Spec {
	return Spec{Name: "small", Stage: Stage, Method: m, Seed: 3, Core: core, Kinds: []string{synth.Arithmetic}, Examples: 6, Questions: 4, Choice: 3, HeldOut: 4, Rounds: 1,
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
	if testing.Short() {
		t.Skip("skipped: -short")
	}
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
			if _, err := Run(t.Context(), spec, Options{Dir: part, From: "."}); !errors.Is(err, train.ErrHeld) {
				t.Errorf("a folder with a run: %v", err)
			}
			got, err := Run(t.Context(), spec, Options{Dir: part, From: ".", Resume: true})
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
			if _, err := Run(t.Context(), spec, Options{Dir: part, From: ".", Resume: true}); !errors.Is(err, ErrOther) {
				t.Errorf("another spec: %v", err)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for path, change := range map[string]func(*Spec){
		"/stage": func(s *Spec) { s.Stage = "1" }, "/lora/quantized": func(s *Spec) { s.LoRA.Quantized = true },
		"/choice": func(s *Spec) { s.Choice = maxQuestions + 1 }, "/held_out": func(s *Spec) { s.HeldOut = -1 },
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
		r := &runner{spec: small(STaR), opt: Options{Dir: dir}, held: make([]synth.Errand, 2), choice: make([]synth.Errand, 1)}
		if err := os.Mkdir(r.folder(1), 0o755); err != nil {
			t.Fatal(err)
		}
		text := `{"round":1,"held":"10","choice":"1"}`
		text += strings.Repeat(" ", size-len(text))
		if err := os.WriteFile(filepath.Join(r.folder(1), resultFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := r.round(t.Context(), 1, nil); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// The rounds of the choice name the best round, and the held-out ones judge it.
func TestSummary(t *testing.T) {
	r := &runner{spec: Spec{Method: SPIN, Rounds: 3, Patience: 2}.WithDefaults(), opt: Options{Dir: t.TempDir()}, held: make([]synth.Errand, 40), choice: make([]synth.Errand, 4)}
	zero, all := strings.Repeat("0", 40), strings.Repeat("1", 40)
	for n, one := range []Round{{Choice: "0001", Held: zero}, {Choice: "0111", Held: all}, {Choice: "0011", Held: all}, {Choice: "0111", Held: zero}} {
		one.Round, one.Start = n, compare("round 0", zero, one.Held)
		if err := os.Mkdir(r.folder(n), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := writeJSON(filepath.Join(r.folder(n), resultFile), one); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := r.run(t.Context())
	if err != nil || sum.Best != 1 || !sum.Helps || sum.Reason != "no help" || sum.Model() != filepath.Join("round-1", modelFile) {
		t.Errorf("got round %d, helps %v, %s, %v; want round 1, which helps", sum.Best, sum.Helps, sum.Reason, err)
	}
	if !strings.HasPrefix(sum.String(), "spin helps: round 1 changes the held-out answers of round 0 by +100.0 %") {
		t.Error(sum)
	}
	if d := cmp.Diff(Figures{Best: 1, Helps: true, Reason: "no help", N: 40, Right: []int{0, 40, 40, 0}, Change: 1, Low: sum.Low, High: sum.High}, sum.Figures()); d != "" {
		t.Error(d)
	}
	chart := sum.Chart()
	if chart.Lines[0].Points[1] != (plot.Point{X: 1, Y: 100}) || chart.Lines[1].Points[1] != (plot.Point{X: 1, Y: 75}) {
		t.Error(chart)
	}
	sum.Best, sum.Helps = 0, false
	if !strings.Contains(sum.String(), "does not help: no round is better") {
		t.Error(sum)
	}
	sum.Best = 1
	if !strings.Contains(sum.String(), "does not help beyond chance: round 1") {
		t.Error(sum)
	}
}

// An answer of more tokens than positions is not a pair.
func TestLength(t *testing.T) {
	_, tok, err := train.OpenBase(core)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{tok: tok}
	if a, b := r.length("add 1 and 2", ""), r.length("add 1 and 2", " <tool_call>{}</tool_call>"); a < 3 || b <= a+2 {
		t.Errorf("lengths %d and %d", a, b)
	}
}
