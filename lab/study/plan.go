package study

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/chain"
)

// Plan lists the arms of a study.
type Plan struct {
	Study  string    `json:"study"`
	Arms   []Planned `json:"arms"`
	Seeds  int       `json:"seeds"`
	Rungs  []int     `json:"rungs"`  // tokens, the end included
	Tokens int       `json:"tokens"` // at most, of all trials
}

// Planned is an arm with its changes of the recipe, such as "/optimizer/lr 0.01".
type Planned struct {
	Arm     string   `json:"arm"`
	Changes []string `json:"changes"`
	Same    string   `json:"same,omitempty"` // arm with the same recipe, which runs instead
}

// planned formats an arm.
func planned(a Arm) Planned {
	p := Planned{Arm: a.Name, Same: a.Same, Changes: []string{}}
	for _, k := range sortedKeys(a.Changes) {
		p.Changes = append(p.Changes, k+" "+short(a.Changes[k]))
	}
	if a.Share > 0 {
		p.Changes = append(p.Changes, fmt.Sprintf("%v of the training documents", a.Share))
	}
	return p
}

// Plan returns the arms of the study and the tokens that it trains at most.
func (s Study) Plan() Plan {
	p := Plan{Study: s.Name, Seeds: len(s.Seeds), Rungs: s.rungs()}
	for _, a := range append(slices.Clone(s.Arms), s.gridArms()...) {
		p.Arms = append(p.Arms, planned(a))
	}
	at := newState()
	open, before := 0, 0
	kept := 0
	for _, a := range s.Arms {
		switch {
		case a.Same != "":
		case (plan{s, at}).kept(a.Name):
			kept++
		default:
			open++
		}
	}
	for _, rung := range p.Rungs {
		p.Tokens += (kept + open) * (rung - before) * p.Seeds
		open, before = ceil(open, s.Scheduler.Eta), rung
	}
	for _, a := range s.gridArms() {
		p.Tokens += a.Tokens * p.Seeds
	}
	return p
}

// Write writes the plan as a table.
func (p Plan) Write(w io.Writer) error {
	fmt.Fprintln(w, diag.Printable(fmt.Sprintf("%s: %d arms, %d seeds, at most %d tokens of training", p.Study, len(p.Arms), p.Seeds, p.Tokens)))
	rows := [][]string{{"ARM", "CHANGES"}}
	for _, a := range p.Arms {
		text := strings.Join(a.Changes, "; ")
		if a.Same != "" {
			text = "same recipe as " + a.Same
		}
		rows = append(rows, []string{a.Arm, text})
	}
	return table(w, rows)
}

// Describe formats a row in one line.
func Describe(row chain.Row) string {
	var p Payload
	text := fmt.Sprintf("%s  row %d: %s", row.Time, row.Seq, row.Event)
	if json.Unmarshal(row.Payload, &p) != nil {
		return text
	}
	if p.Arm != "" {
		text += fmt.Sprintf(" %s seed %d", p.Arm, p.Seed)
	}
	var r Result
	if len(p.Result) > 0 && json.Unmarshal(p.Result, &r) == nil {
		if r.Diverged != "" {
			text += ": diverged: " + r.Diverged
		} else {
			text += fmt.Sprintf(": loss %.4f", r.loss())
		}
	}
	switch row.Event {
	case Chosen:
		text += fmt.Sprintf(" at %d tokens: keeps %d arms, drops %d", p.Rung, len(p.Kept), len(p.Dropped))
	case Exhausted:
		text += ": " + p.Reason
	case Sealed:
		text += ": chosen " + p.Winner
	}
	return diag.Printable(text)
}
