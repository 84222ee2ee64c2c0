// Package tokenizer converts text to token ids and back, as language models
// were trained.
//
// A [Vocabulary] defines a tokenizer; it is read from GGUF metadata
// ([FromGGUF]), from tokenizer.json ([FromHuggingFace]), from llama2.c's
// tok.bin ([FromLlama2C]) or trained from text ([Train]). [New] validates it
// and builds a [Tokenizer], which is immutable and safe for concurrent use.
//
// There are four models: SPM (SentencePiece with scores) and BPE, on bytes or on
// characters, behind a pre-tokenizer that splits text into words, and, for
// encoders, WordPiece and Unigram. Ids of SPM and BPE are those
// of llama.cpp for the same file, with three deliberate differences: merging
// never creates a control token, invalid UTF-8 bytes keep their value instead
// of becoming U+FFFD, and of overlapping special tokens the leftmost is used,
// then the longest.
package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Options configures Encode.
type Options struct {
	// Add adds the model's tokens at the beginning and the end (BOS, EOS).
	Add bool
	// Special recognizes control tokens such as <|im_end|> in the text. If
	// false, their text is literal, which is right for user input: a user's
	// text must not end a turn. User-defined tokens are always recognized.
	Special bool
	// Literal lists bytes that control and user-defined tokens must not cover,
	// as ascending offsets into the text. They do not split: text composed of a
	// template and user input is encoded in one piece without interpreting the
	// input.
	Literal []int
}

// Tokenizer encodes and decodes.
type Tokenizer struct {
	vocab Vocabulary // without tokens and merges
	pre   pretokenizer
	words *lexicon
	// Special tokens in text, and in normalized text: user-defined ones, and all.
	always, all           *specials
	alwaysLater, allLater *specials
	normalize             []func(string) string
	ends                  map[int32]bool
	spm                   *spm
	bpe                   *bpe
	wordPiece             *wordPiece
	unigram               *unigram
	pool                  sync.Pool
}

// New validates a vocabulary and builds its tokenizer.
func New(v Vocabulary) (*Tokenizer, error) {
	if err := v.check(); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	words := newLexicon(len(v.Tokens))
	texts := func(yield func(int, string) bool) {
		for id, tok := range v.Tokens {
			if !yield(id, tok.Text) {
				return
			}
		}
	}
	if err := words.fill(texts); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	for id, tok := range v.Tokens {
		words.set(int32(id), tok)
	}
	merges := mergesOf(v.Merges)
	v.Tokens, v.Merges = nil, nil
	return build(v, words, merges)
}

// build builds the tokenizer of a valid vocabulary whose tokens and merges are
// stored apart.
func build(v Vocabulary, words *lexicon, merges mergeList) (*Tokenizer, error) {
	t := &Tokenizer{vocab: v, words: words}
	t.pool.New = func() any { return new(scratch) }
	if v.Model == BPE {
		pre, ok := findPretokenizer(v.Pre)
		if !ok {
			return nil, fmt.Errorf("tokenizer: unknown pre-tokenizer %q", v.Pre)
		}
		t.pre = pre
		t.pre.WholeWords = pre.WholeWords || v.WholeWords
	}
	words.plain = v.Model == WordPiece
	if err := words.index(t.marked()); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	for _, name := range v.Normalizer {
		f := normalizerOf(name)
		if name == charsmapStep {
			table, err := parseCharsmap(v.Charsmap)
			if err != nil {
				return nil, fmt.Errorf("tokenizer: %w", err)
			}
			f = table.normalize
		}
		t.normalize = append(t.normalize, f)
	}
	t.roles()
	words.classify()
	t.findSpecials()
	switch v.Model {
	case SPM:
		t.spm = newSPM(words, v.Special.Unknown)
		return t, nil
	case WordPiece:
		t.wordPiece = newWordPiece(words, v.Special.Unknown, v.longestWord())
		return t, nil
	case Unigram:
		t.unigram = newUnigram(words, v.Special.Unknown)
		return t, nil
	}
	var err error
	if t.bpe, err = newBPE(t, merges); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if !t.pre.Cuts() {
		t.bpe.linear = newLinear(t.bpe, merges.n)
	}
	return t, nil
}

// marked reports whether tokens use ▁ for a space.
func (t *Tokenizer) marked() bool { return t.vocab.spacedModel() || t.pre.Chars }

// unmark replaces ▁ by spaces.
func unmark(s string) string { return strings.ReplaceAll(s, spaceMark, " ") }

// appendUnmarked appends unmark(s) to dst.
func appendUnmarked(dst []byte, s string) []byte {
	for {
		i := strings.Index(s, spaceMark)
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(append(dst, s[:i]...), ' ')
		s = s[i+len(spaceMark):]
	}
}

// roles finds the tokens that end generation, whatever type a file declares,
// and an undeclared EOT.
func (t *Tokenizer) roles() {
	t.ends = make(map[int32]bool)
	has := func(text string) bool { _, ok := t.words.find(text); return ok }
	// gpt-oss: <|end|> closes a message, not a turn.
	messages := has("<|return|>") && has("<|call|>") || has("<|calls|>") && has("<|flush|>")
	for text := range endOfGeneration {
		id, ok := t.words.find(text)
		switch {
		case !ok:
			continue
		case text == "</s>" && has("<|tool_response>"):
			t.words.types[id] = uint8(Normal) // gemma 4: markup in text
			continue
		case t.ordinary(text, id):
			continue
		case text == "<|end|>" && messages:
			continue
		}
		t.ends[id] = true
		t.words.types[id] = uint8(Control)
	}
	sp := &t.vocab.Special
	for _, text := range endOfTurn {
		if id, ok := t.words.find(text); ok && sp.EOT == None && !t.ordinary(text, id) && !(text == "<|end|>" && messages) {
			sp.EOT = id
		}
	}
	if id, ok := t.words.find("<|eom_id|>"); ok && sp.EOM == None {
		sp.EOM = id
	}
	for _, id := range []int32{sp.EOS, sp.EOT, sp.EOM} {
		if id != None {
			t.ends[id] = true
		}
	}
	if id, ok := t.words.find("<|end|>"); ok && messages {
		delete(t.ends, id) // even if the file declares it
	}
}

// ordinary reports whether a token that looks like the end of a text is
// ordinary: the file's types are trusted, or it is </s>, which is markup in
// many vocabularies (Qwen, Gemma, InternLM2), and not special here.
func (t *Tokenizer) ordinary(text string, id int32) bool {
	typ := Type(t.words.types[id])
	if id == t.vocab.Special.EOS || id == t.vocab.Special.EOT || id == t.vocab.Special.EOM || typ == Control {
		return false
	}
	return t.vocab.Stated || text == "</s>" && typ == Normal
}

// findSpecials builds the sets of tokens that occur in text verbatim.
func (t *Tokenizer) findSpecials() {
	t.always, t.all, t.alwaysLater, t.allLater = newSpecials(), newSpecials(), newSpecials(), newSpecials()
	for i, typ := range t.words.types {
		id, always, all := int32(i), t.always, t.all
		text := t.words.text(id)
		if t.words.flags[id].Normalized {
			always, all = t.alwaysLater, t.allLater
			text = t.normalized(text)
		}
		switch Type(typ) {
		case UserDefined:
			always.add(text, id)
			all.add(text, id)
		case Control, Unknown:
			all.add(text, id)
		}
	}
}

// Vocabulary returns the complete vocabulary. It is built anew: [Tokenizer.Rules]
// is free.
func (t *Tokenizer) Vocabulary() Vocabulary {
	v := t.vocab
	v.Tokens = t.words.tokens()
	if t.bpe != nil {
		v.Merges = t.bpe.merges(t.words)
	}
	return v
}

// Rules returns the vocabulary without tokens and merges.
func (t *Tokenizer) Rules() Vocabulary { return t.vocab }

// Size returns the number of tokens, V.
func (t *Tokenizer) Size() int { return t.words.size() }

// Special returns the ids of the special tokens.
func (t *Tokenizer) Special() Special { return t.vocab.Special }

// Ends reports whether a token ends generation: EOS, EOT or another token that
// ends a turn.
func (t *Tokenizer) Ends(id int32) bool { return t.ends[id] }

// ID returns the token with the text, such as "<image>", or None.
func (t *Tokenizer) ID(text string) int32 {
	id, _ := t.words.find(text)
	return id
}

// Marks reports whether a text is one control or user-defined token, which merging
// text does not produce.
func (t *Tokenizer) Marks(text string) bool {
	typ := t.Type(t.ID(text))
	return text != "" && (typ == Control || typ == UserDefined)
}

// Piece returns the bytes of a token, or the text of a control token; "" for an
// id outside the vocabulary.
func (t *Tokenizer) Piece(id int32) string {
	if id < 0 || int(id) >= t.words.size() {
		return ""
	}
	return t.words.piece(id)
}

// Type returns a token's type; 0 for an id outside the vocabulary.
func (t *Tokenizer) Type(id int32) Type {
	if id < 0 || int(id) >= t.words.size() {
		return 0
	}
	return Type(t.words.types[id])
}

// Encode returns the tokens of text. Any bytes are valid: invalid UTF-8 falls
// back to byte tokens, and is dropped if the vocabulary has none.
func (t *Tokenizer) Encode(text string, opt Options) []int32 {
	return t.Append(nil, text, opt)
}

// Append appends the tokens of text to dst.
func (t *Tokenizer) Append(dst []int32, text string, opt Options) []int32 {
	s := t.pool.Get().(*scratch)
	defer t.pool.Put(s)
	if opt.Add && t.vocab.AddBOS {
		dst = append(dst, t.vocab.Special.BOS)
	}
	set, later := t.always, t.alwaysLater
	if opt.Special {
		set, later = t.all, t.allLater
	}
	t.cut(text, set, opt.Literal, unicode.IsSpace, func(from, to int, id int32) {
		switch {
		case id != None:
			dst = append(dst, id)
		case later.empty():
			dst = t.fragment(dst, t.normalForm(text[from:to]), from == 0, s)
		default:
			dst = t.later(dst, text[from:to], from == 0, later, within(opt.Literal, from, to), s)
		}
	})
	if opt.Add && t.vocab.AddEOS {
		dst = append(dst, t.vocab.Special.EOS)
	}
	return dst
}

// later appends the tokens of text that may contain tokens in normalized form.
func (t *Tokenizer) later(dst []int32, text string, first bool, set *specials, literal []int, s *scratch) []int32 {
	moved := make([]int, len(literal))
	for i, at := range literal {
		moved[i] = len(t.normalized(text[:at]))
	}
	text = t.normalized(text)
	isSpace := unicode.IsSpace
	if t.vocab.MarksFirst {
		isSpace = func(r rune) bool { return r != ' ' && unicode.IsSpace(r) } // a space is a mark
	}
	t.cut(text, set, moved, isSpace, func(from, to int, id int32) {
		switch {
		case id != None:
			dst = append(dst, id)
		case t.vocab.MarksFirst:
			dst = t.encodeWords(dst, text[from:to], s)
		default:
			dst = t.fragment(dst, text[from:to], first && from == 0, s)
		}
	})
	return dst
}

// fragment appends the tokens of normalized text without special tokens; first
// is set if no text came before.
func (t *Tokenizer) fragment(dst []int32, text string, first bool, s *scratch) []int32 {
	if t.vocab.Model == Unigram && t.vocab.Pre == preFields {
		return t.fields(dst, text, s)
	}
	return t.encodeWords(dst, t.spaced(text, first), s)
}

// spaced replaces ▁ by spaces, and prepends one if the vocabulary does.
func (t *Tokenizer) spaced(text string, first bool) string {
	if t.marked() && strings.Contains(text, spaceMark) {
		text = unmark(text)
	}
	if text != "" && t.vocab.SpacePrefix.applies(text, first) {
		text = " " + text
	}
	return text
}

// encodeWords appends the tokens of text whose spaces are final.
func (t *Tokenizer) encodeWords(dst []int32, text string, s *scratch) []int32 {
	switch {
	case text == "":
		return dst
	case t.spm != nil:
		return t.spm.encode(dst, text, s)
	case t.wordPiece != nil:
		return t.wordPiece.encode(dst, text, s)
	case t.unigram != nil && t.vocab.Pre == preChars:
		return t.unigram.encode(dst, text, s)
	case t.unigram != nil:
		splitMarks(text, func(word string) { dst = s.cached(dst, word, t.unigram.encode) })
		return dst
	case !t.pre.Cuts():
		if t.vocab.WholeWords {
			if id, ok := t.words.findPiece(text); ok {
				return append(dst, id)
			}
		}
		from := len(dst)
		return t.fuse(t.bpe.encodeText(dst, text, s), from)
	}
	emit := func(word string) { dst = s.cached(dst, word, t.word) }
	if t.pre.Lines {
		emit = func(line string) { dst = t.line(dst, line, s) }
	}
	t.pre.Split(text, emit)
	return dst
}

// fuse replaces runs of the unknown token from an index on by one.
func (t *Tokenizer) fuse(ids []int32, from int) []int32 {
	if !t.vocab.FuseUnknown || t.vocab.Special.Unknown == None {
		return ids
	}
	tail := slices.CompactFunc(ids[from:], func(a, b int32) bool { return a == b && a == t.vocab.Special.Unknown })
	return ids[:from+len(tail)]
}

// applies reports whether a space is prepended to text.
func (p Prefix) applies(text string, first bool) bool {
	switch p {
	case EveryPrefix:
		return true
	case WordPrefix:
		return text[0] != ' '
	case FirstPrefix:
		return first && text[0] != ' '
	}
	return false
}

// word appends the tokens of a word.
func (t *Tokenizer) word(dst []int32, word string, s *scratch) []int32 {
	if t.pre.WholeWords {
		if id, ok := t.words.findPiece(word); ok {
			return append(dst, id)
		}
	}
	from := len(dst)
	return t.fuse(t.bpe.encode(dst, word, s), from)
}

// line appends the tokens of a line, or of a run of line breaks.
func (t *Tokenizer) line(dst []int32, line string, s *scratch) []int32 {
	if line[0] == '\n' {
		if id, ok := t.words.findPiece(line); ok {
			return append(dst, id)
		}
	}
	return t.bpe.encodeText(dst, line, s)
}
