package qdq

import (
	"encoding/binary"
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
)

// inputs replaces the inputs of an integer node by integers.
func (q *quantizer) inputs(n *onnx.Node) error {
	weight, axis := q.weight(n)
	for j, name := range n.Inputs {
		switch t := q.constants[name]; {
		case name == "":
		case t == nil:
			if integer, ok := q.integers[name]; ok && q.float(name) && (j == 0 || kindOf(n) != movement) {
				n.Inputs[j] = integer
			}
		case t.DType != onnx.FLOAT || kindOf(n) == movement && j > 0 || n.Op == "Clip":
		case j == weight:
			integer, err := q.weights(t, axis)
			if err != nil {
				return err
			}
			n.Inputs[j] = integer
		case j == 2 && (weight == 1) && kindOf(n) == computing: // the bias, after the weights
		default:
			integer, err := q.constant(t)
			if err != nil {
				return err
			}
			n.Inputs[j] = integer
		}
	}
	return q.bias(n, weight)
}

// weight returns the input with a node's weights, or -1, and the axis of their
// output channels; -1 for a single scale.
func (q *quantizer) weight(n *onnx.Node) (input, axis int) {
	if kindOf(n) != computing || len(n.Inputs) < 2 || !q.floatConstant(n.Inputs[1]) {
		return -1, -1
	}
	rank := len(q.constants[n.Inputs[1]].Dims)
	switch n.Op {
	case "Conv":
		return 1, 0
	case "ConvTranspose":
		for _, a := range n.Attributes {
			if a.Name == "group" && a.Int != 1 {
				return 1, -1
			}
		}
		return 1, 1
	case "Gemm":
		for _, a := range n.Attributes {
			if a.Name == "transB" && a.Int != 0 {
				return 1, 0
			}
		}
		return 1, 1
	}
	if rank != 2 {
		return 1, -1
	}
	return 1, 1
}

// numbers returns a constant's float32 elements, all of which must be finite.
func numbers(t *onnx.Tensor) ([]float32, error) {
	raw, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		if v := float64(out[i]); math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("constant %q: element %d is %v", t.Name, i, v)
		}
	}
	return out, nil
}

// constant quantizes a constant in the type of the values.
func (q *quantizer) constant(t *onnx.Tensor) (string, error) {
	key := "\x00" + t.Name
	if integer, ok := q.integers[key]; ok {
		return integer, nil
	}
	x, err := numbers(t)
	if err != nil {
		return "", err
	}
	r := Range{}
	for _, v := range x {
		r = r.with(Range{float64(v), float64(v)})
	}
	s := scalingOf(r, q.limit)
	var raw []byte
	for _, v := range x {
		n := max(0, min(q.limit, math.RoundToEven(float64(v/s.scale))+float64(s.zero)))
		if q.kind == onnx.UINT16 {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(n))
		} else {
			raw = append(raw, byte(n))
		}
	}
	ints := q.to.Constant(onnx.RawTensor(q.fresh(t.Name+"_quantised"), q.kind, t.Dims, raw))
	scale, zero := q.parameters(t.Name, s)
	back := q.fresh(t.Name + "_dequantised")
	q.add("DequantizeLinear", []string{ints, scale, zero}, back)
	q.integers[key], q.scales[back] = back, []float32{s.scale}
	q.result.Weights++
	return back, nil
}

// weights quantizes weights to 8-bit integers symmetric about 0, with a scale
// for each channel along an axis.
func (q *quantizer) weights(t *onnx.Tensor, axis int) (string, error) {
	key := fmt.Sprintf("%d\x00%s", axis, t.Name)
	if integer, ok := q.integers[key]; ok {
		return integer, nil
	}
	x, err := numbers(t)
	if err != nil {
		return "", err
	}
	count, inner := int64(1), int64(len(x))
	var dims []int64
	if axis >= 0 {
		count, inner = t.Dims[axis], 1
		for _, d := range t.Dims[axis+1:] {
			inner *= d
		}
		dims = []int64{count}
	}
	scales := make([]float32, count)
	for i, v := range x {
		c := int64(i) / inner % count
		scales[c] = max(scales[c], float32(math.Abs(float64(v))))
	}
	for c := range scales {
		if scales[c] /= math.MaxInt8; scales[c] < math.SmallestNonzeroFloat32*(1<<23) {
			scales[c] = 1
		}
	}
	ints := make([]int8, len(x))
	for i, v := range x {
		ints[i] = int8(max(-math.MaxInt8, min(math.MaxInt8, math.RoundToEven(float64(v/scales[int64(i)/inner%count])))))
	}
	name := q.to.Constant(onnx.Int8s(q.fresh(t.Name+"_int8"), t.Dims, ints))
	by := q.to.Constant(onnx.Floats(q.fresh(t.Name+"_scale"), dims, scales))
	zero := q.to.Constant(onnx.Int8s(q.fresh(t.Name+"_zero"), dims, make([]int8, count)))
	back := q.fresh(t.Name + "_dequantised")
	var attributes []onnx.Attribute
	if axis >= 0 {
		attributes = append(attributes, onnx.Int("axis", int64(axis)))
	}
	q.add("DequantizeLinear", []string{name, by, zero}, back, attributes...)
	q.integers[key], q.scales[back] = back, scales
	q.result.Weights++
	return back, nil
}

// bias quantizes the third input of a product to 32-bit integers with the scale
// of its sums: that of the input times that of the weights.
func (q *quantizer) bias(n *onnx.Node, weight int) error {
	if weight != 1 || len(n.Inputs) < 3 || q.constants[n.Inputs[2]] == nil {
		return nil
	}
	t := q.constants[n.Inputs[2]]
	x, err := numbers(t)
	if err != nil {
		return err
	}
	in, by := q.scales[n.Inputs[0]], q.scales[n.Inputs[1]]
	if len(in) != 1 || len(by) != 1 && len(by) != len(x) {
		n.Inputs[2], err = q.constant(t)
		return err
	}
	scales := make([]float32, len(by))
	for i := range by {
		scales[i] = in[0] * by[i]
	}
	var raw []byte
	for i, v := range x {
		s := scales[i%len(scales)]
		raw = binary.LittleEndian.AppendUint32(raw, uint32(int32(max(math.MinInt32, min(math.MaxInt32, math.RoundToEven(float64(v)/float64(s)))))))
	}
	var dims []int64
	var attributes []onnx.Attribute
	if len(scales) > 1 {
		dims, attributes = []int64{int64(len(scales))}, []onnx.Attribute{onnx.Int("axis", int64(len(t.Dims)-1))}
	}
	ints := q.to.Constant(onnx.RawTensor(q.fresh(t.Name+"_int32"), onnx.INT32, t.Dims, raw))
	scale := q.to.Constant(onnx.Floats(q.fresh(t.Name+"_scale"), dims, scales))
	zero := q.to.Constant(onnx.RawTensor(q.fresh(t.Name+"_zero"), onnx.INT32, dims, make([]byte, 4*len(scales))))
	back := q.fresh(t.Name + "_dequantised")
	q.add("DequantizeLinear", []string{ints, scale, zero}, back, attributes...)
	n.Inputs[2] = back
	q.result.Weights++
	return nil
}
