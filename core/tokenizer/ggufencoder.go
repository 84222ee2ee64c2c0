package tokenizer

import (
	"fmt"
	"iter"
	"strings"

	"mm-abi.org/mm/core/gguf"
)

// Keys of the tokenizers of encoders.
const (
	keyCharsmap = "tokenizer.ggml.precompiled_charsmap" // arr[u8]
	keyClass    = "tokenizer.ggml.cls_token_id"         // u32
)

// bertSteps are the normalizer of an uncased BERT, for files that do not state one.
var bertSteps = []string{"BertClean", "BertHan", "BertAccents", "Lowercase"}

// wordPieceOf returns the defaults of a bert file.
func wordPieceOf() Vocabulary {
	v := Vocabulary{Model: WordPiece, Normalizer: bertSteps, AddBOS: true, AddEOS: true, Pair: Pair{Between: 1, Second: true}, Special: NoSpecial}
	v.Special.BOS, v.Special.EOS, v.Special.Separator, v.Special.Unknown, v.Special.Padding = 101, 102, 102, 100, 0
	return v
}

// unigramOf returns the defaults of a t5 file.
func unigramOf(f *gguf.File) (Vocabulary, error) {
	v := Vocabulary{Model: Unigram, Pre: preMetaspace, SpacePrefix: WordPrefix, AddEOS: true, Special: NoSpecial}
	v.Special.EOS, v.Special.Unknown, v.Special.Padding = 1, 2, 0
	squeeze, err := gguf.GetOr(f, gguf.KeyRemoveExtraSpace, false)
	if err != nil {
		return v, err
	}
	if squeeze {
		v.Pre = preFields
	}
	if f.Has(keyCharsmap) {
		if v.Charsmap, err = gguf.Get[[]uint8](f, keyCharsmap); err != nil {
			return v, err
		}
		if len(v.Charsmap) > maxCharsmap {
			return v, fmt.Errorf("key %s: %d bytes, limit %d", keyCharsmap, len(v.Charsmap), maxCharsmap)
		}
		v.Normalizer = []string{charsmapStep}
	}
	return v, nil
}

// encoderRoles completes the roles of an encoder's file without mm's own key.
func (v *Vocabulary) encoderRoles(f *gguf.File, tokens int) error {
	switch v.Model {
	case WordPiece:
		if f.Has(keyClass) {
			id, err := gguf.Get[uint32](f, keyClass)
			if err != nil {
				return err
			}
			if uint64(id) >= uint64(tokens) {
				return fmt.Errorf("key %s: id %d out of range of %d tokens", keyClass, id, tokens)
			}
			v.Special.BOS = int32(id)
		}
		v.Special.EOS = v.Special.Separator
		v.AddBOS, v.AddEOS = v.Special.BOS != None, v.Special.EOS != None
		if !v.AddEOS {
			v.Pair = Pair{}
		}
	case Unigram:
		if v.SpacePrefix != NoPrefix {
			v.SpacePrefix = WordPrefix
		}
		if v.AddEOS {
			v.Pair.Between = 1
			if v.AddBOS { // XLM-RoBERTa
				v.Pair.Between = 2
			}
		}
	}
	return nil
}

// phantom returns a token of WordPiece as GGUF files write it: ▁ begins a word, and
// the mark of a continued word is dropped.
func phantom(t Token) string {
	switch {
	case t.Type == Control || t.Type == Unknown || t.Type == UserDefined || t.Type == Unused:
		return t.Text
	case len(t.Text) > len(pieceMark) && strings.HasPrefix(t.Text, pieceMark):
		return t.Text[len(pieceMark):]
	}
	return spaceMark + t.Text
}

// fromPhantom is the inverse of phantom for tokens of some types.
func fromPhantom(texts iter.Seq2[int, string], types []int32) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for id, text := range texts {
			typ := Normal
			if id < len(types) {
				typ = Type(types[id])
			}
			if typ == Normal || typ == Byte || typ == 0 {
				rest, begins := strings.CutPrefix(text, spaceMark)
				if text = rest; !begins && text != "" {
					text = pieceMark + text
				}
			}
			if !yield(id, text) {
				return
			}
		}
	}
}
