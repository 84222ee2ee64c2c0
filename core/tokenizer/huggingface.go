package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxHuggingFace is the largest tokenizer.json that is read, in bytes.
const maxHuggingFace = 256 << 20

// FromHuggingFace builds the tokenizer in a Hugging Face tokenizer.json of
// model BPE, on bytes or with byte fallback. config is tokenizer_config.json,
// which names the special tokens and holds the chat template; nil if there is
// none. Whatever a file asks for that is not supported is an error: ids that
// are nearly right are worse than none.
func FromHuggingFace(file, config []byte) (*Tokenizer, error) {
	if len(file) > maxHuggingFace || len(config) > maxHuggingFace {
		return nil, fmt.Errorf("tokenizer: tokenizer.json is larger than %d bytes", maxHuggingFace)
	}
	var h hfFile
	if err := json.Unmarshal(file, &h); err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	v, err := h.vocabulary()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	if config != nil {
		if err := readHFConfig(&v, config); err != nil {
			return nil, fmt.Errorf("tokenizer: tokenizer_config.json: %w", err)
		}
	}
	return New(v)
}

// hfFile is the part of tokenizer.json that is read. hfStep stands for every
// kind of step, told apart by its type.
type hfFile struct {
	AddedTokens   []hfAdded `json:"added_tokens"`
	Normalizer    *hfStep   `json:"normalizer"`
	PreTokenizer  *hfStep   `json:"pre_tokenizer"`
	PostProcessor *hfStep   `json:"post_processor"`
	Model         hfModel   `json:"model"`
}

type hfAdded struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Special    bool   `json:"special"`
}

type hfModel struct {
	Type         string         `json:"type"`
	Dropout      *float64       `json:"dropout"`
	UnkToken     *string        `json:"unk_token"`
	Prefix       *string        `json:"continuing_subword_prefix"`
	Suffix       *string        `json:"end_of_word_suffix"`
	ByteFallback bool           `json:"byte_fallback"`
	IgnoreMerges bool           `json:"ignore_merges"`
	Vocab        map[string]int `json:"vocab"`
	Merges       []hfMerge      `json:"merges"`
}

// hfMerge is "left right" in older files and ["left", "right"] in newer ones.
type hfMerge Merge

// UnmarshalJSON reads either form.
func (m *hfMerge) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var pair []string
		if err := json.Unmarshal(b, &pair); err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("a merge has %d parts", len(pair))
		}
		*m = hfMerge{pair[0], pair[1]}
		return nil
	}
	var line string
	if err := json.Unmarshal(b, &line); err != nil {
		return err
	}
	merge, err := parseMerge(line)
	*m = hfMerge(merge)
	return err
}

type hfStep struct {
	Type string `json:"type"`

	Normalizers   []hfStep `json:"normalizers"`
	Pretokenizers []hfStep `json:"pretokenizers"`
	Processors    []hfStep `json:"processors"`

	Pattern *struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
	Content  string `json:"content"`
	Prepend  string `json:"prepend"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`

	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	IndividualDigits bool   `json:"individual_digits"`
	Replacement      string `json:"replacement"`
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool  `json:"split"`

	Single []hfPiece `json:"single"`
	CLS    []any     `json:"cls"`
	SEP    []any     `json:"sep"`
}

// hfPiece is one element of a post-processing template.
type hfPiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

// vocabulary translates the file.
func (h *hfFile) vocabulary() (Vocabulary, error) {
	v := Vocabulary{Model: BPE, Special: NoSpecial, Stated: true, WholeWords: h.Model.IgnoreMerges}
	m := &h.Model
	switch {
	case m.Type != "BPE" && m.Type != "":
		return v, fmt.Errorf("the model %q is not supported, only BPE is", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return v, errors.New("BPE dropout is not supported")
	case m.Prefix != nil && *m.Prefix != "", m.Suffix != nil && *m.Suffix != "":
		return v, errors.New("a subword prefix or suffix is not supported")
	}
	if err := h.tokens(&v); err != nil {
		return v, err
	}
	v.Merges = make([]Merge, len(m.Merges))
	for i, merge := range m.Merges {
		v.Merges[i] = Merge(merge)
	}
	if err := h.steps(&v); err != nil {
		return v, err
	}
	return v, h.post(&v)
}

// tokens fills the vocabulary by id; ids that nothing has become unused.
func (h *hfFile) tokens(v *Vocabulary) error {
	const slack = 1 << 16 // ids that may be left out
	size := 0
	for _, id := range h.Model.Vocab {
		size = max(size, id+1)
	}
	for _, a := range h.AddedTokens {
		size = max(size, a.ID+1)
	}
	if size > maxTokens || size > len(h.Model.Vocab)+len(h.AddedTokens)+slack {
		return fmt.Errorf("%d tokens have ids up to %d", len(h.Model.Vocab)+len(h.AddedTokens), size-1)
	}
	v.Tokens = make([]Token, size)
	for text, id := range h.Model.Vocab {
		if id < 0 || text == "" {
			return fmt.Errorf("the token %q has the id %d", text, id)
		}
		if v.Tokens[id].Text != "" {
			return fmt.Errorf("the tokens %q and %q both have the id %d", min(text, v.Tokens[id].Text), max(text, v.Tokens[id].Text), id)
		}
		v.Tokens[id] = Token{Text: text, Type: Normal}
		if b, ok := byteOf(text); ok && h.Model.ByteFallback && text == ByteToken(b) {
			v.Tokens[id].Type = Byte
		}
	}
	for _, a := range h.AddedTokens {
		if a.ID < 0 || a.Content == "" || a.SingleWord {
			return fmt.Errorf("the added token %q with id %d: it needs an id and a text, and single_word is not supported", a.Content, a.ID)
		}
		t := &v.Tokens[a.ID]
		if t.Text != "" && t.Text != a.Content {
			return fmt.Errorf("the added token %q has the id %d of %q", a.Content, a.ID, t.Text)
		}
		*t = Token{Text: a.Content, Type: UserDefined, LStrip: a.LStrip, RStrip: a.RStrip}
		if a.Special {
			t.Type = Control
		}
	}
	if name := h.Model.UnkToken; name != nil {
		for id := range v.Tokens {
			if v.Tokens[id].Text == *name {
				v.Special.Unknown = int32(id)
				v.Tokens[id].Type = Unknown
			}
		}
	}
	return nil
}

// steps reads normalizer and pre-tokenizer and finds the pre-tokenizer of
// this package that does the same.
func (h *hfFile) steps(v *Vocabulary) error {
	marks := false
	for _, s := range flatten(h.Normalizer, func(s *hfStep) []hfStep { return s.Normalizers }) {
		switch {
		case s.Type == "NFC":
			v.NFC = true
		case s.Type == "Prepend" && s.Prepend == spaceMark:
			v.SpacePrefix = EveryPrefix
		case s.Type == "Replace" && s.Pattern != nil && s.Pattern.String != nil && *s.Pattern.String == " " && s.Content == spaceMark:
			marks = true
		default:
			return fmt.Errorf("the normalizer %s is not supported", s.Type)
		}
	}
	var parts []string
	bytes := false
	for _, s := range flatten(h.PreTokenizer, func(s *hfStep) []hfStep { return s.Pretokenizers }) {
		if marks && s.Type == "Split" && s.Pattern != nil && s.Pattern.String != nil && *s.Pattern.String == " " {
			continue // Gemma's: there is no space any more
		}
		part, err := s.part(v)
		if err != nil {
			return err
		}
		bytes = bytes || s.Type == "ByteLevel"
		marks = marks || s.Type == "Metaspace"
		if part != "" {
			parts = append(parts, part)
		}
	}
	if bytes == marks {
		return errors.New("neither a pre-tokenizer ByteLevel nor one that writes ▁ for spaces, or both")
	}
	pre, known := hfPreTokenizers[strings.Join(parts, "\n")]
	if !known {
		return fmt.Errorf("the pre-tokenizer is not supported: %q", parts)
	}
	switch {
	case pre == PreNone && marks:
		pre = preChars
	case pre == "dbrx" && v.WholeWords:
		pre = "llama-bpe" // the same words
	}
	v.Pre = pre
	return nil
}

// part names what a pre-tokenizer does, as hfPreTokenizers spells it.
func (s *hfStep) part(v *Vocabulary) (string, error) {
	switch s.Type {
	case "ByteLevel":
		if s.AddPrefixSpace != nil && *s.AddPrefixSpace {
			return "", errors.New("ByteLevel with add_prefix_space is not supported")
		}
		if s.UseRegex == nil || *s.UseRegex {
			return "gpt2", nil
		}
		return "", nil
	case "Digits":
		if s.IndividualDigits {
			return `\p{N}`, nil
		}
		return `\p{N}+`, nil
	case "Split":
		if s.Pattern == nil || s.Pattern.Regex == nil || !(s.Behavior == "Isolated" && !s.Invert || s.Behavior == "Removed" && s.Invert) {
			return "", errors.New("a pre-tokenizer Split that does not isolate the matches of a regular expression is not supported")
		}
		return *s.Pattern.Regex, nil
	case "Metaspace":
		if s.Replacement != spaceMark {
			return "", fmt.Errorf("a pre-tokenizer Metaspace that writes %q for spaces is not supported", s.Replacement)
		}
		switch {
		case s.PrependScheme == "first":
			v.SpacePrefix = FirstPrefix
		case s.PrependScheme == "always", s.PrependScheme == "" && s.AddPrefixSpace != nil && *s.AddPrefixSpace:
			v.SpacePrefix = WordPrefix
		}
		if s.Split == nil || *s.Split {
			return "metaspace", nil
		}
		return "", nil
	}
	return "", fmt.Errorf("the pre-tokenizer %s is not supported", s.Type)
}

// flatten lists a step and what it is a sequence of, at most a few levels.
func flatten(s *hfStep, inner func(*hfStep) []hfStep) []hfStep {
	if s == nil {
		return nil
	}
	if s.Type != "Sequence" {
		return []hfStep{*s}
	}
	var out []hfStep
	list := inner(s)
	for i := range list {
		out = append(out, flatten(&list[i], inner)...)
	}
	return out
}

// hfPreTokenizers maps what a file's pre-tokenizer does, one step a line, to
// the pre-tokenizer that does the same here.
var hfPreTokenizers = map[string]string{
	"":                      PreNone,
	"metaspace":             preMetaspace,
	"gpt2":                  "gpt-2",
	`\p{N}` + "\n" + "gpt2": "smollm",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                "dbrx",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                     "qwen2",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                         "qwen35",
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                "tekken",
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "gpt-4o",
	`\p{N}{1,3}` + "\n[一-龥぀-ゟ゠-ヿ]+\n" + "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+":                                                                                          "deepseek-v3",
}

// post reads which tokens are put before and after a text.
func (h *hfFile) post(v *Vocabulary) error {
	for _, s := range flatten(h.PostProcessor, func(s *hfStep) []hfStep { return s.Processors }) {
		var before, after []string
		switch s.Type {
		case "ByteLevel":
			continue
		case "TemplateProcessing":
			seen := false
			for _, p := range s.Single {
				switch {
				case p.Sequence != nil && !seen:
					seen = true
				case p.SpecialToken != nil && !seen:
					before = append(before, p.SpecialToken.ID)
				case p.SpecialToken != nil:
					after = append(after, p.SpecialToken.ID)
				default:
					return errors.New("a post-processor's template is neither a sequence nor a special token")
				}
			}
		case "RobertaProcessing", "BertProcessing":
			before, after = []string{first(s.CLS)}, []string{first(s.SEP)}
		default:
			return fmt.Errorf("the post-processor %s is not supported", s.Type)
		}
		if len(before) > 1 || len(after) > 1 {
			return fmt.Errorf("the post-processor adds %d tokens before and %d after a text, at most one each is supported", len(before), len(after))
		}
		for _, name := range before {
			v.Special.BOS, v.AddBOS = v.find(name), true
		}
		for _, name := range after {
			v.Special.EOS, v.AddEOS = v.find(name), true
		}
	}
	return nil
}

func first(pair []any) string {
	if len(pair) == 0 {
		return ""
	}
	s, _ := pair[0].(string)
	return s
}

// find gives the id of a token's text; None when there is none.
func (v *Vocabulary) find(text string) int32 {
	for id, t := range v.Tokens {
		if t.Text == text && text != "" {
			return int32(id)
		}
	}
	return None
}

// readHFConfig reads the roles of tokens and the chat template.
func readHFConfig(v *Vocabulary, b []byte) error {
	var c struct {
		BOS    hfName          `json:"bos_token"`
		EOS    hfName          `json:"eos_token"`
		Unk    hfName          `json:"unk_token"`
		Pad    hfName          `json:"pad_token"`
		AddBOS *bool           `json:"add_bos_token"`
		AddEOS *bool           `json:"add_eos_token"`
		Chat   json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	for _, role := range []struct {
		name hfName
		id   *int32
	}{{c.BOS, &v.Special.BOS}, {c.EOS, &v.Special.EOS}, {c.Unk, &v.Special.Unknown}, {c.Pad, &v.Special.Padding}} {
		if role.name != "" {
			if *role.id = v.find(string(role.name)); *role.id == None {
				return fmt.Errorf("the special token %q is not in the vocabulary", role.name)
			}
		}
	}
	if c.AddBOS != nil {
		v.AddBOS = *c.AddBOS && v.Special.BOS != None
	}
	if c.AddEOS != nil {
		v.AddEOS = *c.AddEOS && v.Special.EOS != None
	}
	template, err := hfTemplate(c.Chat)
	v.Template = template
	return err
}

// hfName is a token's text, given as a string or as an object that holds it.
type hfName string

// UnmarshalJSON reads either form.
func (n *hfName) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var o struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(b, &o)
		*n = hfName(o.Content)
		return err
	}
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s != nil {
		*n = hfName(*s)
	}
	return nil
}

// hfTemplate takes the chat template, the one named default where there are
// several.
func hfTemplate(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if raw[0] != '[' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", err
	}
	for _, t := range list {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", nil
}
