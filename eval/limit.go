package eval

import (
	"fmt"

	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Row is a limit with its figure.
type Row struct {
	Budget string   `json:"budget"`
	Limit  float64  `json:"limit"`
	Least  bool     `json:"minimum,omitempty"` // the limit is a minimum
	Value  *float64 `json:"value"`             // nil: not measured
	Passed bool     `json:"passed"`
	Bytes  bool     `json:"bytes,omitempty"` // the figures are bytes

	Compared *suite.Compared `json:"comparison,omitempty"` // with the baseline of a relative limit
}

// Shown returns a figure of the row as text.
func (r Row) Shown(x float64) string {
	if r.Bytes {
		return fsx.FormatSize(int64(x))
	}
	if x >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// judge collects rows and faults.
type judge struct {
	b    *Budgets
	rows []Row
	list diag.List
}

// limit judges a figure; limit 0 does not count.
func (j *judge) limit(r Row, key string, value float64, measured bool) {
	if r.Limit == 0 {
		return
	}
	if measured {
		r.Value = &value
		r.Passed = value <= r.Limit
		if r.Least {
			r.Passed = value >= r.Limit
		}
	}
	j.rows = append(j.rows, r)
	bound := map[bool]string{false: "at most", true: "at least"}[r.Least]
	switch {
	case !measured:
		j.list.Add(diag.BudgetAbsent, j.b.doc.Pos(key), r.Budget, "")
	case !r.Passed:
		j.list.Add(diag.BudgetOver, j.b.doc.Pos(key), fmt.Sprintf("%s: got %s, want %s %s", r.Budget, r.Shown(value), bound, r.Shown(r.Limit)), "")
	}
}

// Judge compares figures with the limits.
func (b *Budgets) Judge(f Figures) ([]Row, diag.List) {
	j := &judge{b: b}
	if l := b.Latency; l != nil {
		j.times("first_token_ms", l.FirstToken, f.FirstToken)
		j.times("token_ms", l.Token, f.Token)
		speed, ok := percentile(f.Speed, 0.5)
		j.limit(Row{Budget: "latency.tokens_per_second", Limit: l.Speed, Least: true}, "/latency/tokens_per_second", speed, ok)
	}
	if b.Memory != nil && b.Memory.Peak != "" {
		j.bytes("memory.peak", "/memory/peak", b.Memory.Peak, f.Peak)
	}
	if b.Size != nil && b.Size.Files != "" {
		j.bytes("size.files", "/size/files", b.Size.Files, f.Files)
	}
	for i, q := range b.Quality {
		j.quality(fmt.Sprintf("/quality/%d", i), q, f)
	}
	return j.rows, j.list
}

// JudgeResults compares the results of mm eval suite with the limits on quality, and names
// those that they keep.
func (b *Budgets) JudgeResults(run *suite.Run) (kept []string, list diag.List) {
	j := &judge{b: b}
	for i, q := range b.Quality {
		j.quality(fmt.Sprintf("/quality/%d", i), q, Figures{Run: run})
	}
	for _, row := range j.rows {
		if row.Passed {
			kept = append(kept, row.kept())
		}
	}
	if b.Quality == nil {
		j.list.Add(diag.BudgetAbsent, b.doc.Pos(""), "quality", "add limits of quality")
	}
	return kept, j.list
}

func (j *judge) times(name string, limit Percentiles, sorted []float64) {
	for _, p := range []struct {
		name         string
		share, limit float64
	}{{"p50", 0.5, limit.P50}, {"p95", 0.95, limit.P95}} {
		value, ok := percentile(sorted, p.share)
		j.limit(Row{Budget: "latency." + name + "." + p.name, Limit: p.limit}, "/latency/"+name+"/"+p.name, value, ok)
	}
}

func (j *judge) bytes(name, key, limit string, value *int64) {
	measured := 0.0
	if value != nil {
		measured = float64(*value)
	}
	j.limit(Row{Budget: name, Limit: parsed(limit), Bytes: true}, key, measured, value != nil)
}

// quality judges a figure of an evaluation, or with sure its interval.
func (j *judge) quality(key string, q Quality, f Figures) {
	if q.Filter == "" {
		q.Filter = "none"
	}
	figure := q.Metric + "," + q.Filter
	var value float64
	var ok bool
	if f.Run != nil {
		value, ok = f.Run.Results.Results[q.Task][figure].(float64)
	}
	if q.Relative > 0 {
		j.relative(key, q, f.Run)
	}
	for _, bound := range []struct {
		least bool
		limit *float64
	}{{true, q.AtLeast}, {false, q.AtMost}} {
		if bound.limit == nil {
			continue
		}
		r := Row{Budget: "quality." + q.Task + "." + figure, Limit: *bound.limit, Least: bound.least}
		if !ok {
			j.rows = append(j.rows, r)
			j.list.Add(diag.BudgetAbsent, j.b.doc.Pos(key), r.Budget, "--results FOLDER names the results of mm eval suite")
			continue
		}
		r.Value, r.Passed = &value, bound.least && value >= r.Limit || !bound.least && value <= r.Limit
		word := map[bool]string{false: "at most", true: "at least"}[r.Least]
		interval := f.Run.Results.Intervals[q.Task][figure]
		switch proven := bound.least && interval.Low >= r.Limit || !bound.least && interval.High <= r.Limit; {
		case !r.Passed:
			j.list.Add(diag.BudgetOver, j.b.doc.Pos(key), fmt.Sprintf("%s: got %.4f, want %s %.4g", r.Budget, value, word, r.Limit), "")
		case q.Sure && !proven:
			r.Passed = false
			j.list.Add(diag.BudgetUnproven, j.b.doc.Pos(key), fmt.Sprintf("%s: got %.4f with the interval %.4f–%.4f, want %s %.4g", r.Budget, value, interval.Low, interval.High, word, r.Limit), "")
		}
		j.rows = append(j.rows, r)
	}
}

// RowHeading is the heading of [Row.Row].
var RowHeading = []string{"BUDGET", "LIMIT", "MEASURED", "RESULT"}

// Row returns the row as cells of a table.
func (r Row) Row() []string {
	value := "-"
	if r.Value != nil {
		value = r.Shown(*r.Value)
	}
	bound := map[bool]string{false: "≤ ", true: "≥ "}[r.Least]
	return []string{r.Budget, bound + r.Shown(r.Limit), value, r.Result()}
}
