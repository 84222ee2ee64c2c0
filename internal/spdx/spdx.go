// Package spdx parses SPDX license expressions (SPDX specification 2.3, annex D):
// identifiers of the SPDX list, LicenseRef- names, the + suffix, WITH an exception, AND, OR
// and parentheses. The embedded lists are those of SPDX data version 3.24 (CC0).
package spdx

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

//go:embed licenses.txt
var licenses string

//go:embed exceptions.txt
var exceptions string

// maxExpression is the maximum length of an expression in bytes, which also limits its
// nesting.
const maxExpression = 1024

// Expression is a parsed license expression.
type Expression struct {
	IDs     []string // identifiers, sorted, as spelled in the list
	text    string
	choices [][]string
}

// String returns the expression as written, with normalized spaces.
func (e Expression) String() string { return e.text }

// Parse parses an expression. The error names the first fault.
func Parse(s string) (Expression, error) {
	if len(s) > maxExpression {
		return Expression{}, fmt.Errorf("license expression too long: got %d bytes, limit %d", len(s), maxExpression)
	}
	p := parser{tokens: tokens(s)}
	choices, err := p.or()
	if err != nil {
		return Expression{}, err
	}
	if t := p.peek(); t != "" {
		return Expression{}, fmt.Errorf("unexpected %q", t)
	}
	slices.Sort(p.ids)
	text := strings.NewReplacer("( ", "(", " )", ")").Replace(strings.Join(p.tokens, " "))
	return Expression{slices.Compact(p.ids), text, choices}, nil
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

// or, and, with and simple parse the levels of the grammar, lowest precedence first, and
// return the choices that they leave.
func (p *parser) or() ([][]string, error)  { return p.chain("OR", p.and, either) }
func (p *parser) and() ([][]string, error) { return p.chain("AND", p.with, both) }

func (p *parser) chain(op string, next func() ([][]string, error), join func(a, b [][]string) [][]string) ([][]string, error) {
	left, err := next()
	for err == nil && (p.peek() == op || p.peek() == strings.ToLower(op)) {
		p.at++
		var right [][]string
		right, err = next()
		left = join(left, right)
	}
	return left, err
}

func (p *parser) with() ([][]string, error) {
	if p.peek() == "(" {
		p.at++
		choices, err := p.or()
		if err != nil {
			return nil, err
		}
		if p.peek() != ")" {
			return nil, errors.New("missing )")
		}
		p.at++
		return choices, nil
	}
	id, err := p.simple()
	if err != nil {
		return nil, err
	}
	if p.peek() != "WITH" {
		return [][]string{{id}}, nil
	}
	p.at++
	exception, ok := find(exceptions, p.peek())
	if !ok {
		return nil, fmt.Errorf("unknown SPDX exception %q", p.peek())
	}
	p.at++
	return [][]string{{id + " WITH " + exception}}, nil
}

// simple parses one license and returns it with its + suffix, if any.
func (p *parser) simple() (string, error) {
	t := p.peek()
	if t == "" {
		return "", errors.New("missing license at the end")
	}
	id := strings.TrimSuffix(t, "+")
	spelling, ok := id, false
	if ref, isRef := strings.CutPrefix(id, "LicenseRef-"); isRef && refName(ref) {
		ok = true
	} else {
		spelling, ok = find(licenses, id)
	}
	if !ok {
		return "", fmt.Errorf("unknown SPDX license identifier %q%s", t, p.suggest(id))
	}
	p.ids = append(p.ids, spelling)
	p.at++
	return spelling + t[len(id):], nil
}

func refName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.')
	}) < 0
}

// find looks up an identifier, ignoring case as the specification requires, and returns the
// spelling of the list.
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

// maxSuggested is the maximum number of suggested identifiers.
const maxSuggested = 3

// suggest returns identifiers that may have been meant: the next word joined (Apache 2.0),
// a typo (MITT), or members of the family (GPL).
func (p *parser) suggest(id string) string {
	if p.at+1 < len(p.tokens) {
		if spelling, ok := find(licenses, id+"-"+p.tokens[p.at+1]); ok {
			return fmt.Sprintf("; did you mean %s?", spelling)
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
		return "; did you mean " + strings.Join(family, ", ")
	}
	if spelling, ok := diag.Nearest(id, all); ok {
		return fmt.Sprintf("; did you mean %s?", spelling)
	}
	return ""
}
