// Package falsify holds what an experiment claims against evidence that would
// refute it.
//
// A [Falsifier] passes, warns, fails, is blocked where what must be shown is not,
// or is skipped where the evidence does not speak of it. Skipped is no pass:
// [Falsify] passes as a whole only where every falsifier that it was asked for
// passed. Evidence of another type than a falsifier reads blocks it.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Result is what a falsifier comes to.
type Result string

// The results, best first.
const (
	Pass    Result = "pass"
	Warn    Result = "warn"
	Skip    Result = "skipped"
	Fail    Result = "fail"
	Blocked Result = "blocked"
)

// Falsifier is one rule.
type Falsifier struct {
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Advisory bool     `json:"advisory,omitempty"` // it blocks nothing
	Gates    []string `json:"gates"`              // phases that it closes
	Response string   `json:"response"`           // what to do where it does not pass
	check    func(v *view) (Result, string)
}

// Finding is what came of a falsifier.
type Finding struct {
	ID       string `json:"id"`
	Result   Result `json:"result"`
	Detail   string `json:"detail"`
	Blocking bool   `json:"blocking"` // it closes its gates now
	Response string `json:"response,omitempty"`
}

// Report is all of them.
type Report struct {
	Gate     string         `json:"gate,omitempty"`
	Overall  Result         `json:"overall"`
	Counts   map[Result]int `json:"counts"`
	Findings []Finding      `json:"findings"`
}

// Options for [Falsify].
type Selection struct {
	Gate string   // the falsifiers of a phase only; empty: all
	Only []string // these only, by id; empty: all
}

// Gates lists the phases.
func Gates() []string {
	var out []string
	for _, f := range Falsifiers() {
		out = append(out, f.Gates...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Judge holds evidence against the falsifiers that are asked for. An id or a gate
// that there is none of is an error.
func Falsify(e Evidence, opt Selection) (Report, error) {
	r := Report{Gate: opt.Gate, Counts: map[Result]int{Pass: 0, Warn: 0, Skip: 0, Fail: 0, Blocked: 0}, Overall: Pass}
	known := map[string]bool{}
	for _, f := range Falsifiers() {
		known[f.ID] = true
		if opt.Gate != "" && !slices.Contains(f.Gates, opt.Gate) || len(opt.Only) > 0 && !slices.Contains(opt.Only, f.ID) {
			continue
		}
		found := f.judge(e)
		r.Counts[found.Result]++
		r.Findings = append(r.Findings, found)
	}
	for _, id := range opt.Only {
		if !known[id] {
			return r, fmt.Errorf("there is no falsifier %q", id)
		}
	}
	if len(r.Findings) == 0 {
		return r, fmt.Errorf("there is no falsifier for the gate %q; the gates are %s", opt.Gate, strings.Join(Gates(), ", "))
	}
	r.Overall = overall(r.Findings)
	return r, nil
}

// overall is blocked where anything closes a gate, and otherwise the worst.
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

// judge runs the check. What is missing skips it, unless the check says that the
// evidence must be there.
func (f Falsifier) judge(e Evidence) Finding {
	v := &view{e: e}
	result, detail := f.check(v)
	switch {
	case len(v.wrong) > 0:
		result, detail = Blocked, "evidence that cannot be read: "+strings.Join(v.wrong, "; ")
	case len(v.missing) > 0 && result != Blocked:
		result, detail = Skip, "no evidence: "+strings.Join(v.missing, ", ")
	}
	out := Finding{ID: f.ID, Result: result, Detail: detail, Blocking: !f.Advisory && (result == Fail || result == Blocked)}
	if result != Pass {
		out.Response = f.Response
	}
	return out
}
