package compile

import (
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/qdq"
)

// row is the number of channels in a row of the HTP.
const row = 32

// turn transposes products whose first factor is a constant, A·B to (Bᵀ·Aᵀ)ᵀ, if
// the rows of A do not fill those of the HTP. Qualcomm's compiler pads such rows
// with uninitialized memory, so that equal models gave different bytes; a constant
// second factor is packed as complete weights.
func turn(f *qdq.Frozen) error {
	g := &f.Model.Graph
	constants, shapes := make(map[string]*onnx.Tensor), make(map[string]onnx.Value)
	for i := range g.Initializers {
		constants[g.Initializers[i].Name] = &g.Initializers[i]
	}
	for _, v := range slices.Concat(g.Inputs, g.Values, g.Outputs) {
		shapes[v.Name] = v
	}
	var nodes []onnx.Node
	var turned []onnx.Tensor
	for _, n := range g.Nodes {
		a, ok := uneven(n, constants)
		if !ok || len(shapes[n.Inputs[1]].Type.Dims) < 2 {
			nodes = append(nodes, n)
			continue
		}
		b, y := shapes[n.Inputs[1]], shapes[n.Outputs[0]]
		first, product := flipped(b, y.Name+".first"), flipped(y, y.Name+".product")
		second, err := transposed(a, y.Name+".second")
		if err != nil {
			return err
		}
		turned, g.Values = append(turned, second), append(g.Values, first, product)
		f.Ranges[first.Name], f.Ranges[product.Name] = f.Ranges[b.Name], f.Ranges[y.Name]
		nodes = append(nodes, transpose(b, first.Name),
			onnx.Node{Name: n.Name, Op: n.Op, Inputs: []string{first.Name, second.Name}, Outputs: []string{product.Name}}, transpose(product, y.Name))
	}
	read := make(map[string]bool)
	for _, n := range nodes {
		for _, name := range n.Inputs {
			read[name] = true
		}
	}
	g.Nodes = nodes
	g.Initializers = slices.DeleteFunc(append(g.Initializers, turned...), func(t onnx.Tensor) bool { return !read[t.Name] })
	return nil
}

// uneven returns the first factor of a product if it is a constant whose rows do
// not fill the HTP's.
func uneven(n onnx.Node, constants map[string]*onnx.Tensor) (*onnx.Tensor, bool) {
	if n.Op != "MatMul" || n.Domain != "" && n.Domain != "ai.onnx" || len(n.Inputs) != 2 {
		return nil, false
	}
	a := constants[n.Inputs[0]]
	if a == nil || a.DType != onnx.FLOAT || a.External != nil || len(a.Dims) < 2 {
		return nil, false
	}
	return a, a.Dims[len(a.Dims)-1]%row != 0
}

// transposed returns a constant with its last two axes exchanged.
func transposed(a *onnx.Tensor, name string) (onnx.Tensor, error) {
	raw, err := a.Bytes()
	if err != nil {
		return onnx.Tensor{}, err
	}
	dims := slices.Clone(a.Dims)
	n := len(dims)
	rows, columns := int(dims[n-2]), int(dims[n-1])
	dims[n-2], dims[n-1] = dims[n-1], dims[n-2]
	out := make([]byte, 0, len(raw))
	for block := 0; block < len(raw); block += 4 * rows * columns {
		for c := range columns {
			for r := range rows {
				at := block + 4*(r*columns+c)
				out = append(out, raw[at:at+4]...)
			}
		}
	}
	return onnx.RawTensor(name, a.DType, dims, out), nil
}

// flipped returns a value with its last two axes exchanged.
func flipped(v onnx.Value, name string) onnx.Value {
	v.Name, v.Type.Dims = name, slices.Clone(v.Type.Dims)
	n := len(v.Type.Dims)
	v.Type.Dims[n-2], v.Type.Dims[n-1] = v.Type.Dims[n-1], v.Type.Dims[n-2]
	return v
}

// transpose exchanges the last two axes of a value.
func transpose(from onnx.Value, to string) onnx.Node {
	axes := make([]int64, len(from.Type.Dims))
	for i := range axes {
		axes[i] = int64(i)
	}
	n := len(axes)
	axes[n-2], axes[n-1] = axes[n-1], axes[n-2]
	return onnx.Node{Name: from.Name + ".turned", Op: "Transpose", Inputs: []string{from.Name}, Outputs: []string{to}, Attributes: []onnx.Attribute{onnx.IntList("perm", axes...)}}
}
