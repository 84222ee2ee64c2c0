package spdx

import (
	_ "embed"
	"path"
	"strings"
	"sync"
)

//go:embed terms.txt
var terms string

// Kind is a condition for passing a work on.
type Kind string

// The kinds that limit combinations and uses of a work.
const (
	Copyleft      Kind = "copyleft"      // the whole work under the same terms, without further restrictions
	ShareAlike    Kind = "sharealike"    // changed material under the same terms
	NonCommercial Kind = "noncommercial" // no commercial use
	NoDerivatives Kind = "noderivatives" // no changed material
	Restricted    Kind = "restricted"    // forbidden uses, which every recipient has to accept
	Additional    Kind = "additional"    // terms that a copyleft license counts as a further restriction
)

// Terms are the limiting kinds of a license with the clauses that state them.
type Terms map[Kind]string

// TermsOf returns the terms of a license of [Expression.Choices]. It returns false if
// they are not known: a license outside of the table, or one with an exception.
func TermsOf(id string) (Terms, bool) {
	if rest, ok := strings.CutSuffix(id, "+"); ok {
		if id = rest; strings.Contains(rest, "GPL-") {
			id += "-or-later"
		}
	}
	id = strings.ToLower(id)
	for _, l := range table() {
		if ok, _ := path.Match(l.pattern, id); ok && !strings.Contains(id, " ") {
			return l.terms, true
		}
	}
	return nil, false
}

// line is a line of the table, with its pattern in lower case.
type line struct {
	pattern string
	terms   Terms
}

// table returns the table of terms.
var table = sync.OnceValue(func() (lines []line) {
	for text := range strings.Lines(terms) {
		pattern, list, _ := strings.Cut(strings.TrimSpace(text), " ")
		l := line{strings.ToLower(pattern), Terms{}}
		for term := range strings.SplitSeq(list, ", ") {
			if kind, clause, _ := strings.Cut(term, " "); clause != "" {
				l.terms[Kind(kind)] = clause
			}
		}
		lines = append(lines, l)
	}
	return lines
})

// maxChoices is the maximum number of choices that an expression is expanded to.
const maxChoices = 64

// Choices returns the sets of licenses of which a recipient may choose one, or nil if
// there are more than 64. A license with an exception is "ID WITH EXCEPTION".
func (e Expression) Choices() [][]string { return e.choices }

// either joins the choices of two sides of OR.
func either(a, b [][]string) [][]string {
	if a == nil || b == nil || len(a)+len(b) > maxChoices {
		return nil
	}
	return append(a, b...)
}

// both combines each choice of one side of AND with each of the other.
func both(a, b [][]string) [][]string {
	if len(a)*len(b) > maxChoices {
		return nil
	}
	var out [][]string
	for _, x := range a {
		for _, y := range b {
			out = append(out, append(append([]string{}, x...), y...))
		}
	}
	return out
}
