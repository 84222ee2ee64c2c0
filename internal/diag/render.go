package diag

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Style configures [List.Render].
type Style struct {
	Colour bool                              // use ANSI colors
	Width  int                               // columns of the terminal; if 0, lines are not wrapped
	Read   func(file string) ([]byte, error) // reads a file for excerpts; if nil, there are none
}

// The ANSI X3.64 colors of the printer.
const (
	plain = "\x1b[0m"
	bold  = "\x1b[1m"
	red   = "\x1b[1;31m"
	amber = "\x1b[1;33m"
	blue  = "\x1b[1;34m"
	green = "\x1b[1;32m"
)

func (s Style) paint(colour, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return colour + text + plain
}

// Render prints each diagnostic with its line of source and a mark under the
// position:
//
//	error MM0305: width differs from the core
//	  --> p.graph.yaml:12:18
//	   |
//	12 |     proj: {ref: p, out_dim: 2048}
//	   |                             ^^^^
//	   = out_dim is 2048, the core's d_model 256
//	   = hint: write out_dim: 256
func (l List) Render(w io.Writer, s Style) error {
	r := renderer{style: s, files: map[string][][]byte{}}
	for i, d := range l {
		if i > 0 {
			r.out.WriteByte('\n')
		}
		r.one(d)
	}
	_, err := io.WriteString(w, r.out.String())
	return err
}

type renderer struct {
	style Style
	files map[string][][]byte // lines of the files that were read
	out   strings.Builder
}

func (r *renderer) one(d Diagnostic) {
	s := r.style
	colour := map[Severity]string{Error: red, Warning: amber, Note: blue}[d.Severity]
	fmt.Fprintf(&r.out, "%s %s\n", s.paint(colour, fmt.Sprintf("%s %s:", d.Severity, d.Code)), s.paint(bold, Printable(d.Summary)))
	number := ""
	line, ok := r.line(d.Pos)
	if ok {
		number = fmt.Sprint(d.Pos.Line)
	}
	gutter := strings.Repeat(" ", max(len(number), 2))
	if p := d.Pos.String(); p != "" {
		fmt.Fprintf(&r.out, "%s%s %s\n", gutter, s.paint(blue, "-->"), Printable(p))
	}
	bar := gutter + " " + s.paint(blue, "|")
	if ok {
		fmt.Fprintf(&r.out, "%s\n%s%s\n", bar, s.paint(blue, fmt.Sprintf("%*s |", len(gutter), number)), tail(" "+Printable(untab(line))))
		if d.Pos.Col > 0 {
			fmt.Fprintf(&r.out, "%s %s\n", bar, mark(line, d.Pos.Col, func(t string) string { return s.paint(colour, t) }))
		}
	}
	r.note(gutter, "", d.Detail)
	r.note(gutter, s.paint(green, "hint:")+" ", d.Hint)
}

// note prints text below the excerpt, wrapped to the terminal.
func (r *renderer) note(gutter, head, text string) {
	if text == "" {
		return
	}
	first := gutter + " " + r.style.paint(blue, "=") + " " + head
	rest := gutter + "   "
	room := r.style.Width - len(gutter) - 3
	if head != "" {
		room -= len("hint: ")
		rest += "      "
	}
	for i, line := range wrap(Printable(text), room) {
		if i > 0 {
			first = rest
		}
		r.out.WriteString(first + line + "\n")
	}
}

// line returns the line of a position.
func (r *renderer) line(p Pos) (string, bool) {
	if r.style.Read == nil || p.Line == 0 || p.File == "" {
		return "", false
	}
	lines, ok := r.files[p.File]
	if !ok {
		data, err := r.style.Read(p.File)
		if err == nil {
			lines = bytes.Split(data, []byte("\n"))
		}
		r.files[p.File] = lines
	}
	if p.Line > len(lines) {
		return "", false
	}
	line := strings.TrimRight(string(lines[p.Line-1]), "\r")
	const most = 400 // longer lines are cut
	return line, utf8.ValidString(line) && len(line) <= most
}

func untab(s string) string { return strings.ReplaceAll(s, "\t", "    ") }

func tail(s string) string { return strings.TrimRight(s, " ") }

// mark returns carets under the value at column col, in characters from 1.
func mark(line string, col int, paint func(string) string) string {
	runes := []rune(line)
	from := min(col-1, len(runes))
	to := from + valueLength(runes[from:])
	return strings.Repeat(" ", columns(runes[:from])) + paint(strings.Repeat("^", max(1, columns(runes[from:to]))))
}

// valueLength returns the length of the key or value at the start of s: up to its
// closing quote, or to the end of a plain YAML scalar.
func valueLength(s []rune) int {
	if len(s) == 0 {
		return 0
	}
	if q := s[0]; q == '"' || q == '\'' {
		for i := 1; i < len(s); i++ {
			if s[i] == '\\' && q == '"' {
				i++
			} else if s[i] == q {
				return i + 1
			}
		}
		return len(s)
	}
	n := len(s)
	for i, c := range s {
		next := rune(' ')
		if i+1 < len(s) {
			next = s[i+1]
		}
		if i > 0 && (c == ',' || c == ']' || c == '}' || c == ':' && next == ' ' || c == '#' && s[i-1] == ' ') {
			n = i
			break
		}
	}
	return max(1, len([]rune(strings.TrimRight(string(s[:n]), " "))))
}

// columns returns the width of s on a terminal (Unicode standard annex 11).
func columns(s []rune) int {
	n := 0
	for _, r := range s {
		switch {
		case r == '\t':
			n += 4
		case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// wrap wraps text between words to lines of room columns; a longer word has its own
// line.
func wrap(text string, room int) []string {
	const least = 24 // below this, wrapping is useless
	if room < least {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Split(text, " ") {
		if line != "" && columns([]rune(line))+1+columns([]rune(word)) > room {
			lines, line = append(lines, line), word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
