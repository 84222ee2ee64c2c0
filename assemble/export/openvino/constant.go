package openvino

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// maxShared is the size in bytes up to which equal constants are written once.
const maxShared = 256

// raw adds a constant.
func (w *writer) raw(e elem, shape []int, data []byte) *result {
	key := ""
	if len(data) <= maxShared {
		key = fmt.Sprintf("%s %v %s", e, shape, data)
		if r := w.shared[key]; r != nil {
			return r
		}
	}
	at := w.bin.add(data)
	r := w.add("Const", "opset1", e, shape, nil, "element_type", string(e), "shape", list(shape), "offset", strconv.Itoa(at), "size", strconv.Itoa(len(data)))
	if key != "" {
		w.shared[key] = r
	}
	return r
}

// ints adds a constant list of integers.
func (w *writer) ints(x ...int) *result {
	data := make([]byte, 0, 8*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint64(data, uint64(v))
	}
	return w.raw(i64, []int{len(x)}, data)
}

// integer adds a constant integer.
func (w *writer) integer(x int) *result {
	return w.raw(i64, nil, binary.LittleEndian.AppendUint64(nil, uint64(x)))
}

// number adds a constant number.
func (w *writer) number(x float32) *result { return w.raw(f32, nil, export.Float32s([]float32{x})) }

// constant adds a constant of the graph.
func (w *writer) constant(v *lower.Value) *result {
	if v.Type == lower.Float32 {
		return w.raw(f32, v.Shape, export.Float32s(v.Const.Floats))
	}
	var data []byte
	for _, x := range v.Const.Ints {
		switch v.Type {
		case lower.Int32:
			data = binary.LittleEndian.AppendUint32(data, uint32(x))
		case lower.Bool:
			data = append(data, byte(x))
		default:
			data = binary.LittleEndian.AppendUint64(data, uint64(x))
		}
	}
	return w.raw(elements[v.Type], v.Shape, data)
}

// weight adds the weights of a node in the precision, in a shape with the same
// order of elements. Nodes may share them.
func (w *writer) weight(n *lower.Node, v *lower.Value, shape []int) *result {
	key := packed{v, list(shape)}
	if w.packed[key] == nil {
		w.packed[key] = w.pack(n, v, shape)
	}
	return w.packed[key]
}

// packed identifies weights in a shape; that of weights in four bits is empty.
type packed struct {
	v     *lower.Value
	shape string
}

func (w *writer) pack(n *lower.Node, v *lower.Value, shape []int) *result {
	narrow, axis := export.Weights(n)
	if narrow != v || v.Const == nil || len(v.Const.Floats) < export.MinWeights || w.precision == fp32 {
		r := w.value(v)
		if !equal(r.shape, shape) {
			r = w.reshape(r, shape)
		}
		return r
	}
	if w.precision == fp16 {
		data, _ := export.Float16s(v.Const.Floats)
		return w.widen(w.raw(f16, shape, data), true)
	}
	data, scales := export.Int8s(v.Const.Floats, v.Shape, axis)
	wide := w.widen(w.raw(i8, shape, data), false)
	return w.add("Multiply", "opset1", f32, shape, []*result{wide, w.raw(f32, scaled(v.Shape, shape, axis), export.Float32s(scales))}, "auto_broadcast", "numpy")
}

// scaled returns the shape of scales along an axis of a shape, in a shape whose first
// dimension may be a number of groups.
func scaled(old, shape []int, axis int) []int {
	out := make([]int, len(shape))
	for i := range out {
		out[i] = 1
	}
	at := axis + len(shape) - len(old)
	if out[at] = shape[at]; len(shape) > len(old) && axis == 0 {
		out[0] = shape[0]
	}
	return out
}

// widen converts narrow weights to 32-bit floats.
func (w *writer) widen(r *result, keep bool) *result {
	out := w.add("Convert", "opset1", f32, r.shape, []*result{r}, "destination_type", string(f32))
	w.layers[out.layer].decompress = keep
	return out
}

// grouped adds the weights of a linear layer in four bits, as outputs × inputs.
func (w *writer) grouped(n *lower.Node) *result {
	v := n.In[1]
	q, ok := export.Int4s(n)
	if w.precision != int4s || !ok {
		return nil
	}
	if r := w.packed[packed{v, ""}]; r != nil {
		return r
	}
	out, in := v.Shape[0], v.Shape[1]
	if !n.TransposeB {
		out, in = in, out
	}
	shape := []int{out, in / export.Int4Group, export.Int4Group}
	wide := w.widen(w.raw(i4, shape, q.Data), false)
	product := w.add("Multiply", "opset1", f32, shape, []*result{wide, w.raw(f32, []int{out, in / export.Int4Group, 1}, export.Float32s(q.Scales))}, "auto_broadcast", "numpy")
	w.packed[packed{v, ""}] = w.reshape(product, []int{out, in})
	return w.packed[packed{v, ""}]
}
