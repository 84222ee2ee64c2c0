package infer

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/tensor"
)

// sectioned returns a small model whose pairs rotate by sections.
func sectioned(sections [3]int) Config {
	c := small("qwen2vl")
	c.Rope.Sections = sections
	return c
}

// randomVectors returns n × width numbers.
func randomVectors(n, width int) []float32 {
	r := rand.New(rand.NewPCG(9, uint64(n)))
	out := make([]float32, n*width)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// after returns the logits after inputs in a new session.
func after(t *testing.T, cfg Config, in ...Input) []float32 {
	t.Helper()
	s := open(t, cfg, weightsOf(cfg, 1), SessionOptions{KV: "f32"})
	if err := s.FeedInputs(t.Context(), in...); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(s.Logits())
}

// TestGrid: a grid along the axis of all pairs is a line, along another axis all
// its vectors have one place, and text continues after the largest coordinate.
func TestGrid(t *testing.T) {
	vectors := randomVectors(12, 32)
	text := []int32{3, 1, 4}
	line := after(t, sectioned([3]int{8, 0, 0}), Input{Tokens: text}, Input{Vectors: vectors}, Input{Tokens: text})
	for axis := range 3 {
		var sections, grid [3]int
		grid = [3]int{1, 1, 1}
		sections[axis], grid[axis] = 8, 12
		if got := after(t, sectioned(sections), Input{Tokens: text}, Input{Vectors: vectors, Grid: grid}, Input{Tokens: text}); !slices.Equal(got, line) {
			t.Errorf("grid %v with sections %v differs from a line", grid, sections)
		}
	}
	square := after(t, sectioned([3]int{2, 3, 3}), Input{Tokens: text}, Input{Vectors: vectors, Grid: [3]int{1, 3, 4}}, Input{Tokens: text})
	if slices.Equal(square, line) {
		t.Error("a grid of 3 × 4 equals a line")
	}

	s := open(t, sectioned([3]int{2, 3, 3}), weightsOf(sectioned([3]int{2, 3, 3}), 1), SessionOptions{KV: "f32"})
	if err := s.FeedInputs(t.Context(), Input{Tokens: text}, Input{Vectors: vectors, Grid: [3]int{1, 3, 4}}); err != nil {
		t.Fatal(err)
	}
	if s.Len() != 15 || s.Next() != 7 {
		t.Errorf("%d positions, next place %d, want 15 and 7", s.Len(), s.Next())
	}
	var saved bytes.Buffer
	if err := s.WriteSnapshot(&saved); err != nil {
		t.Fatal(err)
	}
	for _, id := range text {
		if err := s.Feed(t.Context(), []int32{id}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(s.Logits(), square) {
		t.Error("text after a grid differs when fed one by one")
	}
	s.Truncate(17)
	if err := s.Recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), text[2:]); err != nil || !slices.Equal(s.Logits(), square) {
		t.Errorf("text fed again after a grid differs: %v", err)
	}
	s.Truncate(10)
	if s.Len() != 3 || s.Next() != 3 {
		t.Errorf("cut in a grid: %d positions, next place %d, want 3 and 3", s.Len(), s.Next())
	}
	if err := s.ReadSnapshot(&saved); err != nil || s.Next() != 7 {
		t.Fatalf("next place %d, %v", s.Next(), err)
	}
	if err := s.Feed(t.Context(), text); err != nil || !slices.Equal(s.Logits(), square) {
		t.Errorf("text after a restored grid differs: %v", err)
	}
}

// TestAxes: the pairs of the published models.
func TestAxes(t *testing.T) {
	for _, c := range []struct {
		rope Rope
		want string
	}{
		{Rope{Dims: 16, Sections: [3]int{2, 3, 3}}, "[0 0 1 1 1 2 2 2]"},
		{Rope{Dims: 16, Sections: [3]int{4, 2, 2}, Interleaved: true}, "[0 1 2 0 1 2 0 0]"},
		{Rope{Dims: 16}, "[]"},
	} {
		if got := fmt.Sprint(c.rope.Axes()); got != c.want {
			t.Errorf("%v: got %s, want %s", c.rope.Sections, got, c.want)
		}
	}
}

// TestMutual: attention of a block equals the plain softmax over its positions
// and those before, in layers with and without a window.
func TestMutual(t *testing.T) {
	cfg := tiny("llama", 16)
	cfg.Context, cfg.Heads, cfg.KVHeads, cfg.HeadDim, cfg.Rope.Dims = 2048, 4, 2, 16, 16
	m, err := New(cfg, random(cfg, 1), Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, window := range []int{0, 40} {
		const first, rows = 230, 90
		blocks := []block{{first: 250, rows: 50, span: 50, mutual: true}}
		cache, err := newCache(cacheShape{Layers: cfg.Layers, Heads: cfg.KVHeads, Dim: cfg.HeadDim}, tensor.F32)
		if err != nil {
			t.Fatal(err)
		}
		cache.Reserve(first + rows)
		for pos := range first + rows {
			for h := range cfg.KVHeads {
				kv := randomVectors(pos*2+h+1, 32)
				cache.Store(0, h, pos, kv[:16], kv[16:32])
			}
		}
		m.layers[0].window = window
		w := &m.work
		w.input(rows)
		w.begin(newPass(nil, span{cache: cache, first: first, rows: rows, blocks: blocks}))
		queries := randomVectors(rows, cfg.Heads*cfg.HeadDim)
		for i := range rows {
			copy(w.query.row(i, cfg.Heads*cfg.HeadDim), queries[i*cfg.Heads*cfg.HeadDim:])
		}
		w.attend()
		for h := range cfg.Heads {
			keys, values := readBack(cache, h/2, cfg.HeadDim, first+rows)
			for i := range rows {
				pos := first + i
				from, end := 0, pos+1
				if window > 0 {
					from = pos - window + 1
				}
				if pos >= 250 && pos < 300 {
					from, end = min(from, 250), 300
				}
				want := softmaxOver(keys[from*16:end*16], values[from*16:end*16], queries[(i*cfg.Heads+h)*16:][:16], end-from-1, 0, 0)
				got := w.attended.Row(i)[h*16:]
				for d, v := range want {
					if math.Abs(float64(got[d])-v) > 1e-5 {
						t.Fatalf("window %d, position %d, head %d: got %v, want %v", window, pos, h, got[d], v)
					}
				}
			}
		}
	}
}

// TestMutualPasses: a block is one pass however many positions surround it, a
// block that follows another in one call joins it, and text after it is causal.
func TestMutualPasses(t *testing.T) {
	cfg := small("gemma3")
	vectors := randomVectors(300, 32)
	text := draw(200, cfg.Vocab)
	want := after(t, cfg, Input{Tokens: text}, Input{Vectors: vectors, Mutual: true}, Input{Tokens: text})
	parts := after(t, cfg, Input{Tokens: text}, Input{Vectors: vectors[:100*32], Mutual: true}, Input{Vectors: vectors[100*32:], Mutual: true}, Input{Tokens: text})
	if !slices.Equal(want, parts) {
		t.Error("adjacent mutual inputs differ from one")
	}
	if causal := after(t, cfg, Input{Tokens: text}, Input{Vectors: vectors}, Input{Tokens: text}); slices.Equal(want, causal) {
		t.Error("mutual positions equal causal ones")
	}
	one := []Input{{Tokens: text}, {Tokens: text[:1], Mutual: true}, {Tokens: text}}
	if !slices.Equal(after(t, cfg, one...), after(t, cfg, Input{Tokens: slices.Concat(text, text[:1], text)})) {
		t.Error("a block of one differs from causal")
	}
	s := open(t, cfg, weightsOf(cfg, 1), SessionOptions{KV: "f32"})
	if err := s.FeedInputs(t.Context(), Input{Tokens: text[:10], Mutual: true}, Input{Tokens: text[10:20]}); err != nil {
		t.Fatal(err)
	}
	if reused, err := s.Prompt(t.Context(), text[:20]); err != nil || reused != 0 {
		t.Errorf("reused %d positions that see later ones, %v", reused, err)
	}
	for n, want := range map[int]string{maxMutual: "", maxMutual + 1: "limit 4096"} {
		big := cfg
		big.Context = 2 * maxMutual
		s := open(t, big, weightsOf(big, 1), SessionOptions{Context: 2 * maxMutual})
		_, err := s.arrange([]Input{{Tokens: make([]int32, n), Mutual: true}})
		if got := fmt.Sprint(err); err == nil != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%d positions: %v", n, err)
		}
	}
}

// TestDeep: zeros for further layers change nothing, others do, and vectors of
// two widths may follow each other.
func TestDeep(t *testing.T) {
	cfg := small("qwen3vl")
	cfg.Deep = 2
	plain := randomVectors(5, 32)
	deep := make([]float32, 5*3*32)
	for i := range 5 {
		copy(deep[i*96:], plain[i*32:(i+1)*32])
	}
	text := []int32{1, 2}
	want := after(t, cfg, Input{Vectors: plain}, Input{Tokens: text})
	if got := after(t, cfg, Input{Vectors: deep, Deep: true}, Input{Tokens: text}); !slices.Equal(got, want) {
		t.Error("zeros for further layers change the result")
	}
	deep[4*96+64] = 3
	if got := after(t, cfg, Input{Vectors: deep, Deep: true}, Input{Tokens: text}); slices.Equal(got, want) {
		t.Error("vectors for the second layer have no effect")
	}
	two := after(t, cfg, Input{Tokens: text}, Input{Vectors: plain}, Input{Vectors: deep, Deep: true}, Input{Tokens: text})
	s := open(t, cfg, weightsOf(cfg, 1), SessionOptions{KV: "f32"})
	for _, in := range []Input{{Tokens: text}, {Vectors: plain}, {Vectors: deep[:96], Deep: true}, {Vectors: deep[96:], Deep: true}, {Tokens: text}} {
		if err := s.FeedInputs(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(s.Logits(), two) {
		t.Error("vectors fed one by one differ")
	}
}

// TestBadInputs: values that the model cannot read are refused by name.
func TestBadInputs(t *testing.T) {
	grid := sectioned([3]int{2, 3, 3})
	for _, c := range []struct {
		cfg  Config
		in   Input
		want string
	}{
		{grid, Input{Tokens: []int32{1}, Vectors: make([]float32, 32)}, "one of the two"},
		{grid, Input{Vectors: make([]float32, 33)}, "not a multiple of 32"},
		{grid, Input{Vectors: make([]float32, 64), Grid: [3]int{1, 1, 3}}, "bad grid"},
		{grid, Input{Vectors: make([]float32, 64), Grid: [3]int{1, 2, 0}}, "bad grid"},
		{grid, Input{Vectors: make([]float32, 64), Grid: [3]int{-1, -1, 2}}, "bad grid"},
		{grid, Input{Vectors: make([]float32, 64), Deep: true}, "reads none"},
		{small("llama"), Input{Vectors: make([]float32, 64), Grid: [3]int{1, 1, 2}}, "in a line"},
	} {
		s := open(t, c.cfg, weightsOf(c.cfg, 1), SessionOptions{})
		if err := s.FeedInputs(t.Context(), c.in); err == nil || !strings.Contains(err.Error(), c.want) || s.Len() != 0 {
			t.Errorf("%+v: %v, want %q", c.in, err, c.want)
		}
	}
}
