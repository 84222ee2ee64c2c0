package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxHuggingFace is the limit of a tokenizer.json, in bytes.
const maxHuggingFace = 256 << 20

// FromHuggingFace builds the tokenizer of a Hugging Face tokenizer.json of
// model BPE, on bytes or with byte fallback, WordPiece or Unigram. config is tokenizer_config.json,
// with the special tokens and the chat template, or nil. An unsupported setting
// is an error: almost correct ids are worse than none.
func FromHuggingFace(file, config []byte) (*Tokenizer, error) {
	return FromTransformers(Transformers{Tokenizer: file, Config: config})
}

// Transformers holds the files of a folder of Hugging Face transformers that
// define its tokenizer.
type Transformers struct {
	Tokenizer     []byte // tokenizer.json
	Config        []byte // tokenizer_config.json, or nil
	SpecialTokens []byte // special_tokens_map.json, or nil
	AddedTokens   []byte // added_tokens.json, or nil
	Pieces        []byte // spiece.model, or nil
	Words         []byte // vocab.txt of WordPiece, where tokenizer.json is missing
	ModelType     string // model_type of config.json
	Class         string // tokenizer_class of config.json
}

// FromTransformers builds the tokenizer that AutoTokenizer of transformers 5.23
// builds from the files. Some of its classes replace parts of tokenizer.json.
func FromTransformers(f Transformers) (*Tokenizer, error) {
	for _, b := range [][]byte{f.Tokenizer, f.Config, f.SpecialTokens, f.AddedTokens, f.Words, f.Pieces} {
		if len(b) > maxHuggingFace {
			return nil, fmt.Errorf("tokenizer: tokenizer.json is larger than %d bytes", maxHuggingFace)
		}
	}
	var h hfFile
	if f.Tokenizer == nil && f.Words != nil {
		if err := h.list(f.Words); err != nil {
			return nil, fmt.Errorf("tokenizer: vocab.txt: %w", err)
		}
		f.Class = or(f.Class, "BertTokenizer")
	} else if f.Tokenizer == nil { // of SentencePiece
	} else if err := json.Unmarshal(f.Tokenizer, &h); err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	c, err := readHFConfig(f)
	if err != nil {
		return nil, err
	}
	h.pieces = f.Pieces
	if h.config = c; c.SplitSpecial || c.FixMistral {
		return nil, errors.New("tokenizer: tokenizer_config.json: split_special_tokens and fix_mistral_regex are not supported")
	}
	if f.Tokenizer == nil && f.Words == nil && h.classOf(c, f.ModelType) != "SiglipTokenizer" {
		return nil, errors.New("tokenizer: missing tokenizer.json and vocab.txt")
	}
	if err := h.rebuild(c, f.ModelType); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	v, err := h.vocabulary()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	return New(v)
}

// hfFile is the part of tokenizer.json in use. hfStep covers every kind of
// step, distinguished by type.
type hfFile struct {
	AddedTokens   []hfAdded `json:"added_tokens"`
	Normalizer    *hfStep   `json:"normalizer"`
	PreTokenizer  *hfStep   `json:"pre_tokenizer"`
	PostProcessor *hfStep   `json:"post_processor"`
	Decoder       *hfStep   `json:"decoder"`
	Model         hfModel   `json:"model"`

	config *hfConfig
	pieces []byte // spiece.model
}

type hfAdded struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized *bool  `json:"normalized"` // if missing, true unless special
	Special    bool   `json:"special"`
}

// flags returns how the token is found.
func (a hfAdded) flags() Flags {
	f := Flags{LStrip: a.LStrip, RStrip: a.RStrip, SingleWord: a.SingleWord, Normalized: !a.Special}
	if a.Normalized != nil {
		f.Normalized = *a.Normalized
	}
	return f
}

// hfVocab has the ids by text; scores are those of Unigram, whose file lists pairs
// of a text and a score.
type hfVocab struct {
	ids    map[string]int
	scores []float32
}

// UnmarshalJSON accepts both forms.
func (v *hfVocab) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, &v.ids)
	}
	var list [][2]json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	v.ids, v.scores = make(map[string]int, len(list)), make([]float32, len(list))
	for id, pair := range list {
		var text string
		if err := errors.Join(json.Unmarshal(pair[0], &text), json.Unmarshal(pair[1], &v.scores[id])); err != nil {
			return fmt.Errorf("token %d: %w", id, err)
		}
		if other, twice := v.ids[text]; twice {
			return fmt.Errorf("duplicate text of tokens %d and %d: %q", other, id, text)
		}
		v.ids[text] = id
	}
	return nil
}

type hfModel struct {
	Type         string    `json:"type"`
	Dropout      *float64  `json:"dropout"`
	UnkToken     *string   `json:"unk_token"`
	UnkID        *int      `json:"unk_id"`                   // of Unigram
	LongestWord  *int      `json:"max_input_chars_per_word"` // of WordPiece
	Prefix       *string   `json:"continuing_subword_prefix"`
	Suffix       *string   `json:"end_of_word_suffix"`
	FuseUnk      bool      `json:"fuse_unk"`
	ByteFallback bool      `json:"byte_fallback"`
	IgnoreMerges bool      `json:"ignore_merges"`
	Vocab        hfVocab   `json:"vocab"`
	Merges       []hfMerge `json:"merges"`
}

// hfMerge is "left right" in older files and ["left", "right"] in newer ones.
type hfMerge Merge

// UnmarshalJSON accepts both forms.
func (m *hfMerge) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var pair []string
		if err := json.Unmarshal(b, &pair); err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("bad merge: got %d parts, want 2", len(pair))
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

	Pattern  *hfPattern `json:"pattern"`
	Content  string     `json:"content"`
	Charsmap []byte     `json:"precompiled_charsmap"` // base64
	Clean    *bool      `json:"clean_text"`
	Han      *bool      `json:"handle_chinese_chars"`
	Accents  *bool      `json:"strip_accents"`
	Lower    *bool      `json:"lowercase"`
	Left     *bool      `json:"strip_left"`
	Right    *bool      `json:"strip_right"`
	Prepend  string     `json:"prepend"`
	Behavior string     `json:"behavior"`
	Invert   bool       `json:"invert"`

	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	IndividualDigits bool   `json:"individual_digits"`
	Replacement      string `json:"replacement"`
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool  `json:"split"`

	Decoders []hfStep `json:"decoders"`

	Single  []hfPiece `json:"single"`
	Pair    []hfPiece `json:"pair"`
	Special map[string]struct {
		IDs []int `json:"ids"`
	} `json:"special_tokens"`
	CLS []any `json:"cls"`
	SEP []any `json:"sep"`
}

// hfPattern is a text or a regular expression.
type hfPattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// hfPiece is an element of a post-processing template.
type hfPiece struct {
	SpecialToken *hfPart `json:"SpecialToken"`
	Sequence     *hfPart `json:"Sequence"`
}

// hfPart is a token, or a text A or B, and its segment.
type hfPart struct {
	ID   string `json:"id"`
	Type int    `json:"type_id"`
}

// vocabulary converts the file.
func (h *hfFile) vocabulary() (Vocabulary, error) {
	v := Vocabulary{Model: BPE, Special: NoSpecial, Stated: true, WholeWords: h.Model.IgnoreMerges, FuseUnknown: h.Model.FuseUnk}
	m := &h.Model
	switch {
	case m.Type == "WordPiece" || m.Type == "" && m.LongestWord != nil, m.Type == "Unigram" || m.Type == "" && m.Vocab.scores != nil:
		return h.encoder()
	case m.Type != "BPE" && m.Type != "":
		return v, fmt.Errorf("unsupported model %q, want BPE, WordPiece or Unigram", m.Type)
	case m.Vocab.scores != nil:
		return v, errors.New("BPE with a list of tokens and scores, want a mapping")
	case m.Dropout != nil && *m.Dropout != 0:
		return v, errors.New("BPE dropout is not supported")
	case m.Prefix != nil && *m.Prefix != "":
		return v, errors.New("a subword prefix is not supported")
	}
	if m.Suffix != nil {
		v.Suffix = *m.Suffix
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
	if err := h.post(&v); err != nil {
		return v, err
	}
	return v, h.config.roles(&v)
}

// tokens fills the vocabulary by id; missing ids become unused.
func (h *hfFile) tokens(v *Vocabulary) error {
	const slack = 1 << 16 // limit of missing ids
	size := 0
	for text, id := range h.Model.Vocab.ids {
		if id < 0 || id > maxTokens {
			return fmt.Errorf("token %q: bad id %d", text, id)
		}
		size = max(size, id+1)
	}
	if size > maxTokens || size > len(h.Model.Vocab.ids)+slack {
		return fmt.Errorf("%d tokens with ids up to %d", len(h.Model.Vocab.ids), size-1)
	}
	v.Tokens = make([]Token, size)
	for text, id := range h.Model.Vocab.ids {
		if text == "" {
			return fmt.Errorf("token %q: bad id %d", text, id)
		}
		if v.Tokens[id].Text != "" {
			return fmt.Errorf("duplicate id of tokens %q and %q: %d", min(text, v.Tokens[id].Text), max(text, v.Tokens[id].Text), id)
		}
		v.Tokens[id] = Token{Text: text, Type: Normal}
		if h.Model.Vocab.scores != nil {
			v.Tokens[id].Score = h.Model.Vocab.scores[id]
		}
		if b, ok := byteOf(text); ok && h.Model.ByteFallback && text == ByteToken(b) {
			v.Tokens[id].Type = Byte
		}
	}
	added := &hfAdder{v: v, vocab: h.Model.Vocab.ids, ids: map[string]int{}}
	for _, a := range h.AddedTokens {
		if a.ID < 0 {
			return fmt.Errorf("added token %q with id %d", a.Content, a.ID)
		}
		if err := added.add(a, a.ID); err != nil {
			return err
		}
	}
	if err := h.config.add(added); err != nil {
		return err
	}
	if name := h.Model.UnkToken; name != nil {
		id := v.find(*name)
		if v.Special.Unknown = id; id == None {
			return fmt.Errorf("missing unknown token %q", *name)
		}
		if v.Tokens[id].Type == Control {
			v.Tokens[id].Type = Unknown
		}
	}
	return nil
}

// steps reads normalizer and pre-tokenizer and finds the equivalent
// pre-tokenizer of this package.
func (h *hfFile) steps(v *Vocabulary) error {
	marks := false
	for _, s := range flatten(h.Normalizer, func(s *hfStep) []hfStep { return s.Normalizers }) {
		switch {
		case normalizerOf(s.Type) != nil && s.Type != charsmapStep && !marks && v.SpacePrefix == NoPrefix:
			if err := s.normalizes(v); err != nil {
				return err
			}
		case s.Type == "Prepend" && s.Prepend == spaceMark && !marks:
			v.SpacePrefix = EveryPrefix
		case s.Type == "Replace" && s.Pattern != nil && s.Pattern.Regex != nil && *s.Pattern.Regex == clipSpaces && s.Content == " " && h.isCLIP():
			// white space is dropped
		case s.Type == "Replace" && s.Pattern != nil && s.Pattern.String != nil && *s.Pattern.String == " " && s.Content == spaceMark:
			marks = true
		default:
			return fmt.Errorf("unsupported normalizer %s", s.Type)
		}
	}
	v.MarksFirst = marks
	var parts []string
	bytes := false
	for _, s := range flatten(h.PreTokenizer, func(s *hfStep) []hfStep { return s.Pretokenizers }) {
		if marks && s.Type == "Split" && s.Pattern != nil && s.Pattern.String != nil && *s.Pattern.String == " " {
			continue // Gemma's: no spaces are left
		}
		if s.Type == "ByteLevel" && s.AddPrefixSpace != nil && *s.AddPrefixSpace && len(parts) > 0 {
			return errors.New("unsupported pre-tokenizer ByteLevel with add_prefix_space after another one")
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
		return errors.New("want either a ByteLevel pre-tokenizer or one that replaces spaces by ▁")
	}
	pre, ok := hfPreTokenizers[strings.Join(parts, "\n")]
	if !ok {
		return fmt.Errorf("unsupported pre-tokenizer %q", parts)
	}
	switch {
	case pre == PreNone && marks:
		pre = preChars
	case pre == "dbrx" && v.WholeWords:
		pre = "llama-bpe" // splits the same words
	}
	v.Pre = pre
	return nil
}

// part returns the key of a pre-tokenizer in hfPreTokenizers.
func (s *hfStep) part(v *Vocabulary) (string, error) {
	switch s.Type {
	case "ByteLevel":
		if s.AddPrefixSpace != nil && *s.AddPrefixSpace {
			v.SpacePrefix = WordPrefix
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
		if s.Pattern == nil || s.Pattern.Regex == nil || !(s.Behavior == "Isolated" && !s.Invert || s.Behavior == "Removed" && s.Invert) || s.Behavior == "Isolated" && *s.Pattern.Regex == clipWords {
			return "", errors.New("unsupported pre-tokenizer Split, want isolated matches of a regular expression")
		}
		return *s.Pattern.Regex, nil
	case "Metaspace":
		if s.Replacement != spaceMark {
			return "", fmt.Errorf("unsupported replacement %q of pre-tokenizer Metaspace", s.Replacement)
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
	return "", fmt.Errorf("unsupported pre-tokenizer %s", s.Type)
}

// flatten expands a sequence of steps, at most a few levels deep.
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

// hfPreTokenizers maps a file's pre-tokenizer, one step a line, to the
// equivalent here.
var hfPreTokenizers = map[string]string{
	"":                        PreNone,
	"metaspace":               preMetaspace,
	"gpt2":                    "gpt-2",
	`\p{N}` + "\n" + "gpt2":   "smollm",
	clipWords + "\n" + "gpt2": preCLIP,
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
					return errors.New("bad post-processor template: want a sequence or a special token")
				}
			}
		case "RobertaProcessing", "BertProcessing":
			before, after = []string{first(s.CLS)}, []string{first(s.SEP)}
		default:
			return fmt.Errorf("unsupported post-processor %s", s.Type)
		}
		if len(before) > 1 || len(after) > 1 {
			return fmt.Errorf("unsupported post-processor: %d tokens before and %d after a text, limit one each", len(before), len(after))
		}
		for _, name := range append(before, after...) {
			if ids := s.Special[name].IDs; v.find(name) == None || ids != nil && (len(ids) != 1 || int32(ids[0]) != v.find(name)) {
				return fmt.Errorf("unsupported post-processor: token %q with ids %d", name, ids)
			}
		}
		for _, name := range before {
			v.Special.BOS, v.AddBOS = v.find(name), true
		}
		for _, name := range after {
			v.Special.EOS, v.AddEOS = v.find(name), true
		}
		v.Pair = s.joins(v)
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

// find returns the id of a token's text, or None.
func (v *Vocabulary) find(text string) int32 {
	for id, t := range v.Tokens {
		if t.Text == text && text != "" {
			return int32(id)
		}
	}
	return None
}
