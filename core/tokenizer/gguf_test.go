package tokenizer

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/testfiles"
)

// open reads a vocabulary from a GGUF file.
func open(t testing.TB, path string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := FromGGUF(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tok
}

// TestVocabularies compares ids with those that llama.cpp ships with its
// vocabularies.
func TestVocabularies(t *testing.T) {
	dir := testfiles.Native(t, "llama.cpp", "models")
	for _, name := range []string{
		"llama-spm", "phi-3", // SPM
		"llama-bpe", "gpt-2", "qwen2", "qwen35", "command-r", "starcoder", "refact", "falcon", "mpt",
		"deepseek-llm", "deepseek-coder", // BPE on bytes
		"gemma-4", // BPE on characters
	} {
		t.Run(name, func(t *testing.T) {
			path := dir + "/ggml-vocab-" + name + ".gguf"
			tok := open(t, path)
			texts, want := expected(t, path)
			for i, text := range texts {
				got := tok.Encode(text, Options{})
				if diff := cmp.Diff(want[i], got); diff != "" {
					t.Errorf("%q (- want, + got):\n%s", text, diff)
				}
				if back := tok.Decode(got, DecodeOptions{}); back != text {
					t.Errorf("%q decodes to %q", text, back)
				}
			}
		})
	}
}

// expected reads the texts in path.inp and their ids in path.out.
func expected(t testing.TB, path string) (texts []string, ids [][]int32) {
	t.Helper()
	in, err := os.ReadFile(path + ".inp")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(path + ".out")
	if err != nil {
		t.Fatal(err)
	}
	texts = strings.Split(string(in), "\n__ggml_vocab_test__\n")
	lines := strings.Split(string(out), "\n")
	for i := range texts {
		row := []int32(nil)
		for _, field := range strings.Fields(lines[i]) {
			id, err := strconv.ParseInt(field, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, int32(id))
		}
		ids = append(ids, row)
	}
	return texts, ids
}
