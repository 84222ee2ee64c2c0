package step

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
)

// read runs a pass on positions, of which the pass may have more, and keeps its results.
func (s *sequence) read(ctx context.Context, p Pass, tokens []int32, rows []float32) error {
	out, err := p.Function.Run(ctx, s.inputs(p.Positions, rows))
	if err != nil {
		return err
	}
	a := s.m.shape
	n, count := p.Positions, len(tokens)
	logits, err := dataOf(out, window.Logits, 1, n, a.Vocab)
	if err != nil {
		return err
	}
	last := floats(logits[bytesOf*(count-1)*a.Vocab:][:bytesOf*a.Vocab])
	if err := finite(last); err != nil {
		return err
	}
	states, err := dataOf(out, window.States, 1, n, a.Width)
	if err != nil {
		return err
	}
	if err := s.keep(out, n, count); err != nil {
		return err
	}
	if s.hidden {
		s.states = append(s.states, floats(states[:bytesOf*count*a.Width])...)
	}
	s.tokens, s.rows, s.logits = append(s.tokens, tokens...), append(s.rows, rows...), last
	return nil
}

// inputs returns the inputs of a pass of n positions that reads rows after those held. The
// missing rows are zeros, whose results are ignored.
func (s *sequence) inputs(n int, rows []float32) map[string]runtimes.Tensor {
	a, w, from := s.m.shape, s.m.window, s.Len()
	in := map[string]runtimes.Tensor{
		window.Hidden: tensorOf(append(slices.Clone(rows), make([]float32, n*a.Width-len(rows))...), 1, n, a.Width),
	}
	sides := s.m.places.Inputs(w, from, n)
	for _, side := range window.Sides(a, window.Span{Count: a.Layers}, w, n) {
		in[side.Name] = tensorOf(sides[side.Name], side.Dims...)
	}
	shape := []int64{1, int64(a.KVHeads), int64(w), int64(a.HeadDim)}
	for i := range a.Layers {
		in[window.PastKey(i)] = runtimes.Tensor{Type: runtimes.Float32, Shape: shape, Data: s.held[2*i]}
		in[window.PastValue(i)] = runtimes.Tensor{Type: runtimes.Float32, Shape: shape, Data: s.held[2*i+1]}
	}
	return in
}

// keep appends the keys and values of the first count positions of a pass of n.
func (s *sequence) keep(out map[string]runtimes.Tensor, n, count int) error {
	a, w, from := s.m.shape, s.m.window, s.Len()
	row := bytesOf * a.HeadDim
	var all [][]byte
	for i := range a.Layers {
		for _, name := range []string{window.Key(i), window.Value(i)} {
			data, err := dataOf(out, name, 1, a.KVHeads, n, a.HeadDim)
			if err != nil {
				return err
			}
			all = append(all, data)
		}
	}
	for i, data := range all {
		for g := range a.KVHeads {
			copy(s.held[i][(g*w+from)*row:], data[g*n*row:][:count*row])
		}
	}
	return nil
}

// bytesOf is the size of a number in bytes.
const bytesOf = 4

// tensorOf returns numbers as a tensor.
func tensorOf(v []float32, dims ...int) runtimes.Tensor {
	t := runtimes.Tensor{Type: runtimes.Float32, Data: make([]byte, bytesOf*len(v))}
	for _, d := range dims {
		t.Shape = append(t.Shape, int64(d))
	}
	for i, x := range v {
		binary.LittleEndian.PutUint32(t.Data[bytesOf*i:], math.Float32bits(x))
	}
	return t
}

// dataOf returns the bytes of a result of the expected shape.
func dataOf(out map[string]runtimes.Tensor, name string, dims ...int) ([]byte, error) {
	t, ok := out[name]
	same := ok && t.Type == runtimes.Float32 && len(t.Shape) == len(dims) && t.Check() == nil
	for i := range dims {
		same = same && t.Shape[i] == int64(dims[i])
	}
	if !same {
		return nil, fmt.Errorf("result %s: got %s %v, want fp32 %v", name, t.Type, t.Shape, dims)
	}
	return t.Data, nil
}

func floats(b []byte) []float32 {
	out := make([]float32, len(b)/bytesOf)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[bytesOf*i:]))
	}
	return out
}
