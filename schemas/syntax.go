package schemas

import (
	"bytes"
	"strings"
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
	list.Add(diag.Syntax, diag.Pos{File: file, Line: n, Col: col}, message, syntaxHint(message, line))
	return list[0]
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
