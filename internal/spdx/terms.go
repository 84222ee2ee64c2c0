package spdx

import (
	_ "embed"
	"path"
	"strings"
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
	for line := range strings.Lines(terms) {
		pattern, list, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ok, _ := path.Match(strings.ToLower(pattern), strings.ToLower(id)); !ok || strings.Contains(id, " ") {
			continue
		}
		t := Terms{}
		for term := range strings.SplitSeq(list, ", ") {
			kind, clause, _ := strings.Cut(term, " ")
			if clause != "" {
				t[Kind(kind)] = clause
			}
		}
		return t, true
	}
	return nil, false
}

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
