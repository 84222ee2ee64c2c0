package automaton

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every number of a few digits is in the language if it is in the range.
func TestDecimals(t *testing.T) {
	rat := func(s string) *big.Rat {
		if s == "" {
			return nil
		}
		x, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatal(s)
		}
		return x
	}
	for _, c := range []struct {
		lo, hi             string
		openLo, openHi     bool
		integer, fractions int
	}{
		{"", "", false, false, 2, 1}, {"0", "", false, false, 2, 0}, {"-37", "105", false, false, 3, 0},
		{"99", "1000", true, true, 15, 0}, {"-0.5", "12.25", false, true, 3, 2}, {"0.05", "0.3", true, true, 2, 2},
		{"", "-3", false, false, 2, 1}, {"-3", "-2.5", true, false, 2, 2}, {"7", "7", false, false, 3, 1}, {"0", "0", false, false, 3, 1},
		{"0", "1", true, false, 2, 2}, {"5", "4", false, false, 2, 1}, {"7", "7", true, false, 3, 1}, {"1.5", "1.6", true, true, 3, 0},
	} {
		lo, hi := Bound{rat(c.lo), c.openLo}, Bound{rat(c.hi), c.openHi}
		d, err := Decimals(lo, hi, Digits{c.integer, c.fractions, 15})
		if err != nil {
			t.Fatal(err)
		}
		for x := -4000; x <= 120000; x += 7 + max(0, x/20) {
			for places := range 3 { // -40 to 1200
				text := fmt.Sprintf("%.*f", places, float64(x)/100)
				v := rat(text)
				integer := strings.TrimPrefix(strings.Split(text, ".")[0], "-")
				want := places <= c.fractions && len(integer) <= c.integer &&
					(lo.At == nil || v.Cmp(lo.At) > 0 || v.Cmp(lo.At) == 0 && !lo.Open) &&
					(hi.At == nil || v.Cmp(hi.At) < 0 || v.Cmp(hi.At) == 0 && !hi.Open) &&
					(text[0] != '-' || v.Sign() != 0)
				if got := d.Label(text) == 0; got != want {
					t.Fatalf("%+v: %s is %v, want %v", c, text, got, want)
				}
			}
		}
		for _, none := range []string{"", "-", "00", "01", "1.", ".5", "+1", "1e1", "--1", "-00"} {
			if d.Label(none) != No {
				t.Errorf("%+v: %q is a number", c, none)
			}
		}
	}
}

func TestMultiples(t *testing.T) {
	for _, m := range []int{1, 2, 7, 60} {
		d, err := Multiples(m, 0)
		if err != nil {
			t.Fatal(err)
		}
		for x := -300; x < 300; x++ {
			if got := d.Label(fmt.Sprint(x)) == 0; got != (x%m == 0) {
				t.Errorf("%d of %d: %v", x, m, got)
			}
		}
	}
}

// Patterns match like Go's regexp, except where dialects disagree.
func TestPattern(t *testing.T) {
	for _, expr := range []string{
		"", "a", "^a", "a$", "^$", "^a*b?$", "[a-c]{2,3}", "^(?:ab|a)(?:c|bcd)(?:d*)$", "a.c", "^[^ab]+$", `\d+-\w`, `^\x61\u0062\/$`,
		"(a|b)*abb", "^(a|b)$|c", "x{0}", `^[\d.]{1,4}$`, "^a|b$", `[^\s]b`, "^[-a]+$", "(?:a?){5}b$",
	} {
		d, err := Pattern(expr)
		if err != nil {
			t.Errorf("%q: %v", expr, err)
			continue
		}
		re := regexp.MustCompile(strings.NewReplacer(`\u0062`, "b", `[^\s]`, `[!-~é]`).Replace(expr))
		rng := rand.New(rand.NewPCG(1, 2))
		letters := []rune("aaabbbcd.-0123 /xé")
		for range 300 {
			text := ""
			for range rng.IntN(8) {
				text += string(letters[rng.IntN(len(letters))])
			}
			want := re.MatchString(text)
			if strings.Contains(expr, `[^\s]`) && strings.Contains(text, "é") {
				continue
			}
			if got := d.Label(text) == 0; got != want {
				t.Fatalf("%q: %q is %v, want %v", expr, text, got, want)
			}
		}
	}
}

// Where dialects disagree, a pattern is refused, or contains only texts that
// all of them accept.
func TestDialects(t *testing.T) {
	for _, expr := range []string{
		`\bword`, `(?=a)`, `(?i)a`, `(?<n>a)`, `(a)\1`, `[[:alpha:]]`, `a{,3}`, `[^\W]`, `\p{L}`, `[]a]`, `[^]`, `\`, `\Z`, `\cA`, `\ud83d`,
		`[\w-z]`, `[a-\d]`, "a**", "(", "[a", `\k`, "\xff", strings.Repeat("a", 5000), "(?:(?:a{30}){30}){30}", ".*a.{14}$",
	} {
		if _, err := Pattern(expr); err == nil {
			t.Errorf("%.40q is read", expr)
		}
	}
	for _, c := range []struct{ expr, in, out string }{
		{`^\S$`, "a", "\u00a0"}, {`^\W$`, "-", "é"}, {`^\D$`, "x", "\u0663"}, {`^.$`, "é", "\u2028"}, {`^[^\s]$`, "!", "\u0085"}, {`^[^\d]$`, "x", "\u0663"}, {`^\s$`, "\f", "\u00a0"}, {`^\s$`, "\t", "\v"},
	} {
		d, err := Pattern(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		if d.Label(c.in) != 0 || d.Label(c.out) != No {
			t.Errorf("%s: %q is %d, %q is %d", c.expr, c.in, d.Label(c.in), c.out, d.Label(c.out))
		}
	}
}

func TestSets(t *testing.T) {
	must := func(d *DFA, err error) *DFA {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	words := must(Words([]string{"a", "ab", "é", ""}))
	for text, want := range map[string]int{"a": 0, "ab": 1, "é": 2, "": 3, "b": 4, "abc": 4, "\U0001F600": 4} {
		if got := words.Label(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
	both := must(Product([]*DFA{must(Pattern("^a+$")), must(Length(2, 4))}, All))
	if list, ok := both.Finite(3); !ok || strings.Join(list, " ") != "aa aaa aaaa" {
		t.Errorf("%q, %v", list, ok)
	}
	if _, ok := both.Finite(2); ok {
		t.Error("three texts are two at most")
	}
	if !both.Endless().Empty() {
		t.Error("three texts are endless")
	}
	mixed := must(Pattern("^(?:no|yes+)$"))
	if _, ok := mixed.Finite(100); ok {
		t.Error("yes+ is finite")
	}
	if d := mixed.Endless(); d.Label("no") != No || d.Label("yesss") != 0 {
		t.Errorf("endless: no %d, yesss %d", d.Label("no"), d.Label("yesss"))
	}
	if none := must(Product([]*DFA{must(Pattern("^a$")), must(Pattern("^b$"))}, All)); !none.Empty() {
		t.Error("a and b")
	}
	if _, err := Length(0, 100000); err == nil {
		t.Error("an automaton of a hundred thousand states")
	}
}

// The grammar of a language equals it, byte by byte.
func TestBuild(t *testing.T) {
	for _, expr := range []string{"^[^a]{1,2}$", "^.$", `^[\u0000-\u00ff]$`, "^[à-\U0001F600]$", `^["\\\n\u0001]+$`} {
		d, err := Pattern(expr)
		if err != nil {
			t.Fatal(err)
		}
		for _, enc := range []Encoding{Plain, JSON} {
			var b Builder
			rule, start := b.Rule(false)
			from := b.Node()
			b.Empty(start, from)
			d.Build(&b, from, enc, func(at int32, _ int) { b.End(at) })
			p, err := b.Program(rule, 1)
			if err != nil {
				t.Fatal(err)
			}
			m := p.Run()
			holds := func(text string) bool {
				s := m.Start()
				for i := range len(text) {
					if s = m.Step(s, text[i]); s == nil {
						return false
					}
				}
				return s.Accepts()
			}
			for r := rune(0); r <= 0x10FFFF; r += 1 + r/29 {
				if r >= firstSurrogate && r <= lastSurrogate {
					continue
				}
				text := string(r)
				written := text
				if enc == JSON {
					written = Quote(r)
				}
				if got, want := holds(written), d.Label(text) == 0; got != want {
					t.Fatalf("%s: %q is %v, want %v", expr, written, got, want)
				}
			}
			for _, bad := range []string{"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"} {
				if holds(bad) {
					t.Errorf("%s: %q is text", expr, bad)
				}
			}
		}
	}
}

// TestAhead: with assertions about what follows, a text is in the language only if
// Python's re and ECMA-262 find a match, and if both do, unless classes differ.
func TestAhead(t *testing.T) {
	data, err := os.ReadFile("testdata/ahead.json") // by testdata/ahead.py
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Expr, Text   string
		Python, ECMA bool
	}
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) < 900 {
		t.Fatal(len(rows), err)
	}
	languages := map[string]*DFA{}
	in, narrow := 0, 0
	for _, r := range rows {
		if languages[r.Expr] == nil {
			d, err := Pattern(r.Expr)
			if err != nil {
				t.Fatalf("%s: %v", r.Expr, err)
			}
			languages[r.Expr] = d
		}
		plain := !strings.ContainsAny(r.Text, "\n\r\u2028é\u0663\u00a0")
		switch got := languages[r.Expr].Label(r.Text) == 0; {
		case got && !(r.Python && r.ECMA):
			t.Errorf("%s: %q is in the language, Python %v, ECMA %v", r.Expr, r.Text, r.Python, r.ECMA)
		case got:
			in++
		case r.Python && r.ECMA && plain:
			t.Errorf("%s: %q is not in the language", r.Expr, r.Text)
		case r.Python && r.ECMA:
			narrow++
		}
	}
	t.Logf("%d texts: %d in the languages, %d left out", len(rows), in, narrow)
	for _, expr := range []string{`(?=a)b`, `(?!a)`, `^(?!a)b|c`, `^(?!a`, `^(?=(?=a))b`, `^a(?!b)`, `^(?<!a)b`} {
		if _, err := Pattern(expr); err == nil {
			t.Errorf("%s is read", expr)
		}
	}
}
