package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// FromLlama2C builds the tokenizer of llama2.c's tokenizer.bin: u32 longest
// token, then for each of size tokens f32 score, u32 length, bytes, little
// endian. The model file has the size. Tokens 0 to 2 are unknown, BOS and EOS;
// spaces replace ▁.
func FromLlama2C(b []byte, size int) (*Tokenizer, error) {
	v, err := parseLlama2C(b, size)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.bin: %w", err)
	}
	return New(v)
}

func parseLlama2C(b []byte, size int) (Vocabulary, error) {
	v := Vocabulary{Model: SPM, SpacePrefix: EveryPrefix, AddBOS: true, Special: NoSpecial}
	if len(b) < 4 {
		return v, fmt.Errorf("file truncated: got %d bytes", len(b))
	}
	longest := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if size < 3 || size > len(b)/8 {
		return v, fmt.Errorf("file truncated: %d tokens in %d bytes", size, len(b))
	}
	v.Tokens = make([]Token, size)
	for id := range v.Tokens {
		if len(b) < 8 {
			return v, fmt.Errorf("token %d: file truncated", id)
		}
		score := math.Float32frombits(binary.LittleEndian.Uint32(b))
		n := binary.LittleEndian.Uint32(b[4:])
		b = b[8:]
		if n > longest || uint64(n) > uint64(len(b)) {
			return v, fmt.Errorf("token %d: bad length %d, longest %d, %d bytes left", id, n, longest, len(b))
		}
		text := strings.ReplaceAll(string(b[:n]), " ", spaceMark)
		b = b[n:]
		v.Tokens[id] = Token{Text: text, Score: score, Type: Normal}
		if _, ok := byteOf(text); ok {
			v.Tokens[id].Type = Byte
		}
	}
	if len(b) > 0 {
		return v, fmt.Errorf("%d extra bytes after %d tokens", len(b), size)
	}
	v.Tokens[0].Type, v.Tokens[1].Type, v.Tokens[2].Type = Unknown, Control, Control
	for i := range v.Tokens[:3] { // "\n<s>\n"
		v.Tokens[i].Text = strings.Trim(v.Tokens[i].Text, "\n")
	}
	v.Special.Unknown, v.Special.BOS, v.Special.EOS = 0, 1, 2
	return v, nil
}
