package tokenizer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/testfiles"
)

// TestWrittenVocabularies loads vocabularies trained or built here into
// libllama and compares ids.
func TestWrittenVocabularies(t *testing.T) {
	stories, err := os.ReadFile(testfiles.Shared(t, "tinystories", "tinystories_sample.txt"))
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Split(string(stories[:400_000]), "<|endoftext|>")
	toks := map[string]*tokenizer.Tokenizer{"spm": build(t, spm())}
	for _, pre := range []string{
		"gpt-2", "llama-bpe", "qwen2", "smollm", "bailingmoe", "laguna", "seed-coder", "ufakzeka", "minicpm5", "bloom", "viking", "minimax-m2",
	} {
		v, err := tokenizer.Train(slices.Values(docs), tokenizer.TrainOptions{VocabSize: 1000, Pre: pre,
			Control: []string{"<unk>", "<s>", "</s>", "<image>", "<tool_call>"}, BOS: "<s>", EOS: "</s>", AddEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		toks[pre] = build(t, v)
	}
	for name, tok := range toks {
		t.Run(name, func(t *testing.T) {
			kvs := append([]gguf.KV{{Key: gguf.KeyArchitecture, Value: "llama"}}, tok.KVs()...)
			var file bytes.Buffer
			if _, err := gguf.Write(&file, kvs, nil); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "vocab.gguf")
			if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			llama := tokenizer.Oracle(t, path)
			texts := append(slices.Clone(corpus), docs[:40]...)
			for _, text := range append(texts, "<s>a <image>b</s>", "<tool_call>{}", "") {
				for _, opt := range []tokenizer.Options{{}, {Add: true, Special: true}} {
					want, got := llama(text, opt), tok.Encode(text, opt)
					if !slices.Equal(want, got) && (name != "spm" || !strings.Contains(text, "<s>") || opt.Special) {
						t.Errorf("%+v %.80q\nlibllama %v\nhere     %v", opt, text, want, got)
					}
				}
			}
		})
	}
}
