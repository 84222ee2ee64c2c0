package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/internal/fsx"
)

// The types of tokens that text cannot produce (llama.cpp, llama_token_type).
const (
	tokenControl     = 3
	tokenUserDefined = 4
)

// gguf compares the metadata of a model file with the token contract.
func (c *checker) gguf(entry string) {
	at := "/export/gguf"
	file, size, _ := c.locate(entry)
	r, err := fsx.OpenRegular(file)
	if err != nil {
		c.fault(at, fmt.Sprintf("%s: %v", entry, reason(err)))
		return
	}
	defer r.Close()
	f, err := gguf.Read(r, size)
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			c.fault(at, entry+": "+line)
		}
		return
	}
	if c.m.Type != abi.Core && c.m.Type != abi.DraftCore {
		return
	}
	if _, err := infer.CheckFile(f); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			c.fault(at, entry+" is not supported: "+line)
		}
		return
	}
	want := c.m.Contract()
	arch, _ := gguf.Get[string](f, gguf.KeyArchitecture)
	for _, v := range []struct {
		at, key string
		want    int
	}{
		{"/tokens/d_model", gguf.KeyEmbeddingLength.In(arch), want.DModel},
		{"/tokens/max_seq", gguf.KeyContextLength.In(arch), want.MaxSeq},
	} {
		if got, err := gguf.Get[uint32](f, v.key); err == nil && int64(got) != int64(v.want) {
			c.fault(v.at, fmt.Sprintf("%s is %d in %s, %d in the manifest", v.key, got, entry, v.want))
		}
	}
	c.vocabulary(f, arch, want, entry)
}

// vocabulary compares the size of the vocabulary and the special tokens.
func (c *checker) vocabulary(f *gguf.File, arch string, want abi.TokenContract, entry string) {
	size := func(n int) {
		if n != want.VocabSize {
			c.fault("/tokens/vocab_size", fmt.Sprintf("%s has %d tokens, the manifest %d", entry, n, want.VocabSize))
		}
	}
	tokens, err := gguf.Get[[]string](f, gguf.KeyTokens)
	if errors.Is(err, gguf.ErrNoKey) {
		if n, err := gguf.Get[uint32](f, gguf.KeyVocabSize.In(arch)); err == nil {
			size(int(n))
		}
		return
	}
	if err != nil {
		c.fault("/export/gguf", entry+": "+err.Error())
		return
	}
	size(len(tokens))
	types, _ := gguf.GetOr[[]int32](f, gguf.KeyTokenTypes, nil)
	for i, s := range want.SpecialTokens {
		at := fmt.Sprintf("/tokens/special_tokens/%d", i)
		id := slices.Index(tokens, s)
		switch {
		case id < 0:
			c.fault(at, fmt.Sprintf("missing token in the vocabulary of %s: %s", entry, s))
		case id < len(types) && types[id] != tokenControl && types[id] != tokenUserDefined:
			c.fault(at, fmt.Sprintf("%s is a plain token in %s: text could forge it", s, entry))
		}
	}
}
