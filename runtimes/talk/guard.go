package talk

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// guard finds the positions of a text that could form a control token.
type guard struct {
	tokens []string
	next   map[uint64]int32 // trie: node<<8 | byte to node
	ends   []bool           // by node: whether a token ends at it
}

func newGuard(tokens []string) guard {
	g := guard{tokens: tokens, next: make(map[uint64]int32), ends: []bool{false}}
	for _, s := range tokens {
		node := int32(0)
		for i := range len(s) {
			key := uint64(node)<<8 | uint64(s[i])
			child, ok := g.next[key]
			if !ok {
				child = int32(len(g.ends))
				g.ends = append(g.ends, false)
				g.next[key] = child
			}
			node = child
		}
		g.ends[node] = true
	}
	return g
}

// literal lists the bytes that must not become a token: the last of each rune at
// which a token's spelling starts, be it complete or, at either end of the text, a
// part that neighboring text may complete.
func (g *guard) literal(text string) []int {
	var out []int
	for i := 0; i < len(text); i++ {
		if g.forged(text[i:]) || i == 0 && g.within(text) {
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n - 1
			out = append(out, i)
		}
	}
	return out
}

// forged reports whether text begins with a token, or is a prefix of one.
func (g *guard) forged(text string) bool {
	node, ok := int32(0), true
	for i := range len(text) {
		if node, ok = g.next[uint64(node)<<8|uint64(text[i])]; !ok {
			return false
		}
		if g.ends[node] {
			return true
		}
	}
	return true
}

// within reports whether text begins with the end of a token, or is the middle of
// one.
func (g *guard) within(text string) bool {
	for _, s := range g.tokens {
		for n := 1; n < len(s); n++ {
			if end := s[n:]; strings.HasPrefix(text, end) || strings.HasPrefix(end, text) {
				return true
			}
		}
	}
	return false
}

// mark inserts the sentinel after each rune that must not become a token.
func (g *guard) mark(text string, sentinel rune) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	done := 0
	for _, at := range g.literal(text) {
		b.WriteString(text[done : at+1])
		b.WriteRune(sentinel)
		done = at + 1
	}
	return b.String() + text[done:]
}

// json marks the strings of a JSON value, however they are escaped.
func (g *guard) json(raw json.RawMessage, sentinel rune) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	var out bytes.Buffer
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			out.WriteByte(raw[i])
			continue
		}
		from := i
		for i++; i < len(raw) && raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		var s string
		if i >= len(raw) || json.Unmarshal(raw[from:i+1], &s) != nil {
			return json.RawMessage("null") // unreachable: Check parsed it
		}
		out.Write(quote(g.mark(s, sentinel)))
	}
	return out.Bytes()
}

// quote returns a JSON string without HTML escapes.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(`""`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// errPrivate reports that no private-use rune is free.
var errPrivate = errors.New("the conversation uses every private-use character")

// unused returns n private-use runes that no text contains, neither literally nor
// as a JSON escape.
func unused(texts []string, n int) ([]rune, error) {
	used := make(map[rune]bool)
	for _, s := range texts {
		for _, r := range s {
			if r >= firstPrivate && r <= lastPrivate {
				used[r] = true
			}
		}
	}
	var out []rune
next:
	for r := firstPrivate; r <= lastPrivate && len(out) < n; r++ {
		if used[r] {
			continue
		}
		for _, s := range texts {
			if strings.Contains(s, escape(r)) {
				continue next
			}
		}
		out = append(out, r)
	}
	if len(out) < n {
		return nil, errPrivate
	}
	return out, nil
}

// The private-use range of the basic plane.
const (
	firstPrivate rune = 0xE000
	lastPrivate  rune = 0xF8FF
)

// escape returns the rune as ASCII JSON escapes it.
func escape(r rune) string {
	const digits = "0123456789abcdef"
	return `\u` + string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}
