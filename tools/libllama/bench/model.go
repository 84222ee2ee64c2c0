package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// shape returns the configuration with a name.
func shape(name string) (infer.Config, bool, error) {
	c := infer.Config{Arch: "llama", Context: 2048, Epsilon: 1e-5, HeadDim: 64}
	untied := false
	switch name {
	case "135M": // SmolLM2-135M
		c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.Vocab = 30, 576, 9, 3, 1536, 49152
	case "5M": // for long contexts
		c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.Vocab, c.Context = 4, 256, 4, 2, 768, 4096, 1<<15
	case "1.1B":
		c.Layers, c.Width, c.Heads, c.KVHeads, c.Hidden, c.Vocab = 16, 2048, 32, 8, 8192, 32000
	default:
		return c, false, fmt.Errorf("unknown shape %q, want 5M, 135M or 1.1B", name)
	}
	c.Rope = infer.Rope{Dims: c.HeadDim, Base: 10000, OriginalContext: c.Context}
	return c, untied, nil
}

// modelFile returns the file of a model such as 135M-Q8_0 and writes it if missing.
// 135M-Q8_0-text has the tokenizer of the model in the folder native.
func modelFile(dir, native, name string) (string, error) {
	if filepath.Ext(name) == ".gguf" { // a user's file
		return name, nil
	}
	path := filepath.Join(dir, name+".gguf")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	size, kind, _ := strings.Cut(name, "-")
	kind, reads := strings.CutSuffix(kind, "-text")
	cfg, untied, err := shape(size)
	if err != nil {
		return "", err
	}
	words := []gguf.KV{{Key: gguf.KeyTokenizerModel, Value: "none"}}
	if reads {
		if words, cfg.Vocab, err = vocabulary(filepath.Join(native, "models", published)); err != nil {
			return "", err
		}
	}
	choose, err := types(kind, cfg, untied)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "writing %s\n", path)
	f, err := os.Create(path + ".part")
	if err != nil {
		return "", err
	}
	defer f.Close()
	kvs := append(append(cfg.Metadata(), words...), gguf.KV{Key: gguf.KeyQuantizationVersion, Value: uint32(2)})
	if _, err := gguf.Write(f, kvs, tensors(cfg, untied, choose)); err != nil {
		return "", err
	}
	return path, os.Rename(path+".part", path)
}

// published is the model of scripts/fetch-native.sh.
const published = "SmolLM2-135M-Instruct.Q4_1.gguf"

// vocabulary returns the tokenizer of a file, and its size.
func vocabulary(path string) (kvs []gguf.KV, size int, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	for _, kv := range f.KVs {
		if strings.HasPrefix(string(kv.Key), "tokenizer.ggml.") {
			kvs = append(kvs, kv)
		}
	}
	t, ok := f.Tensor("token_embd.weight")
	if !ok {
		return nil, 0, fmt.Errorf("%s: missing tensor token_embd.weight", path)
	}
	return kvs, t.Rows(), nil
}

// types returns the type of each tensor: by a recipe with _M in its name, or the same for
// all matrices.
func types(kind string, c infer.Config, untied bool) (func(string, []int) tensor.Type, error) {
	if strings.HasSuffix(kind, "_M") {
		r, err := quant.ParseRecipe(kind)
		return func(name string, dims []int) tensor.Type {
			return r.Type(name, dims, quant.Model{Layers: c.Layers, Tied: !untied})
		}, err
	}
	t, err := tensor.ParseType(kind)
	if err == nil && !quant.CanQuantize(t) {
		err = fmt.Errorf("unsupported type %v", t)
	}
	return func(_ string, dims []int) tensor.Type {
		if len(dims) == 1 {
			return tensor.F32
		}
		return t
	}, err
}

func tensors(c infer.Config, untied bool, choose func(string, []int) tensor.Type) []gguf.Source {
	var out []gguf.Source
	add := func(name string, dims ...int) {
		t := choose(name, dims)
		out = append(out, gguf.Source{Name: name, Type: t, Dims: dims, Data: &weights{t, dims, uint64(len(out))}})
	}
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	add("token_embd.weight", c.Width, c.Vocab)
	add("output_norm.weight", c.Width)
	if untied {
		add("output.weight", c.Width, c.Vocab)
	}
	for i := range c.Layers {
		p := fmt.Sprintf("blk.%d.", i)
		add(p+"attn_norm.weight", c.Width)
		add(p+"attn_q.weight", c.Width, queries)
		add(p+"attn_k.weight", c.Width, keys)
		add(p+"attn_v.weight", c.Width, keys)
		add(p+"attn_output.weight", queries, c.Width)
		add(p+"ffn_norm.weight", c.Width)
		add(p+"ffn_gate.weight", c.Width, c.Hidden)
		add(p+"ffn_up.weight", c.Width, c.Hidden)
		add(p+"ffn_down.weight", c.Hidden, c.Width)
	}
	return out
}

// weights writes normally distributed numbers with deviation 0.02, and about 1 in vectors.
type weights struct {
	typ  tensor.Type
	dims []int
	seed uint64
}

func (w *weights) WriteTo(out io.Writer) (int64, error) {
	r := rand.New(rand.NewPCG(w.seed, 135))
	// Rows are windows of a longer sequence: a billion random numbers would take a minute.
	n := w.dims[0]
	long := make([]float32, n+1<<16)
	for i := range long {
		long[i] = float32(r.NormFloat64() * 0.02)
		if len(w.dims) == 1 {
			long[i]++
		}
	}
	rows := 1
	for _, d := range w.dims[1:] {
		rows *= d
	}
	row := make([]byte, w.typ.RowBytes(n))
	var total int64
	for range rows {
		from := r.IntN(1 << 16)
		quant.Quantize(row, long[from:from+n], w.typ)
		k, err := out.Write(row)
		total += int64(k)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// readBandwidth returns the best rate in GB/s at which threads read a buffer larger than
// every cache.
func readBandwidth(threads int) float64 {
	x := make([]float32, 128<<20)
	for i := 0; i < len(x); i += 1024 {
		x[i] = 1
	}
	p := pool.New(threads)
	defer p.Close()
	sums := make([]float32, 16*threads)
	best := 0.0
	for range 6 {
		begin := time.Now()
		p.For(len(x)/4096, len(x)/4096/(8*threads), pool.Func(func(thread, lo, hi int) {
			for i := lo; i < hi; i++ {
				part := x[i*4096 : (i+1)*4096]
				sums[16*thread] += tensor.Dot(part, part)
			}
		}))
		best = max(best, float64(4*len(x))/time.Since(begin).Seconds()/1e9)
	}
	return best
}

// peak returns the float32 operations per second of a thread in GFLOP/s, by the kernel of
// matrix products on data in the nearest cache.
func peak() float64 {
	const rows, k, turns = 8, 128, 64
	a, b, c := make([]float32, rows*k), make([]float32, k*tensor.PanelWidth), make([]float32, rows*tensor.PanelWidth)
	least := time.Hour
	for range 2000 {
		begin := time.Now()
		for range turns {
			tensor.MulPanel(c, tensor.PanelWidth, a, k, b, rows, k, false)
		}
		least = min(least, time.Since(begin))
	}
	return 2 * rows * k * tensor.PanelWidth * turns / least.Seconds() / 1e9
}

// operations returns the operations of a position in the matrices of the layers.
func operations(c infer.Config) float64 {
	heads := c.HeadDim * (2*c.Heads + 2*c.KVHeads)
	return 2 * float64(c.Layers) * float64(c.Width) * float64(heads+3*c.Hidden)
}
