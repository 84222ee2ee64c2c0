package qdq

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
)

// minOpset is the first opset whose QuantizeLinear has a scale for each
// channel, which engines need to merge pairs into integer operators.
const minOpset = 13

// steady lists the operators with the same meaning in opsets 7 and 13.
var steady = []string{
	"Abs", "Add", "AveragePool", "Ceil", "Concat", "Constant", "Conv", "ConvTranspose", "DepthToSpace", "DequantizeLinear", "Div", "Elu", "Erf", "Exp", "Expand",
	"Flatten", "Floor", "Gather", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Identity", "InstanceNormalization", "LeakyRelu", "Log", "MatMul", "MaxPool",
	"Mul", "Neg", "PRelu", "Pow", "QuantizeLinear", "ReduceMean", "Relu", "Reshape", "Reciprocal", "Shape", "Sigmoid", "SpaceToDepth", "Sqrt", "Sub", "Tanh",
	"Tile", "Transpose",
}

// raise converts a model of an older opset to one with the required pairs, if
// that changes the meaning of no operator. Operators whose syntax alone has
// changed are rewritten.
func (q *quantizer) raise() error {
	if q.opset >= minOpset {
		return nil
	}
	g := *q.g
	g.Nodes, g.Initializers = slices.Clone(q.g.Nodes), slices.Clone(q.g.Initializers)
	q.g = &g
	var other []string
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Domain != "" && n.Domain != "ai.onnx" || q.opset >= 7 && (slices.Contains(steady, n.Op) || q.written(n)) {
			continue
		}
		if !slices.Contains(other, n.Op) {
			other = append(other, n.Op)
		}
	}
	if len(other) > 0 {
		slices.Sort(other)
		return fmt.Errorf("opset %d is not supported because of %s, which changed before opset %d: export the model again, or convert it to opset %d", q.opset, strings.Join(other, ", "), minOpset, minOpset)
	}
	q.opset = minOpset
	return nil
}

// written rewrites a node for opset 13, if possible.
func (q *quantizer) written(n *onnx.Node) bool {
	attribute := func(name string) *onnx.Attribute {
		i := slices.IndexFunc(n.Attributes, func(a onnx.Attribute) bool { return a.Name == name })
		if i < 0 {
			return nil
		}
		return &n.Attributes[i]
	}
	without := func(names ...string) {
		n.Attributes = slices.DeleteFunc(slices.Clone(n.Attributes), func(a onnx.Attribute) bool { return slices.Contains(names, a.Name) })
	}
	switch n.Op {
	case "BatchNormalization": // one output and spatial mode: unchanged
		if a := attribute("spatial"); len(n.Outputs) != 1 || a != nil && a.Int == 0 {
			return false
		}
		without("spatial")
		return true
	case "Dropout": // of inference: no effect
		if len(n.Outputs) != 1 || len(n.Inputs) != 1 {
			return false
		}
		without("ratio", "is_test")
		n.Op = "Identity"
		return true
	case "Pad":
		pads, value := attribute("pads"), attribute("value")
		if q.opset >= 11 {
			return true
		}
		if pads == nil {
			return false
		}
		name := nodeName(n)
		n.Inputs = append(slices.Clone(n.Inputs), q.added(onnx.Ints(q.fresh(name+"_pads"), []int64{int64(len(pads.Ints))}, pads.Ints)))
		if value != nil && value.Float != 0 {
			raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(value.Float))
			n.Inputs = append(n.Inputs, q.added(onnx.RawTensor(q.fresh(name+"_value"), onnx.FLOAT, nil, raw)))
		}
		without("pads", "value")
		return true
	case "Softmax": // unchanged over the last of two dimensions
		a := attribute("axis")
		i := slices.IndexFunc(q.values(), func(v onnx.Value) bool { return v.Name == n.Outputs[0] })
		if i < 0 {
			return false
		}
		rank, axis := int64(len(q.values()[i].Type.Dims)), int64(1)
		if a != nil {
			axis = a.Int
		}
		if axis != rank-1 && axis != -1 {
			return false
		}
		without("axis")
		n.Attributes = append(n.Attributes, onnx.Int("axis", -1))
		return true
	}
	return false
}

func (q *quantizer) values() []onnx.Value { return slices.Concat(q.g.Values, q.g.Outputs) }

// added adds a constant to the graph.
func (q *quantizer) added(t onnx.Tensor) string {
	q.constants[t.Name] = &t
	q.g.Initializers = append(q.g.Initializers, t)
	return t.Name
}
