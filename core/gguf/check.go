package gguf

import (
	"errors"
	"fmt"
	"slices"
)

// Check validates a model file's metadata as engines expect it:
// general.architecture is present, every well-known key has its type, counts
// are within llama.cpp's limits, the tokenizer's arrays have equal lengths, and
// special token ids are in the vocabulary. It returns all errors joined. A file
// that [Parse] accepts may fail here: engines have crashed on each of these.
func (f *File) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("gguf: "+format, args...)) }

	arch, err := Get[string](f, KeyArchitecture)
	switch {
	case err != nil:
		faults = append(faults, err)
	case arch == "":
		fault("key %s is empty", KeyArchitecture)
	}
	want := expectedTypes(arch)
	for _, kv := range f.KVs {
		if types, ok := want[kv.Key]; ok && !slices.Contains(types, TypeName(kv.Value)) {
			fault("key %s: got type %s, want %s", kv.Key, TypeName(kv.Value), types[0])
		}
	}
	if n, err := Get[uint32](f, KeyBlockCount.In(arch)); err == nil && (n == 0 || n > MaxBlocks) {
		fault("key %s: got %d, want 1 to %d", KeyBlockCount.In(arch), n, MaxBlocks)
	}
	if n, err := Get[uint32](f, KeyEmbeddingLength.In(arch)); err == nil && n == 0 {
		fault("key %s: got 0", KeyEmbeddingLength.In(arch))
	}
	f.checkVocabulary(fault)
	return errors.Join(faults...)
}

// checkVocabulary checks the tokenizer's arrays and ids against its tokens.
func (f *File) checkVocabulary(fault func(string, ...any)) {
	texts, err := f.Strings(KeyTokens)
	if err != nil {
		return
	}
	tokens := texts.Len()
	if v, err := Get[[]float32](f, KeyScores); err == nil && len(v) != tokens {
		fault("score count mismatch: got %d, want %d", len(v), tokens)
	}
	if v, err := Get[[]int32](f, KeyTokenTypes); err == nil && len(v) != tokens {
		fault("token type count mismatch: got %d, want %d", len(v), tokens)
	}
	for _, key := range tokenIDKeys {
		if id, err := Get[uint32](f, key); err == nil && int64(id) >= int64(tokens) {
			fault("key %s: id %d out of range of %d tokens", key, id, tokens)
		}
	}
}

// tokenIDKeys are the keys with a token id.
var tokenIDKeys = []string{KeyBOS, KeyEOS, KeyEOT, KeyEOM, KeyUnknown, KeySeparator, KeyPadding}

// expectedTypes maps each well-known key to its valid types; error messages
// name the first.
func expectedTypes(arch string) map[string][]string {
	want := make(map[string][]string)
	all := func(types []string, keys ...string) {
		for _, k := range keys {
			want[k] = types
		}
	}
	in := func(types []string, keys ...ArchKey) {
		for _, k := range keys {
			want[k.In(arch)] = types
		}
	}
	str, u32, f32, boolean := []string{"str"}, []string{"u32"}, []string{"f32"}, []string{"bool"}
	perLayer := []string{"u32", "arr[u32]", "arr[i32]"}

	all(str, KeyArchitecture, KeyName, KeyTokenizerModel, KeyTokenizerPre, KeyChatTemplate)
	all(u32, KeyAlignment, KeyFileType, KeyQuantizationVersion)
	all(u32, tokenIDKeys...)
	all(boolean, KeyAddBOS, KeyAddEOS, KeyAddSpacePrefix, KeyRemoveExtraSpace)
	all([]string{"arr[str]"}, KeyTokens, KeyMerges)
	all([]string{"arr[f32]", "arr[i32]"}, KeyScores)
	all([]string{"arr[i32]"}, KeyTokenTypes)
	in(u32, KeyContextLength, KeyEmbeddingLength, KeyBlockCount, KeyVocabSize, KeyRopeDims,
		KeyKeyLength, KeyValueLength, KeyRopeOriginal)
	in(perLayer, KeyFeedForward, KeyHeadCount, KeyHeadCountKV)
	in(f32, KeyRMSEpsilon, KeyRopeBase, KeyRopeFactor, KeyRopeAttention,
		KeyRopeExtFactor, KeyRopeBetaFast, KeyRopeBetaSlow)
	in(str, KeyRopeScaling)
	in(boolean, KeyRopeFinetuned)
	return want
}
