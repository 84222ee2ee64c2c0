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

// arms is a plan whose steps are chosen by each of the policies.
const arms = `
name: arms
seed: 11
iterations: 24
telemetry: 1h
limits: {failures: 9}
steps:
  - name: upper
    policy: {kind: ucb, c: 4}
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

// choices replays those of a run and returns how many there are.
func choices(t *testing.T, dir string, key *sign.PrivateKey) int {
	t.Helper()
	history, err := experiment.History(dir, key.Public(), "")
	if err != nil {
		t.Fatal(err)
	}
	n, wrong, err := experiment.Replay(history)
	if err != nil || len(wrong) > 0 {
		t.Fatalf("%v, %v", wrong, err)
	}
	return n
}

// What the arms took decides what is chosen: the fast one is taken most, the one
// that fails at once but when it is first tried, and the summary tells them apart.
func TestArms(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	if got, err := simulate(t, arms, dir, key, nil); err != nil || !got.Complete {
		t.Fatalf("%+v, %v", got, err)
	}
	s, err := experiment.Summarize(dir, key.Public(), "")
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]int{}
	for _, f := range s.Steps {
		met[f.Step] = f.Rows
	}
	if met["upper/broken"] != 1 || met["upper/slow"] < 1 || met["upper/fast"] < 2*met["upper/slow"] || met["fixed/a"] != 4 || met["fixed/b"] != 0 || met["drawn/b"] < met["drawn/a"] || met["drawn/a"] < 1 {
		t.Errorf("%v", met)
	}
	if n := choices(t, dir, key); n != 24+24+4 || s.Choices != n {
		t.Errorf("%d choices, the summary says %d", n, s.Choices)
	}
}

// Killed behind any of its rows, and taken up again, a run chooses what the
// undisturbed one does: the log and head as they lie on the disk after each
// row are gone on with.
func TestChoicesAfterEachRow(t *testing.T) {
	for name, plan := range map[string]string{
		"arms":      strings.Replace(arms, "iterations: 24", "iterations: 12", 1),
		"long":      long, // killed within its steps
		"long, hot": strings.Replace(long, "at: 150s, heat_c: 35", "at: 120500ms, heat_c: 45", 1),
	} {
		t.Run(name, func(t *testing.T) { afterEachRow(t, plan) })
	}
}

func afterEachRow(t *testing.T, plan string) {
	key, whole := newKey(t), t.TempDir()
	var left []string
	keep := func(o *experiment.Options) {
		o.Each = func(chain.Row) {
			dir := t.TempDir()
			left = append(left, dir)
			if err := os.Mkdir(filepath.Join(dir, experiment.ChainDir), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{chain.File, chain.HeadFile} {
				data, err := os.ReadFile(filepath.Join(whole, experiment.ChainDir, name))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, experiment.ChainDir, name), data, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := simulate(t, plan, whole, key, keep); err != nil {
		t.Fatal(err)
	}
	want, _ := rows(t, whole, key)
	n := choices(t, whole, key)
	for i, dir := range left[:len(left)-1] {
		if _, err := simulate(t, plan, dir, key, func(o *experiment.Options) { o.Resume = true }); err != nil {
			t.Fatalf("row %d: %v", i+1, err)
		}
		got, resumes := rows(t, dir, key)
		if diff := cmp.Diff(want, got); diff != "" || resumes != 1 || choices(t, dir, key) != n {
			t.Fatalf("killed behind row %d, it goes on otherwise (- whole, + killed): %s", i+1, diff)
		}
	}
	if len(left) < 20 {
		t.Errorf("%d rows: the case is none", len(left))
	}
}

// A choice that does not follow from the rows before it is refused, whoever
// signed it.
func TestForgedChoice(t *testing.T) {
	key, whole, dir := newKey(t), t.TempDir(), t.TempDir()
	if _, err := simulate(t, arms, whole, key, nil); err != nil {
		t.Fatal(err)
	}
	forged, err := chain.Open(t.Context(), filepath.Join(dir, experiment.ChainDir), key, key.Public(), fsx.Options{Hook: unsynced}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = chain.Verify(filepath.Join(whole, experiment.ChainDir), key.Public(), chain.Options{Each: func(r chain.Row) error {
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
	if _, err := simulate(t, arms, dir, key, func(o *experiment.Options) { o.Resume = true }); err == nil || !strings.Contains(err.Error(), "upper: the choice 9: ") || !strings.Contains(err.Error(), "comes out as 9: ") {
		t.Errorf("gone on with: %v", err)
	}
}

func TestArmFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new, said string
		line           int
	}{
		"the same twice":      {"name: b, function", "name: a, function", `"a" is arm 1, too`, 14},
		"an arm is no step's": {"drawn: {arms: {a:", "drawn: {arms: {x:", `the step "drawn" has no arm "x"`, 21},
		"another's figure":    {"kind: ucb, c: 4", "kind: ucb, epsilon: 0.5", "epsilon is of the policy epsilon-greedy, this one is ucb", 9},
		"nothing to prefer":   {"kind: ucb, c: 4", "kind: static, prefer: [x]", `there is no arm "x"`, 9},
		"its own numbers":     {"every: 6", "with: {size: 8}", "a step with arms has no numbers of its own", 16},
		"a policy of nothing": {"kind: ucb, c: 4", "kind: mood", "", 9},
		"one arm":             {"{name: a, function: product}, {name: b, function: product}]\n  - name: fixed", "{name: a, function: product}]\n  - name: fixed", "", 14},
		"both":                {"every: 6", "function: product", "", 15},
	} {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		text := strings.Replace(arms, tc.old, tc.new, 1)
		if text == arms {
			t.Fatalf("%s: the plan is the same", name)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := experiment.ReadPlan(path)
		list, ok := diag.From(err)
		if !ok || len(list) == 0 || list[0].Pos.Line != tc.line || !strings.Contains(list[0].Detail, tc.said) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What a simulation is not told of is no simulation.
	p := readPlan(t, strings.Replace(arms, ", b: {takes: 2ms}}}\n    fixed", "}}\n    fixed", 1))
	if _, err := experiment.Simulation(experiment.Options{}, p); err == nil || !strings.Contains(err.Error(), "the arm b of the step drawn") {
		t.Error(err)
	}
}
