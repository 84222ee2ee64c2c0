package openvino

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

func float(x float32) []byte { return export.Float32s([]float32{x}) }

// area returns the attributes of a sliding window.
func area(n *lower.Node) []string {
	after := make([]int, len(n.After))
	for i, a := range n.After {
		after[i] = max(0, a)
	}
	return []string{"strides", list(n.Strides), "pads_begin", list(n.Before), "pads_end", list(after), "auto_pad", "explicit"}
}

// conv writes a convolution and its bias. Weights of groups have a dimension of
// groups in front.
func (w *writer) conv(n *lower.Node) (*result, error) {
	kind, shape := "Convolution", n.In[1].Shape
	if n.Groups > 1 {
		kind, shape = "GroupConvolution", append([]int{n.Groups, shape[0] / n.Groups}, shape[1:]...)
	}
	data := append([]string{"dilations", list(n.Dilations)}, area(n)...)
	if n.Op == lower.ConvTranspose {
		kind += "BackpropData"
		more := make([]int, len(n.After))
		for i, a := range n.After {
			more[i] = max(0, -a)
		}
		data = append(data, "output_padding", list(more))
	}
	out := n.Out.Shape
	r := w.add(kind, "opset1", f32, out, []*result{w.value(n.In[0]), w.weight(n, n.In[1], shape)}, data...)
	if len(n.In) > 2 {
		each := slices.Repeat([]int{1}, len(out))
		each[1] = out[1]
		r = w.both("Add", f32, r, w.reshaped(n.In[2], each))
	}
	return r, nil
}

// reshaped returns a value in another shape, which a constant is written in.
func (w *writer) reshaped(v *lower.Value, shape []int) *result {
	if v.Const != nil && v.Type == lower.Float32 {
		return w.raw(f32, shape, export.Float32s(v.Const.Floats))
	}
	return w.reshape(w.value(v), shape)
}

// pool writes a pool.
func (w *writer) pool(n *lower.Node) *result {
	data := append([]string{"kernel", list(n.Kernel), "rounding_type", "floor"}, area(n)...)
	x := w.value(n.In[0])
	if n.Op == lower.AvgPool {
		return w.add("AvgPool", "opset1", f32, n.Out.Shape, []*result{x}, append(data, "exclude-pad", fmt.Sprint(!n.Counted))...)
	}
	if list(n.Dilations) == list(slices.Repeat([]int{1}, len(n.Dilations))) {
		return w.add("MaxPool", "opset1", f32, n.Out.Shape, []*result{x}, data...)
	}
	r := w.add("MaxPool", "opset8", f32, n.Out.Shape, []*result{x}, append(data, "dilations", list(n.Dilations), "index_element_type", "i64", "axis", "0")...)
	l := w.layers[r.layer]
	l.out = append(l.out, &result{layer: r.layer, port: r.port + 1, elem: i64, shape: r.shape})
	return r
}

// shaped writes an operator on shapes.
func (w *writer) shaped(n *lower.Node, x *result) (*result, error) {
	shape := n.Out.Shape
	switch n.Op {
	case lower.Reshape:
		return w.reshape(x, shape), nil
	case lower.Transpose:
		return w.add("Transpose", "opset1", x.elem, shape, []*result{x, w.ints(n.Perm...)}), nil
	case lower.Concat:
		return w.add("Concat", "opset1", elements[n.Out.Type], shape, w.values(n.In), "axis", fmt.Sprint(n.Axis)), nil
	case lower.Slice:
		return w.slice(n, x), nil
	case lower.Tile:
		repeats := make([]int, len(shape))
		for i, d := range shape {
			repeats[i] = d / max(x.shape[i], 1)
		}
		return w.add("Tile", "opset1", x.elem, shape, []*result{x, w.ints(repeats...)}), nil
	case lower.Pad:
		in := []*result{x, w.ints(n.Before...), w.ints(n.After...)}
		if n.Mode == "constant" {
			if x.elem != f32 {
				return nil, fmt.Errorf("pads of %s are not supported", x.elem)
			}
			in = append(in, w.number(n.Low))
		}
		return w.add("Pad", "opset12", x.elem, shape, in, "pad_mode", n.Mode), nil
	case lower.Resize:
		corner, nearest, _ := strings.Cut(n.Corner, " ")
		mode := map[string]string{"nearest": "nearest", "linear": "linear_onnx"}[n.Mode]
		if mode == "" || !slices.Contains([]string{"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"}, corner) {
			return nil, fmt.Errorf("resize in mode %s with coordinates %s is not supported", n.Mode, corner)
		}
		if nearest == "" {
			nearest = "round_prefer_floor"
		}
		return w.add("Interpolate", "opset11", x.elem, shape, []*result{x, w.ints(shape[2:]...), w.ints(2, 3)}, "mode", mode, "shape_calculation_mode", "sizes",
			"coordinate_transformation_mode", corner, "nearest_mode", nearest, "antialias", "false", "pads_begin", "0", "pads_end", "0", "cube_coeff", "-0.75"), nil
	}
	return nil, fmt.Errorf("unsupported operator")
}

// slice writes the dimensions that a slice changes.
func (w *writer) slice(n *lower.Node, x *result) *result {
	var starts, stops, steps, axes []int
	for i, step := range n.Steps {
		if n.Starts[i] == 0 && step == 1 && n.Out.Shape[i] == x.shape[i] {
			continue
		}
		stop := n.Starts[i] + n.Out.Shape[i]*step
		if step < 0 && stop < 0 {
			stop = math.MinInt32
		}
		starts, stops, steps, axes = append(starts, n.Starts[i]), append(stops, stop), append(steps, step), append(axes, i)
	}
	if len(axes) == 0 {
		return w.reshape(x, x.shape)
	}
	return w.add("Slice", "opset8", x.elem, n.Out.Shape, []*result{x, w.ints(starts...), w.ints(stops...), w.ints(steps...), w.ints(axes...)})
}
