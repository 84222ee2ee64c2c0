package gguf

import (
	"errors"
	"fmt"
	"slices"
)

// Check holds the metadata of a model file to what engines take for granted:
// general.architecture is there, every well-known key has its type, counts
// lie in the range llama.cpp was built for, the tokenizer's arrays are of one
// length, and special token ids are ids of the vocabulary. All faults are
// given at once, joined; nil means none. A sound file ([Parse]) may still
// fail here: engines have crashed on each of these.
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
		if types, known := want[kv.Key]; known && !slices.Contains(types, TypeName(kv.Value)) {
			fault("key %s has type %s, not %s", kv.Key, TypeName(kv.Value), types[0])
		}
	}
	if n, err := Get[uint32](f, KeyBlockCount.In(arch)); err == nil && (n == 0 || n > MaxBlocks) {
		fault("key %s is %d, not 1 to %d", KeyBlockCount.In(arch), n, MaxBlocks)
	}
	if n, err := Get[uint32](f, KeyEmbeddingLength.In(arch)); err == nil && n == 0 {
		fault("key %s is 0", KeyEmbeddingLength.In(arch))
	}
	f.checkVocabulary(fault)
	return errors.Join(faults...)
}

// checkVocabulary compares the tokenizer's arrays and ids with its tokens.
func (f *File) checkVocabulary(fault func(string, ...any)) {
	tokens, err := Get[[]string](f, KeyTokens)
	if err != nil {
		return
	}
	if v, err := Get[[]float32](f, KeyScores); err == nil && len(v) != len(tokens) {
		fault("%d scores for %d tokens", len(v), len(tokens))
	}
	if v, err := Get[[]int32](f, KeyTokenTypes); err == nil && len(v) != len(tokens) {
		fault("%d token types for %d tokens", len(v), len(tokens))
	}
	for _, key := range tokenIDKeys {
		if id, err := Get[uint32](f, key); err == nil && int64(id) >= int64(len(tokens)) {
			fault("key %s is %d, beyond the %d tokens", key, id, len(tokens))
		}
	}
}

// tokenIDKeys are the keys whose value is an id of the vocabulary.
var tokenIDKeys = []string{KeyBOS, KeyEOS, KeyEOT, KeyEOM, KeyUnknown, KeySeparator, KeyPadding}

// expectedTypes gives, for each well-known key, the types it may have; the
// first is the one to name in a message.
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
