package tokenizer

import (
	"fmt"
	"math"
	"strings"
)

// Model is the tokenization algorithm.
type Model uint8

// The models.
const (
	// BPE merges pairs in training order, on bytes written in GPT-2's alphabet
	// or, for some pre-tokenizers, on characters.
	BPE Model = iota
	// SPM is SentencePiece's: the pair whose union has the best score is merged
	// first; text without a token falls back to bytes.
	SPM
	// WordPiece is BERT's: the longest token that a word begins with, then those
	// that continue it, which begin with ##.
	WordPiece
	// Unigram is SentencePiece's other model: the tokens of a word with the
	// greatest sum of scores.
	Unigram
)

// Type is the purpose of a token, numbered as in GGUF.
type Type int32

// The token types.
const (
	Normal      Type = 1
	Unknown     Type = 2
	Control     Type = 3 // never in text: <s>, <|im_end|>
	UserDefined Type = 4 // in text, always one token
	Unused      Type = 5
	Byte        Type = 6 // <0x0A>, a byte of text without a token
)

// Token is an entry of a vocabulary; its id is its index.
type Token struct {
	// Text is encoded as in files: spaces are ▁ for SPM; for BPE on bytes,
	// every byte is a character of GPT-2's alphabet.
	Text  string
	Score float32 // SPM only: greater merges earlier
	Type  Type    // 0 is Normal
	Flags         // of a special token
}

// Flags select how a special token is found in text.
type Flags struct {
	LStrip, RStrip bool // together with the white space before and after it
	SingleWord     bool // only if no letter or digit is next to it
	Normalized     bool // in the normalized text instead of the text itself
}

// Merge is a step of BPE: two texts that become one token.
type Merge struct{ Left, Right string }

// Prefix selects where a space is prepended to text, so that the first word is
// encoded like any other.
type Prefix uint8

// The rules for the space before text.
const (
	NoPrefix    Prefix = iota
	EveryPrefix        // at the start and after every special token
	WordPrefix         // the same, unless a space is present
	FirstPrefix        // at the start only, unless a space is present
)

// PreNone is the pre-tokenizer that does not split: merges may cross words.
const PreNone = "mm-none"

// None is the id of a missing special token.
const None int32 = -1

// Special holds the ids of the special tokens; None if missing.
type Special struct {
	BOS, EOS, EOT, EOM, Unknown, Separator, Padding int32
}

// NoSpecial has no special tokens.
var NoSpecial = Special{None, None, None, None, None, None, None}

// Vocabulary defines a tokenizer. Readers fill it, [New] validates it.
type Vocabulary struct {
	Model Model
	// Pre is the pre-tokenizer of a BPE model, named as in tokenizer.ggml.pre, or
	// of a Unigram model: mm-fields (at white space, which is dropped), mm-metaspace
	// (before spaces) or mm-chars (none).
	Pre     string
	Tokens  []Token
	Merges  []Merge // BPE only, in training order
	Special Special
	// AddBOS and AddEOS are added by Encode with Options.Add.
	AddBOS, AddEOS bool
	// SpacePrefix selects where a space is prepended to text (SPM and BPE on
	// characters).
	SpacePrefix Prefix
	// MarksFirst replaces spaces by ▁, and applies SpacePrefix, before special
	// tokens are found that are Normalized.
	MarksFirst bool
	// WholeWords accepts a word that is a token, whether or not merges lead to
	// it. Some pre-tokenizers imply it.
	WholeWords bool
	// FuseUnknown encodes consecutive unknown characters of a word as one unknown
	// token.
	FuseUnknown bool
	// Stated marks the token types as reliable. Those of GGUF files are often
	// wrong: a token that looks like the end of a text is then special,
	// whatever its type.
	Stated bool
	// Normalizer lists the steps that normalize text first: NFC, NFD, NFKC, NFKD,
	// Lowercase, StripAccents, Nmt, Precompiled (Charsmap), BertClean, BertHan,
	// BertAccents, Quotes, Spaces, Strip, StripLeft, StripRight, LowercaseSigma,
	// Punctuation, WhiteSpace.
	Normalizer []string
	// Charsmap is the table of the step Precompiled.
	Charsmap []byte
	// LongestWord is the limit of a word of WordPiece, in characters; 0: 100. A
	// longer one is unknown.
	LongestWord int
	// Suffix ends the last symbol of each word of BPE on bytes, such as </w>; "": none.
	Suffix string
	// Pair is how two texts are joined.
	Pair Pair
	// Template is the chat template in Jinja, or "".
	Template string
	// TemplateBOS leaves BOS to the template: none is added to its text.
	TemplateBOS bool
}

// Limits of a vocabulary.
const (
	maxTokens     = 1 << 22
	maxMerges     = 1 << 23
	maxTokenBytes = 1 << 16
	maxSuffix     = 16 // bytes
	// maxUnigramBytes bounds the texts of a Unigram model, which are a tree.
	maxUnigramBytes = 16 << 20
	// maxLongestWord bounds the words of WordPiece, in characters.
	maxLongestWord = 1 << 16
)

// spaceMark is ▁, a space in SPM's tokens.
const spaceMark = "\u2581"

// check validates the assumptions of the algorithms.
func (v *Vocabulary) check() error {
	return v.checkTokens(len(v.Tokens), len(v.Merges), func(id int32) Token { return v.Tokens[id] })
}

// checkTokens validates a vocabulary whose tokens are stored elsewhere.
func (v *Vocabulary) checkTokens(tokens, merges int, token func(id int32) Token) error {
	if tokens == 0 {
		return fmt.Errorf("empty vocabulary")
	}
	if tokens > maxTokens || merges > maxMerges {
		return fmt.Errorf("got %d tokens and %d merges, limits %d and %d", tokens, merges, maxTokens, maxMerges)
	}
	if v.Model != BPE && merges > 0 {
		return fmt.Errorf("a vocabulary that is not of BPE has %d merges", merges)
	}
	if v.Model > Unigram || v.Model == Unigram && v.Pre != preFields && v.Pre != preMetaspace && v.Pre != preChars {
		return fmt.Errorf("unknown model %d or pre-tokenizer %q of Unigram", v.Model, v.Pre)
	}
	if v.Suffix != "" && (v.Model != BPE || len(v.Suffix) > maxSuffix) {
		return fmt.Errorf("suffix of words %.40q: want at most %d bytes, of a BPE model", v.Suffix, maxSuffix)
	}
	if err := v.checkPair(tokens); err != nil {
		return err
	}
	total := 0
	for id := range int32(tokens) {
		t := token(id)
		if len(t.Text) > maxTokenBytes {
			return fmt.Errorf("token %d too long: got %d bytes, limit %d", id, len(t.Text), maxTokenBytes)
		}
		if total += len(t.Text); v.Model == Unigram && total > maxUnigramBytes {
			return fmt.Errorf("texts of Unigram's tokens too long: limit %d bytes", maxUnigramBytes)
		}
		if t.Type < 0 || t.Type > Byte {
			return fmt.Errorf("token %d, %q: unknown type %d", id, t.Text, t.Type)
		}
		if math.IsNaN(float64(t.Score)) {
			return fmt.Errorf("token %d, %q: NaN score", id, t.Text)
		}
		if t.Type == Byte {
			if _, ok := byteOf(t.Text); !ok {
				return fmt.Errorf("byte token %d: got %q, want <0x00> to <0xFF>", id, t.Text)
			}
		}
	}
	for _, name := range v.Normalizer {
		if normalizerOf(name) == nil {
			return fmt.Errorf("unsupported normalizer %s", name)
		}
	}
	for name, id := range map[string]int32{
		"bos": v.Special.BOS, "eos": v.Special.EOS, "eot": v.Special.EOT, "eom": v.Special.EOM,
		"unknown": v.Special.Unknown, "separator": v.Special.Separator, "padding": v.Special.Padding,
	} {
		if id < None || int(id) >= tokens {
			return fmt.Errorf("%s token %d out of range of %d tokens", name, id, tokens)
		}
	}
	if v.AddBOS && v.Special.BOS == None {
		return fmt.Errorf("AddBOS is set but BOS is missing")
	}
	if v.AddEOS && v.Special.EOS == None {
		return fmt.Errorf("AddEOS is set but EOS is missing")
	}
	return nil
}

// byteOf parses a byte token strictly: <0x, two hexadecimal digits, >.
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

// ByteToken returns the text of a byte's token, such as "<0x0A>".
func ByteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// alphabet maps each byte to its character in GPT-2's printable alphabet:
// printable Latin-1 characters are unchanged, the rest follows at U+0100.
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

// byteOfRune is the inverse of alphabet; 0x100 and above is invalid.
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

// FromAlphabet is the inverse of ToAlphabet; it returns false if s has a
// character outside the alphabet.
func FromAlphabet(s string) (string, bool) {
	plain := 0 // printable ASCII is unchanged
	for plain < len(s) && s[plain] > ' ' && s[plain] <= '~' {
		plain++
	}
	if plain == len(s) {
		return s, true
	}
	out, ok := appendFromAlphabet(make([]byte, 0, len(s)), s)
	if !ok {
		return "", false
	}
	return string(out), true
}

// appendFromAlphabet appends FromAlphabet(s) to dst; on false dst is unchanged.
func appendFromAlphabet(dst []byte, s string) ([]byte, bool) {
	from := len(dst)
	for _, r := range s { // U+FFFD, for invalid UTF-8 too, is outside the alphabet
		if int(r) >= len(byteOfRune) || byteOfRune[r] > 0xff {
			return dst[:from], false
		}
		dst = append(dst, byte(byteOfRune[r]))
	}
	return dst, true
}
