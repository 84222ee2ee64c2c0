package eval

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/eval/metric"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/runner"
)

func read(t *testing.T, text string) (*Budgets, diag.List) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "budgets.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadBudgets(path)
}

// slow answers in pieces.
type slow struct{ err error }

func (s slow) Answer(_ context.Context, req runner.Request, emit func(string) error) (*runner.Answer, error) {
	for range req.Preferences.MaxTokens {
		time.Sleep(time.Millisecond)
		emit("x")
	}
	return &runner.Answer{}, s.err
}

// The times are those of the measured runs, without the first.
func TestMeasure(t *testing.T) {
	b, list := read(t, "version: 1\nlatency: {tokens: 3, runs: 4, tokens_per_second: 1}\n")
	if list.Failed() {
		t.Fatal(list)
	}
	var f Figures
	if err := b.Measure(t.Context(), slow{}, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.FirstToken) != 4 || len(f.Token) != 8 || len(f.Speed) != 4 || !slices.IsSorted(f.Token) || f.Token[0] < 1 || f.Speed[3] > 1000 {
		t.Errorf("got %+v", f)
	}
	if err := b.Measure(t.Context(), slow{errors.New("broken")}, &f); err == nil {
		t.Error("got no error")
	}
	if b, _ = read(t, "version: 1\nsize: {files: 1G}\n"); b.Measure(t.Context(), slow{errors.New("unused")}, &f) != nil {
		t.Error("a document without latency measures it")
	}
}

// Each limit on either side, and a figure that is not measured.
func TestJudge(t *testing.T) {
	size, half := int64(100), 0.5
	results := suite.Results{
		Results:   map[string]map[string]any{"t": {"acc,none": half, "wer,x": half}},
		Intervals: map[string]map[string]suite.IntervalOf{"t": {"acc,none": {Interval: metric.Interval{Low: 0.4, High: 0.6}}, "wer,x": {Interval: metric.Interval{Low: 0.4, High: 0.6}}}},
	}
	all := Figures{FirstToken: []float64{1, 2, 3}, Token: []float64{1, 1, 9}, Speed: []float64{10}, Peak: &size, Files: &size, Run: &suite.Run{Results: results}}
	for text, want := range map[string]struct {
		with, without diag.Code
	}{
		"latency: {first_token_ms: {p50: 2}}":                                     {"", diag.BudgetAbsent},
		"latency: {first_token_ms: {p50: 1.9}}":                                   {diag.BudgetOver, diag.BudgetAbsent},
		"latency: {token_ms: {p95: 8}}":                                           {diag.BudgetOver, diag.BudgetAbsent},
		"latency: {token_ms: {p95: 9}}":                                           {"", diag.BudgetAbsent},
		"latency: {tokens_per_second: 10}":                                        {"", diag.BudgetAbsent},
		"latency: {tokens_per_second: 10.5}":                                      {diag.BudgetOver, diag.BudgetAbsent},
		"memory: {peak: '100'}":                                                   {"", diag.BudgetAbsent},
		"memory: {peak: '99'}":                                                    {diag.BudgetOver, diag.BudgetAbsent},
		"size: {files: 1K}":                                                       {"", diag.BudgetAbsent},
		"size: {files: '99'}":                                                     {diag.BudgetOver, diag.BudgetAbsent},
		"quality: [{task: t, metric: acc, at_least: 0.5}]":                        {"", diag.BudgetAbsent},
		"quality: [{task: t, metric: acc, at_least: 0.51}]":                       {diag.BudgetOver, diag.BudgetAbsent},
		"quality: [{task: t, metric: acc, at_least: 0.45, sure: true}]":           {diag.BudgetUnproven, diag.BudgetAbsent},
		"quality: [{task: t, metric: acc, at_least: 0.4, sure: true}]":            {"", diag.BudgetAbsent},
		"quality: [{task: t, metric: wer, filter: x, at_most: 0.5}]":              {"", diag.BudgetAbsent},
		"quality: [{task: t, metric: wer, filter: x, at_most: 0.49}]":             {diag.BudgetOver, diag.BudgetAbsent},
		"quality: [{task: t, metric: wer, filter: x, at_most: 0.59, sure: true}]": {diag.BudgetUnproven, diag.BudgetAbsent},
		"quality: [{task: t, metric: wer, at_most: 0.5}]":                         {diag.BudgetAbsent, diag.BudgetAbsent},
		"quality: [{task: t, metric: acc, at_least: 0, at_most: 1}]":              {"", diag.BudgetAbsent},
		"quality: [{task: other, metric: acc, at_least: 0}]":                      {diag.BudgetAbsent, diag.BudgetAbsent},
	} {
		b, list := read(t, "version: 1\n"+text+"\n")
		if list.Failed() {
			t.Errorf("%s: %v", text, list)
			continue
		}
		for _, c := range []struct {
			f    Figures
			want diag.Code
		}{{all, want.with}, {Figures{}, want.without}} {
			rows, list := b.Judge(c.f)
			var got diag.Code
			if len(list) > 0 {
				got = list[0].Code
				if list.Exit() != diag.ExitMissed || list[0].Pos.Line != 2 {
					t.Errorf("%s: exit %d, %v", text, list.Exit(), list)
				}
			}
			if len(rows) == 0 || got != c.want || rows[0].Passed != (c.want == "") {
				t.Errorf("%s: got %+v, %v, want %s", text, rows, list, c.want)
			}
		}
	}
}

func TestRead(t *testing.T) {
	for text, code := range map[string]diag.Code{
		"version: 2\nsize: {files: 1G}\n": diag.NotAllowed, "version: 1\nsize: {files: 1G}\nspeed: 3\n": diag.UnknownKey, "version: 1\nmemory: {peak: lots}\n": diag.WrongForm, "{}\n": diag.MissingKey,
		"version: 1\nlatency: {runs: 0, tokens_per_second: 1}\n": diag.OutOfRange, "version: 1\nquality: []\n": diag.OutOfRange,
	} {
		if _, list := read(t, text); len(list) == 0 || list[0].Code != code {
			t.Errorf("%q: got %v, want %s", text, list, code)
		}
	}
	// What judges nothing is a fault.
	for text, want := range map[string]string{
		"": `one of ["latency" "memory" "size" "quality"] in the document`, "memory: {}": `"peak" in memory`, "size: {}": `"files" in size`,
		"latency: {tokens: 9}":              `one of ["first_token_ms" "token_ms" "tokens_per_second"] in latency`,
		"quality: [{task: t, metric: acc}]": `one of ["at_least" "at_most" "relative"] in quality[0]`,
		"baselines: {a: {results: r}}\nquality: [{task: t, metric: acc, relative: 0.1, baseline: a, sure: true}]": `one of ["at_least" "at_most"] in quality[0]`,
	} {
		if _, list := read(t, "version: 1\n"+text+"\n"); len(list) != 1 || list[0].Code != diag.MissingKey || list[0].Pos.Line == 0 || !strings.Contains(list[0].Detail, want) {
			t.Errorf("%q: got %v, want %s", text, list, want)
		}
	}
	if _, list := ReadBudgets("absent.yaml"); !list.Failed() {
		t.Error("got no fault")
	}
}

// The peak is that of the status file, or unknown.
func TestPeak(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]int64{"VmPeak:\t 9 kB\nVmHWM:\t   157 kB\nVmRSS: 3 kB\n": 157 << 10, "VmRSS: 3 kB\n": 0, "VmHWM: x\n": 0} {
		path := filepath.Join(dir, "status")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := peakOf(path); (got == nil) != (want == 0) || got != nil && *got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if peakOf(filepath.Join(dir, "absent")) != nil {
		t.Error("a figure without a file")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("version: 1\nsize: {files: 1G}\nquality: [{task: t, metric: acc, at_least: 0.5}]\n")
	f.Add("version: 1\nbaselines: {a: {results: old}}\nquality: [{task: t, metric: acc, relative: 0.5, baseline: a}]\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "budgets.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, list := ReadBudgets(path); !list.Failed() {
			b.Judge(Figures{})
		}
	})
}

// Defaults are set only where the document has no value, and figures are readable.
func TestDefaults(t *testing.T) {
	b, _ := read(t, "version: 1\nlatency: {tokens_per_second: 1}\n")
	if l := b.Latency; l.Prompt != defaultPrompt || l.Tokens != 64 || l.Runs != 5 {
		t.Errorf("got %+v", l)
	}
	b, _ = read(t, "version: 1\nlatency: {prompt: p, tokens: 2, runs: 1, tokens_per_second: 1}\n")
	if l := b.Latency; l.Prompt != "p" || l.Tokens != 2 || l.Runs != 1 {
		t.Errorf("got %+v", l)
	}
	for x, want := range map[float64]string{0.12345: "0.1235", 999: "999", 60000: "60000", 1000: "1000"} {
		if got := (Row{}).Shown(x); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := (Row{Bytes: true}).Shown(20 << 20); got != "20 MiB" {
		t.Errorf("got %s", got)
	}
	var f Figures
	f.add([]time.Duration{time.Second})
	if len(f.Speed) != 0 || len(f.Token) != 0 || f.FirstToken[0] != 1000 {
		t.Errorf("got %+v", f)
	}
}

// An answer without text has no times.
func TestSilence(t *testing.T) {
	b, _ := read(t, "version: 1\nlatency: {runs: 2, tokens_per_second: 1}\n")
	b.Latency.Tokens = 0
	var f Figures
	if err := b.Measure(t.Context(), slow{}, &f); err != nil || f.FirstToken != nil {
		t.Errorf("got %+v, %v", f, err)
	}
}

// A report is read as it was written; each limit on either side.
func TestReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	value := 1.5
	want := Report{Source: suite.Source{Model: "m", Digest: "sha256:d", Engine: "core"}, Rows: []Row{{Budget: "size.files", Limit: 2, Value: &value, Bytes: true}, {Budget: "memory.peak"}}}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadReport(filepath.Join(dir, ReportFile))
	if err != nil || got.Source.Digest != "sha256:d" || len(got.Rows) != 2 || *got.Rows[0].Value != value || got.Rows[1].Value != nil || !got.Rows[0].Bytes {
		t.Errorf("got %+v, %v", got, err)
	}
	file := filepath.Join(dir, "r.json")
	row := `{"budget":"b"}`
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"maxRows":        {`{"rows":[` + strings.Repeat(row+",", maxRows-1) + row + `]}`, true},
		"over maxRows":   {`{"rows":[` + strings.Repeat(row+",", maxRows) + row + `]}`, false},
		"maxReport":      {`{}` + strings.Repeat(" ", maxReport-2), true},
		"over maxReport": {`{}` + strings.Repeat(" ", maxReport-1), false},
		"no budget":      {`{"rows":[{}]}`, false}, "no JSON": {`[`, false},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadReport(file); (err == nil) != c.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzReadReport(f *testing.F) {
	f.Add(`{"source":{"digest":"sha256:d"},"rows":[{"budget":"b","limit":1,"value":null}]}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, ReportFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := ReadReport(path); err == nil {
			for _, row := range r.Rows {
				row.Shown(row.Limit)
			}
		}
	})
}
