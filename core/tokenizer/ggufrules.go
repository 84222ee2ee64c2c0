package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/gguf"
)

// KeyRules is the GGUF key of the properties of a tokenizer that other keys
// cannot express, as a JSON object. Other programs ignore it.
const KeyRules = "mm.tokenizer.rules"

// maxRules is the limit of the object, in bytes.
const maxRules = 16 << 20

// rules is the value of [KeyRules]. An unknown key is an error, since it would
// change the ids.
type rules struct {
	Normalizer  []string `json:"normalizer,omitempty"`
	Prefix      string   `json:"prefix"`
	MarksFirst  bool     `json:"marks_first,omitempty"`
	WholeWords  bool     `json:"whole_words,omitempty"`
	FuseUnknown bool     `json:"fuse_unknown,omitempty"`
	TemplateBOS bool     `json:"template_bos,omitempty"`
	Stated      bool     `json:"stated,omitempty"`
	Words       string   `json:"words,omitempty"`        // pre-tokenizer of Unigram
	LongestWord int      `json:"longest_word,omitempty"` // of WordPiece
	Suffix      string   `json:"suffix,omitempty"`       // of words of BPE
	Between     int      `json:"between,omitempty"`      // of Pair
	Second      bool     `json:"second,omitempty"`       // of Pair
	// Tokens has the flags of special tokens, letters of lrwn, by id.
	Tokens map[string]string `json:"tokens,omitempty"`
}

// prefixes are the names of [Prefix] in rules.
var prefixes = []string{NoPrefix: "none", EveryPrefix: "every", WordPrefix: "word", FirstPrefix: "first"}

// rulesOf returns the value of [KeyRules], or "" if other keys suffice.
func rulesOf(v *Vocabulary) string {
	r := rules{
		Normalizer: v.Normalizer, Prefix: prefixes[v.SpacePrefix], MarksFirst: v.MarksFirst, WholeWords: v.WholeWords,
		FuseUnknown: v.FuseUnknown, TemplateBOS: v.TemplateBOS, Stated: v.Stated, Tokens: map[string]string{},
		LongestWord: v.LongestWord, Suffix: v.Suffix, Between: v.Pair.Between, Second: v.Pair.Second,
	}
	if v.Model == Unigram {
		r.Words = v.Pre
	}
	for id, t := range v.Tokens {
		if letters := t.Flags.letters(); letters != "" {
			r.Tokens[strconv.Itoa(id)] = letters
		}
	}
	if v.Model != WordPiece && v.Model != Unigram && v.Suffix == "" && v.Pair == (Pair{}) && !v.Stated && !v.WholeWords && len(r.Normalizer) == 0 && len(r.Tokens) == 0 && (v.SpacePrefix == NoPrefix || v.SpacePrefix == EveryPrefix && v.spaced()) {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and booleans
	}
	return string(text)
}

func (f Flags) letters() string {
	out := ""
	for i, set := range []bool{f.LStrip, f.RStrip, f.SingleWord, f.Normalized} {
		if set {
			out += "lrwn"[i : i+1]
		}
	}
	return out
}

// readRules reads [KeyRules]; it returns nil if the file has none.
func readRules(f *gguf.File) (*rules, error) {
	if !f.Has(KeyRules) {
		return nil, nil
	}
	text, err := gguf.Get[string](f, KeyRules)
	if err != nil {
		return nil, err
	}
	if len(text) > maxRules {
		return nil, fmt.Errorf("key %s: got %d bytes, limit %d", KeyRules, len(text), maxRules)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	r := new(rules)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("key %s: %w", KeyRules, err)
	}
	return r, nil
}

// apply sets the properties of a vocabulary and its tokens.
func (r *rules) apply(v *Vocabulary, words *lexicon) error {
	prefix := -1
	for i, name := range prefixes {
		if name == r.Prefix {
			prefix = i
		}
	}
	if prefix < 0 {
		return fmt.Errorf("key %s: unknown prefix %q", KeyRules, r.Prefix)
	}
	v.Normalizer, v.SpacePrefix, v.MarksFirst, v.WholeWords = r.Normalizer, Prefix(prefix), r.MarksFirst, r.WholeWords
	v.FuseUnknown, v.TemplateBOS, v.Stated = r.FuseUnknown, r.TemplateBOS, r.Stated
	v.LongestWord, v.Suffix, v.Pair = r.LongestWord, r.Suffix, Pair{Between: r.Between, Second: r.Second}
	if r.Words != "" {
		if v.Model != Unigram {
			return fmt.Errorf("key %s: words %q of a model that is not Unigram", KeyRules, r.Words)
		}
		v.Pre = r.Words
	}
	for text, letters := range r.Tokens {
		id, err := strconv.ParseInt(text, 10, 32)
		if err != nil || id < 0 || int(id) >= words.size() || strings.Trim(letters, "lrwn") != "" {
			return fmt.Errorf("key %s: bad flags %q of token %q", KeyRules, letters, text)
		}
		t := words.token(int32(id))
		has := func(letter string) bool { return strings.Contains(letters, letter) }
		t.Flags = Flags{LStrip: has("l"), RStrip: has("r"), SingleWord: has("w"), Normalized: has("n")}
		words.set(int32(id), t)
	}
	return nil
}
