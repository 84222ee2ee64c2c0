package qdq

import (
	"encoding/binary"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// pads merges a Pad by the lowest number, as converters of older formats write
// it, into the MaxPool after it: MaxPool's own padding is below every number.
// Otherwise that number would determine the range of the input, and nothing
// else would be left of it in integers.
func (q *quantizer) pads() {
	drop := make(map[int]bool)
	put := make(map[int]onnx.Node)
	for i := range q.g.Nodes {
		pads, ok := q.border(&q.g.Nodes[i])
		if !ok || !q.only(i) {
			continue
		}
		pool, _ := q.next(i)
		if n, ok := bordered(&q.g.Nodes[pool], pads); ok {
			n.Inputs = []string{q.g.Nodes[i].Inputs[0]}
			put[pool], drop[i] = n, true
		}
	}
	q.replace(put, drop)
}

// border returns the widths of a Pad by the lowest number: for each dimension
// before it, then after it.
func (q *quantizer) border(n *onnx.Node) (pads []int64, ok bool) {
	if n.Op != "Pad" || n.Domain != "" && n.Domain != "ai.onnx" || len(n.Inputs) != 3 {
		return nil, false
	}
	for _, a := range n.Attributes {
		if a.Name == "mode" && string(a.String) != "constant" {
			return nil, false
		}
	}
	value, list := q.constants[n.Inputs[2]], q.constants[n.Inputs[1]]
	if value == nil || list == nil || value.DType != onnx.FLOAT || list.DType != onnx.INT64 {
		return nil, false
	}
	v, err := value.Bytes()
	if err != nil || len(v) != 4 || !(math.Float32frombits(binary.LittleEndian.Uint32(v)) <= -math.MaxFloat32) {
		return nil, false
	}
	raw, err := list.Bytes()
	if err != nil {
		return nil, false
	}
	for i := range len(raw) / 8 {
		pads = append(pads, int64(binary.LittleEndian.Uint64(raw[8*i:])))
	}
	return pads, true
}

// bordered returns a MaxPool with the border added, if it had none: only in its
// spatial dimensions, and narrower than its kernel, so that every window has an
// element.
func bordered(n *onnx.Node, pads []int64) (onnx.Node, bool) {
	if n.Op != "MaxPool" || n.Domain != "" && n.Domain != "ai.onnx" || len(n.Outputs) != 1 {
		return onnx.Node{}, false
	}
	out := *n
	out.Attributes = nil
	var kernel []int64
	for _, a := range n.Attributes {
		switch a.Name {
		case "kernel_shape":
			kernel = a.Ints
		case "pads":
			if slices.ContainsFunc(a.Ints, func(v int64) bool { return v != 0 }) {
				return out, false
			}
			continue
		case "auto_pad":
			if s := string(a.String); s != "NOTSET" && s != "VALID" && s != "" {
				return out, false
			}
			continue
		case "dilations":
			if slices.ContainsFunc(a.Ints, func(v int64) bool { return v != 1 }) {
				return out, false
			}
		case "ceil_mode":
			if a.Int != 0 {
				return out, false
			}
		}
		out.Attributes = append(out.Attributes, a)
	}
	rank := len(kernel) + 2
	if len(kernel) == 0 || len(pads) != 2*rank {
		return out, false
	}
	border := make([]int64, 0, 2*len(kernel))
	for side := range 2 {
		for i, v := range pads[side*rank : (side+1)*rank] {
			switch {
			case i < 2 && v != 0, i >= 2 && (v < 0 || v >= kernel[i-2]):
				return out, false
			case i >= 2:
				border = append(border, v)
			}
		}
	}
	out.Attributes = append(out.Attributes, onnx.IntList("pads", border...))
	return out, true
}
