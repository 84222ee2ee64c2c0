package study

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
)

// parse parses a study over the small recipe.
func parse(text string) (Study, error) {
	return Parse("small.study.yaml", []byte(text), func(string) ([]byte, error) { return []byte(recipeText), nil })
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	const start = "name: s\nrecipe: recipe.yaml\ntokens: 640\n"
	for name, c := range map[string]struct {
		text string
		code diag.Code
		want string
	}{
		"unknown key":        {"unknown: 1\n", diag.UnknownKey, "unknown"},
		"sealed text":        {"mutations: [{name: m, set: {/data/files: [[a.txt]]}}]\n", diag.StudyMutation, "/data/files is the same in all arms"},
		"sealed tokenizer":   {"mutations: [{name: m, set: {/model/vocab_size: [500]}}]\n", diag.StudyMutation, "/model/vocab_size is the same"},
		"sealed end":         {"mutations: [{name: m, set: {/stop/steps: [500]}}]\n", diag.StudyMutation, "/stop/steps is the same"},
		"misspelled pointer": {"mutations: [{name: m, set: {/optimizer/rate: [1]}}]\n", diag.StudyMutation, "rate"},
		"no pointer":         {"mutations: [{name: m, set: {optimizer: [1]}}]\n", diag.StudyMutation, "invalid JSON pointer"},
		"bad recipe":         {"mutations: [{kind: optimizer, values: [sgd]}]\n", diag.StudyMutation, "sgd"},
		"bad value":          {"mutations: [{kind: size, values: [{dim: 8, layers: 1, depth: 3}]}]\n", diag.StudyMutation, "want {dim, layers, heads}"},
		"bad share":          {"mutations: [{kind: data, values: [1.5]}]\n", diag.StudyMutation, "share out of range"},
		"duplicate arm":      {"mutations: [{kind: rate, values: [0.1, 0.1]}]\n", diag.RepeatedItem, "rate=0.1"},
		"duplicate seed":     {"seeds: [1, 1]\n", diag.RepeatedItem, "seed 1"},
		"changed twice":      {"design: product\nmutations: [{kind: rate, values: [0.1]}, {name: m, set: {/optimizer/lr: [0.2]}}]\n", diag.StudyMutation, "/optimizer/lr is changed twice"},
		"unknown arm":        {"mutations: [{kind: rate, values: [0.1]}]\nhypotheses: [{name: h, claim: c, arm: rate=0.2, expect: {below: 0}, refute: {above: 0}}]\n", diag.StudyArm, `"rate=0.2"`},
		"arm with itself":    {"hypotheses: [{name: h, claim: c, arm: base, expect: {below: 0}, refute: {above: 0}}]\n", diag.StudyArm, "compared with itself"},
		"not refutable":      {"hypotheses: [{name: h, claim: c, arm: base, against: unigram, expect: {below: 0}}]\n", diag.StudyClaim, "want expect.below with refute.above"},
		"support and refute": {"hypotheses: [{name: h, claim: c, arm: base, against: unigram, expect: {below: 0.1}, refute: {above: 0}}]\n", diag.StudyClaim, "would support and refute"},
		"rungs at the end":   {"scheduler: {kind: halving, rungs: [640]}\n", diag.StudyRungs, "got 640"},
		"rungs that fall":    {"scheduler: {kind: halving, rungs: [64, 32]}\n", diag.StudyRungs, "got 32"},
		"halving alone":      {"scheduler: {kind: halving}\n", diag.StudyRungs, "require each other"},
		"small budget":       {"budget: {tokens: 1919}\n", diag.StudyBudget, "needs 1920"},
		"held too much":      {"held_out: {choose: 0.45, judge: 0.45}\n", diag.StudyHeld, "less than a tenth"},
		"grid of no arm":     {"grid: {arm: none, sizes: [{dim: 8, layers: 1}], tokens: [64]}\n", diag.StudyArm, "none"},
		"grid of bad sizes":  {"grid: {sizes: [{dim: 9, layers: 1, heads: 2}], tokens: [64]}\n", diag.StudyMutation, "dim"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(start + c.text)
			var faults *diag.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("got %v, want faults", err)
			}
			for _, d := range faults.List {
				if d.Code == c.code && strings.Contains(d.Detail, c.want) && d.Pos.Line > 0 {
					return
				}
			}
			t.Errorf("got %v, want %s with %q and a line", err, c.code, c.want)
		})
	}
	if _, err := parse(start + "budget: {tokens: 1920}\n"); err != nil {
		t.Errorf("budget of the base: %v", err)
	}
}

// Each limit of arms and trials accepts its value and refuses one more.
func TestLimits(t *testing.T) {
	t.Parallel()
	list := func(n int) string {
		var b strings.Builder
		for i := range n {
			if b.WriteString(number(1e-3 * float64(i+1) / float64(n))); i < n-1 {
				b.WriteString(", ")
			}
		}
		return b.String()
	}
	arms := func(n int) string { // with the base
		n--
		text := "name: s\nrecipe: recipe.yaml\ntokens: 640\nseeds: [1]\nmutations:\n"
		for i := 0; n > 0; i++ {
			m := min(n, 64)
			text += "- {name: m" + number(float64(i)) + ", set: {/optimizer/lr: [" + list(m) + "]}}\n"
			n -= m
		}
		return text
	}
	if s, err := parse(arms(maxArms)); err != nil || len(s.Arms) != maxArms {
		t.Errorf("got %d arms, %v", len(s.Arms), err)
	}
	if _, err := parse(arms(maxArms + 1)); err == nil {
		t.Error("one arm too many was accepted")
	}
	seeds := func(n int) string { return "[" + strings.TrimSuffix(count(n), ", ") + "]" }
	long := "name: s\nrecipe: recipe.yaml\ntokens: 640\n#"
	if _, err := parse(long + strings.Repeat("x", maxText-len(long))); err != nil {
		t.Errorf("a study of %d bytes: %v", maxText, err)
	}
	if _, err := parse(long + strings.Repeat("x", maxText-len(long)+1)); err == nil || !strings.Contains(err.Error(), string(diag.TooLarge)) {
		t.Errorf("a study beyond the limit: %v", err)
	}
	trials := strings.Replace(arms(128), "seeds: [1]", "seeds: "+seeds(maxTrials/128), 1)
	if _, err := parse(trials); err != nil {
		t.Errorf("%d trials: %v", maxTrials, err)
	}
	if _, err := parse(strings.Replace(arms(129), "seeds: [1]", "seeds: "+seeds(maxTrials/128), 1)); err == nil {
		t.Error("too many trials were accepted")
	}
	if _, _, err := parseSpec([]byte(strings.Repeat(" ", maxSpec+1))); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a long spec: %v", err)
	}
	if _, _, err := parseSpec([]byte(strings.Repeat(" ", maxSpec))); err == nil || strings.Contains(err.Error(), "limit") {
		t.Errorf("a spec of the limit: %v", err)
	}
}

// count lists the numbers from 1 to n.
func count(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(number(float64(i+1)) + ", ")
	}
	return b.String()
}

// A recipe that the study cannot split is refused.
func TestRecipe(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"files: [stories.txt]", "files: [stories.txt], held_out_files: [held.txt]"}, {"stop:", "lora: {rank: 2}\nstop:"},
		{"files: [stories.txt]", "files: [a.bin], format: uint16"}} {
		text := strings.Replace(recipeText, c[0], c[1], 1)
		if strings.Contains(text, "uint16") {
			text = strings.Replace(text, "tokenizer: {control: [\"<|endoftext|>\"], eos: \"<|endoftext|>\"}", "tokenizer: {file: t.gguf}", 1)
		}
		_, err := Parse("s.study.yaml", []byte("name: s\nrecipe: recipe.yaml\ntokens: 640\n"), func(string) ([]byte, error) { return []byte(text), nil })
		if err == nil || !strings.Contains(err.Error(), string(diag.StudyRecipe)) {
			t.Errorf("%s: got %v, want %s", c[1], err, diag.StudyRecipe)
		}
	}
}

// A chart has at most maxLines arms, the base among them.
func TestMaxLines(t *testing.T) {
	t.Parallel()
	for _, n := range []int{maxLines, maxLines + 1} {
		v := &View{at: newState()}
		a := Answer{}
		for i := range n {
			loss := float64(i)
			name := number(loss)
			v.Study.Arms = append(v.Study.Arms, Arm{Name: name})
			a.Arms = append(a.Arms, Figure{Arm: name, Chosen: &loss})
		}
		if got := len(v.arms(a).Lines); got != maxLines {
			t.Errorf("%d arms: got %d lines, want %d", n, got, maxLines)
		}
	}
}

// Mutations make the same arms in every run, and equal recipes are found whatever their
// changes are.
func TestArms(t *testing.T) {
	t.Parallel()
	s, err := parse(`
name: s
recipe: recipe.yaml
tokens: 6400
design: product
mutations:
  - {kind: rate, values: [1.0e-4, 2.0e-4]}
  - {kind: batch, values: [{batch_size: 4}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	same := map[string]string{"rate=0.0001": "base", "batch=4x16": "base", "rate=0.0001+batch=4x16": "base", "rate=0.0002+batch=4x16": "rate=0.0002"}
	if len(s.Arms) != 6 {
		t.Errorf("got %v", s.armNames())
	}
	for _, a := range s.Arms {
		if a.Same != same[a.Name] {
			t.Errorf("%s: same as %q, want %q", a.Name, a.Same, same[a.Name])
		}
	}
	all, err := parse("name: s\nrecipe: recipe.yaml\ntokens: 6400\nmutations: [{kind: optimizer}, {kind: rate}, {kind: size}, {kind: batch}, {kind: schedule}, {kind: data}]\n")
	if err != nil || len(all.Arms) != 1+4+3+3+3+3+2 {
		t.Errorf("the defaults of the presets: %v, %v", all.armNames(), err)
	}
}

// The study and the recipe of the catalog are valid.
func TestCatalog(t *testing.T) {
	t.Parallel()
	s, err := Read(filepath.Join("..", "..", "catalog", "recipes", "wall.study.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Arms) != 10 || s.Grid.cells() != 9 {
		t.Errorf("got %v", s.armNames())
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml")); !strings.Contains(err.Error(), string(diag.Unreadable)) {
		t.Errorf("a missing study: %v", err)
	}
	if _, err := os.Stat(filepath.Join("..", "..", "catalog", "recipes", s.Recipe)); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(studyText))
	f.Add([]byte(killedText))
	f.Add([]byte("name: s\nrecipe: r\ntokens: 1\nmutations: [{name: m, set: {/: [1], '': [2], /model/dim/x: [3]}}]\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		s, err := parse(string(data))
		if err == nil {
			s.Plan()
		}
	})
}

func FuzzSpec(f *testing.F) {
	f.Add([]byte(`{"version":1,"recipe":{},"until":1,"score":"a","folder":"b","files":{"a":"c"}}`))
	f.Fuzz(func(_ *testing.T, data []byte) { parseSpec(data) })
}
