package infer

import (
	"bytes"
	"slices"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// tinyFile returns a small model file.
func tinyFile(t testing.TB, arch string, typ tensor.Type) []byte {
	t.Helper()
	cfg := tiny(arch, 12)
	weights := random(cfg, 1)
	var sources []gguf.Source
	for name, a := range weights {
		as := tensor.F32
		if len(a.Dims) > 1 {
			as = typ
		}
		b := make([]byte, as.RowBytes(len(a.Data)))
		quant.Quantize(b, a.Data, as)
		sources = append(sources, gguf.Source{Name: name, Type: as, Dims: a.Dims, Data: gguf.Bytes(b)})
	}
	slices.SortFunc(sources, func(a, b gguf.Source) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	var out bytes.Buffer
	if _, err := gguf.Write(&out, cfg.Metadata(), sources); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// FuzzModel loads any file that the GGUF reader accepts and runs it: nothing
// may panic.
func FuzzModel(f *testing.F) {
	for _, arch := range []string{"llama", "qwen2", "qwen3"} {
		for _, typ := range []tensor.Type{tensor.F32, tensor.F16, tensor.Q8_0, tensor.Q4_0} {
			f.Add(tinyFile(f, arch, typ))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := gguf.Parse(b)
		if err != nil {
			return
		}
		cfg, err := ReadConfig(file)
		if err != nil {
			return
		}
		m, err := New(cfg, file, Options{Threads: 1})
		if err != nil {
			return
		}
		defer m.Close()
		s, err := m.NewSession(SessionOptions{Context: 40})
		if err != nil {
			return
		}
		n := int32(cfg.Vocab)
		if err := s.Feed(t.Context(), []int32{0, 1 % n, 2 % n}); err != nil {
			t.Fatal(err)
		}
		_, _ = s.Generate(t.Context(), GenerateOptions{MaxTokens: 2}, func(Token) error { return nil })
	})
}
