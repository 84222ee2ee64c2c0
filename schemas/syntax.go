package schemas

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"mm-abi.org/mm/internal/diag"
)

// syntax returns the diagnostic for text that is not YAML. The parser reports the line of
// the surrounding construct, or none; the reported position is the first line whose
// removal, with everything after it, leaves valid YAML.
func syntax(file string, data []byte, err error) diag.Diagnostic {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if _, rest, ok := strings.Cut(message, ": "); ok && strings.HasPrefix(message, "line ") {
		message = rest
	}
	var list diag.List
	lines := bytes.SplitAfter(data, []byte("\n"))
	n := breaking(lines)
	line := strings.TrimRight(string(lines[n-1]), "\r\n")
	col := 1 + len(line) - len(strings.TrimLeft(line, " "))
	if col <= len(line) && line[col-1] == '\t' {
		message = "a tab in the indentation"
	}
	if at, column, char := findLookalike(lines, n); at > 0 {
		list.Add(diag.Syntax, diag.Pos{File: file, Line: at, Col: column}, char, "type the ASCII character in its place")
		return list[0]
	}
	list.Add(diag.Syntax, diag.Pos{File: file, Line: n, Col: col}, message, syntaxHint(message, line))
	return list[0]
}

// blank reports whether a character looks like a blank, or like nothing, and is not ASCII.
func blank(r rune) bool {
	return r > unicode.MaxASCII && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r))
}

// lookalikes are characters that editors and web pages put in place of YAML's own.
var lookalikes = map[rune]string{
	'\u00a0': "no-break space", '\u00ad': "soft hyphen", '\u2007': "figure space", '\u200b': "zero width space",
	'\u202f': "narrow no-break space", '\u2060': "word joiner", '\u3000': "ideographic space", '\ufeff': "byte order mark",
	'\uff1a': "fullwidth colon", '\uff0c': "fullwidth comma", '\u2013': "en dash", '\u2014': "em dash", '\u2212': "minus sign",
}

// lookalike returns the name of a lookalike, or the empty string.
func lookalike(r rune) string {
	if r >= '\u2000' && r <= '\u200a' && lookalikes[r] == "" {
		return "typographic space"
	}
	return lookalikes[r]
}

// findLookalike returns the position and name of the first lookalike outside of a comment
// in line n, counted from 1, or else in the line before, at which the parser does not fail yet.
func findLookalike(lines [][]byte, n int) (line, col int, name string) {
	for _, at := range []int{n, n - 1} {
		if at < 1 {
			continue
		}
		text, _, _ := strings.Cut(string(lines[at-1]), " #")
		col := 0
		for _, r := range text {
			col++
			if name := lookalike(r); name != "" {
				return at, col, fmt.Sprintf("%U (%s)", r, name)
			}
		}
	}
	return 0, 0, ""
}

// Sides returns the two sides of a text with the conflict markers of a merge, and the line
// of the first marker. Lines outside of conflicts are in both sides; the common ancestor,
// which some tools write too, is in neither. Without a marker the line is 0; without one, or
// if a marker has no counterpart, both sides are nil.
func Sides(data []byte) (ours, theirs []byte, line int) {
	const both, left, base, right = 0, 1, 2, 3
	state, n, stray := both, 0, false
	for text := range bytes.Lines(data) {
		n++
		mark := string(bytes.TrimRight(text[:min(len(text), 8)], " \r\n"))
		if line == 0 && (mark == "<<<<<<<" || mark == ">>>>>>>") {
			line = n
		}
		switch {
		case state == both && mark == "<<<<<<<":
			state = left
		case state == left && mark == "|||||||":
			state = base
		case (state == left || state == base) && mark == "=======":
			state = right
		case state == right && mark == ">>>>>>>":
			state = both
		case mark == "<<<<<<<", mark == ">>>>>>>":
			stray = true
		default:
			if state == both || state == left {
				ours = append(ours, text...)
			}
			if state == both || state == right {
				theirs = append(theirs, text...)
			}
		}
	}
	if line == 0 || stray || state != both {
		return nil, nil, line
	}
	return ours, theirs, line
}

// breaking returns the number of the first line that makes the text invalid: the lines
// before it are valid, and with it no continuation is. It uses bisection; since a prefix
// that ends within a list or a multi-line string is not valid either, it also tries some
// lines after each result.
func breaking(lines [][]byte) int {
	const walk = 48
	good, bad := 0, len(lines) // lines[:good] parse, lines[:bad] do not
	for bad-good > 1 {
		mid := (good + bad) / 2
		if parses(lines[:mid]) {
			good = mid
			continue
		}
		for ahead := mid + 1; ahead < min(mid+walk, bad); ahead++ {
			if parses(lines[:ahead]) {
				good = ahead
				break
			}
		}
		if good < mid {
			bad = mid
		}
	}
	return bad
}

func parses(lines [][]byte) bool {
	dec := yaml.NewDecoder(bytes.NewReader(bytes.Join(lines, nil)))
	for range 2 { // a second document is a different fault
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			return err.Error() == "EOF"
		}
	}
	return true
}

// syntaxHint returns hints for common messages of the parser.
func syntaxHint(message, line string) string {
	text := strings.TrimSpace(line)
	switch {
	case strings.Contains(message, "tab"):
		return "indent with blanks"
	case strings.Contains(message, "expected ',' or ']'"):
		return "close the [ that begins here"
	case strings.Contains(message, "expected ',' or '}'"):
		return "close the { that begins here"
	case strings.Contains(message, "mapping values are not allowed"):
		return `put a value that holds ": " into quotes, or mend the indentation`
	case strings.Contains(message, "unexpected end of stream"):
		return "close the quote that begins here"
	case strings.Contains(message, "cannot start any token") && strings.ContainsAny(text, "@`%"):
		return "put a value that begins with @, ` or % into quotes"
	case strings.Contains(message, "expected key"), strings.Contains(message, "expected '-' indicator"), strings.Contains(message, "could not find expected ':'"):
		return "indent the line as its neighbours are, and write KEY: VALUE"
	}
	return ""
}

// notText reports the first byte that is not UTF-8 and guesses the encoding.
func notText(file string, data []byte) diag.Diagnostic {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	hint := "save the file as UTF-8"
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		hint = "the file is UTF-16: save it as UTF-8"
	case bytes.IndexByte(data[:min(len(data), 512)], 0) >= 0:
		hint = "this looks like a binary file: check that it is the one you meant"
	}
	line := 1 + bytes.Count(data[:at], []byte("\n"))
	col := 1 + utf8.RuneCount(data[bytes.LastIndexByte(data[:at], '\n')+1:at])
	var list diag.List
	list.Add(diag.Unreadable, diag.Pos{File: file, Line: line, Col: col}, "not UTF-8 text", hint)
	return list[0]
}

// hidden reports whether a character is invisible and changes how text is read or printed:
// a control character or one that changes the writing direction.
func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == '\r':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029', r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}
