package diag

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes untrusted text, such as a registry's answer or an artifact's
// annotations, safe to print. Control characters, invisible characters that affect
// the direction or look of text, line separators and invalid UTF-8 become visible
// escapes such as \x1b or \u202e. The result cannot move the cursor, forge a line
// or pass for other text.
func Printable(s string) string {
	if strings.IndexFunc(s, hidden) < 0 && utf8.ValidString(s) {
		return s
	}
	const digits = "0123456789abcdef"
	var b strings.Builder
	hex := func(lead string, v rune, width int) {
		b.WriteString(lead)
		for shift := 4 * (width - 1); shift >= 0; shift -= 4 {
			b.WriteByte(digits[v>>shift&15])
		}
	}
	for i, width := 0, 0; i < len(s); i += width {
		var r rune
		r, width = utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && width == 1:
			hex(`\x`, rune(s[i]), 2)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !hidden(r):
			b.WriteRune(r)
		case r < 0x80:
			hex(`\x`, r, 2)
		case r < 0x10000:
			hex(`\u`, r, 4)
		default:
			hex(`\U`, r, 8)
		}
	}
	return b.String()
}

// hidden reports whether r is invisible or prints as something else: C0 and C1
// controls, format characters (Cf: bidi controls, zero-width ones, tags), line and
// paragraph separators.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Fact writes a line of a description: an indented name and its value.
func Fact(w io.Writer, name, format string, args ...any) {
	fmt.Fprintf(w, "  %-12s %s\n", name, Printable(fmt.Sprintf(format, args...)))
}
