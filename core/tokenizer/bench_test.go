package tokenizer

import (
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/testfiles"
)

// BenchmarkLoad builds tokenizers from vocabularies of 32k to 262k tokens.
func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"llama-spm", "llama-bpe", "qwen2", "gemma-4"} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(testfiles.Native(b, "llama.cpp", "models"), "ggml-vocab-"+name+".gguf")
			for b.Loop() {
				f, err := gguf.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := FromGGUF(f); err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEncode encodes 2 MB of stories with real vocabularies.
func BenchmarkEncode(b *testing.B) {
	text, err := os.ReadFile(testfiles.Shared(b, "tinystories", "tinystories_sample.txt"))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"llama-spm", "llama-bpe", "gpt-2", "qwen2", "gemma-4"} {
		b.Run(name, func(b *testing.B) {
			tok := open(b, filepath.Join(testfiles.Native(b, "llama.cpp", "models"), "ggml-vocab-"+name+".gguf"))
			b.SetBytes(int64(len(text)))
			var ids []int32
			for b.Loop() {
				ids = tok.Append(ids[:0], string(text), Options{})
			}
		})
	}
}
