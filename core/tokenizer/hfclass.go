package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// registeredClasses maps model_type to the tokenizer class that transformers
// registers for it. fileClass builds the tokenizer from tokenizer.json as it is.
var registeredClasses = map[string]string{
	"mistral": fileClass, "mixtral": fileClass, "phi3": fileClass, "olmo2": fileClass, "granite": fileClass, "stablelm": fileClass,
	"qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer", "qwen3_moe": "Qwen2Tokenizer",
	"gemma": "GemmaTokenizer", "gemma2": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer",
	"gpt2": "GPT2Tokenizer", "gpt_neox": "GPTNeoXTokenizer",
	"bert": "BertTokenizer", "distilbert": "BertTokenizer", "electra": "BertTokenizer", "nomic_bert": "BertTokenizer", "mpnet": "MPNetTokenizer",
	"roberta": "RobertaTokenizer", "xlm-roberta": "XLMRobertaTokenizer", "albert": "AlbertTokenizer", "t5": "T5Tokenizer",
	"clip": "CLIPTokenizer", "siglip": "SiglipTokenizer",
}

const fileClass = "TokenizersBackend"

// distrusted are the model types whose tokenizer_class transformers ignores.
var distrusted = []string{"qwen2", "phi3"}

// otherClasses are the classes of transformers that replace parts of
// tokenizer.json in other ways than those of [hfFile.rebuild].
var otherClasses = strings.Fields(`Bart Barthez BigBird Blenderbot Camembert CodeGen CodeLlama Cohere Cpm Deberta DebertaV2
	Esmc Funnel Herbert Lasr LayoutLMv2 LayoutLMv3 LayoutXLM Luke MBart50 MBart MLuke MarkupLM MobileBert Nllb Nougat OpenAIGPT Pegasus Qwen3_5
	Reformer RemBert RoFormer SeamlessM4T Splinter SqueezeBert Udop XGLM XLNet`)

// classOf returns the class that AutoTokenizer selects.
func (h *hfFile) classOf(c *hfConfig, modelType string) string {
	hub, registered := strings.TrimSuffix(c.Class, "Fast"), registeredClasses[modelType]
	trusted := !slices.Contains(distrusted, modelType)
	switch {
	case hub == "":
		hub = registered
	case hub == "LlamaTokenizer" && trusted && h.hasByteLevel():
		return fileClass
	case registered == fileClass:
		return fileClass
	case registered != "" && registered != hub && !trusted:
		return registered
	}
	return hub
}

// hasByteLevel reports whether the file's pre-tokenizer or decoder works on
// bytes.
func (h *hfFile) hasByteLevel() bool {
	steps := append(flatten(h.PreTokenizer, func(s *hfStep) []hfStep { return s.Pretokenizers }), flatten(h.Decoder, func(s *hfStep) []hfStep { return s.Decoders })...)
	return slices.ContainsFunc(steps, func(s hfStep) bool { return s.Type == "ByteLevel" })
}

// rebuild replaces the parts of the file that the selected class replaces.
func (h *hfFile) rebuild(c *hfConfig, modelType string) error {
	no, space, mark := false, " ", spaceMark
	prefix := c.AddPrefixSpace != nil && *c.AddPrefixSpace
	class := h.classOf(c, modelType)
	m := &h.Model
	var names map[string]string
	switch class {
	case "LlamaTokenizer":
		scheme := "first"
		switch {
		case c.AddPrefixSpace != nil && !prefix:
			scheme = "never"
		case c.Legacy != nil && *c.Legacy:
			scheme = "always"
		}
		h.Normalizer, h.PreTokenizer = nil, &hfStep{Type: "Metaspace", Replacement: mark, PrependScheme: scheme, Split: &no}
		m.UnkToken, m.FuseUnk, m.ByteFallback = nil, true, true
		names = map[string]string{"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
	case "GemmaTokenizer", "Siglip2Tokenizer":
		unknown := "<unk>"
		if a := c.names["unk_token"]; a.Content != "" {
			unknown = a.Content
		}
		replace := hfStep{Type: "Replace", Content: mark}
		replace.Pattern = &hfPattern{String: &space}
		h.Normalizer, h.PreTokenizer = &replace, nil // splitting at spaces has no effect then
		if class == "Siglip2Tokenizer" {
			h.Normalizer = &hfStep{Type: "Sequence", Normalizers: []hfStep{{Type: "Lowercase"}, replace}}
		}
		m.UnkToken, m.FuseUnk, m.ByteFallback = &unknown, true, true
		names = map[string]string{"unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "mask_token": "<mask>"}
	case "Qwen2Tokenizer":
		split := hfStep{Type: "Split", Behavior: "Isolated"}
		split.Pattern = &hfPattern{Regex: &qwen2Words}
		h.Normalizer = &hfStep{Type: "NFC"}
		h.PreTokenizer = &hfStep{Type: "Sequence", Pretokenizers: []hfStep{split, {Type: "ByteLevel", AddPrefixSpace: &prefix, UseRegex: &no}}}
		m.UnkToken, m.FuseUnk, m.ByteFallback = nil, false, false
		names = map[string]string{"unk_token": endOfText, "eos_token": endOfText, "pad_token": endOfText}
	case "GPT2Tokenizer", "GPTNeoXTokenizer", "WhisperTokenizer":
		h.Normalizer, h.PreTokenizer = nil, &hfStep{Type: "ByteLevel", AddPrefixSpace: &prefix}
		m.UnkToken, m.FuseUnk, m.ByteFallback = nil, false, false
		names = map[string]string{"unk_token": endOfText, "bos_token": endOfText, "eos_token": endOfText}
		if class == "WhisperTokenizer" { // the prompt of the decoder is that of its loop
			h.PostProcessor = nil
		}
		if class == "GPTNeoXTokenizer" {
			h.Normalizer, h.PostProcessor = &hfStep{Type: "NFC"}, nil
			names["pad_token"] = "<|padding|>"
		}
	case "SiglipTokenizer":
		return h.sigLIP(c)
	case "CLIPTokenizer":
		names = h.clip(c)
	case "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MPNetTokenizer", "RobertaTokenizer", "XLMRobertaTokenizer", "AlbertTokenizer", "T5Tokenizer":
		return h.rebuildEncoder(c, class)
	default:
		if slices.Contains(otherClasses, strings.TrimSuffix(class, "Tokenizer")) && strings.HasSuffix(class, "Tokenizer") {
			return fmt.Errorf("unsupported tokenizer_class %s", class)
		}
		return nil
	}
	m.IgnoreMerges, m.Dropout, m.Prefix = false, nil, nil
	if class != "CLIPTokenizer" {
		m.Suffix = nil
	}
	h.named(c, names)
	return nil
}

// Expressions of CLIP's tokenizer.
const (
	clipWords  = `<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`
	clipSpaces = `\s+`
)

// clip replaces the parts of the file that CLIP's class replaces and returns the names of
// its special tokens.
func (h *hfFile) clip(c *hfConfig) map[string]string {
	no, suffix, unknown := false, "</w>", endOfText
	name := func(key, absent string) string { return or(c.names[key].Content, absent) }
	unknown = name("unk_token", unknown)
	words, spaces := clipWords, clipSpaces
	split, blank := hfStep{Type: "Split", Behavior: "Removed", Invert: true}, hfStep{Type: "Replace", Content: " "}
	split.Pattern, blank.Pattern = &hfPattern{Regex: &words}, &hfPattern{Regex: &spaces}
	h.Normalizer = &hfStep{Type: "Sequence", Normalizers: []hfStep{{Type: "NFC"}, blank, {Type: "Lowercase"}}}
	h.PreTokenizer = &hfStep{Type: "Sequence", Pretokenizers: []hfStep{split, {Type: "ByteLevel", AddPrefixSpace: &no}}}
	h.PostProcessor = &hfStep{Type: "RobertaProcessing", CLS: []any{name("bos_token", "<|startoftext|>")}, SEP: []any{name("eos_token", endOfText)}}
	m := &h.Model
	m.UnkToken, m.FuseUnk, m.ByteFallback, m.Suffix = &unknown, false, false, &suffix
	return map[string]string{"unk_token": endOfText, "bos_token": "<|startoftext|>", "eos_token": endOfText, "pad_token": endOfText}
}

// isCLIP reports whether the pre-tokenizer is that of CLIP.
func (h *hfFile) isCLIP() bool {
	return h.PreTokenizer != nil && len(h.PreTokenizer.Pretokenizers) > 0 && h.PreTokenizer.Pretokenizers[0].Pattern != nil &&
		h.PreTokenizer.Pretokenizers[0].Pattern.Regex != nil && *h.PreTokenizer.Pretokenizers[0].Pattern.Regex == clipWords
}

// named sorts the added tokens and names the tokens of a class that the
// configuration does not name.
func (h *hfFile) named(c *hfConfig, names map[string]string) {
	no := false
	slices.SortStableFunc(h.AddedTokens, func(a, b hfAdded) int { return a.ID - b.ID })
	for key, text := range names {
		if _, ok := c.names[key]; !ok {
			c.names[key] = hfAdded{Content: text, Special: true, Normalized: &no}
		}
	}
}

const endOfText = "<|endoftext|>"

// qwen2Words is the expression of Qwen2's pre-tokenizer.
var qwen2Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
