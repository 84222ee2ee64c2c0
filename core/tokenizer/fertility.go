// Package fertility measures how many tokens a tokenizer makes of a text: a
// word, a character, a byte.
//
// [ReadText] takes a text out of a file, plain or of XML such as the UDHR in Unicode
// (https://efele.net/udhr), bounded before it is read. [MeasureFertility] counts. Words of
// languages that write none, such as Chinese and Japanese, are counted by their
// characters and cannot be compared with others; of parallel texts, which say the
// same thing, the tokens themselves can ([CompareFertility]).
package tokenizer

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"mm-abi.org/mm/internal/fsx"
)

// The bounds of a text: of its file in bytes, and of elements within each other.
const (
	MaxFertilityFile = 16 << 20
	maxDepth         = 64
)

// FertilityThreshold is the ratio to the base above which a tokenizer is too fertile.
const FertilityThreshold = 2.5

// Text is what was read.
type Text struct {
	Language string // ISO 639-3, where the file says so
	Name     string // of the language, where the file says so
	Text     string // NFC
}

// ReadText reads the text in the file at path, which must be UTF-8.
func ReadText(path string) (Text, error) {
	data, err := fsx.ReadFile(path, MaxFertilityFile)
	if err != nil {
		return Text{}, err
	}
	t := Text{Text: string(data)}
	if strings.EqualFold(filepath.Ext(path), ".xml") {
		t, err = parseXML(t.Text)
	}
	if err == nil && !utf8.ValidString(t.Text) {
		err = errors.New("it is not UTF-8")
	}
	if err == nil && strings.TrimSpace(t.Text) == "" {
		err = errors.New("there is no text in it")
	}
	if err != nil {
		return Text{}, fmt.Errorf("reading %s: %w", path, err)
	}
	t.Text = norm.NFC.String(t.Text)
	return t, nil
}

// parseXML is the text between the tags, a line each. Entities of a document's own
// are refused, as encoding/xml does.
func parseXML(data string) (Text, error) {
	var t Text
	var b strings.Builder
	dec, depth := xml.NewDecoder(strings.NewReader(data)), 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			t.Text = b.String()
			return t, nil
		}
		if err != nil {
			return t, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return t, fmt.Errorf("more than %d elements within each other", maxDepth)
			}
			if depth == 1 {
				t.Language, t.Name = attribute(token, "iso639-3"), attribute(token, "n")
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			if line := strings.TrimSpace(string(token)); line != "" {
				b.WriteString(line + "\n")
			}
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// Fertility are the counts of a text.
type Fertility struct {
	Words      int  `json:"words"`      // at least 1
	Characters int  `json:"characters"` // without white space
	Bytes      int  `json:"bytes"`      // of UTF-8, white space too
	Tokens     int  `json:"tokens"`     // without special ones
	ByChar     bool `json:"by_character,omitempty"`

	PerWord      float64 `json:"tokens_per_word"`
	PerCharacter float64 `json:"tokens_per_character"`
	PerByte      float64 `json:"tokens_per_byte"`
	BytesPer     float64 `json:"bytes_per_token"`
}

// Encoder counts the tokens of a text, special ones neither found nor added.
type Encoder func(text string) int

// MeasureFertility counts the tokens of a text.
func MeasureFertility(text string, encode Encoder) Fertility {
	f := Fertility{Bytes: len(text), Tokens: encode(text)}
	var alone int
	f.Words, alone = countWords(text)
	f.ByChar = 2*alone > f.Words
	f.Words = max(f.Words, 1)
	for _, r := range text {
		if !unicode.IsSpace(r) {
			f.Characters++
		}
	}
	tokens := float64(f.Tokens)
	f.PerWord, f.PerCharacter, f.PerByte = tokens/float64(f.Words), tokens/float64(max(f.Characters, 1)), tokens/float64(max(f.Bytes, 1))
	f.BytesPer = float64(f.Bytes) / float64(max(f.Tokens, 1))
	return f
}

// countWords counts runs of letters, marks, digits and _; a character of a script
// that puts no space between words is one by itself, and counted in alone, too.
// Marks belong to words: without them Hindi falls apart at its vowels.
func countWords(text string) (n, alone int) {
	inside := false
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) && !unicode.IsPunct(r):
			if !unicode.IsMark(r) {
				n, alone = n+1, alone+1
			}
			inside = false
		case unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r), r == '_':
			if !inside {
				n++
			}
			inside = true
		default:
			inside = false
		}
	}
	return n, alone
}

// FertilityRatio is a text beside the base.
type FertilityRatio struct {
	Word     float64 `json:"word"`     // of tokens a word; not to be compared where one counts characters
	Parallel float64 `json:"parallel"` // of tokens: of texts that say the same
	High     bool    `json:"high"`     // the parallel one is above FertilityThreshold
}

// CompareFertility holds the figures of a text against those of the base.
func CompareFertility(f, base Fertility) FertilityRatio {
	r := FertilityRatio{Parallel: float64(f.Tokens) / float64(max(base.Tokens, 1))}
	if base.PerWord > 0 {
		r.Word = f.PerWord / base.PerWord
	}
	r.High = r.Parallel > FertilityThreshold
	return r
}
