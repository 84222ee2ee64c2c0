package engines

import (
	"fmt"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/runtimes"
)

// foreign checks a model of an architecture that the core does not have. The library
// decides when it loads the file whether it runs the architecture; encoders, which it
// loads as well, generate no text and are refused. Only architecture, vocabulary and width
// of the shape are set.
func foreign(f *gguf.File) (s arch.Shape, err error) {
	if err := f.Check(); err != nil {
		return s, err
	}
	if s.Arch, err = gguf.Get[string](f, gguf.KeyArchitecture); err != nil {
		return s, err
	}
	if encoder(f, s.Arch) {
		return s, &runtimes.Unavailable{What: "architecture " + s.Arch, Why: "it has an encoder, and the llamacpp backend runs decoders only", Hint: "use a decoder, such as llama or qwen2"}
	}
	width, err := gguf.Get[uint32](f, gguf.KeyEmbeddingLength.In(s.Arch))
	if err != nil {
		return s, err
	}
	tokens, err := f.Strings(gguf.KeyTokens)
	if err != nil {
		return s, err
	}
	s.Vocab, s.Width = tokens.Len(), int(width)
	if t, ok := f.Tensor(arch.TokenEmbedding); !ok || len(t.Dims) != 2 || t.Dims[0] != s.Width || t.Dims[1] != s.Vocab {
		return s, fmt.Errorf("tensor %s: got dimensions %v, want [%d %d]", arch.TokenEmbedding, t.Dims, s.Width, s.Vocab)
	}
	return s, nil
}

// encoder reports whether a model reads text in both directions, as BERT and T5.
func encoder(f *gguf.File, name string) bool {
	if causal, err := gguf.GetOr(f, name+".attention.causal", true); err == nil && !causal {
		return true
	}
	for _, tensor := range f.Names() {
		if strings.HasPrefix(tensor, "enc.") {
			return true
		}
	}
	return false
}
