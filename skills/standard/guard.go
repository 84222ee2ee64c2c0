package standard

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

// finding is a part of a text.
type finding struct {
	Kind string `json:"kind"` // mail, phone, iban, card, ip, ssn, key; prompt, and the kinds of the list
	Text string `json:"text"`
	From int    `json:"from"` // byte offset
	To   int    `json:"to"`
}

// verdict is the result for a text.
type verdict struct {
	Allowed  bool      `json:"allowed"` // no listed word and no mark of a prompt
	Findings []finding `json:"findings"`
}

// guard checks texts; it may be used from several goroutines.
type guard struct {
	kinds []string
	words *aho.Trie
}

// newGuard returns a guard with the built-in list.
func newGuard() (*guard, error) {
	kinds, words, err := list()
	if err != nil {
		return nil, err
	}
	return &guard{kinds, aho.NewTrieBuilder().AddStrings(words).Build()}, nil
}

// safety returns the function of the skill safety: {"text": …, "op": …, "terms":
// […]} to {"result": …}. Op "check" returns a [verdict], "redact" the text
// with each finding replaced by its kind in brackets. Terms are additional
// words, of kind "term".
func safety() builtin.Func {
	g, err := newGuard()
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
			return map[string]any{"result": redact(args.Text, v.Findings)}, nil
		}
		return nil, sandbox.Faultf(sandbox.Args, "unknown op %q: want check or redact", args.Op)
	}
}

// Look returns the findings in the order of the text. Of overlapping findings,
// the longest remains.
func (g *guard) Look(text string, terms []string) (verdict, error) {
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
			return verdict{}, err
		}
		for _, m := range extra.Match(t.text) {
			if f, ok := t.finding(m, "term"); ok {
				found = append(found, f)
			}
		}
	}
	v := verdict{Allowed: true, Findings: withoutOverlaps(found)}
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
func withoutOverlaps(found []finding) []finding {
	slices.SortStableFunc(found, func(a, b finding) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return b.To - a.To
	})
	out := []finding{}
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

// redact replaces findings, which must be sorted and must not overlap.
func redact(text string, findings []finding) string {
	var b strings.Builder
	at := 0
	for _, f := range findings {
		b.WriteString(text[at:f.From] + "[" + f.Kind + "]")
		at = f.To
	}
	return b.String() + text[at:]
}
