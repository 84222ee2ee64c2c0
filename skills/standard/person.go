package standard

import (
	"math/big"
	"net/netip"
	"regexp"
	"strings"
	"sync"
)

// form is the syntax of a kind of data, with an optional check.
type form struct {
	kind string
	re   func() *regexp.Regexp
	is   func(string) bool // nil: no check
}

// forms is sorted by reliability. The expressions are RE2: their time is
// linear in the text.
var forms = []form{
	{"mail", lazy(`[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.)+[A-Za-z]{2,24}\b`), nil},
	{"key", lazy(`\b(?:sk-[A-Za-z0-9_-]{20,200}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,255}|xox[abprs]-[A-Za-z0-9-]{10,200}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})|-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----`), nil},
	{"iban", lazy(`\b[A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,3})?\b`), isIBAN},
	{"card", lazy(`\b[2-6][0-9](?:[ -]?[0-9]){11,17}\b`), isCard},
	{"ssn", lazy(`\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b`), isSSN},
	{"ip", lazy(`\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}`), isIP},
	{"phone", lazy(`(?:\+[0-9]{1,3}|\b00[1-9][0-9]{0,2}|\(0?[0-9]{2,5}\)|\b0[0-9]{2,4}|\b[2-9][0-9]{2})(?:[ ./-]{1,2}\(?[0-9]{1,8}\)?){1,6}\b|\+[0-9]{8,15}\b`), isPhone},
}

// lazy compiles a pattern on first use: mm starts without the guard most of the time.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

func isPerson(kind string) bool {
	for _, f := range forms {
		if f.kind == kind {
			return true
		}
	}
	return false
}

// persons finds personal data.
func persons(text string) []finding {
	var out []finding
	for _, f := range forms {
		for _, at := range f.re().FindAllStringIndex(text, maxFindings+1) {
			if s := text[at[0]:at[1]]; (f.is == nil || f.is(s)) && !((f.kind == "card" || f.kind == "phone") && followsDigits(text, at[0])) {
				out = append(out, finding{f.kind, s, at[0], at[1]})
			}
		}
	}
	return first(out)
}

// followsDigits reports whether a group of digits comes just before, so that the
// number is the rest of a longer one.
func followsDigits(text string, at int) bool {
	if at < 2 || text[at-1] != ' ' && text[at-1] != '-' {
		return false
	}
	b := text[at-2]
	return b >= '0' && b <= '9'
}

// first drops findings that overlap those of a more reliable kind.
func first(found []finding) []finding {
	var out []finding
	for _, f := range found {
		overlaps := false
		for _, o := range out {
			overlaps = overlaps || f.From < o.To && o.From < f.To
		}
		if !overlaps {
			out = append(out, f)
		}
	}
	return out
}

// ibanLengths holds lengths from the SWIFT registry (release 99) for the
// countries of Europe and some others.
var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21, "CY": 28, "CZ": 24,
	"DE": 22, "DK": 18, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "HR": 21,
	"HU": 28, "IE": 22, "IL": 23, "IS": 26, "IT": 27, "KW": 30, "KZ": 20, "LB": 28, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "MC": 27, "MD": 24,
	"ME": 22, "MK": 19, "MT": 31, "NL": 18, "NO": 15, "PL": 28, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24,
	"SM": 27, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "XK": 20,
}

// isIBAN checks length and the check digits (ISO 13616, ISO 7064 mod 97-10).
func isIBAN(s string) bool {
	s = strings.ToUpper(strings.ReplaceAll(s, " ", ""))
	if ibanLengths[s[:2]] != len(s) {
		return false
	}
	var b strings.Builder
	for _, r := range s[4:] + s[:4] {
		if r >= 'A' {
			b.WriteString(big.NewInt(int64(r - 'A' + 10)).String())
		} else {
			b.WriteRune(r)
		}
	}
	n, ok := new(big.Int).SetString(b.String(), 10)
	return ok && n.Mod(n, big.NewInt(97)).Int64() == 1
}

// isCard checks the length and the last digit (ISO/IEC 7812-1, Luhn).
func isCard(s string) bool {
	d := onlyDigits(s)
	if len(d) < 13 || len(d) > 19 {
		return false
	}
	sum := 0
	for i := range d {
		n := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0 && strings.Trim(d, d[:1]) != ""
}

// isSSN excludes numbers that the USA do not issue.
func isSSN(s string) bool {
	return s[:3] != "000" && s[:3] != "666" && s[0] != '9' && s[4:6] != "00" && s[7:] != "0000"
}

func isIP(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && !a.IsUnspecified() && !a.IsLoopback()
}

func isPhone(s string) bool {
	d := onlyDigits(s)
	return len(d) >= 8 && len(d) <= 15 && !isDate(s)
}

var date = lazy(`^(?:[0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{4})$`)

// isDate reports whether s looks like a date: 2026-11-22, 22.11.2026.
func isDate(s string) bool { return date().MatchString(s) }

func onlyDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}
