package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// encoder converts a file of model WordPiece or Unigram.
func (h *hfFile) encoder() (Vocabulary, error) {
	v := Vocabulary{Model: WordPiece, Special: NoSpecial, Stated: true}
	m := &h.Model
	if m.Vocab.scores != nil || m.Type == "Unigram" {
		v.Model = Unigram
	}
	switch {
	case len(m.Merges) > 0:
		return v, fmt.Errorf("%s with merges", m.Type)
	case v.Model == WordPiece && (m.Vocab.scores != nil || m.Prefix != nil && *m.Prefix != pieceMark):
		return v, errors.New("unsupported WordPiece, want a mapping of tokens and the prefix ##")
	case v.Model == Unigram && m.Vocab.scores == nil:
		return v, errors.New("missing scores of a Unigram model")
	}
	if m.LongestWord != nil {
		if v.LongestWord = *m.LongestWord; v.LongestWord < 1 {
			return v, fmt.Errorf("words of %d characters", v.LongestWord)
		}
	}
	if err := h.tokens(&v); err != nil {
		return v, err
	}
	if v.Model == Unigram && m.UnkID != nil {
		if *m.UnkID < 0 || *m.UnkID >= len(m.Vocab.scores) {
			return v, fmt.Errorf("unk_id %d of %d tokens", *m.UnkID, len(m.Vocab.scores))
		}
		v.Special.Unknown = int32(*m.UnkID)
		v.Tokens[*m.UnkID].Type = Unknown
	}
	steps := flatten(h.Normalizer, func(s *hfStep) []hfStep { return s.Normalizers })
	for i := range steps {
		if err := steps[i].normalizes(&v); err != nil {
			return v, err
		}
	}
	if err := h.splits(&v); err != nil {
		return v, err
	}
	if err := h.config.roles(&v); err != nil {
		return v, err
	}
	if a := h.config.names["sep_token"]; a.Content != "" {
		v.Special.Separator = v.find(a.Content)
	}
	return v, h.post(&v)
}

// list reads the tokens of a vocab.txt, one a line.
func (h *hfFile) list(words []byte) error {
	h.Model.Type, h.Model.Vocab.ids = "WordPiece", map[string]int{}
	id := 0
	for line := range strings.Lines(string(words)) {
		text := strings.TrimRight(line, "\r\n")
		if other, twice := h.Model.Vocab.ids[text]; twice || text == "" {
			return fmt.Errorf("line %d: duplicate of line %d, or empty: %q", id+1, other+1, text)
		}
		h.Model.Vocab.ids[text] = id
		if id++; id > maxTokens {
			return fmt.Errorf("more than %d tokens", maxTokens)
		}
	}
	return nil
}

// Limit returns model_max_length of tokenizer_config.json, 0 if it states none: a
// number without meaning marks that.
func (f Transformers) Limit() int {
	var c struct {
		Max float64 `json:"model_max_length"`
	}
	if json.Unmarshal(f.Config, &c) != nil || c.Max < 1 || c.Max > 1<<30 {
		return 0
	}
	return int(c.Max)
}

// normalizes adds a step of the normalizer.
func (s *hfStep) normalizes(v *Vocabulary) error {
	add := func(names ...string) { v.Normalizer = append(v.Normalizer, names...) }
	on := func(b *bool) bool { return b == nil || *b }
	switch s.Type {
	case "BertNormalizer":
		if on(s.Clean) {
			add("BertClean")
		}
		if on(s.Han) {
			add("BertHan")
		}
		if lower := on(s.Lower); s.Accents != nil && *s.Accents || s.Accents == nil && lower {
			add("BertAccents")
		}
		if on(s.Lower) {
			add("Lowercase")
		}
	case charsmapStep:
		if v.Charsmap != nil {
			return errors.New("unsupported second normalizer Precompiled")
		}
		if _, err := parseCharsmap(s.Charsmap); err != nil {
			return err
		}
		v.Charsmap = append([]byte{}, s.Charsmap...)
		add(charsmapStep)
	case "Strip":
		switch {
		case s.Left == nil || *s.Left && on(s.Right):
			add("Strip")
		case *s.Left:
			add("StripLeft")
		case on(s.Right):
			add("StripRight")
		}
	case "Replace":
		return s.replaces(v)
	default:
		if normalizerOf(s.Type) == nil {
			return fmt.Errorf("unsupported normalizer %s", s.Type)
		}
		add(s.Type)
	}
	return nil
}

// replaces adds a step that replaces texts: quotes as in ALBERT, runs of spaces.
func (s *hfStep) replaces(v *Vocabulary) error {
	n := len(v.Normalizer)
	text, expression := "", ""
	if p := s.Pattern; p != nil && p.String != nil {
		text = *p.String
	} else if p != nil && p.Regex != nil {
		expression = *p.Regex
	}
	switch {
	case text == "``" && s.Content == `"`:
		v.Normalizer = append(v.Normalizer, "Quotes")
	case text == "''" && s.Content == `"` && n > 0 && v.Normalizer[n-1] == "Quotes": // the same step
	case expression == " {2,}" && (s.Content == " " || s.Content == spaceMark):
		v.Normalizer = append(v.Normalizer, "Spaces")
	default:
		return fmt.Errorf("unsupported normalizer Replace of %q", text+expression)
	}
	return nil
}

// splits reads the pre-tokenizer: BERT's, or one that writes ▁ for spaces.
func (h *hfFile) splits(v *Vocabulary) error {
	steps := flatten(h.PreTokenizer, func(s *hfStep) []hfStep { return s.Pretokenizers })
	if v.Model == WordPiece {
		if len(steps) != 1 || steps[0].Type != "BertPreTokenizer" {
			return errors.New("unsupported pre-tokenizer of WordPiece, want BertPreTokenizer")
		}
		return nil
	}
	fields := len(steps) == 2 && steps[0].Type == "WhitespaceSplit"
	if fields {
		steps = steps[1:]
	}
	if len(steps) != 1 || steps[0].Type != "Metaspace" {
		return errors.New("unsupported pre-tokenizer of Unigram, want Metaspace")
	}
	part, err := steps[0].part(v)
	if err != nil {
		return err
	}
	switch {
	case fields && (part == "" || v.SpacePrefix == FirstPrefix):
		return errors.New("unsupported pre-tokenizer Metaspace after WhitespaceSplit, want prepend_scheme always or never")
	case fields:
		v.Pre = preFields
	case part == "":
		v.Pre = preChars
	default:
		v.Pre = preMetaspace
	}
	return nil
}

// joins returns how a post-processor joins two texts, or zero if it does so in a
// way that [Pair] cannot express.
func (s *hfStep) joins(v *Vocabulary) Pair {
	switch s.Type {
	case "RobertaProcessing":
		return Pair{Between: 2}
	case "BertProcessing":
		return Pair{Between: 1, Second: true}
	}
	var before, between, after int
	var types [2]int
	texts, same := 0, true
	for _, p := range s.Pair {
		if p.Sequence != nil {
			if texts < 2 {
				types[texts] = p.Sequence.Type
			}
			texts++
			continue
		}
		if p.SpecialToken == nil {
			return Pair{}
		}
		id := v.find(p.SpecialToken.ID)
		switch texts {
		case 0:
			before++
			same = same && id == v.Special.BOS && p.SpecialToken.Type == 0
		case 1:
			between++
			same = same && id == v.Special.EOS && p.SpecialToken.Type == 0
		default:
			after++
			same = same && id == v.Special.EOS && p.SpecialToken.Type == types[1]
		}
	}
	around := map[bool]int{true: 1}
	if texts != 2 || !same || types[0] != 0 || types[1]|1 != 1 || before != around[v.AddBOS] || after != 1 || !v.AddEOS || between < 1 || between > 2 {
		return Pair{}
	}
	return Pair{Between: between, Second: types[1] == 1}
}

// rebuildEncoder replaces the parts of the file that the classes of encoders
// replace.
func (h *hfFile) rebuildEncoder(c *hfConfig, class string) error {
	yes, no := true, false
	m := &h.Model
	if want := map[string]string{"RobertaTokenizer": "BPE", "XLMRobertaTokenizer": "Unigram", "AlbertTokenizer": "Unigram", "T5Tokenizer": "Unigram"}[class]; m.Type != "" && m.Type != or(want, "WordPiece") {
		return fmt.Errorf("tokenizer_class %s with a tokenizer.json of model %s", class, m.Type)
	}
	var charsmap *hfStep
	for _, s := range flatten(h.Normalizer, func(s *hfStep) []hfStep { return s.Normalizers }) {
		if s.Type == charsmapStep && charsmap == nil {
			charsmap = &s
		}
	}
	names := map[string]string{"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
	prefix := c.AddPrefixSpace
	scheme := "always"
	if prefix != nil && !*prefix {
		scheme = "never"
	}
	words := &hfStep{Type: "Sequence", Pretokenizers: []hfStep{{Type: "WhitespaceSplit"}, {Type: "Metaspace", Replacement: spaceMark, PrependScheme: scheme}}}
	unknown := map[string]int{"XLMRobertaTokenizer": 3, "AlbertTokenizer": 1, "T5Tokenizer": 2}[class]
	switch class {
	case "RobertaTokenizer":
		space := prefix != nil && *prefix
		h.Normalizer, h.PreTokenizer = nil, &hfStep{Type: "ByteLevel", AddPrefixSpace: &space}
		m.UnkToken, m.FuseUnk, m.ByteFallback, m.IgnoreMerges, m.Dropout, m.Prefix, m.Suffix = nil, false, false, false, nil, nil, nil
	case "XLMRobertaTokenizer", "T5Tokenizer":
		if class == "T5Tokenizer" {
			words.Pretokenizers[1].PrependScheme = "always"
			names = map[string]string{"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "</s>"}
			if err := c.sentinels(); err != nil {
				return err
			}
		}
		h.Normalizer, h.PreTokenizer, m.UnkID, m.ByteFallback = charsmap, words, &unknown, false
	case "AlbertTokenizer":
		names["cls_token"], names["bos_token"], names["sep_token"], names["eos_token"], names["mask_token"] = "[CLS]", "[CLS]", "[SEP]", "[SEP]", "[MASK]"
		steps := []hfStep{quote("``"), quote("''")}
		if c.KeepAccents == nil || !*c.KeepAccents {
			steps = append(steps, hfStep{Type: "NFKD"}, hfStep{Type: "StripAccents"})
		}
		if c.Lower == nil || *c.Lower {
			steps = append(steps, hfStep{Type: "Lowercase"})
		}
		if charsmap != nil {
			steps = append(steps, *charsmap)
		}
		h.Normalizer, h.PreTokenizer, m.UnkID, m.ByteFallback = &hfStep{Type: "Sequence", Normalizers: steps}, words, &unknown, false
	default:
		names["unk_token"] = "[UNK]"
		if class != "MPNetTokenizer" {
			names = map[string]string{"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
		} else if a, ok := c.names["mask_token"]; !ok || a.Normalized != nil && !*a.Normalized && !a.LStrip {
			if a.Content == "" {
				a = hfAdded{Content: "<mask>", Special: true, Normalized: &no}
			}
			c.names["mask_token"] = a
		}
		lower := c.Lower
		if lower == nil {
			lower = &yes
		}
		unk := names["unk_token"]
		if a := c.names["unk_token"]; a.Content != "" {
			unk = a.Content
		}
		h.Normalizer = &hfStep{Type: "BertNormalizer", Clean: &yes, Han: c.Han, Accents: c.Accents, Lower: lower}
		h.PreTokenizer, m.UnkToken, m.Prefix, m.LongestWord = &hfStep{Type: "BertPreTokenizer"}, &unk, nil, nil
		m.Type = "WordPiece"
	}
	h.named(c, names)
	if class != "AlbertTokenizer" || h.PostProcessor == nil {
		h.PostProcessor = joining(class, c)
	}
	return nil
}

// maxExtraIDs bounds the sentinel tokens of T5.
const maxExtraIDs = 1 << 16

// sentinels adds the tokens that mark gaps in T5's texts, unless the configuration
// names them.
func (c *hfConfig) sentinels() error {
	n := 100
	if c.ExtraIDs != nil {
		n = *c.ExtraIDs
	}
	if n < 0 || n > maxExtraIDs {
		return fmt.Errorf("extra_ids %d, limit %d", n, maxExtraIDs)
	}
	for _, a := range c.extra {
		if strings.Contains(a.Content, "<extra_id_") {
			return nil
		}
	}
	no := false
	for i := range n {
		c.extra = append(c.extra, hfAdded{Content: fmt.Sprintf("<extra_id_%d>", i), Special: true, Normalized: &no})
	}
	return nil
}

// joining returns the post-processor of a class.
func joining(class string, c *hfConfig) *hfStep {
	token := func(key string) any { return c.names[key].Content }
	begin, end := token("cls_token"), token("sep_token")
	switch class {
	case "T5Tokenizer":
		last, text := hfPiece{SpecialToken: &hfPart{ID: "</s>"}}, hfPiece{Sequence: &hfPart{}}
		return &hfStep{Type: "TemplateProcessing", Single: []hfPiece{text, last}, Pair: []hfPiece{text, last, text, last}}
	case "XLMRobertaTokenizer":
		begin, end = token("bos_token"), token("eos_token")
		fallthrough
	case "MPNetTokenizer", "RobertaTokenizer":
		return &hfStep{Type: "RobertaProcessing", CLS: []any{begin}, SEP: []any{end}}
	}
	return &hfStep{Type: "BertProcessing", CLS: []any{begin}, SEP: []any{end}}
}

func quote(text string) hfStep {
	s := hfStep{Type: "Replace", Content: `"`}
	s.Pattern = &hfPattern{String: &text}
	return s
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
