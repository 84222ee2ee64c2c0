package preference

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train"
)

// TestValidate has each field at its limits and beyond.
func TestValidate(t *testing.T) {
	if err := recipe().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(*Recipe){
		"/stage":                func(r *Recipe) { r.Stage = "2" },
		"/core/base":            func(r *Recipe) { r.Core.Base = "" },
		"/core/from":            func(r *Recipe) { r.Core.LoRA, r.Core.From = nil, "x.gguf" },
		"/objective/kind":       func(r *Recipe) { r.Objective.Kind = "ppo" },
		"/objective/beta":       func(r *Recipe) { r.Objective.Beta = maxBeta + 0.1 },
		"/objective/sft":        func(r *Recipe) { r.Objective.SFT = maxSFT + 0.1 },
		"/data":                 func(r *Recipe) { r.Data.Files = nil },
		"/data/held_out":        func(r *Recipe) { r.Data.HeldOut = 1 },
		"/data/errands/n":       func(r *Recipe) { r.Data.Errands = &Errands{N: maxPairs + 1} },
		"/batch_size":           func(r *Recipe) { r.BatchSize, r.SeqLen = maxPositions/16+1, 8 },
		"/eval/n":               func(r *Recipe) { r.Eval.N = -1 },
		"/objective/sft ":       func(r *Recipe) { r.Objective = Objective{Kind: ORPO, SFT: 1} },
		"/objective/beta ":      func(r *Recipe) { r.Objective.Beta = -1 },
		"/objective/smoothing":  func(r *Recipe) { r.Objective.Smoothing = 0.5 },
		"/objective/smoothing ": func(r *Recipe) { r.Objective = Objective{Kind: IPO, Smoothing: 0.1} },
		"/data/errands/kinds/1": func(r *Recipe) { r.Data.Errands = &Errands{Kinds: []string{"units", "maps"}} },
		"/data/errands/n ":      func(r *Recipe) { r.Data.Errands = &Errands{N: -1} },
	} {
		r := recipe()
		edit(&r)
		faults := train.Faults(r.Validate())
		if len(faults) != 1 || faults[0].Path != strings.TrimSpace(want) {
			t.Errorf("%s: %+v", want, faults)
		}
	}
	for i, edit := range []func(*Recipe){
		func(r *Recipe) { r.Objective.Beta, r.Objective.SFT = maxBeta, maxSFT },
		func(r *Recipe) { r.Data.Errands = &Errands{N: maxPairs, Kinds: []string{"units"}} },
		func(r *Recipe) { r.BatchSize, r.SeqLen = maxPositions/16, 8 },
		func(r *Recipe) { r.Data.HeldOut = -1 },
	} {
		r := recipe()
		edit(&r)
		if err := r.Validate(); err != nil {
			t.Errorf("recipe %d at a limit: %v", i, err)
		}
	}
}

func TestReadPairs(t *testing.T) {
	const good = `{"prompt": "a", "chosen": "b", "rejected": "c"}`
	long := func(n int) string { return good[:len(good)-1] + `, "x": "` + strings.Repeat("x", n-len(good)-9) + `"}` }
	got, err := ReadPairs(strings.NewReader(good + "\n \n" + long(maxLine) + "\n"))
	if want := []Pair{{Prompt: "a", Chosen: "b", Rejected: "c"}, {Prompt: "a", Chosen: "b", Rejected: "c"}}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		good + "\n[1]":                   "line 2: got no JSON object",
		`{"prompt": "a", "chosen": "b"}`: `line 1: missing "rejected"`,
		`{"prompt": [{"role": "user"}], "chosen": "b", "rejected": "c"}`: `"prompt": lists of messages are not supported`,
		`{"prompt": 3, "chosen": "b", "rejected": "c"}`:                  `"prompt": want a string`,
		`{"prompt": "a", "chosen": "b", "rejected": "b"}`:                "are equal",
		`{"prompt": "a", "chosen": "", "rejected": "b"}`:                 "empty answer",
		long(maxLine + 1): fmt.Sprintf("line longer than %d bytes", maxLine),
	} {
		if _, err := ReadPairs(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q in it", text, err, want)
		}
	}
	if got, err := readPairs(strings.NewReader(good+"\n"+good), 2); err != nil || len(got) != 2 {
		t.Errorf("%d pairs: %v", len(got), err)
	}
	if _, err := readPairs(strings.NewReader(good+"\n"+good), 1); err == nil || !strings.Contains(err.Error(), "line 2: more than 1 pairs") {
		t.Errorf("too many pairs: %v", err)
	}
}

// Pairs of a prompt stay together, and a share is held out.
func TestSplit(t *testing.T) {
	var all []Pair
	for i := range 4000 {
		all = append(all, Pair{Prompt: fmt.Sprint(i / 2)})
	}
	learned, held := split(all, 0.25, 9)
	seen := map[string]bool{}
	for _, p := range learned {
		seen[p.Prompt] = true
	}
	for _, p := range held {
		if seen[p.Prompt] {
			t.Fatalf("prompt %s is on both sides", p.Prompt)
		}
	}
	if len(held) < 850 || len(held) > 1150 || len(learned)+len(held) != len(all) {
		t.Errorf("%d of %d are held out", len(held), len(all))
	}
}

func FuzzReadPairs(f *testing.F) {
	f.Add(`{"prompt": "a", "chosen": "b", "rejected": "c"}` + "\n")
	f.Add(`{"prompt": [], "chosen": "b"`)
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := ReadPairs(strings.NewReader(text))
		for _, p := range pairs {
			if err == nil && (p.Chosen == p.Rejected || p.Chosen == "" || p.Rejected == "") {
				t.Fatalf("%+v", p)
			}
		}
	})
}
