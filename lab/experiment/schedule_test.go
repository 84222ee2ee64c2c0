package experiment_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/experiment"
)

// times are the run times of the backends in ms.
var times = map[string]float64{"cpu": 9, "gpu": 5, "npu": 2}

var eligible = []string{"gpu", "npu", "cpu"}

// play makes n choices by a policy and returns the history.
func play(t *testing.T, p experiment.Policy, n int) []experiment.HistoryRow {
	return playFailing(t, p, n, 1, func(string, int) bool { return false })
}

// playFailing is play with scaled times and failing runs, given the backend and the number of its run from 1.
func playFailing(t *testing.T, p experiment.Policy, n int, scale float64, fails func(backend string, run int) bool) []experiment.HistoryRow {
	t.Helper()
	var h experiment.Scheduler
	var rows []experiment.HistoryRow
	runs := map[string]int{}
	add := func(r experiment.HistoryRow) {
		t.Helper()
		if err := h.Add(r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	for i := range n {
		d, err := h.Decide("matmul", eligible, p)
		if err != nil {
			t.Fatal(err)
		}
		add(experiment.HistoryRow{Decided: &d})
		took := scale * times[d.Backend] * (1 + float64(i%7)/70)
		runs[d.Backend]++
		add(experiment.HistoryRow{Observed: &experiment.Observation{Op: "matmul", Backend: d.Backend, LatencyMS: took, Failed: fails(d.Backend, runs[d.Backend])}})
	}
	return rows
}

func chosen(rows []experiment.HistoryRow) map[string]int {
	n := map[string]int{}
	for _, r := range rows {
		if r.Decided != nil {
			n[r.Decided.Backend]++
		}
	}
	return n
}

// Replay reproduces every decision, and reports changes of earlier rows.
func TestReplay(t *testing.T) {
	for _, p := range []experiment.Policy{
		{Kind: experiment.Static, Prefer: []string{"tpu", "npu"}},
		{Kind: experiment.Greedy, Seed: 3, Epsilon: 0.3},
		{Kind: experiment.UCB},
	} {
		rows := play(t, p, 200)
		text, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		var back []experiment.HistoryRow
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		n, wrong, err := experiment.Replay(back)
		if err != nil || n != 200 || len(wrong) > 0 {
			t.Errorf("%s: %d, %v, %v", p.Kind, n, wrong, err)
		}
		other := slices.Clone(back)
		d := *other[20].Decided
		d.Backend = map[string]string{"cpu": "gpu", "gpu": "npu", "npu": "cpu"}[d.Backend]
		other[20].Decided = &d
		if _, wrong, _ = experiment.Replay(other); len(wrong) != 1 || wrong[0].Row != 21 {
			t.Errorf("%s: changed choice: %+v", p.Kind, wrong)
		}
		if p.Kind == experiment.Static {
			continue
		}
		o := *back[1].Observed
		o.LatencyMS += 1
		back[1].Observed = &o
		if _, wrong, _ = experiment.Replay(back); len(wrong) == 0 {
			t.Errorf("%s: a changed time is not reported", p.Kind)
		}
		if p.Kind == experiment.Greedy {
			for i := range rows {
				if rows[i].Decided != nil {
					d := *rows[i].Decided
					d.Policy.Seed = 4
					rows[i].Decided = &d
				}
			}
			if _, wrong, _ = experiment.Replay(rows); len(wrong) == 0 {
				t.Error("another seed has the same draws")
			}
		}
	}
}

func TestPolicies(t *testing.T) {
	if n := chosen(play(t, experiment.Policy{Kind: experiment.UCB}, 300)); n["npu"] < 220 || n["cpu"] == 0 || n["gpu"] == 0 {
		t.Errorf("ucb: %v", n)
	}
	n := chosen(play(t, experiment.Policy{Kind: experiment.Greedy, Seed: 1}, 1000))
	if n["npu"] < 700 || n["cpu"] == 0 || n["gpu"] == 0 {
		t.Errorf("greedy: %v", n)
	}
	var h experiment.Scheduler
	d, err := h.Decide("x", eligible, experiment.Policy{Kind: experiment.Static, Prefer: []string{"cpu", "npu"}})
	if err != nil || d.Backend != "cpu" || d.Fallback {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = h.Decide("x", eligible, experiment.Policy{Kind: experiment.Static, Prefer: []string{"tpu"}}); err != nil || d.Backend != "gpu" || !d.Fallback {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err = h.Decide("x", nil, experiment.Policy{Kind: experiment.UCB}); !errors.Is(err, experiment.ErrNoBackend) {
		t.Error(err)
	}
	if _, err = h.Decide("x", eligible, experiment.Policy{Kind: "mood"}); err == nil {
		t.Error("unknown policy accepted")
	}
}

// Quick failures do not make a backend the fastest one.
func TestFailures(t *testing.T) {
	var h experiment.Scheduler
	for _, o := range []experiment.Observation{
		{Op: "x", Backend: "gpu", LatencyMS: 5}, {Op: "x", Backend: "gpu", LatencyMS: 7}, {Op: "x", Backend: "gpu", LatencyMS: 0.1, Failed: true},
		{Op: "x", Backend: "npu", LatencyMS: 0.1, Failed: true}, {Op: "x", Backend: "cpu", LatencyMS: 9}, {Op: "y", Backend: "cpu", LatencyMS: 1},
	} {
		if err := h.Add(experiment.HistoryRow{Observed: &o}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []experiment.Policy{{Kind: experiment.Greedy, Epsilon: 1e-9}} {
		d, err := h.Decide("x", eligible, p)
		if err != nil || d.Backend != "gpu" {
			t.Errorf("%+v, %v", d, err)
		}
		if diff := cmp.Diff(experiment.ArmStats{Backend: "gpu", N: 3, Good: 2, MeanMS: 6, StdMS: math.Sqrt2}, d.Arms[0], cmp.AllowUnexported(experiment.ArmStats{})); diff != "" {
			t.Error(diff)
		}
	}
}

// UCB does not exclude a backend after a failed run, prefers the backend that succeeds, and does not depend on the unit of time.
func TestUCB(t *testing.T) {
	ucb := experiment.Policy{Kind: experiment.UCB}
	if n := chosen(playFailing(t, ucb, 300, 1, func(backend string, run int) bool { return backend == "npu" && run == 1 })); n["npu"] < 200 {
		t.Errorf("after one failure: %v", n)
	}
	if n := chosen(playFailing(t, ucb, 300, 1, func(backend string, _ int) bool { return backend == "npu" })); n["gpu"] < n["cpu"] || n["gpu"] < 3*n["npu"] || n["npu"] < 5 {
		t.Errorf("the fastest always fails: %v", n)
	}
	var want map[string]int
	for _, scale := range []float64{1, 1e-3, 1e6} {
		n := chosen(playFailing(t, ucb, 300, scale, func(string, int) bool { return false }))
		if want == nil {
			want = n
		}
		if diff := cmp.Diff(want, n); diff != "" {
			t.Errorf("times %g: %s", scale, diff)
		}
	}
}

func TestHostile(t *testing.T) {
	var h experiment.Scheduler
	for _, r := range []experiment.HistoryRow{
		{}, {Observed: &experiment.Observation{Op: "x"}}, {Observed: &experiment.Observation{Op: "x", Backend: "b", LatencyMS: -1}},
		{Observed: &experiment.Observation{Op: "x", Backend: "b", LatencyMS: math.NaN()}},
		{Observed: &experiment.Observation{Op: "x", Backend: "b", LatencyMS: math.Inf(1)}},
		{Observed: &experiment.Observation{Op: "x", Backend: "b"}, Decided: &experiment.Decision{}},
	} {
		if err := h.Add(r); err == nil {
			t.Errorf("%+v: accepted", r)
		}
	}
}
