package engine

import (
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/array"
)

// pads makes a Pad part of the convolution or the MaxPool after it, whose own
// padding does the same: by zeros, or by what is never the largest.
func (j *joiner) pads(st *step) {
	if j.sums || st.node.Op != "Conv" && st.node.Op != "MaxPool" || len(st.in) == 0 || st.in[0] < 0 || j.uses[st.in[0]] != 1 {
		return
	}
	from := j.maker[st.in[0]]
	if from == nil || from.node.Op != "Pad" || from.in[0] < 0 {
		return
	}
	amounts, value, ok := j.padding(from)
	lowest := -infinity
	if st.node.Op == "MaxPool" {
		lowest = -3.4028234663852886e38 // what some models write for it
	}
	n := len(amounts) / 2
	if !ok || n < 3 || n > 5 || st.node.Op == "Conv" && value != 0 || st.node.Op == "MaxPool" && value > lowest {
		return
	}
	if amounts[0] != 0 || amounts[1] != 0 || amounts[n] != 0 || amounts[n+1] != 0 || slices.Min(amounts) < 0 {
		return
	}
	own, kernel, valid := make([]int64, 2*(n-2)), []int64(nil), false
	var kept []onnx.Attribute
	for _, a := range st.node.Attributes {
		switch {
		case a.Name == "auto_pad" && string(a.String) != "NOTSET" && string(a.String) != "VALID":
			return
		case a.Name == "auto_pad":
			valid = string(a.String) == "VALID"
		case a.Name == "ceil_mode" && a.Int != 0: // where the window ends depends on whose padding it is
			return
		case a.Name == "pads":
			if len(a.Ints) != len(own) {
				return
			}
			copy(own, a.Ints)
		default:
			if a.Name == "kernel_shape" {
				kernel = a.Ints
			}
			kept = append(kept, a)
		}
	}
	if valid {
		clear(own)
	}
	for i := range own {
		own[i] += amounts[i%(n-2)+2+i/(n-2)*n]
		// A window that saw padding alone would tell whose it is.
		if st.node.Op == "MaxPool" && (len(kernel) != n-2 || own[i] >= kernel[i%(n-2)]) {
			return
		}
	}
	node := *st.node
	node.Attributes = append(kept, onnx.Attribute{Name: "pads", Type: onnx.AttrInts, Ints: own})
	st.node, st.in[0], st.fixed[0] = &node, from.in[0], from.fixed[0]
	j.dead[from] = true
}

// padding reads the constant amounts of a Pad, all those before and then all
// those after, and its value.
func (j *joiner) padding(st *step) (amounts []int64, value float32, ok bool) {
	if len(st.in) > 3 && st.in[3] >= 0 {
		return nil, 0, false
	}
	for _, a := range st.node.Attributes {
		switch {
		case a.Name == "mode" && string(a.String) != "constant":
			return nil, 0, false
		case a.Name == "pads" && j.opset < 11:
			amounts = a.Ints
		case a.Name == "value" && j.opset < 11:
			value = a.Float
		}
	}
	if j.opset >= 11 {
		if len(st.in) < 2 || st.in[1] < 0 || j.constant[st.in[1]] == nil || j.constant[st.in[1]].Type != onnx.INT64 {
			return nil, 0, false
		}
		amounts = array.Of[int64](j.constant[st.in[1]])
		if len(st.in) > 2 && st.in[2] >= 0 {
			if value, ok = j.scalar(st.in[2], array.MaxRank); !ok {
				return nil, 0, false
			}
		}
	}
	for _, n := range amounts {
		if n > 1<<20 {
			return nil, 0, false
		}
	}
	return amounts, value, len(amounts) > 0
}
