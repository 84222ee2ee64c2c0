package export

import (
	"encoding/binary"
	"math"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx/lower"
)

// MinWeights is the number of elements from which a constant counts as weights.
const MinWeights = 64

// Weights returns the weights of a node, nil if it has none, and the axis of their
// scales.
func Weights(n *lower.Node) (*lower.Value, int) { return weightOf(n) }

// Float32s encodes numbers as 32-bit floats.
func Float32s(x []float32) []byte {
	out := make([]byte, 0, 4*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

// Float16s encodes numbers as 16-bit floats; ok is false if a finite number becomes
// infinite.
func Float16s(x []float32) (out []byte, ok bool) {
	out = make([]byte, 2*len(x))
	quant.Quantize(out, x, tensor.F16)
	ok = true
	for i, v := range x {
		infinite := binary.LittleEndian.Uint16(out[2*i:])&0x7fff == 0x7c00
		ok = ok && (!infinite || math.IsInf(float64(v), 0))
	}
	return out, ok
}

// smallest is the least normal float. Runtimes refuse scales below it; numbers of such
// magnitudes become 0.
const smallest = 0x1p-126

// Int8s quantizes numbers symmetrically, with a scale for each index along an axis
// of the shape.
func Int8s(x []float32, shape []int, axis int) (out []byte, scales []float32) {
	inner := 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	n := shape[axis]
	scales = make([]float32, n)
	for i, v := range x {
		c := i / inner % n
		scales[c] = max(scales[c], float32(math.Abs(float64(v))))
	}
	for c := range scales {
		if scales[c] /= 127; scales[c] < smallest {
			scales[c] = 1
		}
	}
	out = make([]byte, len(x))
	for i, v := range x {
		q := math.RoundToEven(float64(v) / float64(scales[i/inner%n]))
		out[i] = byte(int8(max(-127, min(127, q))))
	}
	return out, scales
}

// Int4Group is the number of inputs that share a scale in [Int4s].
const Int4Group = 32

// Nibbles are weights of a linear layer, as outputs × inputs, two in a byte, the
// first in the low half.
type Nibbles struct {
	Data   []byte
	Scales []float32 // outputs × groups
}

// Int4s quantizes the weights of a linear layer symmetrically to four bits; ok is
// false for other nodes, and if the inputs are not a multiple of the group.
func Int4s(n *lower.Node) (q Nibbles, ok bool) {
	if n.Op != lower.MatMul {
		return q, false
	}
	v, axis := weightOf(n)
	if v == nil || v.Const == nil || len(v.Const.Floats) < MinWeights || v.Shape[1-axis]%Int4Group != 0 {
		return q, false
	}
	out, in := v.Shape[axis], v.Shape[1-axis]
	row, column := in, 1
	if axis == 1 {
		row, column = 1, out
	}
	q.Data = make([]byte, out*in/2)
	for o := range out {
		for first := 0; first < in; first += Int4Group {
			q.group(v.Const.Floats[o*row+first*column:], column, o*in+first)
		}
	}
	return q, true
}

// group quantizes a group of numbers at a distance; at is the index of the first.
// The number of the largest magnitude becomes -8, so that all sixteen codes count.
func (q *Nibbles) group(x []float32, distance, at int) {
	var extreme float32
	for i := range Int4Group {
		if v := x[i*distance]; math.Abs(float64(v)) > math.Abs(float64(extreme)) {
			extreme = v
		}
	}
	scale := extreme / -8
	if scale == 0 {
		scale = 1
	}
	q.Scales = append(q.Scales, scale)
	for i := range Int4Group {
		code := max(-8, min(7, math.RoundToEven(float64(x[i*distance])/float64(scale))))
		q.Data[(at+i)/2] |= byte(int8(code)) & 15 << (4 * uint((at+i)%2))
	}
}

// floats returns the numbers of the weights in the order of v.
func (q Nibbles) floats(v *lower.Value, axis int) []float32 {
	out := make([]float32, v.Size())
	in := v.Shape[1-axis]
	for i := range out {
		code := int8(q.Data[i/2]>>(4*uint(i%2))<<4) >> 4
		at := i
		if axis == 1 {
			at = i%in*v.Shape[1] + i/in
		}
		out[at] = float32(code) * q.Scales[i/Int4Group]
	}
	return out
}

// half returns the number of a 16-bit float.
func half(bits uint16) float32 {
	var out [1]float32
	quant.Dequantize(out[:], []byte{byte(bits), byte(bits >> 8)}, tensor.F16)
	return out[0]
}
