package qdq

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
)

// least is the first opset whose QuantizeLinear has a scale for each channel,
// which engines that join pairs to integer operators want.
const least = 13

// steady are the operators that mean the same in opset 7 and in 13.
var steady = []string{
	"Abs", "Add", "AveragePool", "Ceil", "Concat", "Constant", "Conv", "ConvTranspose", "DepthToSpace", "DequantizeLinear", "Div", "Elu", "Erf", "Exp", "Expand",
	"Flatten", "Floor", "Gather", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Identity", "InstanceNormalization", "LeakyRelu", "Log", "MatMul", "MaxPool",
	"Mul", "Neg", "PRelu", "Pow", "QuantizeLinear", "ReduceMean", "Relu", "Reshape", "Reciprocal", "Shape", "Sigmoid", "SpaceToDepth", "Sqrt", "Sub", "Tanh",
	"Tile", "Transpose",
}

// raise brings a model of an older opset to one with the pairs that are
// needed, where no operator in it means anything else there. Operators whose
// writing alone has changed are written anew.
func (q *quantiser) raise() error {
	if q.opset >= least {
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
		return fmt.Errorf("the model is of opset %d, whose %s cannot be taken to %d as they are: export it anew, or convert it to opset %d", q.opset, strings.Join(other, ", "), least, least)
	}
	q.opset = least
	return nil
}

// written writes a node as opset 13 has it, if that is possible.
func (q *quantiser) written(n *onnx.Node) bool {
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
	case "BatchNormalization": // one output and all channels alone: as now
		if a := attribute("spatial"); len(n.Outputs) != 1 || a != nil && a.Int == 0 {
			return false
		}
		without("spatial")
		return true
	case "Dropout": // of inference: nothing happens
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
	case "Softmax": // over the last of two dimensions it is the same
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

func (q *quantiser) values() []onnx.Value { return slices.Concat(q.g.Values, q.g.Outputs) }

// added takes a constant into the graph.
func (q *quantiser) added(t onnx.Tensor) string {
	q.constants[t.Name] = &t
	q.g.Initializers = append(q.g.Initializers, t)
	return t.Name
}
