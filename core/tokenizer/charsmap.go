package tokenizer

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// maxCharsmap is the limit of a normalizer's table, in bytes.
const maxCharsmap = 16 << 20

// longestGrapheme is the limit, in bytes, of a grapheme that is looked up whole.
const longestGrapheme = 6

// charsmap is the normalizer that SentencePiece compiles: a double array that maps
// characters to texts.
type charsmap struct {
	units []byte // of 4 bytes
	texts string // each ends with a zero byte
	ascii bool   // printable ASCII is mapped
}

// parseCharsmap parses precompiled_charsmap: the size of the array, the array, the
// texts.
func parseCharsmap(data []byte) (*charsmap, error) {
	if len(data) == 0 {
		return &charsmap{}, nil
	}
	if len(data) > maxCharsmap {
		return nil, fmt.Errorf("charsmap of %d bytes, limit %d", len(data), maxCharsmap)
	}
	if len(data) < 4 {
		return nil, fmt.Errorf("charsmap of %d bytes, want 4 or more", len(data))
	}
	size := uint64(binary.LittleEndian.Uint32(data))
	if size%4 != 0 || size > uint64(len(data)-4) {
		return nil, fmt.Errorf("charsmap: array of %d bytes in a table of %d", size, len(data))
	}
	c := &charsmap{units: data[4 : 4+size], texts: string(data[4+size:])}
	for b := ' '; b <= '~'; b++ {
		_, mapped := c.find(string(b))
		c.ascii = c.ascii || mapped
	}
	return c, nil
}

// normalize maps each grapheme, or each of its characters.
func (c *charsmap) normalize(s string) string {
	if len(c.units) == 0 || !c.ascii && plainASCII(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for rest, state := s, -1; rest != ""; {
		var g string
		g, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if len(g) < longestGrapheme {
			if to, ok := c.find(g); ok {
				b.WriteString(to)
				continue
			}
		}
		for i := 0; i < len(g); {
			_, n := utf8.DecodeRuneInString(g[i:])
			if to, ok := c.find(g[i : i+n]); ok {
				b.WriteString(to)
			} else {
				b.WriteString(g[i : i+n])
			}
			i += n
		}
	}
	return b.String()
}

// plainASCII reports whether text has printable ASCII alone.
func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// unit returns an element of the array.
func (c *charsmap) unit(at uint32) (uint32, bool) {
	if uint64(at) >= uint64(len(c.units)/4) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(c.units[4*at:]), true
}

// find returns the text of the shortest mapped prefix of key.
func (c *charsmap) find(key string) (string, bool) {
	offset := func(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }
	u, ok := c.unit(0)
	if !ok {
		return "", false
	}
	at := offset(u)
	for i := range len(key) {
		at ^= uint32(key[i])
		if u, ok = c.unit(at); !ok || key[i] == 0 || u&(1<<31|0xff) != uint32(key[i]) {
			return "", false
		}
		at ^= offset(u)
		if u>>8&1 != 0 {
			leaf, ok := c.unit(at)
			from := int(leaf & (1<<31 - 1))
			if !ok || from > len(c.texts) {
				return "", false
			}
			text, _, _ := strings.Cut(c.texts[from:], "\x00")
			return text, true
		}
	}
	return "", false
}

// nmt removes control characters and writes other white space as spaces.
func nmt(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 1 && r <= 8, r == 0x0b, r >= 0x0e && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
			return -1
		case r == 9, r == 10, r == 12, r == 13, r == 0x1680, r >= 0x200b && r <= 0x200f, r == 0x2028, r == 0x2029, r == 0x2581, r == 0xfeff, r == 0xfffd:
			return ' '
		}
		return r
	}, s)
}
