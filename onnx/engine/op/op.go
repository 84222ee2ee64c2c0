// Package op is the registry of the ONNX operators that package onnx/engine
// runs.
//
// [Find] returns the kernel of an operator, or an error that names an
// unsupported one. The packages arith, product, image and layers each return a
// table of their operators; this package merges them with those that move elements.
//
// The definitions are those of docs/Operators.md of ONNX 1.22.
package op

import (
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/layers"
	"mm-abi.org/mm/onnx/engine/product"
)

// microsoft lists operators that ONNX Runtime had before ai.onnx, or supports
// for more types than an old opset of it, with the same meaning.
var microsoft = []string{"DequantizeLinear", "Gelu", "QuantizeLinear"}

// Check returns an error that names an unsupported operator, or a required input
// that a node of a model omits.
func Check(n *onnx.Node, opset int64) (kernel.Func, error) {
	run, err := Find(n, opset)
	if err != nil {
		return nil, err
	}
	operators := table()
	if n.Domain == "com.microsoft" {
		operators = contributed()
	}
	for i := range operators[n.Op].Min {
		if n.Inputs[i] == "" && !optional(n.Op, i) {
			return nil, fmt.Errorf("operator %s without input %d, which is required", n.Op, i)
		}
	}
	return run, nil
}

// Find returns the kernel of a node in a graph of the given opset. An
// unsupported operator is an error that names it.
func Find(n *onnx.Node, opset int64) (kernel.Func, error) {
	operators, of := table(), ""
	switch n.Domain {
	case "", "ai.onnx":
	case "com.microsoft":
		operators, of = contributed(), fmt.Sprintf(" of domain %q", n.Domain)
	default:
		operators, of = nil, fmt.Sprintf(" of domain %q", n.Domain)
	}
	o, ok := operators[n.Op]
	if !ok {
		return nil, fmt.Errorf("operator %s%s is not supported", n.Op, of)
	}
	if opset < o.Since {
		return nil, fmt.Errorf("operator %s of opset %d is not supported, want opset %d or later", n.Op, opset, o.Since)
	}
	if len(n.Inputs) < o.Min || len(n.Inputs) > o.Max {
		return nil, fmt.Errorf("operator %s with %d inputs, want %d to %d", n.Op, len(n.Inputs), o.Min, o.Max)
	}
	if why := unclaimed(n); why != "" {
		return nil, fmt.Errorf("operator %s with %s is not supported", n.Op, why)
	}
	run := o.Run
	if !o.Raw {
		run = kernel.Widened(run)
	}
	return func(c *kernel.Call) error {
		for i := range o.Min {
			if c.In[i] == nil && !optional(n.Op, i) {
				return fmt.Errorf("missing input %d", i)
			}
		}
		return run(c)
	}, nil
}

// Names returns the sorted names of the operators of ai.onnx.
func Names() []string { return slices.Sorted(maps.Keys(table())) }

// Contributed returns the sorted names of the operators of com.microsoft.
func Contributed() []string { return slices.Sorted(maps.Keys(contributed())) }

// optional reports whether an input below an operator's minimum number may be
// empty.
func optional(name string, i int) bool {
	switch name {
	case "Clip":
		return i > 0
	case "GroupQueryAttention":
		return i > 0 && i < 5
	case "DynamicQuantizeLSTM":
		return i > 2 && i < 8
	}
	return name == "Loop"
}

// unclaimed returns the unsupported feature that a node uses, or "".
func unclaimed(n *onnx.Node) string {
	has := func(name string) *onnx.Attribute {
		for i := range n.Attributes {
			if n.Attributes[i].Name == name {
				return &n.Attributes[i]
			}
		}
		return nil
	}
	switch n.Op {
	case "Constant":
		if has("value_string") != nil || has("value_strings") != nil || has("sparse_value") != nil {
			return "strings or a sparse tensor"
		}
	case "LSTM", "GRU", "RNN":
		if has("activations") != nil || has("clip") != nil {
			return "custom activations or a clip"
		}
	case "Cast", "CastLike", "ConstantOfShape", "EyeLike":
		if a := has("to"); a != nil && kernel.Size(onnx.DType(a.Int)) == 0 {
			return "to " + onnx.DType(a.Int).String()
		}
	case "MaxPool":
		if a := has("storage_order"); a != nil && a.Int != 0 {
			return "column-major indices"
		}
	case "Dropout", "BatchNormalization":
		if a := has("training_mode"); a != nil && a.Int != 0 {
			return "training mode"
		}
	}
	return ""
}

// Prepare packs the weights that a node's kernel reads in a different order. It
// returns the inputs whose elements no run reads afterwards. Invalid nodes are
// left for run time.
func Prepare(c *kernel.Call) (packed []int, err error) {
	switch c.Node.Op {
	case "MatMul", "Gemm":
		return product.Prepare(c)
	case "LSTM", "GRU", "RNN":
		return layers.Prepare(c)
	}
	return nil, nil
}
