package tokenizer

import "testing"

// Linear reports whether text is encoded in linear time.
func (t *Tokenizer) Linear() bool { return t.bpe != nil && t.bpe.linear != nil }

// WithoutLinear returns t with the heap instead.
func (t *Tokenizer) WithoutLinear() *Tokenizer {
	u, err := New(t.Vocabulary())
	if err != nil {
		panic(err)
	}
	u.bpe.linear = nil
	return u
}

// Oracle returns libllama's encoder for the vocabulary in a GGUF file.
func Oracle(t *testing.T, path string) func(text string, opt Options) []int32 {
	t.Helper()
	program, libs := buildOracle(t)
	o := startOracle(t, program, libs, path)
	return func(text string, opt Options) []int32 { return o.encode(t, text, opt) }
}
