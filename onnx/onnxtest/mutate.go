package onnxtest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"mm-abi.org/mm/onnx"
)

// hostile lists numbers that break arithmetic.
var hostile = [...]int64{-1, 0, 1, 2, 3, 7, 255, 65537, -7, 1 << 20, 1 << 33, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}

// Mutate returns copy number seed of an ONNX file, damaged in one way: half of
// the copies in their bytes (bits, bytes, lengths, truncation, duplication,
// moves), half in their structure (names, operators, attributes, types,
// dimensions, constants, nodes), so that most of the latter are still models.
// The result is deterministic.
func Mutate(data []byte, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0x0f1e2d3c))
	out := append([]byte(nil), data...)
	if seed%2 == 1 {
		if changed, ok := restructured(out, rng); ok {
			return changed
		}
	}
	for range 1 + rng.IntN(4) {
		out = bytesOf(out, rng)
	}
	return out
}

// bytesOf damages bytes, more often near the beginning, where the structure is.
func bytesOf(out []byte, rng *rand.Rand) []byte {
	top := len(out)
	if rng.IntN(4) > 0 {
		top = min(top, 4096)
	}
	if top < 16 {
		return out
	}
	at := rng.IntN(top - 8)
	switch rng.IntN(8) {
	case 0, 1:
		out[at] ^= 1 << rng.IntN(8)
	case 2:
		out[at] = byte(rng.Uint32())
	case 3: // a length or a number becomes large
		for j := range 1 + rng.IntN(5) {
			out[at+j] |= 0x80
		}
	case 4:
		out[at] += byte(rng.IntN(5)) - 2
	case 5:
		out = out[:at+rng.IntN(len(out)-at)]
	case 6:
		n := min(64, len(out)-at)
		out = append(out[:at:at], append(append([]byte(nil), out[at:at+n]...), out[at:]...)...)
	case 7:
		copy(out[at:], out[rng.IntN(len(out)-8):][:8])
	}
	return out
}

// restructured reads a model, changes it and writes it again; false if the file
// cannot be read.
func restructured(data []byte, rng *rand.Rand) ([]byte, bool) {
	m, err := onnx.Parse(data)
	if err != nil || len(m.Graph.Nodes) == 0 {
		return nil, false
	}
	for range 1 + rng.IntN(3) {
		change(&m.Graph, rng)
	}
	if rng.IntN(8) == 0 && len(m.Opsets) > 0 {
		m.Opsets[0].Version = int64(5 + rng.IntN(24))
	}
	w := &buffer{}
	if _, err := onnx.Write(w, m); err != nil {
		return nil, false
	}
	return w.data, true
}

type buffer struct{ data []byte }

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.data = append(b.data, p...)
	return len(p), nil
}

// change makes one change to a graph or, sometimes, to one of its subgraphs.
func change(g *onnx.Graph, rng *rand.Rand) {
	n := &g.Nodes[rng.IntN(len(g.Nodes))]
	for i := range n.Attributes {
		if sub := n.Attributes[i].Graph; sub != nil && len(sub.Nodes) > 0 && rng.IntN(2) == 0 {
			change(sub, rng)
			return
		}
	}
	v := hostile[rng.IntN(len(hostile))]
	other := &g.Nodes[rng.IntN(len(g.Nodes))]
	switch rng.IntN(9) {
	case 0, 1:
		if len(n.Attributes) > 0 {
			a := &n.Attributes[rng.IntN(len(n.Attributes))]
			a.Int, a.Float = v, float32(v)
			if len(a.Ints) > 0 {
				a.Ints[rng.IntN(len(a.Ints))] = v
			}
		}
	case 2:
		constant(g, rng, v)
	case 3:
		if len(g.Initializers) > 0 {
			if t := &g.Initializers[rng.IntN(len(g.Initializers))]; len(t.Dims) > 0 {
				t.Dims[rng.IntN(len(t.Dims))] = v
			}
		}
	case 4:
		n.Op = other.Op
	case 5:
		if len(n.Inputs) > 0 && len(other.Inputs) > 0 {
			n.Inputs[rng.IntN(len(n.Inputs))] = other.Inputs[rng.IntN(len(other.Inputs))]
		}
	case 6:
		if len(n.Inputs) > 0 {
			n.Inputs = n.Inputs[:len(n.Inputs)-1]
		}
	case 7:
		for i := range g.Inputs {
			if dims := g.Inputs[i].Type.Dims; len(dims) > 0 {
				dims[rng.IntN(len(dims))].Value = max(-1, v%9)
			}
			if rng.IntN(3) == 0 {
				g.Inputs[i].Type.DType = onnx.DType(1 + rng.IntN(28))
			}
		}
	case 8:
		names := [...]string{"axis", "axes", "to", "group", "perm", "pads", "strides", "dilations", "kernel_shape", "blocksize", "hidden_size", "k", "num_outputs"}
		n.Attributes = append(n.Attributes, onnx.IntList(names[rng.IntN(len(names))], v, v))
	}
}

// constant overwrites a number of a constant.
func constant(g *onnx.Graph, rng *rand.Rand, v int64) {
	if len(g.Initializers) == 0 {
		return
	}
	t := &g.Initializers[rng.IntN(len(g.Initializers))]
	t.Raw = append([]byte(nil), t.Raw...)
	switch {
	case t.DType == onnx.INT64 && len(t.Raw) >= 8:
		binary.LittleEndian.PutUint64(t.Raw[rng.IntN(len(t.Raw)/8)*8:], uint64(v))
	case len(t.Raw) >= 4:
		binary.LittleEndian.PutUint32(t.Raw[rng.IntN(len(t.Raw)/4)*4:], math.Float32bits(float32(v)))
	}
}
