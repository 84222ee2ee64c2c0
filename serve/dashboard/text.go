package dashboard

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// maxText bounds the bytes of one text on a page, and maxLine those of one in a table.
const (
	maxText = 8 << 10
	maxLine = 200
)

// line returns a text on one line with characters that are invisible or that change the
// direction of others spelled out, cut at maxLine bytes.
func line(s string) string { return cut(diag.Printable(head(s, maxLine)), len(s), maxLine) }

// text is line with the line breaks and tabs of the text, cut at maxText bytes.
func text(s string) string {
	kept := head(s, maxText)
	var b strings.Builder
	for rest := kept; rest != ""; {
		i := strings.IndexAny(rest, "\n\t")
		if i < 0 {
			b.WriteString(diag.Printable(rest))
			break
		}
		b.WriteString(diag.Printable(rest[:i]))
		b.WriteByte(rest[i])
		rest = rest[i+1:]
	}
	return cut(b.String(), len(s), maxText)
}

// tail returns the end of a text on one line.
func tail(s string) string {
	s = strings.Join(strings.FieldsFunc(last(s, 4*maxLine), unicode.IsSpace), " ")
	if len(s) <= maxLine {
		return line(s)
	}
	return "… " + diag.Printable(last(s, maxLine))
}

// head returns at most n bytes of the start of s, without a cut character.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// last returns at most n bytes of the end of s, without a cut character.
func last(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := len(s) - n
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}

// cut notes the size of a text that a limit has cut.
func cut(shown string, size, limit int) string {
	if size <= limit {
		return shown
	}
	return fmt.Sprintf("%s … (%s in all)", shown, fsx.FormatSize(int64(size)))
}

// short returns the beginning of a digest.
func short(digest string) string {
	algorithm, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) < 12 {
		return line(digest)
	}
	return line(algorithm + ":" + hex[:12])
}

// number returns a figure with four digits after the point, or a large one with five
// digits in all.
func number(x float64) string { return shownAs("%.4f", "%.5g", x) }

// signed returns a difference with its sign.
func signed(x float64) string { return shownAs("%+.4f", "%+.5g", x) }

func shownAs(small, large string, x float64) string {
	if x >= 10000 || x <= -10000 {
		small = large
	}
	return strings.Replace(fmt.Sprintf(small, x), "-", "−", 1)
}

// slugs makes names of files that are unique in a folder.
type slugs map[string]int

// of returns a name of letters, digits and hyphens for a text.
func (s slugs) of(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(head(text, 60)) {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	if name == "" {
		name = "x"
	}
	s[name]++
	if n := s[name]; n > 1 {
		return s.of(fmt.Sprintf("%s-%d", name, n))
	}
	return name
}
