package suite

import (
	"regexp"
	"strings"
	"testing"
)

// Literals are those of Python's ast.literal_eval.
func TestLiteral(t *testing.T) {
	for text, want := range map[string]string{
		`['a', "b"]`: `["a","b"]`, `["it's", 'say "x"']`: `["it's","say \"x\""]`, `[1, -2, 3.5, True, None]`: `[1,-2,3.5,true,null]`, `[]`: `[]`, `[ [1], (2, 3), ]`: `[[1],[2,3]]`,
		`'a\n\x41\u00e9\\'`: `"a\nAé\\"`, `['a' 'b']`: `["ab"]`, `'\q'`: `"\\q"`, " [1] ": `[1]`, `['é']`: `["é"]`,
	} {
		if got, err := literal(text); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "[", "[1", "['a", `'\x4'`, `'\ud800'`, "[1 2]", "a", "1_", "[1]]", "f(1)", "{1}", "0x10", "'a\nb'", "nan", strings.Repeat("[", 99)} {
		if got, err := literal(text); err == nil {
			t.Errorf("%q: got %s", text, got)
		}
	}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	if _, err := literal(nested(maxLiteral + 1)); err != nil {
		t.Error(err)
	}
	if _, err := literal(nested(maxLiteral + 2)); err == nil {
		t.Errorf("%d levels: got no error", maxLiteral+2)
	}
}

func FuzzLiteral(f *testing.F) {
	f.Add(`['a', "b", 1, (2.5,), None]`)
	f.Add(`'\u00e9\x41'`)
	f.Fuzz(func(t *testing.T, text string) { literal(text) })
}

// Classes contain the characters of all scripts.
func TestPattern(t *testing.T) {
	for pattern, all := range map[string]map[string]bool{
		`^\d+$`: {"12": true, "١٢": true, "a": false}, `^\w+$`: {"é_1": true, "-": false}, `^[\w-]+$`: {"é-1": true, ".": false}, `^\s$`: {"\u00a0": true, "x": false},
		`^\D$`: {"x": true, "٣": false}, `^\S$`: {"x": true, "\u00a0": false}, `^[^\d]$`: {"x": true, "1": false}, `^[]a]$`: {"]": true, "a": true}, `^[[]$`: {"[": true}, `a\Z`: {"ba": true},
		`^[\D]$`: {"x": true, "1": false}, `^\W$`: {"-": true, "é": false},
	} {
		r, err := regexp.Compile(goPattern(pattern))
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		for text, want := range all {
			if got := r.MatchString(text); got != want {
				t.Errorf("%s on %q: got %v", pattern, text, got)
			}
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add(`#### (\-?[0-9\.\,]+)`)
	f.Add(`[\w\]]\S`)
	f.Fuzz(func(t *testing.T, pattern string) { regexp.Compile(goPattern(pattern)) })
}

// The regex filter selects a match, and in it the first group that is not empty.
func TestExtract(t *testing.T) {
	for _, c := range []struct {
		pattern string
		index   int
		text    string
		want    string
	}{
		{`\d`, 0, "a1b2", "1"}, {`\d`, -1, "a1b2", "2"}, {`\d`, 2, "a1b2", "none"}, {`\d`, -3, "a1b2", "none"}, {`\d`, 0, "ab", "none"},
		{`x(\d)`, 0, "x1", "1"}, {`(a)|(b)`, 0, "b", "b"}, {`(a*)|(b*)`, 0, "", "none"}, {` \w+ `, 0, " ab ", "ab"},
	} {
		if got := extract(regexp.MustCompile(c.pattern), c.index, "none")(c.text); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
