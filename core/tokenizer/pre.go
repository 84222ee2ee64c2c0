package tokenizer

import "fmt"

// preTokenizer is how a named family of models cuts text into words, with the
// defaults that go with the name.
type preTokenizer struct {
	passes []pass
	// wholeWords takes a word that is a token as it is, whether or not
	// merges lead to it.
	wholeWords bool
	// addBOS is whether a beginning of sequence is added where the model
	// does not say.
	addBOS bool
	// chars works on characters with <0xNN> tokens as a fallback, instead of
	// on bytes in GPT-2's alphabet.
	chars bool
	// lineWords takes a run of line breaks that is a token as it is.
	lineWords bool
}

// PreNone is the pre-tokenizer that does not cut: merges may cross words. Only
// this package knows the name; llama.cpp refuses it.
const PreNone = "mm-none"

// preTokenizers maps the names in tokenizer.ggml.pre to what they do. The
// groups are llama.cpp's.
var preTokenizers = func() map[string]preTokenizer {
	m := make(map[string]preTokenizer)
	add := func(p preTokenizer, names ...string) {
		for _, name := range names {
			m[name] = p
		}
	}
	gpt2 := each(scanGPT2)
	cl100k := func(digits int) []pass { return []pass{each(wordRule{word: letter, digits: digits}.scan)} }

	add(preTokenizer{passes: []pass{each(scanPunctuation), gpt2, each(scanDigits), each(scanThreeDigits)}}, "", "default")
	add(preTokenizer{passes: []pass{gpt2}}, "gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es",
		"jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling")
	add(preTokenizer{passes: []pass{each(scanDigit), gpt2}}, "starcoder", "refact", "command-r", "smollm", "codeshell",
		"exaone", "minerva-7b", "mellum2")
	add(preTokenizer{passes: cl100k(3), wholeWords: true, addBOS: true}, "llama3", "llama-v3", "llama-bpe", "falcon3",
		"falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano")
	add(preTokenizer{passes: cl100k(3)}, "dbrx", "smaug-bpe", "glm4", "chatglm-bpe")
	add(preTokenizer{passes: cl100k(1)}, "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2",
		"hunyuan", "solar-open", "grok-2")
	add(preTokenizer{passes: []pass{each(wordRule{word: letter | mark, digits: 1}.scan)}}, "qwen35")
	add(preTokenizer{passes: []pass{each(wordRule{word: letter, digits: 1, slash: true, cased: true}.scan)},
		wholeWords: true, addBOS: true}, "tekken")
	add(preTokenizer{passes: []pass{each(wordRule{word: letter, digits: 3, slash: true, cased: true}.scan)}},
		"gpt-4o", "llama4", "kanana2", "talkie")
	add(preTokenizer{passes: []pass{each(scanPunctuationFalcon), gpt2, each(scanThreeDigits)}}, "falcon")
	add(preTokenizer{passes: []pass{each(scanLineBreak), each(spaced(func(r rune, _ class) bool { return isCased(r) })),
		each(spaced(func(r rune, _ class) bool { return isSign(r) })), cutTrailingBlanks,
		each(runeRun(isEastAsian)), each(scanDigits)}}, "deepseek-llm")
	add(preTokenizer{passes: []pass{each(scanLineBreak), each(spaced(func(_ rune, c class) bool { return c&letter != 0 })),
		each(spaced(func(_ rune, c class) bool { return c&punct != 0 })),
		each(runeRun(isEastAsian)), each(scanDigit)}}, "deepseek-coder")
	add(preTokenizer{passes: []pass{each(scanThreeNumbers), each(runeRun(isIdeograph)), each(scanDeepSeek3)}},
		"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4")
	add(preTokenizer{passes: []pass{each(scanLine)}, chars: true, lineWords: true, addBOS: true}, "gemma4")
	add(preTokenizer{passes: []pass{each(scanMetaspace)}, chars: true}, preMetaspace)
	add(preTokenizer{chars: true}, preChars)
	add(preTokenizer{}, PreNone)
	return m
}()

// Pre-tokenizers of tokenizer.json that have no name elsewhere: merges over
// characters, cut at every space or not at all.
const (
	preMetaspace = "mm-metaspace"
	preChars     = "mm-chars"
)

// Words cuts text into the words of the pre-tokenizer named pre: together
// they are the text. It serves training; Encode cuts for itself.
func Words(pre, text string, emit func(word string)) error {
	p, known := preTokenizers[pre]
	if !known {
		return fmt.Errorf("tokenizer: unknown pre-tokenizer %q", pre)
	}
	if text != "" {
		chain(p.passes, emit)(text)
	}
	return nil
}
