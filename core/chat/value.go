package chat

import "strings"

// space is the white space of JSON.
const space = " \t\r\n"

// value finds the end of a JSON value in a text that grows. It counts brackets
// outside of strings, and leaves the rest of the syntax to the parser.
type value struct {
	at      int
	depth   int
	quoted  bool
	escaped bool
	end     int  // after the value; 0: not reached
	broken  bool // the text does not begin with an object or a list
}

// scan reads the text from where it stopped and returns the end of the value.
func (v *value) scan(text string) (end int, ok bool) {
	for ; v.at < len(text) && v.end == 0 && !v.broken; v.at++ {
		b := text[v.at]
		switch {
		case v.escaped:
			v.escaped = false
		case v.quoted:
			v.escaped, v.quoted = b == '\\', b != '"'
		case b == '{' || b == '[':
			v.depth++
		case v.depth == 0:
			v.broken = strings.IndexByte(space, b) < 0
		case b == '"':
			v.quoted = true
		case b == '}' || b == ']':
			if v.depth--; v.depth == 0 {
				v.end = v.at + 1
			}
		}
	}
	return v.end, v.end > 0
}

// answer is the result of a test of a text that may go on.
type answer int

const (
	no answer = iota
	maybe
	yes
)

// maxOpening bounds the text that may be the start of a call without a marker.
const maxOpening = 512

// opens reports whether a text, apart from white space, begins with an object whose
// name is one of the tools: {"name": "TOOL", perhaps after "type": "function".
func opens(text string, tools []string) answer {
	if len(text) > maxOpening {
		if opens(text[:maxOpening], tools) == yes {
			return yes
		}
		return no
	}
	s := &matcher{rest: text}
	s.literal("{")
	if s.at("type", `"`) {
		for _, t := range []string{`"type"`, ":", `"function"`, ","} {
			s.literal(t)
		}
	}
	for _, t := range []string{`"name"`, ":"} {
		s.literal(t)
	}
	if s.state != yes {
		return s.state
	}
	best := no
	for _, name := range tools {
		c := *s
		c.literal(string(quote(name)))
		best = max(best, c.state)
	}
	return best
}

// matcher matches literals with white space before each.
type matcher struct {
	rest  string
	state answer // yes: every literal so far
	begun bool
}

// literal matches the next literal.
func (m *matcher) literal(text string) {
	if m.begun && m.state != yes {
		return
	}
	m.begun = true
	m.rest = strings.TrimLeft(m.rest, space)
	switch rest, ok := strings.CutPrefix(m.rest, text); {
	case ok:
		m.rest, m.state = rest, yes
	case strings.HasPrefix(text, m.rest):
		m.state = maybe
	default:
		m.state = no
	}
}

// at reports whether a quoted word, or the start of it, is next; text that ends
// before the word's first letter is at no word.
func (m *matcher) at(word, mark string) bool {
	rest := strings.TrimLeft(m.rest, space)
	rest, ok := strings.CutPrefix(rest, mark)
	return m.state == yes && ok && rest != "" && rest[0] == word[0]
}

// Rest returns where the block of a call ends in a text that begins within a string
// of its arguments: after its value and the closing marker.
func (d Dialect) Rest(text string) (end int, ok bool) {
	v := value{depth: 2, quoted: true}
	switch d.Form {
	case List:
		v.depth++
	case Named:
		v.depth--
	}
	end, ok = v.scan(text)
	if !ok || d.Close == "" {
		return end, ok
	}
	rest := strings.TrimLeft(text[end:], space)
	tail, ok := strings.CutPrefix(rest, d.Close)
	return len(text) - len(tail), ok
}
