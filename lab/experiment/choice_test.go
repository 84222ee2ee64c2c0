package experiment_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/registry/sign"
)

// arms is a plan in which each policy chooses the arms of a step.
const arms = `
name: arms
seed: 11
iterations: 24
telemetry: 1h
limits: {failures: 9}
steps:
  - name: upper
    policy: {kind: ucb, c: 0.3}
    repeat: 2
    arms: [{name: slow, function: product}, {name: broken, function: product}, {name: fast, function: product}]
  - name: drawn
    policy: {kind: epsilon-greedy, epsilon: 0.4}
    arms: [{name: a, function: product}, {name: b, function: product}]
  - name: fixed
    every: 6
    arms: [{name: a, function: product}, {name: b, function: product}]
simulate:
  steps:
    upper: {arms: {slow: {takes: 12ms}, fast: {takes: 7ms}, broken: {takes: 1ms, fails_every: 1}}}
    drawn: {arms: {a: {takes: 3ms, fails_every: 9}, b: {takes: 2ms}}}
    fixed: {arms: {a: {takes: 9ms}, b: {takes: 2ms}}}
`

// choices replays the decisions of a run and returns their number.
func choices(t *testing.T, dir string, key *sign.PrivateKey) int {
	t.Helper()
	history, err := experiment.ReadHistory(dir, key.Public(), experiment.Check{})
	if err != nil {
		t.Fatal(err)
	}
	n, wrong, err := experiment.Replay(history)
	if err != nil || len(wrong) > 0 {
		t.Fatalf("%v, %v", wrong, err)
	}
	return n
}

// The recorded times decide: UCB chooses the fast arm most and the failing one least, and
// the summary distinguishes the arms.
func TestArms(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	if got, err := simulate(t, arms, dir, key, nil); err != nil || !got.Complete {
		t.Fatalf("%+v, %v", got, err)
	}
	s, err := experiment.Summarize(dir, key.Public(), experiment.Check{})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, f := range s.Steps {
		rows[f.Step] = f.Rows
	}
	if rows["upper/broken"] < 1 || rows["upper/slow"] < rows["upper/broken"] || rows["upper/fast"] < 2*rows["upper/slow"] || rows["fixed/a"] != 4 || rows["fixed/b"] != 0 || rows["drawn/b"] < rows["drawn/a"] || rows["drawn/a"] < 1 {
		t.Errorf("%v", rows)
	}
	if n := choices(t, dir, key); n != 24+24+4 || s.Choices != n {
		t.Errorf("%d choices, summary %d", n, s.Choices)
	}
}

// A run that is killed after any of its rows and resumed makes the same choices: the test
// resumes copies of log and head after each row. With -short, only some of them.
func TestChoicesAfterEachRow(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]string{
		"arms":      strings.Replace(arms, "iterations: 24", "iterations: 8", 1),
		"long":      long, // killed during its steps
		"long, hot": strings.Replace(long, "at: 150s, heat_c: 35", "at: 120500ms, heat_c: 45", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			afterEachRow(t, plan)
		})
	}
}

func afterEachRow(t *testing.T, plan string) {
	key, complete := newKey(t), t.TempDir()
	var copies []string
	keep := func(o *experiment.Options) {
		o.Each = func(chain.Row) {
			dir := t.TempDir()
			copies = append(copies, dir)
			if err := os.Mkdir(filepath.Join(dir, experiment.ChainDir), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{experiment.IdentityFile, filepath.Join(experiment.ChainDir, chain.File), filepath.Join(experiment.ChainDir, chain.HeadFile)} {
				data, err := os.ReadFile(filepath.Join(complete, name))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := simulate(t, plan, complete, key, keep); err != nil {
		t.Fatal(err)
	}
	want, _ := rows(t, complete, key)
	n := choices(t, complete, key)
	for i, dir := range copies[:len(copies)-1] {
		if testing.Short() && i%10 > 0 {
			continue
		}
		if _, err := simulate(t, plan, dir, key, func(o *experiment.Options) { o.Resume = true }); err != nil {
			t.Fatalf("row %d: %v", i+1, err)
		}
		got, resumes := rows(t, dir, key)
		if diff := cmp.Diff(want, got); diff != "" || resumes != 1 || choices(t, dir, key) != n {
			t.Fatalf("killed after row %d, the run differs (- complete, + killed): %s", i+1, diff)
		}
	}
	if len(copies) < 20 {
		t.Errorf("only %d rows", len(copies))
	}
}

// A choice that does not follow from the rows before it is refused, although its signature
// is valid.
func TestForgedChoice(t *testing.T) {
	key, original, dir := newKey(t), t.TempDir(), t.TempDir()
	if _, err := simulate(t, arms, original, key, nil); err != nil {
		t.Fatal(err)
	}
	forged, err := chain.Open(t.Context(), filepath.Join(dir, experiment.ChainDir), key, key.Public(), fsx.Options{Hook: unsynced}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = chain.Verify(filepath.Join(original, experiment.ChainDir), key.Public(), chain.Options{Each: func(r chain.Row) error {
		var p experiment.Payload
		if err := json.Unmarshal(r.Payload, &p); err != nil {
			return err
		}
		if r.Event == experiment.Choice && p.Step == "upper" {
			if n++; n == 9 {
				p.Choice.Backend = map[string]string{"fast": "slow", "slow": "fast"}[p.Choice.Backend]
			}
		}
		if n > 9 || r.Event == experiment.Stop {
			return nil
		}
		_, err := forged.Append(r.Time, r.Run, r.Event, p)
		return err
	}})
	if err := forged.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := simulate(t, arms, dir, key, func(o *experiment.Options) { o.Resume = true }); err == nil || !strings.Contains(err.Error(), "upper: choice 9: ") || !strings.Contains(err.Error(), "does not replay: got 9: ") {
		t.Errorf("resumed: %v", err)
	}
}

func TestArmFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new, detail string
		line             int
	}{
		"duplicate arm":            {"name: b, function", "name: a, function", `duplicate arm "a", also arm 1`, 14},
		"unknown arm":              {"drawn: {arms: {a:", "drawn: {arms: {x:", `step "drawn" has no arm "x"`, 21},
		"option of another policy": {"kind: ucb, c: 0.3", "kind: ucb, epsilon: 0.5", "epsilon requires policy epsilon-greedy, got ucb", 9},
		"unknown preference":       {"kind: ucb, c: 0.3", "kind: static, prefer: [x]", `unknown arm "x"`, 9},
		"with beside arms":         {"every: 6", "with: {size: 8}", "with is not allowed in a step with arms", 16},
		"unknown policy":           {"kind: ucb, c: 0.3", "kind: mood", "", 9},
		"one arm":                  {"{name: a, function: product}, {name: b, function: product}]\n  - name: fixed", "{name: a, function: product}]\n  - name: fixed", "", 14},
		"arms and function":        {"every: 6", "function: product", "", 15},
	} {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		text := strings.Replace(arms, tc.old, tc.new, 1)
		if text == arms {
			t.Fatalf("%s: unchanged plan", name)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := experiment.ReadPlan(path)
		list, ok := diag.From(err)
		if !ok || len(list) == 0 || list[0].Pos.Line != tc.line || !strings.Contains(list[0].Detail, tc.detail) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A simulation must describe each arm.
	p := readPlan(t, strings.Replace(arms, ", b: {takes: 2ms}}}\n    fixed", "}}\n    fixed", 1))
	if _, err := experiment.Simulation(experiment.Options{}, p); err == nil || !strings.Contains(err.Error(), "no simulation of arm b of step drawn") {
		t.Error(err)
	}
}
