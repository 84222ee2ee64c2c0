package seed

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
)

// shape is the size of a seeded language model.
type shape struct {
	layers, heads, kvHeads, hidden, context int
}

// model returns the shape for GGUF.
func (s shape) model(width, vocab int) arch.Shape {
	head := width / s.heads
	return arch.Shape{
		Arch: "llama", Context: s.context, Layers: s.layers, Width: width, Heads: s.heads, KVHeads: s.kvHeads, HeadDim: head,
		Hidden: s.hidden, Vocab: vocab, Epsilon: 1e-5, Rope: arch.Rope{Dims: head, Base: 10000, OriginalContext: s.context, ExtFactor: -1},
	}
}

// seededLayers is the depth of a seeded core.
const seededLayers = 2

// maxHead is the largest head of a seeded core. Engines refuse much larger ones.
const maxHead = 256

// headsOf returns the number of heads of a width: four, or as many more as keep a
// head at most maxHead wide.
func headsOf(width int) int {
	heads := 4
	for width > heads*maxHead {
		heads *= 2
	}
	return heads
}

// core describes a Llama-shaped model of F16 weights over a byte vocabulary.
func core(m *modules.Manifest, opt Options) []file {
	heads := headsOf(opt.DModel)
	vocab := Bytes()
	s := shape{layers: seededLayers, heads: heads, kvHeads: heads / 2, hidden: 2 * opt.DModel, context: 512}
	if opt.Type == abi.DraftCore {
		s.layers = 1
		m.For = opt.Base
	}
	model := s.model(opt.DModel, len(vocab.Tokens))
	if opt.Shape != nil {
		model = *opt.Shape
		model.Vocab = len(vocab.Tokens)
	}
	m.Modality = abi.Text
	m.Tokens = &abi.TokenContract{VocabSize: len(vocab.Tokens), MaxSeq: model.Context, DModel: opt.DModel, SpecialTokens: abi.SpecialTokens()}
	m.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
	m.RopeScaling = "none"
	m.Export = map[abi.Format]modules.Export{abi.GGUF: {Path: opt.Name + ".gguf"}}
	m.Quant = &modules.Quant{Supported: abi.Precisions()}
	return []file{{m.Entry(abi.GGUF), func(w io.Writer) error { return writeCore(w, opt, model, vocab) }}}
}

// Bytes returns the smallest vocabulary that encodes any text: MM-ABI's special
// tokens as control tokens, and the 256 bytes.
func Bytes() tokenizer.Vocabulary {
	v := tokenizer.Vocabulary{Model: tokenizer.BPE, Pre: "gpt-2", Special: tokenizer.NoSpecial, AddBOS: true}
	for i, s := range abi.SpecialTokens() {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: s, Type: tokenizer.Control})
		switch s {
		case "<bos>":
			v.Special.BOS = int32(i)
		case "<eos>":
			v.Special.EOS = int32(i)
		case "<pad>":
			v.Special.Padding = int32(i)
		}
	}
	for b := range 256 {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: tokenizer.ToAlphabet(string([]byte{byte(b)})), Type: tokenizer.Normal})
	}
	return v
}

func writeCore(w io.Writer, opt Options, model arch.Shape, vocab tokenizer.Vocabulary) error {
	tok, err := tokenizer.New(vocab)
	if err != nil {
		return err
	}
	kvs := append(model.Metadata(),
		gguf.KV{Key: gguf.KeyName, Value: opt.Name},
		gguf.KV{Key: gguf.KeyLicense, Value: opt.License},
		gguf.KV{Key: gguf.KeyFileType, Value: uint32(1)}) // F16
	_, err = gguf.Write(w, append(kvs, tok.KVs()...), coreTensors(opt, model))
	return err
}

// coreTensors draws the matrices and sets the gains to one.
func coreTensors(opt Options, s arch.Shape) []gguf.Source {
	var list []gguf.Source
	add := func(tensors []arch.Tensor) {
		for _, t := range tensors {
			switch {
			case t.Optional && !biased(s, t):
			case biased(s, t):
				list = append(list, gguf.Source{Name: t.Name, Type: tensor.F32, Dims: t.Dims, Data: lazy(func() []byte {
					b := make([]byte, 4*t.Dims[0])
					putFloats(b, normal(opt.Seed, t.Name, t.Dims[0], 0.5))
					return b
				})})
			case len(t.Dims) == 1:
				list = append(list, gguf.Source{Name: t.Name, Type: tensor.F32, Dims: t.Dims, Data: gguf.Bytes(bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, t.Dims[0]))}) // 1.0
			default:
				in, out := t.Dims[0], 1
				for _, d := range t.Dims[1:] { // of all experts
					out *= d
				}
				list = append(list, gguf.Source{Name: t.Name, Type: tensor.F16, Dims: t.Dims, Data: lazy(func() []byte {
					b := make([]byte, 2*in*out)
					tensor.ToF16(b, normal(opt.Seed, t.Name, in*out, glorot(in, t.Dims[1])))
					return b
				})})
			}
		}
	}
	add(s.Globals())
	for i := range s.Layers {
		add(s.Layer(i, nil))
	}
	return list
}

// biased reports whether models of the architecture have an optional tensor:
// Qwen2's queries, keys and values have biases.
func biased(s arch.Shape, t arch.Tensor) bool {
	return s.Arch == "qwen2" && slices.Contains([]string{"attn_q.bias", "attn_k.bias", "attn_v.bias"}, t.Part())
}

func putFloats(b []byte, values []float32) {
	for i, v := range values {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
}

// lazy generates a tensor when it is written, so that a large model needs the
// memory of one tensor.
type lazy func() []byte

// WriteTo implements io.WriterTo.
func (l lazy) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(l())
	return int64(n), err
}
