package engine

import (
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// pads fuses a Pad into the Conv or MaxPool after it if their padding is
// equivalent: by zeros, or by a value that is never the maximum.
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
		lowest = -3.4028234663852886e38 // used by some models
	}
	n := len(amounts) / 2
	if !ok || n < 3 || n > 5 || st.node.Op == "Conv" && value != 0 || st.node.Op == "MaxPool" && value > lowest {
		return
	}
	if amounts[0] != 0 || amounts[1] != 0 || amounts[n] != 0 || amounts[n+1] != 0 || slices.Min(amounts) < 0 {
		return
	}
	amount, kernel, valid := make([]int64, 2*(n-2)), []int64(nil), false
	var kept []onnx.Attribute
	for _, a := range st.node.Attributes {
		switch {
		case a.Name == "auto_pad" && string(a.String) != "NOTSET" && string(a.String) != "VALID":
			return
		case a.Name == "auto_pad":
			valid = string(a.String) == "VALID"
		case a.Name == "ceil_mode" && a.Int != 0: // the last window depends on which node pads
			return
		case a.Name == "pads":
			if len(a.Ints) != len(amount) {
				return
			}
			copy(amount, a.Ints)
		default:
			if a.Name == "kernel_shape" {
				kernel = a.Ints
			}
			kept = append(kept, a)
		}
	}
	if valid {
		clear(amount)
	}
	for i := range amount {
		amount[i] += amounts[i%(n-2)+2+i/(n-2)*n]
		// If a window contains only padding, the result differs.
		if st.node.Op == "MaxPool" && (len(kernel) != n-2 || amount[i] >= kernel[i%(n-2)]) {
			return
		}
	}
	node := *st.node
	node.Attributes = append(kept, onnx.Attribute{Name: "pads", Type: onnx.AttrInts, Ints: amount})
	st.node, st.in[0], st.fixed[0] = &node, from.in[0], from.fixed[0]
	j.dead[from] = true
}

// padding returns the constant amounts of a Pad, first all before and then all
// after, and its value.
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
		amounts = kernel.Elements[int64](j.constant[st.in[1]])
		if len(st.in) > 2 && st.in[2] >= 0 {
			if value, ok = j.scalar(st.in[2], kernel.MaxRank); !ok {
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
