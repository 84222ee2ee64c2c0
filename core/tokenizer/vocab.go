package tokenizer

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Model is the algorithm that turns text into tokens.
type Model uint8

// The models.
const (
	// BPE merges pairs in the order in which they were learnt, on bytes
	// written in GPT-2's alphabet or, for some pre-tokenizers, on characters.
	BPE Model = iota
	// SPM is SentencePiece's: the pair whose union has the best score is
	// merged first; what is in no token falls back to bytes.
	SPM
)

// Type is what a token is for; the values are GGUF's.
type Type int32

// The token types.
const (
	Normal      Type = 1
	Unknown     Type = 2
	Control     Type = 3 // never in text: <s>, <|im_end|>
	UserDefined Type = 4 // in text, always one token
	Unused      Type = 5
	Byte        Type = 6 // <0x0A>, one byte of what has no token
)

// Token is one entry of a vocabulary; its id is its index.
type Token struct {
	// Text is as files hold it: spaces are ▁ for SPM; for BPE on bytes, every
	// byte is a character of GPT-2's alphabet.
	Text  string
	Score float32 // SPM only: greater is merged earlier
	Type  Type    // 0 is Normal
	// LStrip and RStrip drop white space before and after a special token
	// when it is found in text.
	LStrip, RStrip bool
}

// Merge is one step of BPE: two texts that become one token.
type Merge struct{ Left, Right string }

// Prefix says where a space is put before text that a model was trained to see
// as a word of its own.
type Prefix uint8

// The rules for the space before text.
const (
	NoPrefix    Prefix = iota
	EveryPrefix        // at the start and after every special token
	WordPrefix         // the same, unless a space is there already
	FirstPrefix        // at the start only, unless a space is there already
)

// PreNone is the pre-tokenizer that does not cut: merges may cross words.
const PreNone = "mm-none"

// None is the id of a special token that a vocabulary does not have.
const None int32 = -1

// Special are the ids of the tokens that have a role; None where absent.
type Special struct {
	BOS, EOS, EOT, EOM, Unknown, Separator, Padding int32
}

// NoSpecial has no special token at all.
var NoSpecial = Special{None, None, None, None, None, None, None}

// Vocabulary is all that defines a tokenizer. Readers fill it, [New] checks it.
type Vocabulary struct {
	Model Model
	// Pre names the pre-tokenizer of a BPE model, as tokenizer.ggml.pre does.
	Pre     string
	Tokens  []Token
	Merges  []Merge // BPE only, the earliest learnt first
	Special Special
	// AddBOS and AddEOS say what Encode adds when it is asked to.
	AddBOS, AddEOS bool
	// SpacePrefix says where a space is put before text (SPM and BPE on
	// characters).
	SpacePrefix Prefix
	// WholeWords takes a word that is a token as it is, whether or not merges
	// lead to it. Some pre-tokenizers imply it.
	WholeWords bool
	// Stated says that the types of tokens are to be believed. Those of GGUF
	// files are often wrong: there a token that reads like the end of a text
	// is one, whatever its type.
	Stated bool
	// NFC normalises text to Unicode's composed form first.
	NFC bool
	// Template is the chat template in Jinja, "" for none.
	Template string
}

// The limits of a vocabulary.
const (
	maxTokens     = 1 << 22
	maxMerges     = 1 << 23
	maxTokenBytes = 1 << 16
)

// spaceMark is ▁, which stands for a space in SPM's tokens.
const spaceMark = "\u2581"

// check holds a vocabulary to what the algorithms take for granted.
func (v *Vocabulary) check() error {
	if len(v.Tokens) == 0 {
		return fmt.Errorf("the vocabulary is empty")
	}
	if len(v.Tokens) > maxTokens || len(v.Merges) > maxMerges {
		return fmt.Errorf("%d tokens and %d merges are more than the %d and %d allowed", len(v.Tokens), len(v.Merges), maxTokens, maxMerges)
	}
	if v.Model == SPM && len(v.Merges) > 0 {
		return fmt.Errorf("an SPM vocabulary has %d merges", len(v.Merges))
	}
	for id, t := range v.Tokens {
		if len(t.Text) > maxTokenBytes {
			return fmt.Errorf("token %d has %d bytes, at most %d are allowed", id, len(t.Text), maxTokenBytes)
		}
		if t.Type < 0 || t.Type > Byte {
			return fmt.Errorf("token %d, %q, has the unknown type %d", id, t.Text, t.Type)
		}
		if math.IsNaN(float64(t.Score)) {
			return fmt.Errorf("token %d, %q, has a score that is no number", id, t.Text)
		}
		if t.Type == Byte {
			if _, ok := byteOf(t.Text); !ok {
				return fmt.Errorf("token %d is of type byte and reads %q, not <0x00> to <0xFF>", id, t.Text)
			}
		}
	}
	for name, id := range map[string]int32{
		"bos": v.Special.BOS, "eos": v.Special.EOS, "eot": v.Special.EOT, "eom": v.Special.EOM,
		"unknown": v.Special.Unknown, "separator": v.Special.Separator, "padding": v.Special.Padding,
	} {
		if id < None || int(id) >= len(v.Tokens) {
			return fmt.Errorf("the %s token is %d, beyond the %d tokens", name, id, len(v.Tokens))
		}
	}
	if v.AddBOS && v.Special.BOS == None {
		return fmt.Errorf("a beginning of sequence is to be added and there is no such token")
	}
	if v.AddEOS && v.Special.EOS == None {
		return fmt.Errorf("an end of sequence is to be added and there is no such token")
	}
	return nil
}

// byteOf reads a byte token strictly: <0x, two hexadecimal digits, >.
func byteOf(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	hi, ok1 := hexDigit(text[3])
	lo, ok2 := hexDigit(text[4])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10, true
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10, true
	}
	return 0, false
}

// ByteToken is the text of the token for one byte, such as "<0x0A>".
func ByteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// alphabet maps each byte to its character in GPT-2's printable alphabet:
// what is printable in Latin-1 stands for itself, the rest follows at U+0100.
var alphabet = func() (t [256]rune) {
	next := rune(256)
	for b := range t {
		if b > ' ' && b <= '~' || b > 0xa0 && b <= 0xff && b != 0xad {
			t[b] = rune(b)
		} else {
			t[b] = next
			next++
		}
	}
	return t
}()

// byteOfRune is the reverse of alphabet; 0x100 and above is no byte.
var byteOfRune = func() (t [512]uint16) {
	for i := range t {
		t[i] = 0x100
	}
	for b, r := range alphabet {
		t[r] = uint16(b)
	}
	return t
}()

// ToAlphabet writes bytes in GPT-2's alphabet.
func ToAlphabet(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(alphabet[s[i]])
	}
	return b.String()
}

// FromAlphabet is the reverse of ToAlphabet; false when s holds a character
// outside the alphabet.
func FromAlphabet(s string) (string, bool) {
	plain := 0 // printable ASCII stands for itself
	for plain < len(s) && s[plain] > ' ' && s[plain] <= '~' {
		plain++
	}
	if plain == len(s) {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i, r := range s {
		if int(r) >= len(byteOfRune) || byteOfRune[r] > 0xff || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return "", false
		}
		out = append(out, byte(byteOfRune[r]))
	}
	return string(out), true
}
