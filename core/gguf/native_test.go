package gguf

import (
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
)

// TestVocabularies reads every vocabulary file of llama.cpp: real files with
// arrays of up to 280k strings.
func TestVocabularies(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testfiles.Native(t, "llama.cpp", "models"), "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range files {
		f, err := Open(path)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if err := f.Check(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if tokens, err := Get[[]string](f, KeyTokens); err != nil || len(tokens) < 1000 {
			t.Errorf("%s: %d tokens, %v", path, len(tokens), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkOpen maps and validates the largest vocabulary: 15.8 MB, 262k tokens
// and 515k merges.
func BenchmarkOpen(b *testing.B) {
	path := testfiles.Native(b, "llama.cpp", "models", "ggml-vocab-gemma-4.gguf")
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
