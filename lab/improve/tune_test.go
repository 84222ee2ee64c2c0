package improve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/synth"
)

func tuning(m Method) Spec {
	s := small(m)
	s.Kinds, s.Rounds, s.Examples = nil, 0, 16
	if m == Distill {
		s.Kinds, s.Teacher = []string{synth.Arithmetic}, &Teacher{Core: core, Adapter: "../../catalog/senses/senses.gguf"}
	}
	return s
}

// The steps to a sum are right in every column, and lead to it.
func TestThought(t *testing.T) {
	for want, numbers := range map[string][]int{
		" 2+9=11, 1+1=2.":                    {12, 9},
		" 9+1=10.":                           {9, 1},
		" 9+9=18, 9+9+1=19, 9+9+1=19.":       {999, 999},
		" 0+0=0, 1+2=3.":                     {10, 20},
		" 9+9+9=27, 9+9+9+2=29, 9+9+9+2=29.": {999, 999, 999},
		" 5+5+7=17, 2+1=3, 1=1.":             {125, 5, 7},
		" 1+2=3.":                            {1, 2},
		" 7+8+6=21, 4+3+2=9, 3=3.":           {347, 38, 6},
	} {
		if got := thought(numbers); got != want {
			t.Errorf("%v: got %q, want %q", numbers, got, want)
		}
	}
}

// Questions of sums only add, as many as are asked for, and the same ones each time;
// the split and the words are those of errands.
func TestDraw(t *testing.T) {
	s := tuning(CoT).WithDefaults()
	all := s.draw(1, 300, true, synth.Unseen)
	if d := cmp.Diff(all, s.draw(1, 300, true, synth.Unseen)); len(all) != 300 || d != "" {
		t.Errorf("%d questions, %s", len(all), d)
	}
	seen := map[string]bool{}
	for _, e := range s.draw(1, 300, false, synth.Varied) {
		seen[e.Call] = true
	}
	for _, e := range all {
		numbers, ok := terms(e)
		sum := 0
		for _, n := range numbers {
			sum += n
		}
		if !ok || sum%5 != 3 || seen[e.Call] {
			t.Errorf("%s: numbers %v, %v; also learned: %v", e.Call, numbers, ok, seen[e.Call])
		}
		last := s.lesson(e)
		if r := (&runner{spec: s}); !strings.HasSuffix(last, conclusion+e.Answer+".") {
			t.Error(last)
		} else if right, err := r.right(t.Context(), e, last); err != nil || !right {
			t.Errorf("%q: %v, %v", last, right, err)
		} else if right, err := r.right(t.Context(), e, strings.Replace(last, conclusion+e.Answer, conclusion+"1"+e.Answer, 1)); err != nil || right {
			t.Errorf("an answer that differs from %q: %v, %v", last, right, err)
		}
	}
	for _, call := range []string{"12-7", "1/2", "3 times 4", "1+2/3", "-1+2", "7", "+"} {
		if _, ok := terms(synth.Errand{Kind: synth.Arithmetic, Call: `{"args":{"expr":"` + call + `"}}`}); ok {
			t.Errorf("%s only adds", call)
		}
	}
}

// A run that tunes begins with the core itself, learns the answers of its method, leaves the
// core without the adapters as it was, and writes the same bytes on any number of threads.
func TestTune(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	for m, mark := range map[Method]string{Answers: "<|/given|> The answer is ", CoT: "=", PoT: callOpen, Distill: callClose + `<|given|>{"ok":true,"result":`} {
		t.Run(string(m), func(t *testing.T) {
			var models [2][]byte
			var rounds [2][]Round
			for i := range models {
				s := tuning(m)
				s.Threads = i + 1
				dir := filepath.Join(t.TempDir(), "run")
				sum, err := Run(t.Context(), s, Options{Dir: dir, From: "."})
				if err != nil {
					t.Fatal(err)
				}
				if sum.Best != 1 || sum.Reason != "rounds" || !strings.Contains(sum.String(), string(m)+" does not help beyond chance: ") || !strings.Contains(sum.String(), "before = after") {
					t.Errorf("best round %d, %s", sum.Best, sum)
				}
				rounds[i] = sum.Rounds
				one := sum.Rounds[1]
				if one.Sealed == nil || one.Sealed.Before != one.Sealed.After || one.Sealed.Trained == 0 {
					t.Errorf("seal %+v", one.Sealed)
				}
				learned, err := os.ReadFile(filepath.Join(dir, "round-1", learnedFile))
				if got := strings.Count(string(learned), mark); err != nil || got < one.Learned || one.Learned == 0 || strings.Count(string(learned), "\n") != one.Learned {
					t.Errorf("%d marks in %d documents, %v:\n%s", got, one.Learned, err, learned)
				}
				if m == Distill && (one.Sampled != s.Questions || one.Learned+one.Skipped != one.Sampled || one.Right == 0 || !strings.Contains(one.String(), " calls of the teacher right")) {
					t.Errorf("round %+v", one)
				}
				if models[i], err = os.ReadFile(filepath.Join(dir, sum.Model())); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(rounds[0], rounds[1]); d != "" || string(models[0]) != string(models[1]) {
				t.Errorf("models differ: %v, rounds: %s", string(models[0]) != string(models[1]), d)
			}
		})
	}
}

// A moved core is an error.
func TestSealed(t *testing.T) {
	r := &runner{spec: tuning(PoT), opt: Options{From: "."}}
	m, _, err := train.OpenBase(core)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Adapt(r.spec.LoRA, 1); err != nil {
		t.Fatal(err)
	}
	if s, err := r.sealed(m); err != nil || s.Trained == 0 || s.Tensors == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, one := range m.Tensors() {
		if one.Grad == nil {
			one.Data[0]++
			break
		}
	}
	if _, err := r.sealed(m); err == nil || !strings.Contains(err.Error(), "the core moved") {
		t.Errorf("a moved core: %v", err)
	}
}

func TestValidateTuning(t *testing.T) {
	for path, change := range map[string]func(*Spec){
		"/teacher": func(s *Spec) { s.Teacher = nil }, "/teacher/core": func(s *Spec) { s.Teacher.Core = "" },
		"/rounds": func(s *Spec) { s.Rounds = 2 }, "/kinds": func(s *Spec) { s.Kinds = []string{Sums, synth.Units} }, "": func(s *Spec) { s.Kinds = []string{Sums} },
	} {
		s := tuning(Distill)
		change(&s)
		faults := train.Faults(s.Validate())
		if path == "" && len(faults) > 0 || path != "" && (len(faults) != 1 || faults[0].Path != path) {
			t.Errorf("%s: %v", path, faults)
		}
	}
	s := tuning(CoT)
	s.Kinds, s.Teacher = []string{synth.Units}, &Teacher{Core: core}
	if faults := train.Faults(s.Validate()); len(faults) != 2 {
		t.Error(faults)
	}
	s = tuning(Distill)
	s.Teacher.Adapter = "absent.gguf"
	if _, err := Run(t.Context(), s, Options{Dir: t.TempDir(), From: "."}); !errors.Is(err, os.ErrNotExist) || len(train.Faults(err)) != 1 {
		t.Errorf("an absent adapter: %v", err)
	}
}
