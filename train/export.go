package train

import (
	"fmt"
	"io"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// ExportGGUF writes m as a GGUF file in float32 for core/infer and llama.cpp.
// The architecture is llama, whose rotation is interleaved, so that half-split
// queries and keys are permuted; or, for a model with query and key norms,
// qwen3, whose rotation is half-split. An embedding norm is folded into the
// embedding. tok adds the tokenizer's metadata and, if it has fewer tokens than
// the model, truncates the vocabulary; it may be nil. kvs are appended.
// Adapters must be merged first.
//
// ReLU² and RWKV have no GGUF architecture and are refused.
func ExportGGUF(w io.Writer, m *llm.Model[float32], tok *tokenizer.Tokenizer, kvs []gguf.KV) error {
	c := m.Config
	switch {
	case c.Activation != llm.SwiGLU:
		return fmt.Errorf("exporting GGUF: unsupported activation %q", c.Activation)
	case c.Mixer != llm.Attention:
		return fmt.Errorf("exporting GGUF: unsupported mixer %q", c.Mixer)
	}
	e := exporter{m: m, arch: "llama", want: llm.RopePairs, rows: c.Vocab}
	if c.QKNorm {
		e.arch, e.want = "qwen3", llm.RopeHalf
	}
	if tok != nil {
		e.rows = min(e.rows, tok.Size())
	}
	meta := e.metadata()
	if tok != nil {
		meta = append(meta, tok.KVs()...)
	}
	tensors, err := e.tensors()
	if err != nil {
		return err
	}
	if _, err := gguf.Write(w, append(meta, kvs...), tensors); err != nil {
		return fmt.Errorf("exporting GGUF: %w", err)
	}
	return nil
}

// ExportGGUF writes the model of the checkpoint, its adapters merged, with its
// tokenizer, like the function of that name. A checkpoint without a tokenizer
// is an error, since the file could not read text.
func (c *LMCheckpoint) ExportGGUF(w io.Writer, kvs []gguf.KV) (*tokenizer.Tokenizer, error) {
	model, err := c.Model()
	if err != nil {
		return nil, err
	}
	if model.IsStored() {
		return nil, fmt.Errorf("checkpoint %s: %w", c.path, errStored)
	}
	model.Merge()
	tok, err := c.Tokenizer()
	if err != nil {
		return nil, err
	}
	if tok == nil {
		return nil, fmt.Errorf("checkpoint %s: missing tokenizer", c.path)
	}
	return tok, ExportGGUF(w, model, tok, kvs)
}

// ExportAdapter writes only m's low-rank adapters as a GGUF adapter for
// core/infer and llama.cpp. alpha is LoRA.Alpha or its rank. The rows of query
// and key adapters are permuted like their matrices.
func ExportAdapter(w io.Writer, m *llm.Model[float32], lora llm.LoRA, kvs []gguf.KV) error {
	if len(m.Adapters()) == 0 {
		return fmt.Errorf("exporting an adapter: model has no adapters")
	}
	c := m.Config
	e := exporter{m: m, arch: "llama", want: llm.RopePairs}
	if c.QKNorm {
		e.arch, e.want = "qwen3", llm.RopeHalf
	}
	alpha := lora.Alpha
	if alpha == 0 {
		alpha = float64(lora.Rank)
	}
	meta := []gguf.KV{{Key: gguf.KeyArchitecture, Value: e.arch}, {Key: "general.type", Value: "adapter"},
		{Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(alpha)}}
	var all []gguf.Source
	for _, t := range m.Adapters() {
		data, rows := t.Data, t.Shape[0]
		if strings.Contains(t.Name, ".attn_q.") || strings.Contains(t.Name, ".attn_k.") {
			if strings.HasSuffix(t.Name, ".lora_b") {
				data = e.permute(data, rows/c.HeadDim, t.Shape[1])
			}
		}
		all = append(all, gguf.Source{Name: t.Name, Type: tensor.F32, Dims: []int{t.Shape[1], rows}, Data: gguf.Bytes(floatBytes(data))})
	}
	if _, err := gguf.Write(w, append(meta, kvs...), all); err != nil {
		return fmt.Errorf("exporting an adapter: %w", err)
	}
	return nil
}

// exporter converts the model's layout to the file's.
type exporter struct {
	m    *llm.Model[float32]
	arch string
	want llm.Rope // rotation that the architecture applies
	rows int      // tokens to write
}

func (e exporter) metadata() []gguf.KV {
	c := e.m.Config
	shape := arch.Shape{
		Arch: e.arch, Context: c.Context, Layers: c.Layers, Width: c.Dim, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Hidden: c.Hidden, Vocab: e.rows, Epsilon: float32(c.NormEps),
		Rope: arch.Rope{Dims: c.HeadDim, Base: float32(c.RopeBase), Halves: e.want == llm.RopeHalf, OriginalContext: c.Context, ExtFactor: -1},
	}
	return append(shape.Metadata(), gguf.KV{Key: gguf.KeyFileType, Value: uint32(0)}) // all F32
}

func (e exporter) tensors() ([]gguf.Source, error) {
	c := e.m.Config
	var all []gguf.Source
	add := func(name string, shape []int, data []float32) {
		dims := make([]int, len(shape))
		for i, d := range shape {
			dims[len(shape)-1-i] = d
		}
		all = append(all, gguf.Source{Name: name, Type: tensor.F32, Dims: dims, Data: gguf.Bytes(floatBytes(data))})
	}
	for _, t := range e.m.Tensors() {
		data, shape := t.Data, t.Shape
		switch kind(t) {
		case "lora":
			return nil, fmt.Errorf("exporting GGUF: merge the adapters first")
		case "token_embd", "output":
			data, shape = data[:e.rows*c.Dim], []int{e.rows, c.Dim}
		case "token_embd_norm":
			continue
		case "attn_q", "attn_k":
			data = e.permute(data, shape[0]/c.HeadDim, c.Dim)
		case "attn_q_norm", "attn_k_norm":
			data = e.permute(data, 1, 1)
		}
		if t.Name == "token_embd.weight" && c.EmbedNorm {
			if c.Tied {
				add("output.weight", shape, data)
			}
			data = e.normed(data)
		}
		add(t.Name, shape, data)
	}
	return all, nil
}

// kind returns the name of a tensor without block and ".weight", or "lora" for
// adapters.
func kind(t *nn.Tensor[float32]) string {
	name := t.Name
	if t.Layer >= 0 {
		name = name[len(fmt.Sprintf("blk.%d.", t.Layer)):]
	}
	if len(name) > 7 && name[len(name)-7:] == ".weight" {
		return name[:len(name)-7]
	}
	return "lora"
}

// permute reorders the rows of each head between the half-split order, in which
// row i rotates with row i+D/2, and the interleaved order, in which 2i rotates
// with 2i+1.
func (e exporter) permute(data []float32, heads, cols int) []float32 {
	c := e.m.Config
	if c.Rope == e.want {
		return data
	}
	d, half := c.HeadDim, c.HeadDim/2
	out := make([]float32, len(data))
	for h := range heads {
		for i := range half {
			for side := range 2 {
				split, pair := (h*d+i+side*half)*cols, (h*d+2*i+side)*cols
				if e.want == llm.RopePairs {
					copy(out[pair:pair+cols], data[split:split+cols])
				} else {
					copy(out[split:split+cols], data[pair:pair+cols])
				}
			}
		}
	}
	return out
}

// normed returns the embedding with its norm applied to every row.
func (e exporter) normed(data []float32) []float32 {
	c := e.m.Config
	gain := e.m.Tensor("token_embd_norm.weight").Data
	out := make([]float32, len(data))
	for i := 0; i < len(data); i += c.Dim {
		tensor.NormForward(out[i:i+c.Dim], data[i:i+c.Dim], gain, float32(c.NormEps))
	}
	return out
}
