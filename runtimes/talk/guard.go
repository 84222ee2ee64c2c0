package talk

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// guard finds the places of a text that could become a control token.
type guard struct {
	tokens []string
	next   map[uint64]int32 // trie: node<<8 | byte to node
	ends   []bool           // by node: a token ends there
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

// literal lists the bytes that must stay letters: the last of each rune with
// which a token's spelling begins, be it all of it or, at either end of the
// text, a part of one that what stands beside the text may complete.
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

// forged reports whether text begins with a token, or is the beginning of one.
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

// within reports whether text begins with the end of a token, or is the
// middle of one.
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

// mark puts the sentinel behind each rune that must stay a letter.
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

// json marks the strings of a JSON value, whatever escapes they are written
// with.
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
			return json.RawMessage("null") // no JSON: it was checked before
		}
		out.Write(quote(g.mark(s, sentinel)))
	}
	return out.Bytes()
}

// quote is a JSON string with HTML's characters as they are.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(`""`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// errPrivate says that no rune is left to mark with.
var errPrivate = errors.New("the conversation uses every private-use character there is")

// unused gives n private-use runes that none of the texts holds, neither as
// such nor as the escape that JSON has for it.
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

// The private-use runes of the basic plane.
const (
	firstPrivate rune = 0xE000
	lastPrivate  rune = 0xF8FF
)

// escape is the rune as JSON for ASCII writes it.
func escape(r rune) string {
	const digits = "0123456789abcdef"
	return `\u` + string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}
