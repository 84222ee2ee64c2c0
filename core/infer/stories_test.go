package infer

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
)

// stories returns stories260K, a Llama of 260 thousand parameters trained on
// TinyStories, read from llama2.c's format.
func stories(t testing.TB) (Config, Memory) {
	t.Helper()
	b, err := os.ReadFile(testfiles.Shared(t, "models", "stories260K.bin"))
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(b)
	var h struct{ Dim, Hidden, Layers, Heads, KVHeads, Vocab, Seq int32 }
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Arch: "llama", Context: int(h.Seq), Layers: int(h.Layers), Width: int(h.Dim), Heads: int(h.Heads),
		KVHeads: int(h.KVHeads), HeadDim: int(h.Dim / h.Heads), Hidden: int(h.Hidden), Vocab: int(h.Vocab), Epsilon: 1e-5,
		Rope: Rope{Dims: int(h.Dim / h.Heads), Base: 10000, OriginalContext: int(h.Seq)},
	}
	m := make(Memory)
	take := func(n int) []float32 {
		x := make([]float32, n)
		if err := binary.Read(r, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	vector := func(name string, n int) { m[name] = Array{[]int{n}, take(n)} }
	matrix := func(name string, in, out int) { m[name] = Array{[]int{in, out}, take(in * out)} }
	layers := func(f func(prefix string)) {
		for i := range c.Layers {
			f(fmt.Sprintf("blk.%d.", i))
		}
	}
	keys := c.KVHeads * c.HeadDim
	matrix("token_embd.weight", c.Width, c.Vocab)
	layers(func(p string) { vector(p+"attn_norm.weight", c.Width) })
	layers(func(p string) { matrix(p+"attn_q.weight", c.Width, c.Width) })
	layers(func(p string) { matrix(p+"attn_k.weight", c.Width, keys) })
	layers(func(p string) { matrix(p+"attn_v.weight", c.Width, keys) })
	layers(func(p string) { matrix(p+"attn_output.weight", c.Width, c.Width) })
	layers(func(p string) { vector(p+"ffn_norm.weight", c.Width) })
	layers(func(p string) { matrix(p+"ffn_gate.weight", c.Width, c.Hidden) })
	layers(func(p string) { matrix(p+"ffn_down.weight", c.Hidden, c.Width) })
	layers(func(p string) { matrix(p+"ffn_up.weight", c.Width, c.Hidden) })
	vector("output_norm.weight", c.Width)
	return c, m
}

// storyPieces returns the text of each token of tok512.bin.
func storyPieces(t testing.TB, n int) []string {
	t.Helper()
	f, err := os.Open(testfiles.Shared(t, "models", "tok512.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	b = b[4:]
	pieces := make([]string, n)
	for i := range pieces {
		size := int(binary.LittleEndian.Uint32(b[4:]))
		s := string(b[8 : 8+size])
		var c byte
		if _, err := fmt.Sscanf(s, "<0x%02X>", &c); err == nil {
			s = string([]byte{c})
		}
		pieces[i] = s
		b = b[8+size:]
	}
	return pieces
}

const storyBeginning = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball."

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// TestStories generates the story that every engine generates with these
// weights.
func TestStories(t *testing.T) {
	cfg, weights := stories(t)
	pieces := storyPieces(t, cfg.Vocab)
	for _, threads := range []int{1, 2} {
		m, err := New(cfg, weights, Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.NewSession(SessionOptions{KV: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for token := int32(1); s.Len() < 200; {
			if err := s.Feed(context.Background(), []int32{token}); err != nil {
				t.Fatal(err)
			}
			token = argmax(s.Logits())
			text.WriteString(pieces[token])
		}
		if got := strings.TrimPrefix(text.String(), " "); !strings.HasPrefix(got, storyBeginning) {
			t.Errorf("%d threads: the story begins %q", threads, got)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBatchesAgree: logits are the same bits for single and batched tokens, for
// every storage of keys and values, on any number of threads.
func TestBatchesAgree(t *testing.T) {
	cfg, weights := stories(t)
	tokens := make([]int32, 300)
	for i := range tokens {
		tokens[i] = int32(3 + i*i%500)
	}
	for _, store := range []string{"f32", "f16", "q8_0"} {
		var want []float32
		for _, threads := range []int{1, 2, 3} {
			m, err := New(cfg, weights, Options{Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			for _, batch := range []int{1, 3, 64, 300} {
				s, err := m.NewSession(SessionOptions{KV: store})
				if err != nil {
					t.Fatal(err)
				}
				for from := 0; from < len(tokens); from += batch {
					if err := s.Feed(context.Background(), tokens[from:min(from+batch, len(tokens))]); err != nil {
						t.Fatal(err)
					}
				}
				got := s.Logits()
				if want == nil {
					want = append(want, got...)
				}
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("kv %s, %d threads, batches of %d: logit %d is %v, one by one on one thread it is %v", store, threads, batch, i, got[i], want[i])
					}
				}
			}
			m.Close()
		}
		for _, v := range want {
			if math.IsNaN(float64(v)) {
				t.Fatal("logits are NaN")
			}
		}
	}
}
