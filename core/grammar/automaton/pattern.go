package automaton

import (
	"encoding/binary"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pattern returns the language of texts in which a regular expression matches,
// as JSON Schema's pattern. If dialects disagree, a text is in the language
// only if ECMA-262, Python's re and RE2 all find a match; an expression that
// cannot be read so is an error, and so are non-regular features and assertions
// other than ^, $ and, behind a first ^, (?=…) and (?!…).
func Pattern(expr string) (*DFA, error) {
	return dialects(expr, false)
}

// Broad returns the language of texts in which any of the dialects finds a match of
// an expression that [Pattern] takes.
func Broad(expr string) (*DFA, error) { return dialects(expr, true) }

// dialects returns the texts in which any of the dialects finds a match, if wide, or
// all of them.
func dialects(expr string, wide bool) (*DFA, error) {
	if len(expr) > maxPattern {
		return nil, fmt.Errorf("pattern too long: got %d bytes, limit %d", len(expr), maxPattern)
	}
	if strings.HasPrefix(expr, "^(?=") || strings.HasPrefix(expr, "^(?!") {
		return ahead(expr, wide)
	}
	return pattern(expr, wide)
}

// pattern returns the language of an expression without assertions about what
// follows; wide adds the texts in which any of the dialects finds a match.
func pattern(expr string, wide bool) (*DFA, error) {
	text, err := translate(expr, wide)
	if err != nil {
		return nil, err
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxInstructions {
		return nil, ErrManyStates
	}
	return search(prog)
}

const (
	maxPattern      = 4096
	maxInstructions = 20000
)

// ahead returns the language of ^(?=…)(?!…)…, with any number of assertions.
func ahead(expr string, wide bool) (*DFA, error) {
	rest := expr[1:]
	var with, without []*DFA
	for strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!") {
		end := closing(rest)
		if end < 0 {
			return nil, fmt.Errorf("missing ) of %.4q", rest)
		}
		negative := rest[2] == '!'
		d, err := pattern("^(?:"+rest[3:end]+")", negative != wide)
		if err != nil {
			return nil, err
		}
		if negative {
			without = append(without, d)
		} else {
			with = append(with, d)
		}
		rest = rest[end+1:]
	}
	if top(rest, func(rest string, depth int) bool { return depth == 0 && rest[0] == '|' }) >= 0 {
		return nil, fmt.Errorf("unsupported %.4q: the alternatives of an expression with (?=…) or (?!…) must be in a group", expr[1:])
	}
	d, err := pattern("^"+rest, wide)
	if err != nil {
		return nil, err
	}
	return Product(slices.Concat([]*DFA{d}, with, without), func(labels []int) int {
		n := 1 + len(with)
		if slices.ContainsFunc(labels[n:], func(label int) bool { return label != No }) {
			return No
		}
		return All(labels[:n])
	})
}

// closing returns the index of the parenthesis that closes the group at the start of
// an expression, or -1.
func closing(expr string) int {
	return top(expr, func(rest string, depth int) bool { return rest[0] == ')' && depth == 1 })
}

// top returns the first index at which is holds for the rest of an expression and
// the number of open groups, outside of classes and escapes, or -1.
func top(expr string, is func(rest string, depth int) bool) int {
	depth, class := 0, false
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '\\':
			i++
			continue
		case class:
			class = c != ']'
			continue
		case c == '[':
			class = true
			continue
		case is(expr[i:], depth):
			return i
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
	}
	return -1
}

// The classes that dialects read differently, reduced to their common part.
var (
	inside = map[byte]string{'d': `0-9`, 'w': `0-9A-Za-z_`, 's': ` \t\n\r\f`,
		'D': `\x00-/:-\x7f`, 'W': "\\x00-/:-@\\[-\\^`{-\\x7f", 'S': `!-~`}
	// not maps a class to the set whose complement is common to all dialects.
	not = map[byte]string{'d': `0-9\x{80}-\x{10ffff}`, 'w': `0-9A-Za-z_\x{80}-\x{10ffff}`,
		's': `\x00- \x7f-\x{10ffff}`}
	// broad maps a class to its characters in any dialect.
	broad = map[byte]string{'d': not['d'], 'w': not['w'], 's': not['s'],
		'D': `\x00-/:-\x{10ffff}`, 'W': "\\x00-/:-@\\[-\\^`{-\\x{10ffff}", 'S': `\x00-\x08\x0b\x0e-\x1f!-\x{10ffff}`}
)

// plainEscapes are those that mean the same everywhere.
const plainEscapes = `tnrfv.*+?()[]{}|^$\/-`

// translate converts an expression to the syntax of RE2, or reports why it
// cannot.
func translate(expr string, wide bool) (string, error) {
	if !utf8.ValidString(expr) {
		return "", fmt.Errorf("invalid UTF-8 in the pattern")
	}
	var out strings.Builder
	class, negated := false, false
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		switch {
		case c == '\\':
			n, err := escape(&out, expr[i+1:], class, negated, wide)
			if err != nil {
				return "", err
			}
			if class && (n == 1 && inside[expr[i+1]] != "") && ranged(expr, i) {
				return "", fmt.Errorf("dialects differ in a class that begins or ends a range")
			}
			i += n
			continue
		case c == '{' && strings.HasPrefix(expr[i+1:], ","):
			return "", fmt.Errorf("dialects differ in %q", "{,")
		case class && c == ']':
			class = false
		case class && c == '[', class && strings.HasPrefix(expr[i:], "&&"):
			return "", fmt.Errorf("dialects differ in %q within a class", c)
		case c == '[' && !class:
			class = true
			if negated = strings.HasPrefix(expr[i+1:], "^"); negated {
				out.WriteByte(c)
				i, c = i+1, '^'
			}
			if strings.HasPrefix(expr[i+1:], "]") {
				return "", fmt.Errorf("dialects differ in an empty class")
			}
		case c == '(' && !class && strings.HasPrefix(expr[i+1:], "?") && !strings.HasPrefix(expr[i+1:], "?:"):
			return "", fmt.Errorf("unsupported %.4q: groups are (…) and (?:…)", expr[i:])
		case c == '.' && !class && wide:
			out.WriteString(`[^\n]`)
			continue
		case c == '$' && !class && wide:
			out.WriteString(`\n?$`)
			continue
		case c == '.' && !class:
			out.WriteString(`[^\n\r\x{2028}\x{2029}]`)
			continue
		}
		out.WriteByte(c)
	}
	return out.String(), nil
}

// ranged reports whether the escape at i, of one character in a class, is next
// to a hyphen that forms a range.
func ranged(expr string, i int) bool {
	before := strings.HasSuffix(expr[:i], "-") && !strings.HasSuffix(expr[:i], "[-") && !strings.HasSuffix(expr[:i], "[^-")
	return before || strings.HasPrefix(expr[i+2:], "-") && !strings.HasPrefix(expr[i+2:], "-]")
}

// escape converts the text after a backslash and returns its length.
func escape(out *strings.Builder, rest string, class, negated, wide bool) (int, error) {
	if rest == "" {
		return 0, fmt.Errorf("pattern ends with a backslash")
	}
	c := rest[0]
	set, ok := inside[c]
	if wide && ok && !(class && negated) {
		set = broad[c]
	}
	if class && negated && ok && !wide {
		if set, ok = not[c]; !ok {
			return 0, fmt.Errorf(`\%c within a negated class is read in different ways`, c)
		}
	}
	switch {
	case ok && class:
		out.WriteString(set)
	case ok:
		out.WriteString("[" + set + "]")
	case strings.IndexByte(plainEscapes, c) >= 0:
		out.WriteString(`\` + rest[:1])
	case c == 'u' && len(rest) >= 5 && hexadecimal(rest[1:5]) && !surrogate(rest[1:5]):
		fmt.Fprintf(out, `\x{%s}`, rest[1:5])
		return 5, nil
	case c == 'x' && len(rest) >= 3 && hexadecimal(rest[1:3]):
		out.WriteString(`\` + rest[:3])
		return 3, nil
	default:
		return 0, fmt.Errorf(`\%.1s is not in the subset of patterns`, rest)
	}
	return 1, nil
}

func hexadecimal(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

func surrogate(s string) bool {
	return strings.IndexByte("dD", s[0]) >= 0 && strings.IndexByte("89abcdefABCDEF", s[1]) >= 0
}

// place is a state of a search: instructions that may be next, unless
// something was found.
type place struct {
	set          string // of instructions, ascending
	begin, found bool
}

// search finds the automaton of texts in which a program finds something.
func search(prog *syntax.Prog) (*DFA, error) {
	s := searcher{prog: prog}
	return explore(place{set: s.pack([]uint32{uint32(prog.Start)}), begin: true}, s.edges, func(p place) int {
		if p.found || s.follow(p, true) {
			return 0
		}
		return No
	})
}

type searcher struct {
	prog *syntax.Prog
	at   []uint32 // instructions that wait for a character
	seen []bool
}

func (s *searcher) pack(set []uint32) string {
	slices.Sort(set)
	var out []byte
	for _, pc := range slices.Compact(set) {
		out = binary.LittleEndian.AppendUint32(out, pc)
	}
	return string(out)
}

// follow collects the instructions that wait for a character, and reports
// whether something is found already; end is whether the text is at its end.
func (s *searcher) follow(p place, end bool) (found bool) {
	s.at, s.seen = s.at[:0], make([]bool, len(s.prog.Inst))
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if s.seen[pc] {
			return
		}
		s.seen[pc] = true
		switch in := &s.prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(in.Out)
			visit(in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(in.Out)
		case syntax.InstEmptyWidth:
			// Only ^ and $ pass translate.
			need := syntax.EmptyOp(in.Arg)
			if (need&syntax.EmptyBeginText == 0 || p.begin) && (need&syntax.EmptyEndText == 0 || end) {
				visit(in.Out)
			}
		case syntax.InstMatch:
			found = true
		case syntax.InstFail:
		default:
			s.at = append(s.at, pc)
		}
	}
	for set := []byte(p.set); len(set) > 0; set = set[4:] {
		visit(binary.LittleEndian.Uint32(set))
	}
	return found
}

func (s *searcher) edges(p place, emit func(lo, hi rune, to place)) {
	if p.found || s.follow(p, false) {
		every(emit, place{found: true})
		return
	}
	cuts := []rune{0, firstSurrogate, lastSurrogate + 1, utf8.MaxRune + 1}
	for _, pc := range s.at {
		for _, r := range ranges(&s.prog.Inst[pc]) {
			cuts = append(cuts, r[0], r[1]+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := range len(cuts) - 1 {
		if cuts[i] >= firstSurrogate && cuts[i] <= lastSurrogate {
			continue
		}
		next := []uint32{uint32(s.prog.Start)}
		for _, pc := range s.at {
			if in := &s.prog.Inst[pc]; slices.ContainsFunc(ranges(in), func(r [2]rune) bool { return r[0] <= cuts[i] && cuts[i] <= r[1] }) {
				next = append(next, in.Out)
			}
		}
		emit(cuts[i], cuts[i+1]-1, place{set: s.pack(next)})
	}
}

// ranges are the characters that an instruction takes.
func ranges(in *syntax.Inst) [][2]rune {
	switch in.Op {
	case syntax.InstRuneAny:
		return [][2]rune{{0, utf8.MaxRune}}
	case syntax.InstRuneAnyNotNL:
		return [][2]rune{{0, '\n' - 1}, {'\n' + 1, utf8.MaxRune}}
	case syntax.InstRune1:
		return [][2]rune{{in.Rune[0], in.Rune[0]}}
	}
	if len(in.Rune) == 1 {
		return [][2]rune{{in.Rune[0], in.Rune[0]}}
	}
	var out [][2]rune
	for i := 0; i+1 < len(in.Rune); i += 2 {
		out = append(out, [2]rune{in.Rune[i], in.Rune[i+1]})
	}
	return out
}
