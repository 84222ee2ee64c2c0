// Package diag describes the faults of users' files: a position, a stable code, a
// summary, both values and a hint.
//
// A check collects every fault in a [List] instead of stopping at the first. The
// list is printed by [List.Text] for logs, [List.Render] for a terminal,
// [List.JSON] for programs and [List.GitHub] for annotations in CI. The table of
// codes (table.go) is the source of docs/DIAGNOSTICS.md; the meaning of a code
// never changes. Hints propose the nearest spelling of a name.
package diag

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a file. Line and Col count from 1; Col counts characters. If
// Line is 0, it is the whole file; if File is empty, the command line.
type Pos struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// String formats the position as file:line:col, without the unknown parts.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Severity is the severity of a diagnostic.
type Severity string

// The severities, most severe first. Only Error makes a list fail.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Diagnostic is a message about a user's file.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Code     Code     `json:"code"`
	Pos      Pos      `json:"pos"`
	Summary  string   `json:"summary"`          // the fixed text of the code
	Detail   string   `json:"detail,omitempty"` // both values and their origin
	Hint     string   `json:"hint,omitempty"`   // what to do
}

// String formats the diagnostic in one line: pos: severity code: summary: detail.
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

// List holds the diagnostics of an operation.
type List []Diagnostic

// Add appends an error with the summary of the code.
func (l *List) Add(code Code, pos Pos, detail, hint string) {
	l.add(Error, code, pos, detail, hint)
}

// Warn appends a warning with the summary of the code.
func (l *List) Warn(code Code, pos Pos, detail, hint string) {
	l.add(Warning, code, pos, detail, hint)
}

// Note appends a note with the summary of the code.
func (l *List) Note(code Code, pos Pos, detail, hint string) {
	l.add(Note, code, pos, detail, hint)
}

func (l *List) add(s Severity, code Code, pos Pos, detail, hint string) {
	*l = append(*l, Diagnostic{s, code, pos, code.Summary(), detail, hint})
}

// Count returns the number of diagnostics with severity s.
func (l List) Count(s Severity) int {
	n := 0
	for _, d := range l {
		if d.Severity == s {
			n++
		}
	}
	return n
}

// Failed reports whether the list contains an error.
func (l List) Failed() bool { return l.Count(Error) > 0 }

// Err returns the list as an error, or nil if it contains no error.
func (l List) Err() error {
	if !l.Failed() {
		return nil
	}
	return &Faults{List: l}
}

// Sort sorts by file, line, column and code, and removes exact duplicates.
func (l *List) Sort() {
	slices.SortStableFunc(*l, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Detail, b.Detail))
	})
	*l = slices.Compact(*l)
}

// Faults is an error with a list that contains at least one error.
type Faults struct{ List List }

// Error returns the first error and the number of further ones.
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

// From returns the list in err; ok is false if there is none.
func From(err error) (List, bool) {
	var f *Faults
	if errors.As(err, &f) {
		return f.List, true
	}
	return nil, false
}
