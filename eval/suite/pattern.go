package suite

import "strings"

// goPattern translates a pattern of Python's re: its classes contain the characters of
// all scripts.
func goPattern(pattern string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(escape(pattern[i], class))
			continue
		case c == '[' && !class:
			class = true
			b.WriteByte(c)
			if strings.HasPrefix(pattern[i+1:], "^") {
				i++
				b.WriteByte('^')
			}
			if strings.HasPrefix(pattern[i+1:], "]") { // is the character itself
				i++
				b.WriteString(`\]`)
			}
			continue
		case c == '[':
			b.WriteString(`\[`) // no nested classes
			continue
		case c == ']':
			class = false
		}
		b.WriteByte(c)
	}
	return b.String()
}

// escape translates an escaped character.
func escape(c byte, class bool) string {
	set, ok := map[byte]string{'d': `\p{Nd}`, 'w': `\p{L}\p{N}_`, 's': `\s\v\x{1c}-\x{1f}\x{85}\p{Z}`}[c]
	switch {
	case ok && class:
		return set
	case ok:
		return "[" + set + "]"
	case c == 'D' && class:
		return `\P{Nd}`
	case !class && strings.IndexByte("DWS", c) >= 0:
		return "[^" + escape(c|0x20, true) + "]"
	case c == 'Z':
		return `\z`
	}
	return `\` + string(c)
}
