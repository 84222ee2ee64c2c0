package seed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
)

// shape is the size of a seeded language model.
type shape struct {
	layers, heads, kvHeads, hidden, context int
}

// seededLayers is the depth of a seeded core.
const seededLayers = 2

// core describes a Llama-shaped model of F16 weights over a byte vocabulary.
func core(m *modules.Manifest, opt Options) []file {
	s := shape{layers: seededLayers, heads: 4, kvHeads: 2, hidden: 2 * opt.DModel, context: 512}
	if opt.Type == abi.DraftCore {
		s.layers = 1
		m.For = opt.Base
	}
	vocab := Bytes()
	m.Modality = abi.Text
	m.Tokens = &abi.TokenContract{VocabSize: len(vocab.Tokens), MaxSeq: s.context, DModel: opt.DModel, SpecialTokens: abi.SpecialTokens()}
	m.KVDTypes = []abi.DType{abi.FP32, abi.FP16, abi.Int8, abi.FP8}
	m.RopeScaling = "none"
	m.Export = map[abi.Format]modules.Export{abi.GGUF: {Path: opt.Name + ".gguf"}}
	m.Quant = &modules.Quant{Supported: abi.Precisions()}
	return []file{{m.Entry(abi.GGUF), func(w io.Writer) error { return writeCore(w, opt, s, vocab) }}}
}

// Bytes is the smallest vocabulary that can write any text: MM-ABI's special
// tokens as control tokens, then the 256 bytes.
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

func writeCore(w io.Writer, opt Options, s shape, vocab tokenizer.Vocabulary) error {
	tok, err := tokenizer.New(vocab)
	if err != nil {
		return err
	}
	const arch = "llama"
	kvs := []gguf.KV{
		{Key: gguf.KeyArchitecture, Value: arch},
		{Key: gguf.KeyName, Value: opt.Name},
		{Key: gguf.KeyLicense, Value: opt.License},
		{Key: gguf.KeyFileType, Value: uint32(1)}, // F16
		{Key: gguf.KeyContextLength.In(arch), Value: uint32(s.context)},
		{Key: gguf.KeyEmbeddingLength.In(arch), Value: uint32(opt.DModel)},
		{Key: gguf.KeyBlockCount.In(arch), Value: uint32(s.layers)},
		{Key: gguf.KeyFeedForward.In(arch), Value: uint32(s.hidden)},
		{Key: gguf.KeyHeadCount.In(arch), Value: uint32(s.heads)},
		{Key: gguf.KeyHeadCountKV.In(arch), Value: uint32(s.kvHeads)},
		{Key: gguf.KeyRMSEpsilon.In(arch), Value: float32(1e-5)},
		{Key: gguf.KeyRopeBase.In(arch), Value: float32(10000)},
		{Key: gguf.KeyVocabSize.In(arch), Value: uint32(len(vocab.Tokens))},
	}
	_, err = gguf.Write(w, append(kvs, tok.KVs()...), coreTensors(opt, s, len(vocab.Tokens)))
	return err
}

func coreTensors(opt Options, s shape, vocab int) []gguf.Source {
	c, head := opt.DModel, opt.DModel/s.heads
	var list []gguf.Source
	matrix := func(name string, in, out int) {
		list = append(list, gguf.Source{Name: name, Type: tensor.F16, Dims: []int{in, out}, Data: lazy(func() []byte {
			b := make([]byte, 2*in*out)
			tensor.ToF16(b, normal(opt.Seed, name, in*out, glorot(in, out)))
			return b
		})})
	}
	ones := func(name string, n int) {
		list = append(list, gguf.Source{Name: name, Type: tensor.F32, Dims: []int{n}, Data: gguf.Bytes(bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, n))}) // 1.0
	}
	matrix("token_embd.weight", c, vocab)
	for l := range s.layers {
		at := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", l, part) }
		ones(at("attn_norm"), c)
		matrix(at("attn_q"), c, c)
		matrix(at("attn_k"), c, head*s.kvHeads)
		matrix(at("attn_v"), c, head*s.kvHeads)
		matrix(at("attn_output"), c, c)
		ones(at("ffn_norm"), c)
		matrix(at("ffn_gate"), c, s.hidden)
		matrix(at("ffn_up"), c, s.hidden)
		matrix(at("ffn_down"), s.hidden, c)
	}
	ones("output_norm.weight", c)
	return list
}

func putFloats(b []byte, values []float32) {
	for i, v := range values {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
}

// lazy makes a tensor's bytes when they are written, so that a large model
// needs the memory of one tensor.
type lazy func() []byte

// WriteTo writes the bytes.
func (l lazy) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(l())
	return int64(n), err
}
