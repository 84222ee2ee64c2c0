package suite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
)

// several returns a task of n questions, of which the answers of the indexes are right.
func several(t *testing.T, n int, extra string, right func(i int) bool) *Run {
	t.Helper()
	var docs []string
	for i := range n {
		docs = append(docs, fmt.Sprintf(`{"q": "%d", "a": "yes", "group": %d}`, i, i/10))
	}
	task := load(t, Options{}, written(t, plainTask+extra, docs...))[0]
	o, err := task.Ask(t.Context(), oracle{right}, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := NewResults(Source{}, []*Outcome{o}, nil).Write(dir, []*Outcome{o}); err != nil {
		t.Fatal(err)
	}
	r, list := ReadRun(filepath.Join(dir, ResultsFile))
	if list.Failed() {
		t.Fatal(list)
	}
	return r
}

// oracle answers a question with its number right or wrong.
type oracle struct{ right func(i int) bool }

func (o oracle) Score(_ context.Context, _ string, _ []string) ([]Scored, error) { return nil, nil }
func (o oracle) Rolling(_ context.Context, _ string) (float64, error)            { return 0, nil }
func (o oracle) Generate(_ context.Context, p Prompt) (string, error) {
	var i int
	fmt.Sscan(p.Text, &i)
	if o.right(i) {
		return "yes", nil
	}
	return "no", nil
}

// The verdict and the gate of right and wrong answers.
func TestCompare(t *testing.T) {
	every := func(n int) func(int) bool { return func(i int) bool { return i%n != 0 } }
	both := func(a, b func(int) bool) func(int) bool { return func(i int) bool { return a(i) && b(i) } }
	for name, c := range map[string]struct {
		n       int
		a, b    func(int) bool
		margin  float64
		verdict Verdict
		gate    Verdict
		code    diag.Code
	}{
		"same":                  {400, every(3), every(3), 0.02, Equal, Passed, ""},
		"same, few":             {40, every(3), every(3), 0.02, Inconclusive, Inconclusive, diag.GateOpen},
		"same, no margin":       {400, every(3), every(3), 0, Inconclusive, "", ""},
		"much worse":            {400, every(3), both(every(3), every(5)), 0.02, Worse, Failed, diag.GateWorse},
		"much better":           {400, both(every(3), every(5)), every(3), 0.02, Better, Passed, ""},
		"a little worse":        {1000, every(3), both(every(3), func(i int) bool { return i > 7 }), 0.02, Equal, Passed, ""},
		"a little worse, few":   {100, every(3), both(every(3), func(i int) bool { return i > 4 }), 0.02, Inconclusive, Inconclusive, diag.GateOpen},
		"worse within a margin": {1000, every(3), both(every(3), func(i int) bool { return i > 40 }), 0.1, Equal, Passed, ""},
	} {
		rows, list := Compare(several(t, c.n, "", c.a), several(t, c.n, "", c.b), CompareOptions{Margin: c.margin})
		if len(rows) != 1 || rows[0].Verdict != c.verdict || rows[0].Gate != c.gate {
			t.Errorf("%s: got %+v, want %s, gate %s", name, rows, c.verdict, c.gate)
		}
		if c.code == "" && len(list) > 0 || c.code != "" && (len(list) != 1 || list[0].Code != c.code || list.Exit() != diag.ExitMissed) {
			t.Errorf("%s: got %v, want %s", name, list, c.code)
		}
		if rows[0].Gate == Inconclusive && rows[0].Needed <= c.n {
			t.Errorf("%s: %d questions needed of %d", name, rows[0].Needed, c.n)
		}
	}
}

// A margin relative to the first figure is its part, of figures that should rise and of
// those that should fall. Too few units of a bootstrap, and a part of 0, decide nothing.
func TestCompareRelative(t *testing.T) {
	spare := func(step, limit int) func(int) bool {
		return func(i int) bool { return i%10 != 0 && (i%step != 1 || i >= limit) }
	}
	all := func(int) bool { return true }
	none := func(int) bool { return false }
	half := func(i int) bool { return i%2 == 0 }
	third := func(i int) bool { return i%2 == 0 && i%10 < 6 }
	rate := "metric_list: [{metric: wer}]\n"
	for name, c := range map[string]struct {
		n        int
		extra    string
		a, b     func(int) bool
		relative float64
		margin   float64
		gate     Verdict
		detail   string
	}{
		"equal":           {400, "", spare(1, 0), spare(1, 0), 0.02, 0.018, Passed, ""},
		"worse":           {400, "", spare(1, 0), spare(10, 400), 0.02, 0.018, Failed, "margin 0.018 (2 % of 0.9000)"},
		"within":          {400, "", spare(1, 0), spare(10, 400), 0.2, 0.18, Passed, ""},
		"few":             {40, "", spare(1, 0), spare(1, 0), 0.02, 0.018, Inconclusive, "on 40 questions"},
		"of nothing":      {400, "", none, none, 0.02, 0, Inconclusive, "2 % of 0.0000"},
		"drawn":           {400, rate, spare(1, 0), spare(1, 0), 0.02, 0.002, Passed, ""},
		"drawn, worse":    {400, rate, spare(1, 0), spare(10, 400), 0.02, 0.002, Failed, "2 % of 0.1000"},
		"drawn, within":   {400, rate, spare(1, 0), spare(10, 50), 0.5, 0.05, Passed, ""},
		"drawn, enough":   {minUnits, rate, half, half, 0.02, 0.01, Passed, ""},
		"drawn, varied":   {250, rate, half, third, 0.5, 0.25, Inconclusive, ""}, // of the margin as of the difference
		"drawn, certain":  {400, rate, half, third, 0.5, 0.25, Passed, ""},
		"better than 0":   {400, "", none, half, 0.02, 0, Passed, ""},
		"drawn, too few":  {minUnits - 1, rate, all, all, 0.02, 0, Inconclusive, ""},
		"drawn, all good": {400, rate, all, all, 0.02, 0, Inconclusive, "2 % of 0.0000"},
	} {
		rows, list := Compare(several(t, c.n, c.extra, c.a), several(t, c.n, c.extra, c.b), CompareOptions{Relative: c.relative})
		if len(rows) != 1 || rows[0].Gate != c.gate || diff(rows[0].Margin, c.margin) {
			t.Errorf("%s: got %+v, want gate %s, margin %g", name, rows, c.gate, c.margin)
			continue
		}
		if (len(list) == 0) != (c.gate == Passed) || c.detail != "" && !strings.Contains(list.Err().Error(), c.detail) {
			t.Errorf("%s: got %v, want %q", name, list, c.detail)
		}
	}
	rows, list := Compare(several(t, minUnits-1, rate, spare(1, 0)), several(t, minUnits-1, rate, none), CompareOptions{Margin: 0.02})
	if rows[0].Gate != Inconclusive || rows[0].Verdict != Inconclusive || rows[0].Needed != minUnits || len(list) != 1 || list[0].Code != diag.GateOpen {
		t.Errorf("got %+v, %v", rows, list)
	}
	rows, _ = Compare(several(t, minUnits, rate, spare(1, 0)), several(t, minUnits, rate, none), CompareOptions{Margin: 0.02})
	if rows[0].Gate != Failed || rows[0].Verdict != Worse {
		t.Errorf("got %+v", rows)
	}
}

// Clustered questions have a wider interval.
func TestCompareClusters(t *testing.T) {
	a := func(i int) bool { return true }
	b := func(i int) bool { return i/10%4 != 0 } // whole groups are wrong
	alone, _ := Compare(several(t, 200, "", a), several(t, 200, "", b), CompareOptions{})
	group := "metadata: {cluster: group}\n"
	together, _ := Compare(several(t, 200, group, a), several(t, 200, group, b), CompareOptions{})
	wide := func(c Compared) float64 { return c.Interval.High - c.Interval.Low }
	if wide(together[0]) < 2*wide(alone[0]) || together[0].Test != "paired bootstrap of clusters" || alone[0].Test != "McNemar, exact" {
		t.Errorf("got %+v and %+v", alone[0], together[0])
	}
}

// Results of other questions are refused.
func TestCompareDiffers(t *testing.T) {
	yes := func(int) bool { return true }
	a := several(t, 10, "", yes)
	for name, b := range map[string]*Run{
		"fewer":       several(t, 9, "", yes),
		"a prompt":    several(t, 10, "description: 'Answer:'\n", yes),
		"a metric":    several(t, 10, "metric_list: [{metric: squad_em}]\n", yes),
		"other tasks": {samples: map[string][]Sample{}},
	} {
		if rows, list := Compare(a, b, CompareOptions{}); rows != nil || len(list) != 1 || list[0].Code != diag.RunsDiffer {
			t.Errorf("%s: got %v, %v", name, rows, list)
		}
		if task := a.Results.Tasks()[0]; Comparable(a, b, task) || !Comparable(a, a, task) {
			t.Errorf("%s: got comparable", name)
		}
	}
	if _, list := ReadRun(t.TempDir()); len(list) != 1 || list[0].Code != diag.BadResults {
		t.Errorf("got %v", list)
	}
	for task, want := range map[string]bool{"t": false, "../t": true, "a/../../t": true, "a/t": true} {
		_, list := ParseRun(filepath.Join(t.TempDir(), ResultsFile), fmt.Appendf(nil, `{"results":{%q:{"acc,none":1}}}`, task), true)
		if len(list) != 1 || strings.Contains(list[0].Detail, "not a file name") != want {
			t.Errorf("task %q: got %v", task, list)
		}
	}
}

// A figure of a whole corpus is compared by a bootstrap of its sums.
func TestCompareCorpus(t *testing.T) {
	extra := "metric_list: [{metric: wer}]\n"
	rows, _ := Compare(several(t, 100, extra, func(i int) bool { return i%2 == 0 }), several(t, 100, extra, func(i int) bool { return i%10 == 0 }), CompareOptions{Margin: 0.01})
	if len(rows) != 1 || diff(rows[0].First, 0.5) || diff(rows[0].Second, 0.9) || rows[0].Verdict != Worse || rows[0].Gate != Failed || rows[0].Test != "paired bootstrap" {
		t.Errorf("got %+v", rows)
	}
}

// Results are of the build that they name. It is described only if they name one.
func TestCheckBuild(t *testing.T) {
	asked := 0
	describe := func() (Source, error) { asked++; return Source{Digest: "sha256:a"}, nil }
	run := func(digest string) *Run {
		r := &Run{}
		r.Results.MM.Digest = digest
		return r
	}
	for _, r := range []*Run{nil, run("")} {
		if err := r.CheckBuild(describe); err != nil || asked != 0 {
			t.Errorf("%v: asked %d times: %v", r, asked, err)
		}
	}
	if err := run("sha256:a").CheckBuild(describe); err != nil || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if list, _ := diag.From(run("sha256:b").CheckBuild(describe)); len(list) != 1 || list[0].Code != diag.EvalOther {
		t.Errorf("another build: %v", list)
	}
}
