package automaton

import (
	"fmt"
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
	free := d.free()
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

// free marks the states that any characters may follow.
func (d *DFA) free() []bool {
	out := make([]bool, len(d.States))
	for i, s := range d.States {
		out[i] = covers(s.Edges)
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
