package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/core/gguf"
)

// ErrNoVocabulary reports a model file without a tokenizer, which works on
// token ids only.
var ErrNoVocabulary = errors.New("file has no vocabulary")

// FromGGUF builds the tokenizer of a model file's metadata:
// tokenizer.ggml.model is llama (SPM), gpt2 or gemma4 (BPE), bert (WordPiece) or
// t5 (Unigram). It returns
// [ErrNoVocabulary] if there is none, and an error for another model.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	v, words, merges, err := readGGUF(f)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return build(v, words, merges)
}

// readGGUF reads and validates a vocabulary whose tokens and merges are apart; the
// merges alias the file.
func readGGUF(f *gguf.File) (v Vocabulary, words *lexicon, merges mergeList, err error) {
	if v, err = algorithmOf(f); err != nil {
		return v, nil, merges, err
	}
	if words, err = readTokens(f, v.Model == WordPiece); err != nil {
		return v, nil, merges, err
	}
	if v.Model == BPE && (words.size() <= 11 || Type(words.types[11]) != Control) {
		// Token 11 ends text in GPT-2's vocabulary; in others it is a byte.
		v.Special.BOS, v.Special.EOS = None, None
	}
	more, err := readRules(f)
	if err != nil {
		return v, nil, merges, err
	}
	if more != nil {
		v.Special = NoSpecial // every role is stated
	}
	if err := v.readRoles(f, words.size()); err != nil {
		return v, nil, merges, err
	}
	if more == nil {
		if err := v.encoderRoles(f, words.size()); err != nil {
			return v, nil, merges, err
		}
	}
	if v.Model == BPE {
		lines, err := f.Strings(gguf.KeyMerges)
		if err != nil {
			return v, nil, merges, err
		}
		merges = mergesIn(lines)
	}
	if more == nil {
		stripPhi3(f, words)
	} else if err := more.apply(&v, words); err != nil {
		return v, nil, merges, err
	}
	if v.Template, err = gguf.GetOr(f, gguf.KeyChatTemplate, ""); err != nil {
		return v, nil, merges, err
	}
	if v.Template == "" && f.Has(gguf.KeyChatTemplates) {
		names, err := f.Strings(gguf.KeyChatTemplates)
		if err != nil {
			return v, nil, merges, err
		}
		v.Template = noDefault(names.Slice())
	}
	return v, words, merges, v.checkTokens(words.size(), merges.n, words.token)
}

// algorithmOf returns the algorithm of a file and its defaults.
func algorithmOf(f *gguf.File) (v Vocabulary, err error) {
	model, err := gguf.GetOr(f, gguf.KeyTokenizerModel, "none")
	if err != nil {
		return v, err
	}
	switch model {
	case "llama":
		v = Vocabulary{Model: SPM, SpacePrefix: EveryPrefix, AddBOS: true, Special: NoSpecial}
		v.Special.BOS, v.Special.EOS, v.Special.Unknown = 1, 2, 0
	case "gpt2":
		v = Vocabulary{Model: BPE, Special: NoSpecial}
		v.Special.BOS, v.Special.EOS = 11, 11
		if v.Pre, err = gguf.GetOr(f, gguf.KeyTokenizerPre, "default"); err != nil {
			return v, err
		}
		rule, _ := findPretokenizer(v.Pre)
		v.AddBOS = rule.AddBOS
	case "gemma4":
		v = Vocabulary{Model: BPE, Pre: "gemma4", AddBOS: true, Special: NoSpecial}
	case "bert":
		v = wordPieceOf()
	case "t5":
		return unigramOf(f)
	case "none", "no_vocab":
		return v, ErrNoVocabulary
	default:
		return v, fmt.Errorf("unsupported tokenizer model %q, want llama, gpt2, gemma4, bert or t5", model)
	}
	return v, nil
}

// readTokens combines the arrays of texts, scores and types.
func readTokens(f *gguf.File, wordPiece bool) (*lexicon, error) {
	texts, err := f.Strings(gguf.KeyTokens)
	if err != nil {
		return nil, err
	}
	scores, err := gguf.GetOr[[]float32](f, gguf.KeyScores, nil)
	if err != nil {
		return nil, err
	}
	types, err := gguf.GetOr[[]int32](f, gguf.KeyTokenTypes, nil)
	if err != nil {
		return nil, err
	}
	if scores != nil && len(scores) != texts.Len() {
		return nil, fmt.Errorf("score count mismatch: got %d, want %d", len(scores), texts.Len())
	}
	if types != nil && len(types) != texts.Len() {
		return nil, fmt.Errorf("token type count mismatch: got %d, want %d", len(types), texts.Len())
	}
	if texts.Len() > maxTokens {
		return nil, fmt.Errorf("got %d tokens, limit %d", texts.Len(), maxTokens)
	}
	words := newLexicon(texts.Len())
	all := texts.All()
	if wordPiece {
		all = fromPhantom(all, types)
	}
	if err := words.fill(all); err != nil {
		return nil, err
	}
	words.scores = scores
	for id, typ := range types {
		if typ < 0 || typ > int32(Byte) {
			return nil, fmt.Errorf("token %d, %q: unknown type %d", id, words.text(int32(id)), typ)
		}
		words.set(int32(id), Token{Type: Type(typ), Score: words.score(int32(id))})
	}
	return words, nil
}

// readRoles reads the special ids and the tokens that Encode adds. A default id
// beyond the vocabulary is dropped, a declared one is an error, except for padding: nothing
// here pads, and files of fine-tuned models name a token that was added for training.
func (v *Vocabulary) readRoles(f *gguf.File, tokens int) error {
	sp := &v.Special
	for key, id := range map[string]*int32{
		gguf.KeyBOS: &sp.BOS, gguf.KeyEOS: &sp.EOS, gguf.KeyEOT: &sp.EOT, gguf.KeyEOM: &sp.EOM,
		gguf.KeyUnknown: &sp.Unknown, gguf.KeySeparator: &sp.Separator, gguf.KeyPadding: &sp.Padding,
	} {
		if !f.Has(key) {
			if int(*id) >= tokens {
				*id = None
			}
			continue
		}
		stated, err := gguf.Get[uint32](f, key)
		if err != nil {
			return err
		}
		if uint64(stated) >= uint64(tokens) {
			if key == gguf.KeyPadding {
				*id = None
				continue
			}
			return fmt.Errorf("key %s: id %d out of range of %d tokens", key, stated, tokens)
		}
		*id = int32(stated)
	}
	prefix := v.SpacePrefix != NoPrefix
	for key, flag := range map[string]*bool{
		gguf.KeyAddBOS: &v.AddBOS, gguf.KeyAddEOS: &v.AddEOS, gguf.KeyAddSpacePrefix: &prefix,
	} {
		stated, err := gguf.GetOr(f, key, *flag)
		if err != nil {
			return err
		}
		*flag = stated
	}
	if v.Pre == "gemma4" {
		v.AddBOS = true // its files wrongly declare false
	}
	v.SpacePrefix = NoPrefix
	if prefix && v.spaced() { // the key has no effect on bytes
		v.SpacePrefix = EveryPrefix
	}
	v.AddBOS = v.AddBOS && sp.BOS != None
	v.AddEOS = v.AddEOS && sp.EOS != None
	return nil
}

// spaced reports whether the vocabulary's tokens use ▁ for a space.
func (v *Vocabulary) spaced() bool {
	rule, _ := findPretokenizer(v.Pre)
	return v.spacedModel() || v.Model == BPE && rule.Chars
}

// mergesIn returns the merges of lines.
func mergesIn(lines gguf.Strings) mergeList {
	return mergeList{lines.Len(), func(yield func(Merge, error) bool) {
		for _, line := range lines.All() {
			if !yield(parseMerge(line)) {
				return
			}
		}
	}}
}

// parseMerge splits "left right" at the first space with a nonempty left side.
func parseMerge(line string) (Merge, error) {
	if len(line) > 0 {
		if i := strings.IndexByte(line[1:], ' '); i >= 0 && i+2 < len(line) {
			return Merge{line[:i+1], line[i+2:]}, nil
		}
	}
	return Merge{}, fmt.Errorf("%q is not a pair separated by a space", line)
}

// stripPhi3 sets a property of Phi-3's tokens that its GGUF files lack: white
// space after a special token is dropped.
func stripPhi3(f *gguf.File, words *lexicon) {
	name, err := gguf.GetOr(f, gguf.KeyName, "")
	name = strings.ToLower(name)
	if err != nil || !strings.Contains(name, "phi-3") && !strings.Contains(name, "phi3") {
		return
	}
	for id := range int32(words.size()) {
		t := words.token(id)
		switch t.Text {
		case "<unk>", "<s>", "<|endoftext|>":
		case "</s>":
			t.RStrip = true
		default:
			t.RStrip = t.Type == Control || t.Type == UserDefined || t.Type == Unknown
		}
		words.set(id, t)
	}
}

// KVs returns the tokenizer as GGUF metadata, in a fixed order; as SPM if
// equivalent, which more engines support. Reading it back restores the
// tokenizer: properties without a key of GGUF are in mm's own ([KeyRules]).
func (t *Tokenizer) KVs() []gguf.KV {
	v, ok := t.sentencePiece()
	if !ok {
		v = t.Vocabulary()
	}
	model, pre := "llama", ""
	switch {
	case v.Model == WordPiece:
		model = "bert"
	case v.Model == Unigram:
		model = "t5"
	case v.Pre == "gemma4":
		model = "gemma4"
	case v.Model == BPE:
		model, pre = "gpt2", v.Pre
	}
	kvs := []gguf.KV{{Key: gguf.KeyTokenizerModel, Value: model}}
	put := func(key string, value any) { kvs = append(kvs, gguf.KV{Key: key, Value: value}) }
	if pre != "" {
		put(gguf.KeyTokenizerPre, pre)
	}
	texts, scores, types := make([]string, len(v.Tokens)), make([]float32, len(v.Tokens)), make([]int32, len(v.Tokens))
	for i, tok := range v.Tokens {
		texts[i], scores[i], types[i] = tok.Text, tok.Score, int32(tok.Type)
		if v.Model == WordPiece {
			texts[i] = phantom(tok)
		}
	}
	put(gguf.KeyTokens, texts)
	if v.spacedModel() {
		put(gguf.KeyScores, scores)
	}
	put(gguf.KeyTokenTypes, types)
	if v.Model == BPE {
		merges := make([]string, len(v.Merges))
		for i, m := range v.Merges {
			merges[i] = m.Left + " " + m.Right
		}
		put(gguf.KeyMerges, merges)
	}
	for _, role := range []struct {
		key string
		id  int32
	}{
		{gguf.KeyBOS, v.Special.BOS}, {gguf.KeyEOS, v.Special.EOS}, {gguf.KeyEOT, v.Special.EOT},
		{gguf.KeyEOM, v.Special.EOM}, {gguf.KeyUnknown, v.Special.Unknown},
		{gguf.KeySeparator, v.Special.Separator}, {gguf.KeyPadding, v.Special.Padding},
	} {
		if role.id != None {
			put(role.key, uint32(role.id))
		}
	}
	if v.Model == WordPiece && v.Special.BOS != None {
		put(keyClass, uint32(v.Special.BOS))
	}
	if v.Model == Unigram {
		put(gguf.KeyRemoveExtraSpace, v.Pre == preFields)
	}
	if v.Charsmap != nil {
		put(keyCharsmap, v.Charsmap)
	}
	put(gguf.KeyAddBOS, v.AddBOS)
	put(gguf.KeyAddEOS, v.AddEOS)
	if v.spaced() {
		put(gguf.KeyAddSpacePrefix, v.SpacePrefix != NoPrefix)
	}
	if v.Template != "" {
		put(gguf.KeyChatTemplate, v.Template)
	}
	if text := rulesOf(&v); text != "" {
		put(KeyRules, text)
	}
	return kvs
}
