// Package op holds the operators of ONNX that package onnx/engine runs.
//
// [Find] gives the kernel of an operator, or says why there is none. The
// kernels stand in packages by what they work on, each of which gives a table
// of its operators: arith, product, image, norm, recur, quantize, control and
// move. Here the tables are put together, and what is not there is refused by
// name.
//
// The definitions are those of docs/Operators.md of ONNX 1.22.
package op

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/array"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/layers"
	"mm-abi.org/mm/onnx/engine/product"
)

// microsoft are operators that ONNX Runtime had before ai.onnx, or has for more
// types than an old opset of it, with the same meaning.
var microsoft = []string{"DequantizeLinear", "Gelu", "QuantizeLinear"}

// Find gives the kernel of a node in a graph of the given opset. What is not
// claimed is an error that names it.
func Find(n *onnx.Node, opset int64) (kernel.Func, error) {
	if n.Domain == "com.microsoft" && slices.Contains(microsoft, n.Op) {
		opset = max(opset, table[n.Op].Since) // they are the same for any opset
	} else if n.Domain != "" && n.Domain != "ai.onnx" {
		return nil, fmt.Errorf("operator %s of domain %q is not supported", n.Op, n.Domain)
	}
	o, ok := table[n.Op]
	if !ok {
		return nil, fmt.Errorf("operator %s is not supported", n.Op)
	}
	if opset < o.Since {
		return nil, fmt.Errorf("operator %s of opset %d is not supported, from %d on it is", n.Op, opset, o.Since)
	}
	if len(n.Inputs) < o.Min || len(n.Inputs) > o.Max {
		return nil, fmt.Errorf("operator %s with %d inputs, it has %d to %d", n.Op, len(n.Inputs), o.Min, o.Max)
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
				return fmt.Errorf("input %d is left out", i)
			}
		}
		return run(c)
	}, nil
}

// Names lists the operators, sorted.
func Names() []string {
	var out []string
	for name := range table {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// optional reports inputs below an operator's least number that may be empty.
func optional(name string, i int) bool { return name == "Clip" && i > 0 || name == "Loop" }

// unclaimed names what a node asks of its operator that is not there.
func unclaimed(n *onnx.Node) string {
	has := func(name string) *onnx.Attribute {
		for i := range n.Attributes {
			if n.Attributes[i].Name == name {
				return &n.Attributes[i]
			}
		}
		return nil
	}
	str := func(name string) string {
		if a := has(name); a != nil {
			return string(a.String)
		}
		return ""
	}
	switch n.Op {
	case "Constant":
		if has("value_string") != nil || has("value_strings") != nil || has("sparse_value") != nil {
			return "strings or a sparse tensor"
		}
	case "Resize":
		if m := str("mode"); m == "cubic" {
			return "mode cubic"
		}
		if a := has("antialias"); a != nil && a.Int != 0 {
			return "antialias"
		}
		if str("coordinate_transformation_mode") == "tf_crop_and_resize" {
			return "tf_crop_and_resize"
		}
	case "LSTM", "GRU", "RNN":
		if has("activations") != nil || has("clip") != nil {
			return "activations or a clip of its own"
		}
	case "Cast", "CastLike", "ConstantOfShape", "EyeLike":
		if a := has("to"); a != nil && array.Size(onnx.DType(a.Int)) == 0 {
			return "to " + onnx.DType(a.Int).String()
		}
	case "QuantizeLinear", "DequantizeLinear":
		if a := has("block_size"); a != nil && a.Int != 0 {
			return "blocks"
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

// Prepare packs the weights that a node's kernel reads in an order of its own.
// It reports the inputs whose elements no run will look at. What it cannot
// judge it leaves to the run.
func Prepare(c *kernel.Call) (packed []int, err error) {
	switch c.Node.Op {
	case "MatMul", "Gemm":
		return product.Prepare(c)
	case "LSTM", "GRU", "RNN":
		return layers.Prepare(c)
	}
	return nil, nil
}
