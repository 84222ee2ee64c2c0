package onnx

import (
	"encoding/binary"
	"math"
)

// New returns an empty model of IR version 8 and the given opset of ai.onnx, to
// be filled with nodes.
func New(graph string, opset int64) *Model {
	return &Model{IRVersion: 8, Producer: "mm", Opsets: []Opset{{"", opset}}, Graph: Graph{Name: graph}}
}

// TensorValue returns an input or output: a tensor of the given dimensions,
// each an int, an int64 or, for a named dimension, a string. "" is an unknown
// dimension.
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
			panic("onnx: dimension is not an int, an int64 or a string")
		}
	}
	return Value{Name: name, Type: t}
}

// Floats returns a float32 tensor. It panics if the number of values is not the
// product of the dimensions, like Ints and Int8s.
func Floats(name string, dims []int64, values []float32) Tensor {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return rawTensor(name, FLOAT, dims, raw)
}

// Ints returns an int64 tensor, the type of shapes and axes.
func Ints(name string, dims []int64, values []int64) Tensor {
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return rawTensor(name, INT64, dims, raw)
}

// Int8s returns an int8 tensor, the type of quantized weights.
func Int8s(name string, dims []int64, values []int8) Tensor {
	raw := make([]byte, len(values))
	for i, v := range values {
		raw[i] = byte(v)
	}
	return rawTensor(name, INT8, dims, raw)
}

// RawTensor returns a tensor of any type with the elements in raw, little
// endian as in onnx.proto. It panics if their number is not the product of the
// dimensions.
func RawTensor(name string, d DType, dims []int64, raw []byte) Tensor {
	return rawTensor(name, d, dims, raw)
}

func rawTensor(name string, d DType, dims []int64, raw []byte) Tensor {
	n, ok := elements(dims)
	size, fits := d.rawSize(n)
	if !ok || !fits || size != int64(len(raw)) {
		panic("onnx: number of values is not the product of the dimensions")
	}
	return Tensor{Name: name, DType: d, Dims: dims, Raw: raw, fields: 1}
}

// Float returns an attribute with one float.
func Float(name string, v float32) Attribute { return Attribute{Name: name, Type: AttrFloat, Float: v} }

// Int returns an attribute with one integer.
func Int(name string, v int64) Attribute { return Attribute{Name: name, Type: AttrInt, Int: v} }

// IntList returns an attribute with a list of integers.
func IntList(name string, v ...int64) Attribute {
	return Attribute{Name: name, Type: AttrInts, Ints: v}
}

// String returns an attribute with a string.
func String(name, v string) Attribute {
	return Attribute{Name: name, Type: AttrString, String: []byte(v)}
}

// Add appends a node and returns the name of its first output, so that calls
// follow the data flow. The node is named after its output.
func (g *Graph) Add(op string, inputs []string, output string, attributes ...Attribute) string {
	g.Nodes = append(g.Nodes, Node{Name: output, Op: op, Inputs: inputs, Outputs: []string{output}, Attributes: attributes})
	return output
}

// Constant appends an initializer and returns its name.
func (g *Graph) Constant(t Tensor) string {
	g.Initializers = append(g.Initializers, t)
	return t.Name
}
