package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// DecodeOptions says how ids become text.
type DecodeOptions struct {
	// Special writes control and unknown tokens as their text. The zero
	// value leaves them out.
	Special bool
	// Continued says that the ids go on from text before them, so that a
	// leading space is the text's own. The zero value takes the ids for a
	// whole text and drops the space that Encode put before it.
	Continued bool
}

// Decode gives the text of ids. Ids outside the vocabulary are left out.
// What Encode made of valid UTF-8 comes back as it was, unless the vocabulary
// lacks byte tokens or normalises.
func (t *Tokenizer) Decode(ids []int32, opt DecodeOptions) string {
	var out strings.Builder
	d := t.Decoder(opt)
	for _, id := range ids {
		out.WriteString(d.bytes(id))
	}
	return out.String()
}

// Decoder gives text token by token, as a model produces them. Bytes of a
// character that has not arrived in full are held back.
type Decoder struct {
	t     *Tokenizer
	opt   DecodeOptions
	start bool   // the next space is Encode's
	held  []byte // the beginning of a character
}

// Decoder begins a text.
func (t *Tokenizer) Decoder(opt DecodeOptions) *Decoder {
	return &Decoder{t: t, opt: opt, start: !opt.Continued && t.vocab.SpacePrefix != NoPrefix}
}

// Next gives the text that id completes; it is "" while a character is still
// incomplete. Bytes that can never become a character are given as they are.
func (d *Decoder) Next(id int32) string {
	piece := d.bytes(id)
	if len(d.held) == 0 && !incompleteEnd(piece) {
		return piece
	}
	d.held = append(d.held, piece...)
	n := len(d.held) - incomplete(d.held)
	text := string(d.held[:n])
	d.held = append(d.held[:0], d.held[n:]...)
	return text
}

// Flush gives the bytes that are still held back, at the end of a text.
func (d *Decoder) Flush() string {
	text := string(d.held)
	d.held = d.held[:0]
	return text
}

// bytes gives what id adds to the text.
func (d *Decoder) bytes(id int32) string {
	if id < 0 || int(id) >= len(d.t.pieces) {
		return ""
	}
	special := d.t.strip[id]
	piece := d.t.pieces[id]
	if typ := d.t.types[id]; (typ == Control || typ == Unknown) && !d.opt.Special {
		piece = ""
	}
	if d.start && !special {
		piece = strings.TrimPrefix(piece, " ")
	}
	rule := d.t.vocab.SpacePrefix
	d.start = special && (rule == EveryPrefix || rule == WordPrefix)
	return piece
}

// incompleteEnd is incomplete(s) > 0 for the common case, cheaply.
func incompleteEnd(s string) bool {
	return s != "" && s[len(s)-1] >= utf8.RuneSelf && incomplete([]byte(s)) > 0
}

// incomplete is the number of bytes at the end of b that begin a character
// and lack the rest of it.
func incomplete(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
