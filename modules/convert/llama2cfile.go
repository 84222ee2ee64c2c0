// The checkpoints of karpathy/llama2.c (version 0, the "legacy" export): a header
// of seven int32, then every weight as float32, little endian, in a fixed order.
// The model is Llama-shaped with interleaved RoPE, so it becomes GGUF of
// architecture llama without permutation.

package convert

import (
	"encoding/binary"
	"fmt"
	"io"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
)

// Config is the header of a checkpoint.
type Config struct {
	Dim     int // C, d_model
	Hidden  int // of the feed-forward network
	Layers  int
	Heads   int  // H
	KVHeads int  // key and value heads
	Vocab   int  // V
	Context int  // T, the longest sequence
	Tied    bool // the embedding is the output head
}

// headerBytes is the size of the header.
const headerBytes = 7 * 4

// File is a checkpoint whose size agrees with its header.
type File struct {
	Config
	r io.ReaderAt
}

// Read validates the header and the size. It does not allocate memory by the
// header.
func Read(r io.ReaderAt, size int64) (*File, error) {
	var head [headerBytes]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, fmt.Errorf("reading llama2.c checkpoint: header: %w", err)
	}
	field := func(i int) int { return int(int32(binary.LittleEndian.Uint32(head[4*i:]))) }
	c := Config{Dim: field(0), Hidden: field(1), Layers: field(2), Heads: field(3), KVHeads: field(4), Vocab: field(5), Context: field(6), Tied: true}
	if c.Vocab < 0 {
		c.Vocab, c.Tied = -c.Vocab, false
	}
	f := &File{Config: c, r: r}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("reading llama2.c checkpoint: %w", err)
	}
	if want := f.offsets().end; size != want {
		return nil, fmt.Errorf("reading llama2.c checkpoint: size mismatch: got %d bytes, want %d", size, want)
	}
	return f, nil
}

// maxFigure limits every number of the header, so that no product of four of
// them overflows an int64.
const maxFigure = 1 << 20

func (c Config) check() error {
	for _, v := range []struct {
		name string
		n    int
		most int
	}{{"dim", c.Dim, 1 << 15}, {"hidden_dim", c.Hidden, 1 << 17}, {"n_layers", c.Layers, gguf.MaxBlocks}, {"n_heads", c.Heads, 1 << 10}, {"n_kv_heads", c.KVHeads, 1 << 10}, {"vocab_size", c.Vocab, maxFigure}, {"seq_len", c.Context, maxFigure}} {
		if v.n < 1 || v.n > v.most {
			return fmt.Errorf("bad %s: got %d, want 1 to %d", v.name, v.n, v.most)
		}
	}
	if c.Dim%c.Heads != 0 || c.Dim/c.Heads%2 != 0 {
		return fmt.Errorf("dim %d is not an even multiple of n_heads %d", c.Dim, c.Heads)
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("n_heads %d is not a multiple of n_kv_heads %d", c.Heads, c.KVHeads)
	}
	return nil
}

// offsets are the start offsets of the groups of weights, in bytes.
type offsets struct {
	embed, attNorm, wq, wk, wv, wo, ffnNorm, w1, w2, w3, norm, head, end int64
}

func (f *File) offsets() offsets {
	c := f.Config
	kv := c.Dim / c.Heads * c.KVHeads
	at := int64(headerBytes)
	next := func(dims ...int) int64 {
		begin, n := at, int64(4)
		for _, d := range dims {
			n *= int64(d)
		}
		at += n
		return begin
	}
	var o offsets
	o.embed = next(c.Vocab, c.Dim)
	o.attNorm = next(c.Layers, c.Dim)
	o.wq = next(c.Layers, c.Dim, c.Dim)
	o.wk = next(c.Layers, c.Dim, kv)
	o.wv = next(c.Layers, c.Dim, kv)
	o.wo = next(c.Layers, c.Dim, c.Dim)
	o.ffnNorm = next(c.Layers, c.Dim)
	o.w1 = next(c.Layers, c.Hidden, c.Dim)
	o.w2 = next(c.Layers, c.Dim, c.Hidden)
	o.w3 = next(c.Layers, c.Hidden, c.Dim)
	o.norm = next(c.Dim)
	next(2, c.Context, c.Dim/c.Heads/2) // RoPE tables, ignored by newer readers
	o.head = at
	if !c.Tied {
		o.head = next(c.Vocab, c.Dim)
	}
	o.end = at
	return o
}

// Shape returns the model's shape in GGUF.
func (f *File) Shape() arch.Shape {
	head := f.Dim / f.Heads
	return arch.Shape{
		Arch: "llama", Context: f.Context, Layers: f.Layers, Width: f.Dim, Heads: f.Heads, KVHeads: f.KVHeads, HeadDim: head,
		Hidden: f.Hidden, Vocab: f.Vocab, Epsilon: 1e-5, Rope: arch.Rope{Dims: head, Base: 10000, OriginalContext: f.Context, ExtFactor: -1},
	}
}

// Metadata returns the model's part of a GGUF file's metadata.
func (f *File) Metadata(name string) []gguf.KV {
	return append(f.Shape().Metadata(), gguf.KV{Key: gguf.KeyName, Value: name}, gguf.KV{Key: gguf.KeyFileType, Value: uint32(0)}) // F32
}

// Tensors returns the weights by GGUF names, streamed from the checkpoint.
func (f *File) Tensors() []gguf.Source {
	c, o := f.Config, f.offsets()
	kv := c.Dim / c.Heads * c.KVHeads
	var list []gguf.Source
	add := func(name string, at int64, layer int, dims ...int) {
		size := int64(4)
		for _, d := range dims {
			size *= int64(d)
		}
		list = append(list, gguf.Source{Name: name, Type: tensor.F32, Dims: dims, Data: section{io.NewSectionReader(f.r, at+int64(layer)*size, size)}})
	}
	add("token_embd.weight", o.embed, 0, c.Dim, c.Vocab)
	for l := range c.Layers {
		blk := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", l, part) }
		add(blk("attn_norm"), o.attNorm, l, c.Dim)
		add(blk("attn_q"), o.wq, l, c.Dim, c.Dim)
		add(blk("attn_k"), o.wk, l, c.Dim, kv)
		add(blk("attn_v"), o.wv, l, c.Dim, kv)
		add(blk("attn_output"), o.wo, l, c.Dim, c.Dim)
		add(blk("ffn_norm"), o.ffnNorm, l, c.Dim)
		add(blk("ffn_gate"), o.w1, l, c.Dim, c.Hidden)
		add(blk("ffn_up"), o.w3, l, c.Dim, c.Hidden)
		add(blk("ffn_down"), o.w2, l, c.Hidden, c.Dim)
	}
	add("output_norm.weight", o.norm, 0, c.Dim)
	if !c.Tied {
		add("output.weight", o.head, 0, c.Dim, c.Vocab)
	}
	return list
}

// section streams a part of the checkpoint.
type section struct{ *io.SectionReader }

// WriteTo copies the part to w.
func (s section) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{s.SectionReader})
}
