package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// DecodeOptions configures decoding.
type DecodeOptions struct {
	// Special includes the text of control and unknown tokens.
	Special bool
	// Continued marks ids that continue earlier text, so that a leading space
	// belongs to the text. Otherwise the space that Encode prepended is
	// dropped.
	Continued bool
}

// Decode returns the text of ids. Ids outside the vocabulary are skipped. Valid
// UTF-8 survives Encode and Decode unless the vocabulary lacks byte tokens or
// normalizes.
func (t *Tokenizer) Decode(ids []int32, opt DecodeOptions) string {
	var out strings.Builder
	d := t.Decoder(opt)
	for _, id := range ids {
		out.WriteString(d.bytes(id))
	}
	return out.String()
}

// Decoder decodes token by token. It holds back the bytes of an incomplete
// character.
type Decoder struct {
	t     *Tokenizer
	opt   DecodeOptions
	start bool   // the next space was added by Encode
	tail  []byte // an incomplete character
}

// Decoder returns a decoder at the start of a text.
func (t *Tokenizer) Decoder(opt DecodeOptions) *Decoder {
	return &Decoder{t: t, opt: opt, start: !opt.Continued && (t.vocab.SpacePrefix != NoPrefix || t.vocab.Model == WordPiece)}
}

// Next returns the text completed by id, or "" while a character is incomplete.
// Bytes that cannot become a character are returned unchanged.
func (d *Decoder) Next(id int32) string {
	piece := d.bytes(id)
	if len(d.tail) == 0 && !incompleteEnd(piece) {
		return piece
	}
	d.tail = append(d.tail, piece...)
	n := len(d.tail) - incomplete(d.tail)
	text := string(d.tail[:n])
	d.tail = append(d.tail[:0], d.tail[n:]...)
	return text
}

// Flush returns the bytes still held back, at the end of a text.
func (d *Decoder) Flush() string {
	text := string(d.tail)
	d.tail = d.tail[:0]
	return text
}

// bytes returns the bytes of id.
func (d *Decoder) bytes(id int32) string {
	if id < 0 || int(id) >= d.t.words.size() {
		return ""
	}
	typ, piece := Type(d.t.words.types[id]), d.t.words.piece(id)
	special := typ == Control || typ == Unknown || typ == UserDefined
	if (typ == Control || typ == Unknown) && !d.opt.Special {
		if d.t.vocab.Model == Unigram { // as if the text did not have it
			return ""
		}
		piece = ""
	}
	if d.start && !special {
		piece = strings.TrimPrefix(piece, " ")
	}
	rule := d.t.vocab.SpacePrefix
	d.start = special && (rule == EveryPrefix || rule == WordPrefix || d.start && d.t.vocab.Model == WordPiece)
	return piece
}

// incompleteEnd is a cheap test for incomplete(s) > 0.
func incompleteEnd(s string) bool {
	return s != "" && s[len(s)-1] >= utf8.RuneSelf && incomplete([]byte(s)) > 0
}

// incomplete returns the number of bytes of an incomplete character at the end
// of b.
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
