package step

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/gguf/window"
	"mm-abi.org/mm/runtimes"
)

// read has a pass read positions, of which it may have more than there are, and
// keeps what came of it.
func (s *sequence) read(ctx context.Context, p Pass, tokens []int32, rows []float32) error {
	out, err := p.Function.Run(ctx, s.inputs(p.Positions, rows))
	if err != nil {
		return err
	}
	a := s.m.shape
	n, count := p.Positions, len(tokens)
	logits, err := taken(out, window.Logits, 1, n, a.Vocab)
	if err != nil {
		return err
	}
	last := floats(logits[bytesOf*(count-1)*a.Vocab:][:bytesOf*a.Vocab])
	if err := finite(last); err != nil {
		return err
	}
	states, err := taken(out, window.States, 1, n, a.Width)
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

// inputs are what a pass of n positions is given to read rows behind those that
// are held. The rows that it has more are zeros that nobody sees.
func (s *sequence) inputs(n int, rows []float32) map[string]runtimes.Tensor {
	a, w, from := s.m.shape, s.m.window, s.Len()
	cos, sin := window.Rotation(a, from, n)
	in := map[string]runtimes.Tensor{
		window.Hidden: given(append(slices.Clone(rows), make([]float32, n*a.Width-len(rows))...), 1, n, a.Width),
		window.Cos:    given(cos, n, a.HeadDim/2),
		window.Sin:    given(sin, n, a.HeadDim/2),
		window.Masks:  given(window.Mask(w, n, from), n, w+n),
	}
	shape := []int64{1, int64(a.KVHeads), int64(w), int64(a.HeadDim)}
	for i := range a.Layers {
		in[window.PastKey(i)] = runtimes.Tensor{Type: runtimes.Float32, Shape: shape, Data: s.held[2*i]}
		in[window.PastValue(i)] = runtimes.Tensor{Type: runtimes.Float32, Shape: shape, Data: s.held[2*i+1]}
	}
	return in
}

// keep puts the keys and values of the first count positions of a pass of n
// behind those that are held.
func (s *sequence) keep(out map[string]runtimes.Tensor, n, count int) error {
	a, w, from := s.m.shape, s.m.window, s.Len()
	row := bytesOf * a.HeadDim
	var all [][]byte
	for i := range a.Layers {
		for _, name := range []string{window.Key(i), window.Value(i)} {
			data, err := taken(out, name, 1, a.KVHeads, n, a.HeadDim)
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

// bytesOf is the size of a number.
const bytesOf = 4

// given is numbers as a tensor.
func given(v []float32, dims ...int) runtimes.Tensor {
	t := runtimes.Tensor{Type: runtimes.Float32, Data: make([]byte, bytesOf*len(v))}
	for _, d := range dims {
		t.Shape = append(t.Shape, int64(d))
	}
	for i, x := range v {
		binary.LittleEndian.PutUint32(t.Data[bytesOf*i:], math.Float32bits(x))
	}
	return t
}

// taken is the bytes of a result of a shape.
func taken(out map[string]runtimes.Tensor, name string, dims ...int) ([]byte, error) {
	t, ok := out[name]
	same := ok && t.Type == runtimes.Float32 && len(t.Shape) == len(dims) && t.Check() == nil
	for i := range dims {
		same = same && t.Shape[i] == int64(dims[i])
	}
	if !same {
		return nil, fmt.Errorf("the result %s is %s %v, not fp32 %v", name, t.Type, t.Shape, dims)
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
