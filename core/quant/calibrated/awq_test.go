package calibrated

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// file returns a layer of two query heads that share one key head, 32 dimensions
// each.
func file(t *testing.T, edit func(dims map[string][]int)) *gguf.File {
	t.Helper()
	dims := map[string][]int{
		"attn_norm.weight": {64}, "attn_q.weight": {64, 64}, "attn_k.weight": {64, 32}, "attn_v.weight": {64, 32}, "attn_output.weight": {64, 64},
		"ffn_norm.weight": {64}, "ffn_gate.weight": {64, 96}, "ffn_up.weight": {64, 96}, "ffn_down.weight": {96, 64},
	}
	if edit != nil {
		edit(dims)
	}
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: "llama"}, {Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.attention.head_count", Value: uint32(2)}, {Key: "llama.attention.head_count_kv", Value: uint32(1)},
	}
	var sources []gguf.Source
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		n := 1
		for _, d := range dims[name] {
			n *= d
		}
		x, b := make([]float32, n), make([]byte, 4*n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		quant.Quantize(b, x, tensor.F32)
		sources = append(sources, gguf.Source{Name: "blk.0." + name, Type: tensor.F32, Dims: dims[name], Data: gguf.Bytes(b)})
	}
	var b bytes.Buffer
	if _, err := gguf.Write(&b, kvs, sources); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// uneven returns an importance matrix in which a few inputs are large.
func uneven(f *gguf.File) *Imatrix {
	m := &Imatrix{Entries: make(map[string]Entry)}
	for _, t := range f.Tensors {
		sums := make([]float32, t.Dims[0])
		for i := range sums {
			sums[i] = 1
			if i%16 == 5 {
				sums[i] = 400
			}
		}
		m.Entries[t.Name] = Entry{Sums: sums, Counts: []float32{1}}
	}
	return m
}

func find(t *testing.T, f *gguf.File, m *Imatrix, threads int) map[string]Factors {
	t.Helper()
	p := pool.New(threads)
	defer p.Close()
	got, err := SearchFactors(t.Context(), f, func(t gguf.Tensor) tensor.Type {
		if len(t.Dims) < 2 {
			return tensor.F32
		}
		return tensor.Q4_0
	}, m, p)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Important columns are scaled up, and their sources down by the same factor.
func TestSearch(t *testing.T) {
	f := file(t, nil)
	got := find(t, f, uneven(f), 1)
	if d := cmp.Diff(got, find(t, f, uneven(f), 3)); d != "" {
		t.Error("result depends on the number of threads")
	}
	for _, c := range []struct{ matrix, from string }{
		{"attn_q", "attn_norm"}, {"attn_k", "attn_norm"}, {"attn_v", "attn_norm"}, {"ffn_gate", "ffn_norm"}, {"ffn_up", "ffn_norm"}, {"ffn_down", "ffn_up"}, {"attn_output", "attn_v"},
	} {
		columns := got["blk.0."+c.matrix+".weight"].Columns
		from := got["blk.0."+c.from+".weight"]
		inverse := from.Columns
		if !strings.HasSuffix(c.from, "norm") {
			inverse = from.Rows
		}
		if columns == nil || inverse == nil {
			t.Errorf("%s: no factors", c.matrix)
			continue
		}
		for i, v := range columns {
			at := i
			if c.matrix == "attn_output" { // both heads share the same 32 rows
				at = i % 32
			}
			if p := v * inverse[at]; p < 0.9999 || p > 1.0001 {
				t.Errorf("%s: column %d times %v, row %d times %v", c.matrix, i, v, at, inverse[at])
			}
		}
		if !(columns[5] > 1.5*columns[6]) {
			t.Errorf("%s: factor of an important column is %v, of an unimportant one %v", c.matrix, columns[5], columns[6])
		}
	}
	// If all inputs are equally large, every factor is 1.
	even := uneven(f)
	for _, e := range even.Entries {
		for i := range e.Sums {
			e.Sums[i] = 3
		}
	}
	for name, v := range find(t, f, even, 1) {
		for _, x := range slices.Concat(v.Columns, v.Rows) {
			if x != 1 {
				t.Fatalf("%s: factor %v, want 1", name, x)
			}
		}
	}
	if got := find(t, f, &Imatrix{}, 1); len(got) > 0 {
		t.Error("factors without an importance matrix")
	}
}

// Matrices whose shapes do not match get no factors.
func TestShapes(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(map[string][]int)
		gone string
	}{
		"short norm":         {func(d map[string][]int) { d["ffn_norm.weight"] = []int{32} }, "ffn_gate"},
		"no norm":            {func(d map[string][]int) { delete(d, "ffn_norm.weight"); delete(d, "attn_norm.weight") }, "ffn_gate"},
		"row mismatch":       {func(d map[string][]int) { d["ffn_up.weight"] = []int{64, 95} }, "ffn_down"},
		"other columns":      {func(d map[string][]int) { d["attn_k.weight"] = []int{32, 32} }, "attn_q"},
		"odd heads":          {func(d map[string][]int) { d["attn_v.weight"] = []int{64, 31} }, "attn_output"},
		"values with a norm": {func(d map[string][]int) { d["layer_output_scale.weight"] = []int{1} }, "attn_output"},
		"experts":            {func(d map[string][]int) { d["ffn_gate_inp.weight"] = []int{64, 4} }, "ffn_gate"},
		"no gate":            {func(d map[string][]int) { delete(d, "ffn_gate.weight") }, "ffn_down"},
		"three":              {func(d map[string][]int) { d["ffn_up.weight"] = []int{64, 48, 2} }, "ffn_gate"},
	} {
		f := file(t, c.edit)
		if got := find(t, f, uneven(f), 1); got["blk.0."+c.gone+".weight"].Columns != nil {
			t.Errorf("%s: factors for %s", name, c.gone)
		}
	}
	f := file(t, nil)
	m := uneven(f)
	m.Entries["blk.0.attn_q.weight"] = Entry{Sums: make([]float32, 5), Counts: []float32{1}}
	p := pool.New(1)
	defer p.Close()
	if _, err := SearchFactors(t.Context(), f, func(gguf.Tensor) tensor.Type { return tensor.Q4_0 }, m, p); err == nil {
		t.Error("importance matrix of another model accepted")
	}
}

// Two norms of one residual: attn_norm_2 is that of attention.
func TestTwoNorms(t *testing.T) {
	f := file(t, func(d map[string][]int) {
		delete(d, "ffn_norm.weight")
		delete(d, "ffn_gate.weight")
		d["attn_norm_2.weight"] = []int{64}
	})
	m := uneven(f)
	for i := range m.Entries["blk.0.ffn_up.weight"].Sums { // other columns than attention's
		m.Entries["blk.0.ffn_up.weight"].Sums[i] = 1
	}
	m.Entries["blk.0.ffn_up.weight"].Sums[9] = 900
	got := find(t, f, m, 1)
	for matrix, norm := range map[string]string{"attn_q": "attn_norm_2", "ffn_up": "attn_norm"} {
		columns, inverse := got["blk.0."+matrix+".weight"].Columns, got["blk.0."+norm+".weight"].Columns
		if columns == nil || inverse == nil {
			t.Fatalf("%s: no factors", matrix)
		}
		for i, v := range columns {
			if p := v * inverse[i]; p < 0.9999 || p > 1.0001 {
				t.Fatalf("%s: column %d times %v, the norm times %v", matrix, i, v, inverse[i])
			}
		}
	}
}
