// Fertility is the number of tokens per word, character and byte of a text.
// [ReadText] reads a text from a plain or an XML file such as the UDHR in
// Unicode (https://efele.net/udhr), with a size limit. [MeasureFertility]
// counts. Languages without spaces, such as Chinese and Japanese, are counted
// by characters, and their figures per word cannot be compared with others;
// token counts of parallel texts can ([CompareFertility]).

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

// Limits of a text: file size in bytes, and element depth.
const (
	MaxFertilityFile = 16 << 20
	maxDepth         = 64
)

// FertilityThreshold is the ratio to the base above which the fertility is too
// high.
const FertilityThreshold = 2.5

// Text is a text read from a file.
type Text struct {
	Language string // ISO 639-3, if declared
	Name     string // of the language, if declared
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
		err = errors.New("invalid UTF-8")
	}
	if err == nil && strings.TrimSpace(t.Text) == "" {
		err = errors.New("no text")
	}
	if err != nil {
		return Text{}, fmt.Errorf("reading %s: %w", path, err)
	}
	t.Text = norm.NFC.String(t.Text)
	return t, nil
}

// parseXML returns the character data, one line each. Custom entities are an
// error of encoding/xml.
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
				return t, fmt.Errorf("elements nested deeper than %d", maxDepth)
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

// Fertility holds the counts of a text.
type Fertility struct {
	Words      int  `json:"words"`      // at least 1
	Characters int  `json:"characters"` // without white space
	Bytes      int  `json:"bytes"`      // of UTF-8, including white space
	Tokens     int  `json:"tokens"`     // without special ones
	ByChar     bool `json:"by_character,omitempty"`

	PerWord      float64 `json:"tokens_per_word"`
	PerCharacter float64 `json:"tokens_per_character"`
	PerByte      float64 `json:"tokens_per_byte"`
	BytesPer     float64 `json:"bytes_per_token"`
}

// Encoder counts the tokens of a text, without adding or recognizing special
// ones.
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

// countWords counts runs of letters, marks, digits and _. A character of a
// script without spaces is a word, also counted in alone. Marks belong to
// words; otherwise Hindi would split at its vowels.
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

// FertilityRatio compares a text with the base.
type FertilityRatio struct {
	Word     float64 `json:"word"`     // of tokens per word; meaningless if one counts characters
	Parallel float64 `json:"parallel"` // of tokens, for parallel texts
	High     bool    `json:"high"`     // Parallel is above FertilityThreshold
}

// CompareFertility compares a text with the base.
func CompareFertility(f, base Fertility) FertilityRatio {
	r := FertilityRatio{Parallel: float64(f.Tokens) / float64(max(base.Tokens, 1))}
	if base.PerWord > 0 {
		r.Word = f.PerWord / base.PerWord
	}
	r.High = r.Parallel > FertilityThreshold
	return r
}
