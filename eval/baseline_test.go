package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/diag"
)

// measured writes results of a task with n questions into a folder; score is a question's value of acc.
func measured(t *testing.T, dir string, n int, score func(i int) string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"doc_id":%d,"doc":{},"target":"x","filter":"none","metrics":["acc"],"arguments":{"gen_args_0":{"arg_0":"q"}},"acc":%s}`+"\n", i, score(i))
	}
	for name, text := range map[string]string{suite.ResultsFile: fmt.Sprintf(`{"results":{"t":{"acc,none":0.5}},"configs":{},"mm":{"digest":"sha256:%064d"}}`, 1), suite.SamplesFile("t"): lines.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// wrongFirst returns 0 for every tenth question and for the first ones, otherwise 1.
func wrongFirst(n int) func(int) string {
	return func(i int) string { return map[bool]string{true: "0", false: "1"}[i%10 == 0 || i < n] }
}

// A limit relative to a baseline is judged as mm eval compare --relative does it, and its row has the comparison.
func TestRelative(t *testing.T) {
	dir := t.TempDir()
	measured(t, filepath.Join(dir, "old"), 400, wrongFirst(0))
	for name, c := range map[string]struct {
		n      int // questions
		wrong  int
		limit  string
		code   diag.Code
		result string
	}{
		"equal":     {400, 0, "metric: acc, relative: 0.02", "", "kept"},
		"worse":     {400, 100, "metric: acc, relative: 0.02", diag.GateWorse, "missed"},
		"within":    {400, 40, "metric: acc, relative: 0.2", "", "kept"},
		"undecided": {400, 6, "metric: acc, relative: 0.02", diag.GateOpen, "undecided"},
		"filter":    {400, 0, "metric: acc, filter: strict, relative: 0.02", diag.RunsDiffer, "missed"},
		"metric":    {400, 0, "metric: wer, relative: 0.02", diag.RunsDiffer, "missed"},
		"questions": {399, 0, "metric: acc, relative: 0.02", diag.RunsDiffer, "missed"},
	} {
		measured(t, filepath.Join(dir, "new"), c.n, wrongFirst(c.wrong))
		b := budgetsIn(t, dir, "quality: [{task: t, "+c.limit+", baseline: old}]\n")
		run, list := suite.ReadRun(filepath.Join(dir, "new"))
		if list.Failed() {
			t.Fatal(list)
		}
		rows, list := b.Judge(Figures{Run: run})
		if len(rows) != 1 || rows[0].Result() != c.result {
			t.Errorf("%s: got %+v, want %s", name, rows, c.result)
		}
		var got diag.Code
		if len(list) > 0 {
			got = list[0].Code
			if list[0].Pos.Line != 3 {
				t.Errorf("%s: got %v, want line 3", name, list)
			}
		}
		if got != c.code {
			t.Errorf("%s: got %v, want %s", name, list, c.code)
		}
		if r := rows[0]; r.Compared != nil && (*r.Value != r.Compared.Second || r.Limit != r.Compared.First-r.Compared.Margin || !r.Least) {
			t.Errorf("%s: got %+v", name, r)
		}
		// The statement of an evaluation names the limits that were kept.
		_, kept, err := ReadResults(filepath.Join(dir, "new"), filepath.Join(dir, "budgets.yaml"))
		if (err == nil) != (c.code == "") || err == nil && (len(kept) != 1 || !strings.HasPrefix(kept[0], "t.acc,none.old ≥ 0.")) {
			t.Errorf("%s: got %q, %v", name, kept, err)
		}
	}
	b := budgetsIn(t, dir, "quality: [{task: t, metric: acc, relative: 0.02, baseline: old}, {task: other, metric: acc, relative: 0.02, baseline: old}]\n")
	for _, f := range []Figures{{}, {Run: &suite.Run{}}} {
		if rows, list := b.Judge(f); len(rows) != 2 || len(list) != 2 || list[0].Code != diag.BudgetAbsent || rows[0].Passed {
			t.Errorf("without results: got %+v, %v", rows, list)
		}
	}
}

// budgetsIn reads a budgets.yaml with the baseline old.
func budgetsIn(t *testing.T, dir, text string) *Budgets {
	t.Helper()
	file := filepath.Join(dir, "budgets.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nbaselines: {old: {results: old}}\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, list := ReadBudgets(file)
	if list.Failed() {
		t.Fatal(list)
	}
	return b
}

// A figure that should fall has a limit above the baseline.
func TestRelativeFalling(t *testing.T) {
	dir := t.TempDir()
	for name, wrong := range map[string]int{"old": 200, "new": 240} {
		measured(t, filepath.Join(dir, name), 400, func(i int) string {
			return fmt.Sprintf("[%s, 1]", map[bool]string{true: "1", false: "0"}[i < wrong])
		})
		for _, file := range []string{suite.ResultsFile, suite.SamplesFile("t")} {
			path := filepath.Join(dir, name, file)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(data), "acc", "wer")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	run, list := suite.ReadRun(filepath.Join(dir, "new"))
	if list.Failed() {
		t.Fatal(list)
	}
	for part, passed := range map[string]bool{"0.5": true, "0.02": false} {
		rows, _ := budgetsIn(t, dir, "quality: [{task: t, metric: wer, baseline: old, relative: "+part+"}]\n").Judge(Figures{Run: run})
		if len(rows) != 1 || rows[0].Passed != passed || rows[0].Least || rows[0].Limit <= rows[0].Compared.First {
			t.Errorf("%s: got %+v", part, rows)
		}
		data, err := json.Marshal(rows)
		var again []Row
		if err != nil || json.Unmarshal(data, &again) != nil || again[0].Compared.First != 0.5 {
			t.Errorf("%s: got %s, %v", part, data, err)
		}
	}
}

// Faults of baselines are reported at their lines, before any measurement.
func TestBaselines(t *testing.T) {
	dir := t.TempDir()
	measured(t, filepath.Join(dir, "old"), 20, wrongFirst(0))
	measured(t, filepath.Join(dir, "uneven"), 20, func(i int) string { return map[bool]string{true: "[]", false: "1"}[i == 7] })
	measured(t, filepath.Join(dir, "empty"), 2, func(int) string { return "[]" })
	one := fmt.Sprintf("%064d", 1)
	for text, want := range map[string]diag.Code{
		"baselines: {a: {results: old}}": "",
		"baselines: {a: {results: " + filepath.ToSlash(filepath.Join(dir, "old")) + "}}":                 "",
		"baselines: {a: {results: old, digest: 'sha256:" + one + "'}}":                                   "",
		"baselines: {a: {results: old, digest: 'sha256:" + strings.Repeat("0", 64) + "'}}":               diag.EvalOther,
		"baselines: {a: {results: none}}":                                                                diag.BadResults,
		"baselines: {a: {results: uneven}}":                                                              diag.BadResults,
		"baselines: {a: {results: empty}}":                                                               diag.BadResults,
		"baselines: {a: {}}":                                                                             diag.MissingKey,
		"quality: [{task: t, metric: acc, relative: 0.02}]":                                              diag.OutOfRange,
		"quality: [{task: t, metric: acc, at_least: 0, baseline: a}]":                                    diag.OutOfRange,
		"quality: [{task: t, metric: acc, relative: 0.02, baseline: a}]":                                 diag.NotAllowed,
		"quality: [{task: t, metric: acc, relative: 0, baseline: a}]":                                    diag.OutOfRange,
		"quality: [{task: t, metric: acc, relative: 1, baseline: a}]":                                    diag.OutOfRange,
		"baselines: {a: {results: old}}\nquality: [{task: t, metric: acc, relative: 0.99, baseline: a}]": "",
	} {
		file := filepath.Join(dir, "budgets.yaml")
		if err := os.WriteFile(file, []byte("version: 1\nsize: {files: 1G}\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, list := ReadBudgets(file)
		var got diag.Code
		if len(list) > 0 {
			got = list[0].Code
		}
		if got != want {
			t.Errorf("%s: got %v, want %s", text, list, want)
		}
	}
}
