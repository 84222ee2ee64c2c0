package eval

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/diag"
)

// Baseline names results that limits of quality are relative to.
type Baseline struct {
	Results string `json:"results"` // relative to budgets.yaml
	Digest  string `json:"digest"`  // of the measured build; "": any

	run *suite.Run
}

// readBaselines reads the results that limits are relative to.
func (b *Budgets) readBaselines() (list diag.List) {
	for _, name := range slices.Sorted(maps.Keys(b.Baselines)) {
		base, key := b.Baselines[name], "/baselines/"+name
		path := filepath.FromSlash(base.Results)
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(b.doc.File), path)
		}
		run, found := suite.ReadRun(path)
		if list = append(list, found...); found.Failed() {
			continue
		}
		if got := run.Results.MM.Digest; base.Digest != "" && got != base.Digest {
			list.Add(diag.EvalOther, b.doc.Pos(key+"/digest"), fmt.Sprintf("baseline %s: got results of %s, want %s", name, got, base.Digest), "run mm eval suite on the build of the digest")
			continue
		}
		base.run = run
		b.Baselines[name] = base
	}
	for i, q := range b.Quality {
		if _, ok := b.Baselines[q.Baseline]; !ok && q.Baseline != "" {
			list.Add(diag.NotAllowed, b.doc.Pos(fmt.Sprintf("/quality/%d/baseline", i)), fmt.Sprintf("baseline %q is not in baselines", q.Baseline), "")
		}
	}
	return list
}

// relative reports whether a limit needs the samples of results.
func (b *Budgets) relative() bool {
	return slices.ContainsFunc(b.Quality, func(q Quality) bool { return q.Relative > 0 })
}

// relative compares a figure with that of its baseline, question by question.
func (j *judge) relative(key string, q Quality, run *suite.Run) {
	figure := q.Metric + "," + q.Filter
	r := Row{Budget: "quality." + q.Task + "." + figure + "." + q.Baseline, Least: true}
	c, list := compared(j.b.Baselines[q.Baseline].run, run, q)
	if c == nil {
		if len(list) == 0 {
			list.Add(diag.BudgetAbsent, diag.Pos{}, r.Budget, "--results FOLDER names the results of mm eval suite; the baseline needs the same task and metric")
		}
		j.add(r, key, list)
		return
	}
	r.Least = c.Higher()
	r.Limit = c.First - c.Margin
	if !r.Least {
		r.Limit = c.First + c.Margin
	}
	r.Value, r.Passed, r.Compared = &c.Second, c.Gate == suite.Passed, c
	j.add(r, key, list)
}

// add adds a row and the faults of its comparison, at the key of the limit.
func (j *judge) add(r Row, key string, list diag.List) {
	j.rows = append(j.rows, r)
	for _, d := range list {
		d.Pos = j.b.doc.Pos(key)
		j.list = append(j.list, d)
	}
}

// compared returns the comparison of a figure with its baseline, as mm eval compare does it,
// and the faults of the figure; nil if one of the results lacks it or the questions differ.
func compared(base, run *suite.Run, q Quality) (*suite.Compared, diag.List) {
	if run == nil || base.Samples(q.Task) == nil || run.Samples(q.Task) == nil {
		return nil, nil
	}
	rows, list := suite.Compare(base, run, suite.CompareOptions{Relative: q.Relative, Tasks: []string{q.Task}, Metric: []string{q.Metric}, Filter: q.Filter})
	if len(rows) == 0 {
		return nil, list
	}
	return &rows[0], list
}

// Result returns whether the limit was kept.
func (r Row) Result() string {
	switch {
	case r.Passed:
		return "kept"
	case r.Compared != nil && r.Compared.Gate == suite.Inconclusive:
		return "undecided"
	}
	return "missed"
}

// kept names a limit that the row keeps.
func (r Row) kept() string {
	name := strings.TrimPrefix(r.Budget, "quality.")
	sign := map[bool]string{false: "≤", true: "≥"}[r.Least]
	return fmt.Sprintf("%s %s %s", name, sign, r.Shown(r.Limit))
}
