package diag

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain, é, 日本, 👍":         "plain, é, 日本, 👍",
		"a\x1b[2J\x07b":           `a\x1b[2J\x07b`,
		"ok\r\nmm: error: forged": `ok\r\nmm: error: forged`,
		"\u009b31m\u0085":         `\u009b31m\u0085`,
		"a\u202egpj.exe\u2066":    `a\u202egpj.exe\u2066`,
		"zero\u200bwidth\ufeff":   `zero\u200bwidth\ufeff`,
		"line\u2028para\u2029":    `line\u2028para\u2029`,
		"tag\U000e0041":           `tag\U000e0041`,
		"bad\xff\xc3(":            `bad\xff\xc3(`,
		"the sign \ufffd itself":  "the sign \ufffd itself",
		"tab\tand\vmore\x7f":      `tab\tand\x0bmore\x7f`,
		`already \x1b escaped`:    `already \x1b escaped`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Printable(s)
		if !utf8.ValidString(got) || strings.IndexFunc(got, hidden) >= 0 || Printable(got) != got {
			t.Fatalf("%q: %q", s, got)
		}
	})
}
