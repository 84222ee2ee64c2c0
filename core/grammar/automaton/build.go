package automaton

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Encoding is the encoding of characters.
type Encoding int

// The encodings.
const (
	Plain Encoding = iota // UTF-8
	JSON                  // content of a JSON string, in the shortest form
)

// Build adds a nonempty language to a grammar from a node on. end is called
// with the node and label of each possible end. Existing paths from the node
// are kept.
func (d *DFA) Build(b *Builder, from int32, enc Encoding, end func(at int32, label int)) {
	w := builder{b: b, enc: enc, tails: map[string]int32{}}
	free := d.free(func(int) bool { return true })
	nodes := make([]int32, len(d.States))
	for i := range nodes {
		if nodes[i] = from; i > 0 {
			nodes[i] = b.Node()
		}
		if enc == JSON && free[i] {
			b.Free(nodes[i])
		}
	}
	for i, s := range d.States {
		w.escapes = map[string]int32{}
		for _, e := range s.Edges {
			w.edge(nodes[i], e.Lo, e.Hi, nodes[e.To])
		}
		if s.Label != No {
			end(nodes[i], s.Label)
		}
	}
}

// Count adds a nonempty language to a rule from its start on, as the content of a
// JSON string: a call of the rule counts the characters.
func (d *DFA) Count(b *Builder, rule, start int32) {
	w := builder{b: b, enc: JSON, tails: map[string]int32{}}
	free := d.free(d.pumps)
	at, bodies := make([]int32, len(d.States)), make([]int32, len(d.States))
	end := b.Node()
	b.End(end)
	for i, s := range d.States {
		if at[i] = start; i > 0 {
			at[i] = b.Node()
		}
		exit := None
		if s.Label != No {
			exit = end
		}
		if bodies[i] = None; len(s.Edges) > 0 {
			bodies[i] = b.Node()
		}
		b.Loop(rule, at[i], bodies[i], exit)
		if free[i] {
			b.Free(bodies[i])
		}
	}
	for i, s := range d.States {
		w.escapes = map[string]int32{}
		for _, e := range s.Edges {
			w.edge(bodies[i], e.Lo, e.Hi, at[e.To])
		}
	}
}

// Counts reports whether [DFA.Count] has the texts of a number of characters: if a
// minimum is given, any text must be able to grow by any number of them.
func (d *DFA) Counts(least, most int32) bool {
	exact := d.distances(func(i int) bool { return d.States[i].Label != No })
	n := exact[0]
	if least > 0 {
		from := d.distances(d.pumps)
		if slices.Contains(from, never) {
			return false
		}
		n = from[0]
	}
	return n < never && (most < 0 || n <= most)
}

// distances returns the number of characters from each state to one for which is
// holds.
func (d *DFA) distances(is func(state int) bool) []int32 {
	out := slices.Repeat([]int32{never}, len(d.States))
	for changed := true; changed; {
		changed = false
		for i := len(d.States) - 1; i >= 0; i-- {
			n := out[i]
			if is(i) {
				n = 0
			}
			for _, e := range d.States[i].Edges {
				n = min(n, out[e.To]+1)
			}
			if n < out[i] {
				out[i], changed = n, true
			}
		}
	}
	return out
}

// pumps reports whether a state accepts, and may follow itself.
func (d *DFA) pumps(i int) bool {
	return d.States[i].Label != No && slices.ContainsFunc(d.States[i].Edges, func(e Edge) bool { return e.To == i })
}

// free marks the states that any characters may follow, through states for which is
// holds.
func (d *DFA) free(is func(state int) bool) []bool {
	out := make([]bool, len(d.States))
	for i, s := range d.States {
		out[i] = covers(s.Edges) && is(i)
	}
	for changed := true; changed; {
		changed = false
		for i, s := range d.States {
			for _, e := range s.Edges {
				if out[i] && !out[e.To] {
					out[i], changed = false, true
				}
			}
		}
	}
	return out
}

// covers reports whether edges accept all unescaped characters of a string.
func covers(edges []Edge) bool {
	next := rune(' ')
	for _, e := range edges {
		for next == '"' || next == '\\' {
			next++
		}
		if next >= firstSurrogate && next <= lastSurrogate {
			next = lastSurrogate + 1
		}
		if e.Hi < next {
			continue
		}
		if e.Lo > next {
			return false
		}
		next = e.Hi + 1
	}
	return next > utf8.MaxRune
}

type builder struct {
	b       *Builder
	enc     Encoding
	escapes map[string]int32 // by state: the nodes after \ and \u00…
	tails   map[string]int32 // the last bytes of characters before a node
}

func (w *builder) edge(from int32, lo, hi rune, to int32) {
	if w.enc == Plain {
		w.utf8(from, lo, hi, to)
		return
	}
	for lo <= hi {
		switch next := min(hi, following(lo)); {
		case lo < ' ' || lo == '"' || lo == '\\':
			w.escape(from, Quote(lo), to)
			lo++
		default:
			w.utf8(from, lo, next, to)
			lo = next + 1
		}
	}
}

// following returns the last of the characters from r on that are encoded
// without escape.
func following(r rune) rune {
	switch {
	case r < '"':
		return '"' - 1
	case r < '\\':
		return '\\' - 1
	}
	return utf8.MaxRune
}

// Quote encodes a character of a JSON string in the shortest form.
func Quote(r rune) string {
	const short = "\b\t\n\f\r\"\\"
	switch i := strings.IndexRune(short, r); {
	case i >= 0:
		return `\` + `btnfr"\`[i:i+1]
	case r < ' ':
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}

func (w *builder) escape(from int32, text string, to int32) {
	for i := 1; i < len(text); i++ {
		at, ok := w.escapes[text[:i]]
		if !ok {
			at = w.b.Node()
			w.b.Bytes(from, text[i-1], text[i-1], at)
			w.escapes[text[:i]] = at
		}
		from = at
	}
	w.b.Bytes(from, text[len(text)-1], text[len(text)-1], to)
}

// utf8 adds paths for a range of characters between two nodes.
func (w *builder) utf8(from int32, lo, hi rune, to int32) {
	for n := 1; n < utf8.UTFMax; n++ {
		if last := lastOf[n-1]; lo <= last && hi > last {
			w.utf8(from, lo, last, to)
			lo = last + 1
		}
	}
	if lo < firstSurrogate && hi > lastSurrogate {
		w.utf8(from, lo, firstSurrogate-1, to)
		lo = lastSurrogate + 1
	}
	if hi < utf8.RuneSelf {
		w.b.Bytes(from, byte(lo), byte(hi), to)
		return
	}
	// Split where the bytes after a difference are not the full range.
	for n := 1; n < utf8.UTFMax; n++ {
		m := rune(1)<<(6*n) - 1
		if lo&^m == hi&^m {
			continue
		}
		if lo&m != 0 {
			w.utf8(from, lo, lo|m, to)
			w.utf8(from, (lo|m)+1, hi, to)
			return
		}
		if hi&m != m {
			w.utf8(from, lo, hi&^m-1, to)
			w.utf8(from, hi&^m, hi, to)
			return
		}
	}
	w.chain(from, []byte(string(lo)), []byte(string(hi)), to)
}

// lastOf holds the last characters of one, two and three bytes.
var lastOf = [...]rune{0x7F, 0x7FF, 0xFFFF}

// chain adds a path with a range for each byte.
func (w *builder) chain(from int32, lo, hi []byte, to int32) {
	if len(lo) == 1 {
		w.b.Bytes(from, lo[0], hi[0], to)
		return
	}
	key := fmt.Sprint(lo[1:], hi[1:], to)
	at, ok := w.tails[key]
	if !ok {
		at = w.b.Node()
		w.tails[key] = at
		w.chain(at, lo[1:], hi[1:], to)
	}
	w.b.Bytes(from, lo[0], hi[0], at)
}
