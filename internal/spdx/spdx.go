// Package spdx reads SPDX licence expressions (SPDX specification 2.3, annex
// D): identifiers of the SPDX list, LicenseRef- names, the + suffix, WITH an
// exception, AND, OR and parentheses. The lists are SPDX's own, version 3.24
// of the data (CC0), embedded as they are.
package spdx

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/spell"
)

//go:embed licenses.txt
var licenses string

//go:embed exceptions.txt
var exceptions string

// maxExpression bounds an expression's length in bytes and so its nesting.
const maxExpression = 1024

// Expression is a licence expression that has been read.
type Expression struct {
	IDs  []string // every identifier in it, sorted, in the list's own spelling
	text string
}

// String is the expression as it was written, blanks normalised.
func (e Expression) String() string { return e.text }

// Parse reads an expression. The error names the first thing that is wrong.
func Parse(s string) (Expression, error) {
	if len(s) > maxExpression {
		return Expression{}, fmt.Errorf("licence expression of %d bytes is over the limit of %d", len(s), maxExpression)
	}
	p := parser{tokens: tokens(s)}
	if err := p.or(); err != nil {
		return Expression{}, err
	}
	if t := p.peek(); t != "" {
		return Expression{}, fmt.Errorf("%q does not belong here", t)
	}
	slices.Sort(p.ids)
	text := strings.NewReplacer("( ", "(", " )", ")").Replace(strings.Join(p.tokens, " "))
	return Expression{slices.Compact(p.ids), text}, nil
}

func tokens(s string) []string {
	return strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s))
}

type parser struct {
	tokens []string
	at     int
	ids    []string
}

func (p *parser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return ""
}

// or, and, with and simple are the grammar's levels, loosest first.
func (p *parser) or() error  { return p.chain("OR", p.and) }
func (p *parser) and() error { return p.chain("AND", p.with) }

func (p *parser) chain(op string, next func() error) error {
	for {
		if err := next(); err != nil {
			return err
		}
		if p.peek() != op && p.peek() != strings.ToLower(op) {
			return nil
		}
		p.at++
	}
}

func (p *parser) with() error {
	if p.peek() == "(" {
		p.at++
		if err := p.or(); err != nil {
			return err
		}
		if p.peek() != ")" {
			return fmt.Errorf("a ( is not closed")
		}
		p.at++
		return nil
	}
	if err := p.simple(); err != nil {
		return err
	}
	if p.peek() != "WITH" {
		return nil
	}
	p.at++
	id := p.peek()
	if _, ok := find(exceptions, id); !ok {
		return fmt.Errorf("%q is no SPDX exception", id)
	}
	p.at++
	return nil
}

func (p *parser) simple() error {
	t := p.peek()
	if t == "" {
		return fmt.Errorf("a licence is missing at the end")
	}
	id := strings.TrimSuffix(t, "+")
	if ref, ok := strings.CutPrefix(id, "LicenseRef-"); ok && refName(ref) {
		p.ids = append(p.ids, id)
		p.at++
		return nil
	}
	known, ok := find(licenses, id)
	if !ok {
		return fmt.Errorf("%q is no SPDX licence identifier%s", t, p.suggest(id))
	}
	p.ids = append(p.ids, known)
	p.at++
	return nil
}

func refName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.')
	}) < 0
}

// find looks an identifier up without regard to case, as the specification
// asks, and returns the list's spelling.
func find(list, id string) (string, bool) {
	if id == "" {
		return "", false
	}
	for line := range strings.Lines(list) {
		if line = strings.TrimSuffix(line, "\n"); strings.EqualFold(line, id) {
			return line, true
		}
	}
	return "", false
}

// maxSuggested bounds how many identifiers a message names.
const maxSuggested = 3

// suggest names the identifiers that may have been meant: the next word joined
// on (Apache 2.0), a slip (MITT), or the family's own (GPL).
func (p *parser) suggest(id string) string {
	if p.at+1 < len(p.tokens) {
		if known, ok := find(licenses, id+"-"+p.tokens[p.at+1]); ok {
			return fmt.Sprintf("; did you mean %s?", known)
		}
	}
	all := strings.Fields(licenses)
	var family []string
	for _, l := range slices.Backward(all) { // the latest versions first
		if len(l) > len(id) && strings.EqualFold(l[:len(id)], id) && l[len(id)] == '-' && !strings.Contains(l, "-with-") && len(family) < maxSuggested {
			family = append(family, l)
		}
	}
	if len(family) > 0 {
		return "; there is " + strings.Join(family, ", ")
	}
	if known, ok := spell.Nearest(id, all); ok {
		return fmt.Sprintf("; did you mean %s?", known)
	}
	return ""
}
