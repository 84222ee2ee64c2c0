package onnx

import (
	"encoding/binary"
	"math"
)

// New is an empty model of IR version 8 and the given opset of ai.onnx, to be
// filled with nodes.
func New(graph string, opset int64) *Model {
	return &Model{IRVersion: 8, Producer: "mm", Opsets: []Opset{{"", opset}}, Graph: Graph{Name: graph}}
}

// TensorValue is an input or output: a tensor of the given dimensions, each
// an int, an int64 or, for a dimension with a name, a string. A "" is a
// dimension that is not known.
func TensorValue(name string, d DType, dims ...any) Value {
	t := Type{Kind: TensorKind, DType: d, Ranked: true, Dims: make([]Dim, len(dims))}
	for i, dim := range dims {
		switch v := dim.(type) {
		case int:
			t.Dims[i] = Dim{Value: int64(v)}
		case int64:
			t.Dims[i] = Dim{Value: v}
		case string:
			t.Dims[i] = Dim{Value: Unknown, Param: v}
		default:
			panic("onnx: a dimension is an int, an int64 or a string")
		}
	}
	return Value{Name: name, Type: t}
}

// Floats is a float32 tensor. It panics when the number of values is not the
// product of the dimensions, as do Ints and Int8s.
func Floats(name string, dims []int64, values []float32) Tensor {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return rawTensor(name, FLOAT, dims, raw)
}

// Ints is an int64 tensor, the type of shapes and axes.
func Ints(name string, dims []int64, values []int64) Tensor {
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return rawTensor(name, INT64, dims, raw)
}

// Int8s is an int8 tensor, the type of quantised weights.
func Int8s(name string, dims []int64, values []int8) Tensor {
	raw := make([]byte, len(values))
	for i, v := range values {
		raw[i] = byte(v)
	}
	return rawTensor(name, INT8, dims, raw)
}

// RawTensor is a tensor of any type whose elements lie in raw as onnx.proto has
// them, little endian. It panics when they are not as many as the product of
// the dimensions.
func RawTensor(name string, d DType, dims []int64, raw []byte) Tensor {
	return rawTensor(name, d, dims, raw)
}

func rawTensor(name string, d DType, dims []int64, raw []byte) Tensor {
	n, ok := elements(dims)
	size, fits := d.rawSize(n)
	if !ok || !fits || size != int64(len(raw)) {
		panic("onnx: the number of values is not the product of the dimensions")
	}
	return Tensor{Name: name, DType: d, Dims: dims, Raw: raw, fields: 1}
}

// Float is an attribute that holds one number with a fraction.
func Float(name string, v float32) Attribute { return Attribute{Name: name, Type: AttrFloat, Float: v} }

// Int is an attribute that holds one number.
func Int(name string, v int64) Attribute { return Attribute{Name: name, Type: AttrInt, Int: v} }

// IntList is an attribute that holds several numbers.
func IntList(name string, v ...int64) Attribute {
	return Attribute{Name: name, Type: AttrInts, Ints: v}
}

// String is an attribute that holds text.
func String(name, v string) Attribute {
	return Attribute{Name: name, Type: AttrString, String: []byte(v)}
}

// TensorAttr is an attribute that holds a tensor.
func TensorAttr(name string, t Tensor) Attribute {
	return Attribute{Name: name, Type: AttrTensor, Tensor: &t}
}

// Add appends a node and gives the name of its first output, so that calls
// read as the data flows. The node is named after its output.
func (g *Graph) Add(op string, inputs []string, output string, attributes ...Attribute) string {
	g.Nodes = append(g.Nodes, Node{Name: output, Op: op, Inputs: inputs, Outputs: []string{output}, Attributes: attributes})
	return output
}

// Constant appends an initializer and gives its name.
func (g *Graph) Constant(t Tensor) string {
	g.Initializers = append(g.Initializers, t)
	return t.Name
}
