package sign

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPatternMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, repository string
		want                bool
	}{
		{"registry.example/mm/**", "registry.example/mm/core-llm", true},
		{"registry.example/mm/**", "registry.example/mm/a/b/c", true},
		{"registry.example/mm/**", "registry.example/mm", true},
		{"registry.example/mm/**", "registry.example/mmx/core-llm", false},
		{"registry.example/mm/*", "registry.example/mm/core-llm", true},
		{"registry.example/mm/*", "registry.example/mm/a/b", false},
		{"registry.example/mm/*", "registry.example/mm", false},
		{"registry.example/mm/core-*", "registry.example/mm/core-llm", true},
		{"registry.example/mm/core-*", "registry.example/mm/core-", true},
		{"registry.example/mm/*-llm-*", "registry.example/mm/core-llm-3b", true},
		{"**", "localhost:5000/x", true},
		{"**/core-llm", "core-llm", true},
		{"**/core-llm", "a/b/core-llm", true},
		{"**/core-llm", "a/b/core-llm/c", false},
		{"a/**/b/**/c", "a/b/c", true},
		{"a/**/b/**/c", "a/x/b/y/b/z/c", true},
		{"a/**/b/**/c", "a/c/b", false},
		{"localhost:*/x", "localhost:5000/x", true},
		{"[::1]:5000/x", "[::1]:5000/x", true},
		{"Registry.Example/mm", "registry.EXAMPLE/mm", true},
		{"registry.example/mm", "registry.example/MM", false},
		{"registry.example/mm", "registry.example/mm/", false},
		{"registry.example/mm", "", false},
	} {
		p, err := compilePattern(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		if got := p.match(splitRepository(tt.repository)); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.pattern, tt.repository, got)
		}
	}
	for _, bad := range []string{"", "/a", "a/", "a//b", "a/***", "a/b**", "a/**/**", "a b", "a/B", "a/é", "a/?", strings.Repeat("a", maxPattern+1)} {
		if _, err := compilePattern(bad); err == nil {
			t.Errorf("pattern %q was accepted", bad)
		}
	}
}

// TestPatternOrder lists patterns from the most specific to the least; each
// precedes all that follow it.
func TestPatternOrder(t *testing.T) {
	list := []string{"r/team/core", "r/team/core-*", "r/team/c*", "r/team/*", "r/team/**/x", "r/team/**", "r/t*/core", "r/*/core", "r/*/*", "r/*", "r/**/core", "r/**", "*/team/core", "**/core", "**"}
	for i, a := range list {
		for j, b := range list {
			p, errP := compilePattern(a)
			q, errQ := compilePattern(b)
			if errP != nil || errQ != nil {
				t.Fatal(errP, errQ)
			}
			want := 0
			if i < j {
				want = 1
			} else if i > j {
				want = -1
			}
			if got := p.compare(q); got != want {
				t.Errorf("%s against %s: %d, want %d", a, b, got, want)
			}
		}
	}
}

// TestPatternMatchAgainstRecursion compares the matcher with the definition.
func TestPatternMatchAgainstRecursion(t *testing.T) {
	var slow func(p, s string) bool
	slow = func(p, s string) bool {
		if p == "" {
			return s == ""
		}
		if p[0] == '*' {
			return slow(p[1:], s) || s != "" && slow(p, s[1:])
		}
		return s != "" && p[0] == s[0] && slow(p[1:], s[1:])
	}
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(letters string, n int) string {
		b := make([]byte, r.IntN(n))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	matched := 0
	for range 20_000 {
		p, s := pick("ab*", 8), pick("ab", 10)
		want := slow(p, s)
		if want {
			matched++
		}
		if got := matchElement(p, s); got != want {
			t.Fatalf("%q against %q: %v, want %v", p, s, got, want)
		}
	}
	if matched < 1000 {
		t.Errorf("only %d of the cases match", matched)
	}
}

func TestPolicyMostSpecificRuleWins(t *testing.T) {
	a, b := newKey(t, P256), newKey(t, Ed25519)
	p := Policy{
		Rules: []Rule{
			{Match: "registry.example/**", Keys: []string{"a"}},
			{Match: "registry.example/prod/**", Keys: []string{"b"}},
			{Match: "registry.example/prod/core-llm", Keys: []string{"a", "b"}, Threshold: 2},
		},
		Keys: map[string]TrustedKey{"a": {PEM: a.pem, NotAfter: now}, "b": {PEM: b.pem}},
	}
	idA, idB := a.private.Public().KeyID(), b.private.Public().KeyID()
	for _, tt := range []struct {
		repository string
		now        time.Time
		ids        []string
		rule       string
		want       Reason
	}{
		{"registry.example/dev/x", now, []string{idA}, "registry.example/**", ""},
		{"registry.example/dev/x", now.Add(1), []string{idA}, "", Expired},
		{"registry.example/dev/x", now, []string{idB}, "", Scope},
		{"registry.example/prod/x", now, []string{idB, idB}, "registry.example/prod/**", ""},
		{"registry.example/prod/x", now, []string{idA}, "", Scope},
		{"registry.example/prod/x", now, []string{idA, strings.Repeat("0", 64)}, "", Scope},
		{"registry.example/prod/core-llm", now, []string{idA, idA}, "", Threshold},
		{"registry.example/prod/core-llm", now, []string{idA, idB}, "registry.example/prod/core-llm", ""},
		{"registry.example/prod/core-llm", now.Add(1), []string{idA, idB}, "", Threshold},
		{"registry.example/dev/x", now, []string{strings.Repeat("0", 64)}, "", UnknownKey},
		{"registry.example/dev/x", now, nil, "", Unsigned},
		{"elsewhere/x", now, []string{idA}, "", NoRule},
	} {
		d, err := p.Check(tt.repository, tt.now, tt.ids...)
		var r *Refusal
		if tt.want == "" && (err != nil || d.Rule != tt.rule) || tt.want != "" && (!errors.As(err, &r) || r.Reason != tt.want) {
			t.Errorf("%s: %+v, %v; want %q by rule %q", tt.repository, d, err, tt.want, tt.rule)
		}
	}
}

func TestPolicyZeroTrustsNobody(t *testing.T) {
	var p Policy
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := p.Check("anything", now, "anyone"); !errors.Is(err, &Refusal{Reason: NoRule}) {
		t.Errorf("%v, want %s", err, NoRule)
	}
	p.Default = Warn
	d, err := p.Check("anything", now)
	if err != nil || d.Warned == nil {
		t.Errorf("%+v, %v; want a warning", d, err)
	}
}

func TestPolicyFaultsAreTyped(t *testing.T) {
	err := (&Policy{Rules: []Rule{{Match: "a"}}}).Validate()
	var fault *PolicyError
	if !errors.As(err, &fault) {
		t.Fatalf("%v is not a PolicyError", err)
	}
	if diff := cmp.Diff(&PolicyError{Path: "rules[0].keys", Detail: "0 keys; a rule names 1 to 64"}, fault); diff != "" {
		t.Error(diff)
	}
}

// FuzzPolicyCheck holds that whatever rules and repositories there are, a
// repository passes only if a rule that matches it holds the key, and that the
// order of the rules plays no part.
func FuzzPolicyCheck(f *testing.F) {
	k := newKey(f, Ed25519)
	id := k.private.Public().KeyID()
	f.Add("registry.example/team/**", "registry.example/*/x", "registry.example/team/x")
	f.Add("**", "a/*b", "a/ab")
	f.Add("a*/x", "*b/x", "ab/x")
	f.Add("[::1]:5000/**", "localhost:5000/a", "localhost:5000/a")
	f.Fuzz(func(t *testing.T, a, b, repository string) {
		keys := map[string]TrustedKey{"k": {PEM: k.pem}}
		rules := []Rule{{Match: a, Keys: []string{"k"}}, {Match: b, Keys: []string{"k"}}}
		p := Policy{Keys: keys, Rules: rules}
		if p.Validate() != nil {
			return
		}
		d, err := p.Check(repository, now, id)
		swapped := Policy{Keys: keys, Rules: []Rule{rules[1], rules[0]}}
		d2, err2 := swapped.Check(repository, now, id)
		if d.Rule != d2.Rule || (err == nil) != (err2 == nil) {
			t.Fatalf("order matters: %v %v, %v %v", d, err, d2, err2)
		}
		matches := 0
		for _, r := range rules {
			compiled, _ := compilePattern(r.Match)
			if compiled.match(splitRepository(repository)) {
				matches++
			}
		}
		var r *Refusal
		switch {
		case err == nil && matches == 0, err != nil && !errors.As(err, &r):
			t.Fatalf("%d rules match, %v", matches, err)
		case err != nil && r.Reason == NoRule && matches > 0, err != nil && r.Reason == AmbiguousRule && matches < 2:
			t.Fatalf("%d rules match, %v", matches, err)
		}
	})
}
