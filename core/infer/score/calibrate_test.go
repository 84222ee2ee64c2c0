package score

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tokenizer"
)

const text = "Once upon a time there was a little dog who liked to run in the park.|The cat sat on the mat and looked at the birds."

// core returns the language model in the repository.
func core(t *testing.T, threads int) (*infer.Model, *tokenizer.Tokenizer) {
	t.Helper()
	m, err := infer.Load(filepath.Join("..", "..", "..", "catalog", "core-llm", "core-llm.gguf"), infer.Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		t.Fatal(err)
	}
	return m, tok
}

// TestImportance: every matrix has an entry, the first of them the squares of
// normalized embeddings, the last those of the model's hidden states; the
// number of threads does not matter.
func TestImportance(t *testing.T) {
	m, tok := core(t, 1)
	opt := Reading{Window: 16, Separator: "|", Name: "text"}
	got, err := Importance(t.Context(), m, tok, text, opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range m.File().Tensors {
		if _, ok := got.Entries[w.Name]; ok != (len(w.Dims) == 2) {
			t.Errorf("%s: an entry: %v", w.Name, ok)
		}
	}
	windows, err := opt.cut(m, tok, text)
	if err != nil {
		t.Fatal(err)
	}
	width, tokens := m.Config().Width, 0
	first, last := make([]float64, width), make([]float64, width)
	gain := floats(t, m, "blk.0.attn_norm.weight")
	for _, w := range windows {
		tokens += len(w.Tokens)
		s, err := m.NewSession(infer.SessionOptions{Hidden: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Feed(t.Context(), w.Tokens); err != nil {
			t.Fatal(err)
		}
		hidden, err := s.Hidden(0, len(w.Tokens))
		if err != nil {
			t.Fatal(err)
		}
		x, err := m.Embed(w.Tokens)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(x); at += width {
			mean := 0.0
			for _, v := range x[at : at+width] {
				mean += float64(v) * float64(v) / float64(width)
			}
			for i, v := range x[at : at+width] {
				n := float64(v) * float64(gain[i])
				first[i] += n * n / (mean + float64(m.Config().Epsilon))
				last[i] += float64(hidden[at+i]) * float64(hidden[at+i])
			}
		}
	}
	head := "output.weight"
	if _, ok := m.File().Tensor(head); !ok {
		head = "token_embd.weight"
	}
	for name, want := range map[string][]float64{"blk.0.attn_q.weight": first, "blk.0.attn_v.weight": first, head: last} {
		e := got.Entries[name]
		if len(e.Counts) != 1 || e.Counts[0] != float32(tokens) {
			t.Errorf("%s: counts %v, %d tokens were read", name, e.Counts, tokens)
		}
		for i, v := range want {
			if d := math.Abs(float64(e.Sums[i]) - v); d > 1e-4*(v+1e-3) {
				t.Errorf("%s: column %d has %v, want %v", name, i, e.Sums[i], v)
				break
			}
		}
	}
	if got.Size != 16 || int(got.Chunks) != len(windows) || !cmp.Equal(got.Datasets, []string{"text"}) {
		t.Errorf("%d windows of %d of %v", got.Chunks, got.Size, got.Datasets)
	}
	three, tok := core(t, 3)
	again, err := Importance(t.Context(), three, tok, text, opt)
	if d := cmp.Diff(got, again); err != nil || d != "" {
		t.Errorf("three threads give a different result: %v", err)
	}
	// The window limit is respected.
	few, err := Importance(t.Context(), m, tok, text, Reading{Window: 16, Limit: 1})
	if err != nil || few.Chunks != 1 || few.Entries["blk.0.attn_q.weight"].Counts[0] >= float32(tokens) {
		t.Errorf("%v, %v", few.Chunks, err)
	}
}

func floats(t *testing.T, m *infer.Model, name string) []float32 {
	t.Helper()
	w, ok := m.File().Tensor(name)
	if !ok {
		t.Fatal(name)
	}
	out := make([]float32, w.Dims[0])
	quant.Dequantize(out, w.Data, w.Type)
	return out
}

// TestHessians: the diagonals equal the importance matrix, products are
// symmetric, and a budget for one at a time gives the same result.
func TestHessians(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: passes for each tensor")
	}
	m, tok := core(t, 2)
	opt := Reading{Separator: "|"}
	importance, err := Importance(t.Context(), m, tok, text, opt)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_output.weight", "blk.1.ffn_down.weight", "output_norm.weight", "nothing"}
	all, err := NewHessians(m, tok, text, names, 0, opt)
	if err != nil {
		t.Fatal(err)
	}
	single, err := NewHessians(m, tok, text, names, 1, opt)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		h, err := all.Of(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		other, err := single.Of(t.Context(), name)
		if d := cmp.Diff(h, other); err != nil || d != "" {
			t.Errorf("%s: one at a time gives a different result: %v", name, err)
		}
		if i >= 4 {
			if h != nil {
				t.Errorf("%s has products", name)
			}
			continue
		}
		sums := importance.Entries[name].Sums
		n := len(sums)
		for i, v := range sums {
			if d := math.Abs(float64(h[i*n+i] - v)); d > 1e-3*float64(v)+1e-4 {
				t.Errorf("%s: the diagonal has %v at %d, want %v", name, h[i*n+i], i, v)
				break
			}
			if j := (i * 7) % n; math.Abs(float64(h[i*n+j]-h[j*n+i])) > 1e-3*math.Sqrt(float64(v*sums[j])) {
				t.Errorf("%s: %v at %d, %d and %v at %d, %d", name, h[i*n+j], i, j, h[j*n+i], j, i)
				break
			}
		}
	}
	if len(single.held) != 1 {
		t.Errorf("%d are held where one fits", len(single.held))
	}
}

func TestNothingToRead(t *testing.T) {
	m, tok := core(t, 1)
	for _, c := range []struct {
		text string
		opt  Reading
		want string
	}{
		{"", Reading{}, "text is empty"}, {"||", Reading{Separator: "|"}, "text is empty"},
		{text, Reading{Window: -1}, "bad window: got -1"}, {text, Reading{Window: 1 << 20}, "bad window: got 1048576"},
	} {
		if _, err := Importance(t.Context(), m, tok, c.text, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %+v: %v", c.text, c.opt, err)
		}
		if _, err := NewHessians(m, tok, c.text, nil, 0, c.opt); err == nil {
			t.Errorf("%q, %+v: no error", c.text, c.opt)
		}
	}
}
