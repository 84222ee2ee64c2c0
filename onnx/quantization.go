package onnx

import (
	"maps"
	"slices"
	"strings"
)

// The forms of quantization.
const (
	WeightOnly = "weights"               // integers that are converted to floats before use
	QDQ        = "QDQ"                   // QuantizeLinear and DequantizeLinear around float operators
	QOperator  = "QOperator"             // integer operators: QLinearConv, MatMulInteger, …
	Dynamic    = "DynamicQuantizeLinear" // scales of activations are computed at run time
	NBits      = "MatMulNBits"           // blocks of few bits
)

// Quantization describes how a model is quantized.
type Quantization struct {
	Forms       []string // empty for a float model; sorted
	Weights     []string // element types of quantized weights, sorted
	Activations []string // element types of quantized activations, sorted
	PerAxis     bool     // some scales are one per channel
}

// sets collects names.
type sets struct{ forms, weights, activations map[string]bool }

// QuantizationOf detects how m is quantized.
func QuantizationOf(m *Model) Quantization {
	constant := make(map[string]*Tensor)
	m.EachTensor(func(t *Tensor) { constant[t.Name] = t })
	m.EachNode(func(n *Node) {
		for i := range n.Attributes {
			if a := &n.Attributes[i]; n.Op == "Constant" && a.Tensor != nil && len(n.Outputs) > 0 {
				constant[n.Outputs[0]] = a.Tensor
			}
		}
	})
	delete(constant, "")
	q, s := Quantization{}, sets{make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	m.EachNode(func(n *Node) {
		at := func(i int) *Tensor {
			if i < len(n.Inputs) {
				return constant[n.Inputs[i]]
			}
			return nil
		}
		s.node(n, at)
		if n.Op == "DequantizeLinear" || n.Op == "QuantizeLinear" {
			if scale := at(1); scale != nil && scale.Elements() > 1 {
				q.PerAxis = true
			}
		}
	})
	if s.forms[QDQ] {
		delete(s.forms, WeightOnly)
	}
	if s.forms[WeightOnly] {
		m.EachNode(func(n *Node) { q.PerAxis = q.PerAxis || scaled(n, constant) })
	}
	q.Forms, q.Weights, q.Activations = slices.Sorted(maps.Keys(s.forms)), slices.Sorted(maps.Keys(s.weights)), slices.Sorted(maps.Keys(s.activations))
	return q
}

// scaled reports whether n multiplies by a constant with several elements in
// one dimension: the scales of weights that a Cast converted to floats.
func scaled(n *Node, constant map[string]*Tensor) bool {
	if n.Op != "Mul" || len(n.Inputs) != 2 {
		return false
	}
	t := constant[n.Inputs[1]]
	return t != nil && t.Elements() > 1 && slices.Contains(t.Dims, t.Elements())
}

// node reads one node.
func (s sets) node(n *Node, at func(int) *Tensor) {
	weight := func(t *Tensor) {
		if t != nil {
			s.weights[t.DType.String()] = true
		}
	}
	activation := func(zero *Tensor) {
		name := UINT8.String()
		if zero != nil {
			name = zero.DType.String()
		}
		s.activations[name] = true
	}
	switch {
	case n.Op == "QuantizeLinear":
		s.forms[QDQ] = true
		activation(at(2))
	case n.Op == "DequantizeLinear":
		if at(0) != nil {
			s.forms[WeightOnly] = true
			weight(at(0))
		}
	case n.Op == "DynamicQuantizeLinear":
		s.forms[Dynamic] = true
		activation(nil)
	case n.Op == "MatMulNBits":
		s.forms[NBits] = true
		s.weights[bitsOf(n)] = true
	case n.Op == "QLinearConv" || n.Op == "QLinearMatMul":
		s.forms[QOperator] = true
		weight(at(3))
		activation(at(2))
	case strings.HasPrefix(n.Op, "QLinear"):
		s.forms[QOperator] = true
	case n.Op == "MatMulInteger" || n.Op == "ConvInteger":
		s.forms[QOperator] = true
		weight(at(1))
	case n.Op == "Cast":
		if t := at(0); t != nil && t.Elements() > 1 && (t.DType == INT8 || t.DType == UINT8 || t.DType == INT4 || t.DType == UINT4) {
			s.forms[WeightOnly] = true
			weight(t)
		}
	}
}
