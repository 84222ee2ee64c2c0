package attempt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/window"
)

// sets is the number of inputs for the layers of a language model.
const sets = 4

// maxText is the maximum size of a text in bytes.
const maxText = 1 << 20

// window exports layers of a language model as ONNX. Their inputs are the
// model's own states: the residual stream before the first of the layers, which
// the backend core computes from the embeddings of a text.
func (s *subject) window(ctx context.Context) (err error) {
	f, err := gguf.Open(s.scope.GGUF)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	shape, err := arch.Read(f)
	if err != nil {
		return err
	}
	s.layers, s.all = [2]int{0, shape.Layers}, shape.Layers
	if l := s.scope.Layers; l != nil {
		s.layers = *l
	}
	if s.scope.Positions == 0 {
		s.scope.Positions = 32
	}
	complete := s.layers == [2]int{0, s.all}
	m, err := window.Layers(f, window.Options{First: s.layers[0], Count: s.layers[1] - s.layers[0], Positions: s.scope.Positions, Norm: complete})
	if err != nil {
		return err
	}
	if s.dir, err = fsx.MkdirTemp("mm-attempt-"); err != nil {
		return err
	}
	s.path = filepath.Join(s.dir, "layers.onnx")
	if err := fsx.Replace(s.path, 0o600, func(w io.Writer) error { _, err := onnx.Write(w, m); return err }); err != nil {
		return err
	}
	texts, err := s.scope.texts(f, shape.Vocab)
	if err != nil {
		return err
	}
	return s.read(ctx, texts, complete)
}

// texts returns the tokens of the inputs.
func (s Scope) texts(f *gguf.File, vocab int) ([][]int32, error) {
	out := make([][]int32, sets)
	if s.Text == "" {
		for set := range out {
			for i := range s.Positions {
				out[set] = append(out[set], int32((20+i*i*7+set*131)%vocab))
			}
		}
		return out, nil
	}
	data, err := fsx.ReadFile(s.Text, maxText)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.GGUF, err)
	}
	all := tok.Encode(string(data), tokenizer.Options{Add: true})
	if len(all) < sets*s.Positions {
		return nil, fmt.Errorf("text %s: got %d tokens, want %d for %d inputs of %d positions", s.Text, len(all), sets*s.Positions, sets, s.Positions)
	}
	for set := range out {
		out[set] = all[set*s.Positions : (set+1)*s.Positions]
	}
	return out, nil
}

// read has the backend core read texts, and keeps its states before and after
// the layers.
func (s *subject) read(ctx context.Context, texts [][]int32, complete bool) (err error) {
	m, err := infer.Load(s.scope.GGUF, infer.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for _, tokens := range texts {
		streams, err := m.Streams(ctx, tokens, s.layers[0], s.layers[1])
		if err == nil && complete {
			streams[1], err = normed(ctx, m, tokens)
		}
		if err != nil {
			return err
		}
		s.inputs = append(s.inputs, map[string]engine.Tensor{window.Hidden: rowsOf(streams[0], len(tokens))})
		s.states = append(s.states, rowsOf(streams[1], len(tokens)))
	}
	return nil
}

// normed returns a model's states after the last norm.
func normed(ctx context.Context, m *infer.Model, tokens []int32) ([]float32, error) {
	session, err := m.NewSession(infer.SessionOptions{Context: len(tokens), KV: "f32", Hidden: true})
	if err != nil {
		return nil, err
	}
	if err := session.Feed(ctx, tokens); err != nil {
		return nil, err
	}
	return session.Hidden(0, len(tokens))
}

// rowsOf returns rows of numbers as a tensor.
func rowsOf(x []float32, rows int) engine.Tensor {
	out := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, rows, len(x) / rows}}
	for _, v := range x {
		out.Data = binary.LittleEndian.AppendUint32(out.Data, math.Float32bits(v))
	}
	return out
}
