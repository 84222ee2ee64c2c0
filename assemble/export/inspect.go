package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/resolve"
)

// Inspect checks a module's weight files against its manifest, from the files
// alone. Only headers are read; the bytes have their digest.
func Inspect(ctx context.Context, store *registry.Store, m *resolve.Module) (diag.List, error) {
	var list diag.List
	for _, format := range []string{"gguf", "onnx"} {
		if m.Manifest.Entry(abi.Format(format)) == "" {
			continue
		}
		l, err := layer(m, format)
		if err != nil {
			return nil, err
		}
		if format == "onnx" {
			inspectONNX(store.BlobPath(l.Descriptor), m, &list)
			continue
		}
		blob, err := store.OpenBlob(ctx, l.Descriptor)
		if err != nil {
			return nil, err
		}
		inspectGGUF(blob, l.Descriptor.Size, m, &list)
		blob.Close()
	}
	return list, nil
}

// inspectGGUF compares a model file's metadata with the token contract.
func inspectGGUF(blob *os.File, size int64, m *resolve.Module, list *diag.List) {
	pos := m.Manifest.Pos("/export/gguf")
	fault := func(at, detail string) {
		if at != "" {
			pos = m.Manifest.Pos(at)
		}
		list.Add(diag.WeightsFault, pos, m.Manifest.ID()+": "+detail, "correct the manifest, or export the weights again")
	}
	f, err := gguf.Read(blob, size)
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			fault("", line)
		}
		return
	}
	if m.Manifest.Type != abi.Core && m.Manifest.Type != abi.DraftCore {
		return
	}
	want := m.Manifest.Contract()
	arch, _ := gguf.Get[string](f, gguf.KeyArchitecture)
	for _, c := range []struct {
		at   string
		key  string
		want int
	}{
		{"/tokens/d_model", gguf.KeyEmbeddingLength.In(arch), want.DModel},
		{"/tokens/max_seq", gguf.KeyContextLength.In(arch), want.MaxSeq},
	} {
		if got, err := gguf.Get[uint32](f, c.key); err == nil && int(got) != c.want {
			fault(c.at, fmt.Sprintf("%s is %d in the file, %d in the manifest", c.key, got, c.want))
		}
	}
	inspectVocabulary(f, arch, want, fault)
}

// inspectVocabulary compares the vocabulary's size and special tokens.
func inspectVocabulary(f *gguf.File, arch string, want abi.TokenContract, fault func(at, detail string)) {
	tokens, err := gguf.Get[[]string](f, gguf.KeyTokens)
	if errors.Is(err, gguf.ErrNoKey) {
		if n, err := gguf.Get[uint32](f, gguf.KeyVocabSize.In(arch)); err == nil && int(n) != want.VocabSize {
			fault("/tokens/vocab_size", fmt.Sprintf("the file has %d tokens, the manifest %d", n, want.VocabSize))
		}
		return
	}
	if err != nil {
		fault("", err.Error())
		return
	}
	if len(tokens) != want.VocabSize {
		fault("/tokens/vocab_size", fmt.Sprintf("the file has %d tokens, the manifest %d", len(tokens), want.VocabSize))
	}
	types, _ := gguf.GetOr[[]int32](f, gguf.KeyTokenTypes, nil)
	for _, s := range want.SpecialTokens {
		i := slices.Index(tokens, s)
		switch {
		case i < 0:
			fault("/tokens/special_tokens", fmt.Sprintf("the file's vocabulary has no %s", s))
		case i < len(types) && types[i] != 3 && types[i] != 4: // control, user-defined
			fault("/tokens/special_tokens", fmt.Sprintf("%s is a plain token of the file, so text could forge it", s))
		}
	}
}
