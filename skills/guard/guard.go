// Package guard implements the tool safety, which finds unwanted parts of a
// text.
//
// It finds words of a list (list.go), in one pass of an Aho-Corasick automaton
// over a normalized text; personal data (person.go), by form and checksum; and
// marks of prompts that pretend to be more than a user's text (prompt.go). It
// is a filter with known gaps; docs/SKILLS.md describes what it was measured
// on.
package guard

import (
	"encoding/json"
	"slices"
	"strings"

	aho "github.com/BobuSumisu/aho-corasick"

	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// Limits of a call.
const (
	maxFindings = 256
	maxTerms    = 256
	maxTerm     = 128 // bytes
)

// Finding is a part of a text.
type Finding struct {
	Kind string `json:"kind"` // mail, phone, iban, card, ip, ssn, key; prompt, and the kinds of the list
	Text string `json:"text"`
	From int    `json:"from"` // byte offset
	To   int    `json:"to"`
}

// Verdict is the result for a text.
type Verdict struct {
	Allowed  bool      `json:"allowed"` // no listed word and no mark of a prompt
	Findings []Finding `json:"findings"`
}

// Guard checks texts; it may be used from several goroutines.
type Guard struct {
	kinds []string
	words *aho.Trie
}

// New returns a guard with the built-in list.
func New() (*Guard, error) {
	kinds, words, err := list()
	if err != nil {
		return nil, err
	}
	return &Guard{kinds, aho.NewTrieBuilder().AddStrings(words).Build()}, nil
}

// Tool returns the function of the skill safety: {"text": …, "op": …, "terms":
// […]} to {"result": …}. Op "check" returns a [Verdict], "redact" the text
// with each finding replaced by its kind in brackets. Terms are additional
// words, of kind "term".
func Tool() builtin.Func {
	g, err := New()
	return func(call *builtin.Call) (any, error) {
		if err != nil {
			return nil, err
		}
		var args struct {
			Text, Op string
			Terms    []string
		}
		if err := json.Unmarshal(call.Args, &args); err != nil {
			return nil, sandbox.Faultf(sandbox.Args, "reading the arguments: %v", err)
		}
		if err := call.Hold(int64(len(args.Text)) * 16); err != nil {
			return nil, err
		}
		if err := call.Step(int64(len(args.Text)) * 64); err != nil {
			return nil, err
		}
		v, err := g.Look(args.Text, args.Terms)
		if err != nil {
			return nil, err
		}
		switch args.Op {
		case "check":
			return map[string]any{"result": v}, nil
		case "redact":
			return map[string]any{"result": Redact(args.Text, v.Findings)}, nil
		}
		return nil, sandbox.Faultf(sandbox.Args, "unknown op %q: want check or redact", args.Op)
	}
}

// Look returns the findings in the order of the text. Of overlapping findings,
// the longest remains.
func (g *Guard) Look(text string, terms []string) (Verdict, error) {
	t := normalize(text)
	found := append(persons(text), marks(text)...)
	for _, m := range g.words.Match(t.text) {
		if f, ok := t.finding(m, g.kinds[m.Pattern()]); ok {
			found = append(found, f)
		}
	}
	if len(terms) > 0 {
		extra, err := trie(terms)
		if err != nil {
			return Verdict{}, err
		}
		for _, m := range extra.Match(t.text) {
			if f, ok := t.finding(m, "term"); ok {
				found = append(found, f)
			}
		}
	}
	v := Verdict{Allowed: true, Findings: withoutOverlaps(found)}
	for _, f := range v.Findings {
		if !isPerson(f.Kind) {
			v.Allowed = false
		}
	}
	if len(v.Findings) > maxFindings {
		return v, sandbox.Faultf(sandbox.Args, "more than %d findings", maxFindings)
	}
	return v, nil
}

// trie returns an automaton of the caller's terms.
func trie(terms []string) (*aho.Trie, error) {
	if len(terms) > maxTerms {
		return nil, sandbox.Faultf(sandbox.Args, "too many terms: got %d, limit %d", len(terms), maxTerms)
	}
	var words []string
	for _, s := range terms {
		h := strings.TrimSpace(string(normalize(s).text))
		if h == "" || len(s) > maxTerm {
			return nil, sandbox.Faultf(sandbox.Args, "invalid term: want 1 to %d bytes with a letter or digit", maxTerm)
		}
		words = append(words, h)
	}
	return aho.NewTrieBuilder().AddStrings(words).Build(), nil
}

// withoutOverlaps sorts findings and drops those that a longer one overlaps.
func withoutOverlaps(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return b.To - a.To
	})
	out := []Finding{}
	for _, f := range found {
		if n := len(out); n > 0 && f.From < out[n-1].To {
			if f.To-f.From > out[n-1].To-out[n-1].From {
				out[n-1] = f
			}
			continue
		}
		out = append(out, f)
	}
	return out
}

// Redact replaces findings, which must be sorted and must not overlap.
func Redact(text string, findings []Finding) string {
	var b strings.Builder
	at := 0
	for _, f := range findings {
		b.WriteString(text[at:f.From] + "[" + f.Kind + "]")
		at = f.To
	}
	return b.String() + text[at:]
}
