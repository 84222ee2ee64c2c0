// A pre-tokenizer splits text into the words that byte pair encoding works on.
//
// Models define it by a regular expression with lookahead, which Go's regexp
// lacks; untrusted input must not drive a backtracking engine. Each expression
// in use is implemented as a scanner that reads the text once.
// [findPretokenizer] looks one up by its GGUF name; [pretokenizer.Split]
// applies it.

package tokenizer

import "sync"

// pretokenizer splits text for a family of models, with the family's defaults.
type pretokenizer struct {
	passes []pass
	// WholeWords accepts a word that is a token, whether or not merges lead to
	// it.
	WholeWords bool
	// AddBOS is the default for adding a beginning of sequence.
	AddBOS bool
	// Chars works on characters with <0xNN> tokens as a fallback, instead of on
	// bytes in GPT-2's alphabet.
	Chars bool
	// Lines splits only at line breaks; a run of them that is a token is
	// accepted.
	Lines bool
}

// findPretokenizer returns a pre-tokenizer by its name in tokenizer.ggml.pre or
// by an internal name.
func findPretokenizer(name string) (pretokenizer, bool) {
	r, ok := pretokenizers()[name]
	return r, ok
}

// Cuts reports whether the pre-tokenizer splits at all.
func (r pretokenizer) Cuts() bool { return len(r.passes) > 0 }

// Split splits text: the concatenated words equal the text, except for white space that
// is dropped.
func (r pretokenizer) Split(text string, emit func(word string)) {
	if text != "" {
		chain(r.passes, emit)(text)
	}
}

// Internal names; llama.cpp refuses them.
const (
	// preChars does not split, and works on characters.
	preChars = "mm-chars"
	// preMetaspace splits before every space, and works on characters.
	preMetaspace = "mm-metaspace"
	// preCLIP drops white space, and works on bytes.
	preCLIP = "mm-clip"
	// preFields drops white space, and works on the words of Unigram.
	preFields = "mm-fields"
)

// pretokenizers maps the names in tokenizer.ggml.pre to rules, in llama.cpp's
// groups.
var pretokenizers = sync.OnceValue(func() map[string]pretokenizer {
	m := make(map[string]pretokenizer)
	add := func(p pretokenizer, names ...string) {
		for _, name := range names {
			m[name] = p
		}
	}
	gpt2 := each(scanGPT2)
	cl100k := func(digits int) []pass { return []pass{each(wordRule{word: letter, digits: digits}.scan)} }

	add(pretokenizer{passes: []pass{each(scanPunctuation), gpt2, each(scanDigits), each(scanThreeDigits)}}, "", "default")
	add(pretokenizer{passes: []pass{gpt2}}, "gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es",
		"jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling")
	add(pretokenizer{passes: []pass{each(scanDigit), gpt2}}, "starcoder", "refact", "command-r", "smollm", "codeshell",
		"exaone", "minerva-7b", "mellum2")
	add(pretokenizer{passes: cl100k(3), WholeWords: true, AddBOS: true}, "llama3", "llama-v3", "llama-bpe", "falcon3",
		"falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano")
	add(pretokenizer{passes: cl100k(3)}, "dbrx", "smaug-bpe", "glm4", "chatglm-bpe")
	add(pretokenizer{passes: cl100k(1)}, "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2",
		"hunyuan", "solar-open", "grok-2", "bailingmoe", "bailingmoe2", "llada-moe")
	add(pretokenizer{passes: append([]pass{each(scanLine)}, cl100k(1)...)}, "laguna")
	add(pretokenizer{passes: []pass{each(wordRule{word: letter, digits: 1, bare: true}.scan)}}, "seed-coder")
	add(pretokenizer{passes: []pass{each(wordRule{word: letter, digits: 1, joined: true}.scan)}}, "ufakzeka")
	add(pretokenizer{passes: append([]pass{each(scanThreeNumbers)}, cl100k(0)...), WholeWords: true}, "minicpm5")
	add(pretokenizer{passes: []pass{each(scanBloom)}}, "bloom", "poro-chat", "gpt3-finnish")
	add(pretokenizer{passes: []pass{each(scanBloom), each(scanDigit)}}, "viking")
	add(pretokenizer{passes: []pass{each(wordRule{word: letter | mark, digits: 1}.scan)}}, "qwen35")
	add(pretokenizer{passes: []pass{each(wordRule{word: letter, digits: 1, slash: true, cased: true}.scan)},
		WholeWords: true, AddBOS: true}, "tekken")
	add(pretokenizer{passes: []pass{each(wordRule{word: letter, digits: 3, slash: true, cased: true}.scan)}},
		"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2")
	add(pretokenizer{passes: []pass{each(scanPunctuationFalcon), gpt2, each(scanThreeDigits)}}, "falcon")
	add(pretokenizer{passes: []pass{each(scanLineBreak), each(spaced(func(r rune, _ class) bool { return isCased(r) })),
		each(spaced(func(r rune, _ class) bool { return isSign(r) })), cutTrailingBlanks,
		each(runeRun(isEastAsian)), each(scanDigits)}}, "deepseek-llm")
	add(pretokenizer{passes: []pass{each(scanLineBreak), each(spaced(func(_ rune, c class) bool { return c&letter != 0 })),
		each(spaced(func(_ rune, c class) bool { return c&punct != 0 })),
		each(runeRun(isEastAsian)), each(scanDigit)}}, "deepseek-coder")
	add(pretokenizer{passes: []pass{each(scanThreeNumbers), each(runeRun(isIdeograph)), each(scanDeepSeek3)}},
		"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4")
	add(pretokenizer{passes: []pass{each(scanLine)}, Chars: true, Lines: true, AddBOS: true}, "gemma4")
	add(pretokenizer{passes: []pass{only(scanCLIP), gpt2}}, preCLIP)
	add(pretokenizer{passes: []pass{each(scanMetaspace)}, Chars: true}, preMetaspace)
	add(pretokenizer{Chars: true}, preChars)
	add(pretokenizer{}, PreNone)
	return m
})
