// Package judge checks what an experiment and its documents claim.
//
// [Falsify] applies the falsifiers to evidence. A falsifier passes, warns, fails, is blocked
// if evidence that it requires is missing or malformed, or is skipped if other evidence is
// missing. The overall result is [Pass] only if every selected falsifier passed.
//
// [MakeTable] builds the truth table, which shows what compiles and runs where, from records
// of attempts. [Manifest.Audit] checks the licenses of a corpus, [Boundary.Scan] the wording
// of documents. [ReadEnvelope] reads the probe of a phone; a chip that is not certain is not
// a target.
package judge

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// Result is the result of a falsifier.
type Result string

// The results, from best to worst.
const (
	Pass    Result = "pass"
	Warn    Result = "warn"
	Skip    Result = "skipped"
	Fail    Result = "fail"
	Blocked Result = "blocked"
)

// Falsifier is a rule that tries to refute a claim of an experiment.
type Falsifier struct {
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Advisory bool     `json:"advisory,omitempty"` // never blocking
	Gates    []string `json:"gates"`              // phases that it guards
	Response string   `json:"response"`           // what to do unless it passes
	check    func(v *view) (Result, string)
}

// Finding is the result of a falsifier with its details.
type Finding struct {
	ID       string `json:"id"`
	Result   Result `json:"result"`
	Detail   string `json:"detail"`
	Blocking bool   `json:"blocking"` // it closes its gates
	Response string `json:"response,omitempty"`
}

// Report holds the findings of [Falsify].
type Report struct {
	Gate     string         `json:"gate,omitempty"`
	Overall  Result         `json:"overall"`
	Counts   map[Result]int `json:"counts"`
	Findings []Finding      `json:"findings"`
}

// Selection selects falsifiers.
type Selection struct {
	Gate string   // if not empty, only those of a phase
	Only []string // if not empty, only those with these IDs
}

// Gates returns the phases, sorted.
func Gates() []string {
	var out []string
	for _, f := range Falsifiers() {
		out = append(out, f.Gates...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Falsify applies the selected falsifiers to the evidence. An unknown ID or gate is an
// error.
func Falsify(e Evidence, opt Selection) (Report, error) {
	r := Report{Gate: opt.Gate, Counts: map[Result]int{Pass: 0, Warn: 0, Skip: 0, Fail: 0, Blocked: 0}, Overall: Pass}
	ids := map[string]bool{}
	for _, f := range Falsifiers() {
		ids[f.ID] = true
		if opt.Gate != "" && !slices.Contains(f.Gates, opt.Gate) || len(opt.Only) > 0 && !slices.Contains(opt.Only, f.ID) {
			continue
		}
		finding := f.judge(e)
		r.Counts[finding.Result]++
		r.Findings = append(r.Findings, finding)
	}
	for _, id := range opt.Only {
		if !ids[id] {
			return r, fmt.Errorf("unknown falsifier %q", id)
		}
	}
	if len(r.Findings) == 0 {
		return r, fmt.Errorf("no falsifier for gate %q, want one of %s", opt.Gate, strings.Join(Gates(), ", "))
	}
	r.Overall = overall(r.Findings)
	return r, nil
}

// overall returns Blocked if any finding is blocking, and the worst result otherwise.
func overall(findings []Finding) Result {
	worst := Pass
	order := []Result{Pass, Warn, Skip, Fail, Blocked}
	for _, f := range findings {
		if f.Blocking {
			return Blocked
		}
		worst = slices.MaxFunc([]Result{worst, f.Result}, func(a, b Result) int {
			return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
		})
	}
	return worst
}

// judge runs the check. Missing evidence skips it, unless the check requires the evidence.
func (f Falsifier) judge(e Evidence) Finding {
	v := &view{e: e}
	result, detail := f.check(v)
	switch {
	case len(v.wrong) > 0:
		result, detail = Blocked, "malformed evidence: "+strings.Join(v.wrong, "; ")
	case len(v.missing) > 0 && result != Blocked:
		result, detail = Skip, "missing evidence: "+strings.Join(v.missing, ", ")
	}
	out := Finding{ID: f.ID, Result: result, Detail: detail, Blocking: !f.Advisory && (result == Fail || result == Blocked)}
	if result != Pass {
		out.Response = f.Response
	}
	return out
}

// Write writes a row for each finding.
func (r Report) Write(to io.Writer) error {
	var rows [][]string
	for _, f := range r.Findings {
		rows = append(rows, []string{string(f.Result), f.ID, f.Detail})
	}
	return diag.Table(to, []string{"RESULT", "FALSIFIER", "DETAIL"}, rows)
}

// Err returns a negative answer unless every falsifier passed.
func (r Report) Err() error {
	if r.Overall == Pass {
		return nil
	}
	return diag.Exiting(diag.ExitMissed, fmt.Errorf("%s: %d passed, %d warned, %d skipped, %d failed, %d blocked", r.Overall, r.Counts[Pass], r.Counts[Warn], r.Counts[Skip], r.Counts[Fail], r.Counts[Blocked]))
}
