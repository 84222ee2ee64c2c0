// Package guard is the tool safety: it looks for what a text should not have.
//
// Three things are looked for: words of a list (list.go), by one pass of an
// Aho-Corasick automaton over the text as a reader would hear it; data of persons
// (person.go), by form and by checksum; and marks of a prompt that gives itself out
// for more than a user's text (prompt.go). It is a net with known holes, not a
// judgement: docs/SKILLS.md says what it is measured on.
package guard

import (
	"encoding/json"
	"slices"
	"strings"

	aho "github.com/BobuSumisu/aho-corasick"

	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// Bounds of a call.
const (
	maxFindings = 256
	maxTerms    = 256
	maxTerm     = 128 // bytes
)

// Finding is a part of a text.
type Finding struct {
	Kind string `json:"kind"` // mail, phone, iban, card, ip, ssn, key; prompt, and the kinds of the list
	Text string `json:"text"`
	From int    `json:"from"` // bytes
	To   int    `json:"to"`
}

// Verdict is what came of a text.
type Verdict struct {
	Allowed  bool      `json:"allowed"` // it has no word of the list and no mark of a prompt
	Findings []Finding `json:"findings"`
}

// Guard looks at texts; it may be used from several goroutines.
type Guard struct {
	kinds []string
	words *aho.Trie
}

// New makes a guard of the list that is part of mm.
func New() (*Guard, error) {
	kinds, words, err := list()
	if err != nil {
		return nil, err
	}
	return &Guard{kinds, aho.NewTrieBuilder().AddStrings(words).Build()}, nil
}

// Tool makes the function of the skill safety: {"text": …, "op": …, "terms":
// […]} to {"result": …}. Op "check" gives a [Verdict], "redact" the text with
// each finding replaced by its kind in brackets. Terms are more words to look for,
// of kind "term".
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
		return nil, sandbox.Faultf(sandbox.Args, "there is no op %q: check, redact", args.Op)
	}
}

// Look finds what a text should not have, in its order. Where two findings
// overlap, the longer one stands.
func (g *Guard) Look(text string, terms []string) (Verdict, error) {
	t := hear(text)
	found := append(persons(text), marks(text)...)
	for _, m := range g.words.Match(t.heard) {
		if f, ok := t.finding(m, g.kinds[m.Pattern()]); ok {
			found = append(found, f)
		}
	}
	if len(terms) > 0 {
		own, err := trie(terms)
		if err != nil {
			return Verdict{}, err
		}
		for _, m := range own.Match(t.heard) {
			if f, ok := t.finding(m, "term"); ok {
				found = append(found, f)
			}
		}
	}
	v := Verdict{Allowed: true, Findings: apart(found)}
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

// trie is an automaton of the caller's terms.
func trie(terms []string) (*aho.Trie, error) {
	if len(terms) > maxTerms {
		return nil, sandbox.Faultf(sandbox.Args, "%d terms; %d are the limit", len(terms), maxTerms)
	}
	var words []string
	for _, s := range terms {
		h := strings.TrimSpace(string(hear(s).heard))
		if h == "" || len(s) > maxTerm {
			return nil, sandbox.Faultf(sandbox.Args, "a term has 1 to %d bytes with a letter or digit", maxTerm)
		}
		words = append(words, h)
	}
	return aho.NewTrieBuilder().AddStrings(words).Build(), nil
}

// apart sorts findings and leaves out what another one covers or meets.
func apart(found []Finding) []Finding {
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

// Redact replaces findings, which are apart and in order.
func Redact(text string, findings []Finding) string {
	var b strings.Builder
	at := 0
	for _, f := range findings {
		b.WriteString(text[at:f.From] + "[" + f.Kind + "]")
		at = f.To
	}
	return b.String() + text[at:]
}
