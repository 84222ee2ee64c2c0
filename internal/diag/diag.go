// Package diag holds what users read about their own files: a position, a
// stable code, what is wrong, both values and a way out.
//
// A check collects every fault it finds into a [List]; nothing stops at the
// first. A printer of this package renders the list: [List.Text] for
// logs, [List.Render] for a terminal, [List.JSON] for machines, [List.GitHub]
// for annotations in CI. The table of
// codes (codes.go) is the source of docs/DIAGNOSTICS.md; a code keeps its
// meaning for ever.
package diag

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a file. Line and Col count from 1; Col counts characters. A
// zero Line means the file as a whole, an empty File the command line.
type Pos struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// String is file:line:col, as far as it is known.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Severity says whether a diagnostic stops the work.
type Severity string

// The severities, worst first. Only Error makes a list fail.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Diagnostic is one message about a user's file.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Code     Code     `json:"code"`
	Pos      Pos      `json:"pos"`
	Summary  string   `json:"summary"`          // what is wrong, in fixed words
	Detail   string   `json:"detail,omitempty"` // both values, and where they come from
	Hint     string   `json:"hint,omitempty"`   // what to do about it
}

// String is the one-line form: pos: severity code: summary: detail.
func (d Diagnostic) String() string {
	var b strings.Builder
	if p := d.Pos.String(); p != "" {
		b.WriteString(p + ": ")
	}
	fmt.Fprintf(&b, "%s %s: %s", d.Severity, d.Code, d.Summary)
	if d.Detail != "" {
		b.WriteString(": " + d.Detail)
	}
	return b.String()
}

// List is every diagnostic of one piece of work.
type List []Diagnostic

// Add appends an error with the code's own summary from the table.
func (l *List) Add(code Code, pos Pos, detail, hint string) {
	l.add(Error, code, pos, detail, hint)
}

// Warn appends a warning with the code's summary.
func (l *List) Warn(code Code, pos Pos, detail, hint string) {
	l.add(Warning, code, pos, detail, hint)
}

// Note appends a note with the code's summary.
func (l *List) Note(code Code, pos Pos, detail, hint string) {
	l.add(Note, code, pos, detail, hint)
}

func (l *List) add(s Severity, code Code, pos Pos, detail, hint string) {
	*l = append(*l, Diagnostic{s, code, pos, code.Summary(), detail, hint})
}

// Count is the number of diagnostics of severity s.
func (l List) Count(s Severity) int {
	n := 0
	for _, d := range l {
		if d.Severity == s {
			n++
		}
	}
	return n
}

// Failed reports whether the list holds an error.
func (l List) Failed() bool { return l.Count(Error) > 0 }

// Err is the list as an error, or nil when it holds no error.
func (l List) Err() error {
	if !l.Failed() {
		return nil
	}
	return &Faults{List: l}
}

// Sort orders by file, line, column and code, and drops exact repeats.
func (l *List) Sort() {
	slices.SortStableFunc(*l, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Detail, b.Detail))
	})
	*l = slices.Compact(*l)
}

// Faults carries a list that holds at least one error through code that
// speaks of plain errors.
type Faults struct{ List List }

// Error is the first fault and how many more there are.
func (f *Faults) Error() string {
	for _, d := range f.List {
		if d.Severity == Error {
			if n := f.List.Count(Error); n > 1 {
				return fmt.Sprintf("%s (and %d more)", d, n-1)
			}
			return d.String()
		}
	}
	return "no fault"
}

// From returns the list that err carries, and whether it carries one.
func From(err error) (List, bool) {
	var f *Faults
	if errors.As(err, &f) {
		return f.List, true
	}
	return nil, false
}
