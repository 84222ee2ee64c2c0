package window_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/window"
)

// A text of tokens read three at a time and then one at a time has the logits of
// the backend core, for every architecture.
func TestLanguageLikeCore(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: every architecture on two engines")
	}
	const length, of, ahead = 24, 3, 12
	for name, shape := range variants() {
		t.Run(name, func(t *testing.T) {
			s := shape()
			f := file(t, s, name == "llama 3 (frequencies)", 5)
			read, err := window.Language(f, window.StepOptions{Positions: of, Window: length})
			if errors.Is(err, window.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			one, err := window.Language(f, window.StepOptions{Positions: 1, Window: length})
			if err != nil {
				t.Fatal(err)
			}
			var tokens []int32
			for i := range 20 {
				tokens = append(tokens, int32((i*7+3)%s.Vocab))
			}
			cache := map[string]engine.Tensor{}
			for i := range s.Layers {
				for _, name := range []string{window.PastKey(i), window.PastValue(i)} {
					cache[name] = engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, s.KVHeads, length, s.HeadDim}, Data: make([]byte, 4*s.KVHeads*length*s.HeadDim)}
				}
			}
			var got []float32
			for at := 0; at < len(tokens); {
				m, n := read, of
				if at >= ahead {
					m, n = one, 1
				}
				got = append(got, pass(t, m, s, tokens[at:at+n], at, cache)...)
				at += n
			}
			want := logits(t, engineOf(t, f), length, tokens)
			if d := farthest(got, want); d > 2e-5 {
				t.Errorf("farthest logit %v", d)
			}
		})
	}
}

// pass runs a pass and advances the caches.
func pass(t *testing.T, m *onnx.Model, s arch.Shape, tokens []int32, at int, cache map[string]engine.Tensor) (out []float32) {
	t.Helper()
	p, err := engine.Compile(t.Context(), m, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ids := engine.Tensor{Type: onnx.INT64, Shape: []int{1, len(tokens)}}
	for _, id := range tokens {
		ids.Data = binary.LittleEndian.AppendUint64(ids.Data, uint64(id))
	}
	in := map[string]engine.Tensor{window.Tokens: ids, window.Position: {Type: onnx.INT64, Shape: []int{1}, Data: binary.LittleEndian.AppendUint64(nil, uint64(at))}}
	for name, c := range cache {
		in[name] = c
	}
	all, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Layers {
		cache[window.PastKey(i)], cache[window.PastValue(i)] = all[window.NextKey(i)], all[window.NextValue(i)]
	}
	data := all[window.Logits].Data
	for i := 0; i < len(data); i += 4 {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(data[i:])))
	}
	return out
}

// logits returns the logits of every position from the backend core.
func logits(t *testing.T, m *infer.Model, context int, tokens []int32) (out []float32) {
	t.Helper()
	s, err := m.NewSession(infer.SessionOptions{Context: context, KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Predict(t.Context(), tokens, func(_ int, row []float32) { out = append(out, row...) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}
