// Package pii finds personal data in text: e-mail addresses, phone numbers, payment
// cards, IBANs, US social security numbers, IP addresses and Bitcoin addresses.
//
// A finding has a score. A checksum or a complete grammar yields 1; a form alone
// yields less, and words around it, such as "phone" or "version", raise or lower
// it ([Detector.Find]). Names and street addresses are not found: they need a
// model.
package pii

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of personal data.
type Kind string

// The kinds.
const (
	Email   Kind = "email"
	Phone   Kind = "phone"
	Card    Kind = "card"
	IBAN    Kind = "iban"
	SSN     Kind = "ssn"
	IPv4    Kind = "ipv4"
	IPv6    Kind = "ipv6"
	Bitcoin Kind = "bitcoin"
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{Email, Phone, Card, IBAN, SSN, IPv4, IPv6, Bitcoin} }

// DefaultScore is the least score of a finding.
const DefaultScore = 0.5

// Finding is a finding in a text: the bytes from Start to End.
type Finding struct {
	Kind  Kind    `json:"kind"`
	Start int     `json:"start"`
	End   int     `json:"end"`
	Score float64 `json:"score"`
}

// Detector finds personal data. It is safe for concurrent use.
type Detector struct {
	kinds map[Kind]bool
	score float64
}

// New returns a detector of the kinds, all by default, that ignores
// findings below the score.
func New(kinds []Kind, score float64) *Detector {
	d := &Detector{map[Kind]bool{}, score}
	if len(kinds) == 0 {
		kinds = Kinds()
	}
	for _, k := range kinds {
		d.kinds[k] = true
	}
	return d
}

// Find returns the findings in a text, in order and without overlaps: of
// overlapping ones the highest score counts, then the longest.
func (d *Detector) Find(text string) []Finding {
	s := scan{text: text}
	s.run()
	if len(s.found) == 0 {
		return nil
	}
	kept := s.found[:0]
	for _, f := range s.found {
		if f.Score = f.Score + around(text, f); f.Score > 1 || checked[f.Kind] {
			f.Score = 1
		}
		if d.kinds[f.Kind] && f.Score >= d.score-1e-9 {
			kept = append(kept, f)
		}
	}
	slices.SortStableFunc(kept, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.End-b.Start, a.End-a.Start), cmp.Compare(a.Start, b.Start))
	})
	var out []Finding
	for _, f := range kept {
		if !slices.ContainsFunc(out, func(g Finding) bool { return f.Start < g.End && g.Start < f.End }) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// checked are the kinds with a checksum or a complete grammar.
var checked = map[Kind]bool{Email: true, Card: true, IBAN: true, Bitcoin: true}

// Placeholder returns the text that replaces a finding of the kind.
func Placeholder(k Kind) string { return "<" + strings.ToUpper(string(k)) + ">" }

// Replace replaces findings, in order and without overlaps, by placeholders.
func Replace(text string, found []Finding) string {
	var b strings.Builder
	at := 0
	for _, f := range found {
		if f.Start < at || f.End > len(text) {
			panic(fmt.Sprintf("pii: finding %d to %d after %d of %d", f.Start, f.End, at, len(text)))
		}
		b.WriteString(text[at:f.Start])
		b.WriteString(Placeholder(f.Kind))
		at = f.End
	}
	b.WriteString(text[at:])
	return b.String()
}
