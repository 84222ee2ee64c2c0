package engine

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/array"
	"mm-abi.org/mm/onnx/engine/op"
)

// Claims says what of a sound model there is no kernel for, each once: nil when
// Compile will not refuse it by name. The weights are not looked at, so that a
// model of any size costs as much as its structure. Compile may still find a
// shape that it cannot compute with.
func Claims(m *onnx.Model) error {
	c := &claims{seen: make(map[string]bool), opset: opsetOf(m)}
	c.add(supported(m))
	c.graph(&m.Graph)
	return errors.Join(c.err...)
}

// supported refuses what a model is made of besides nodes.
func supported(m *onnx.Model) error {
	if len(m.Functions) > 0 {
		return errors.New("functions of the model's own are not supported")
	}
	if len(m.Graph.Sparse) > 0 {
		return errors.New("sparse constants are not supported")
	}
	for _, v := range m.Inputs() {
		if v.Type.Kind != onnx.TensorKind || array.Size(v.Type.DType) == 0 {
			return fmt.Errorf("input %q: what is no tensor of numbers is not supported", v.Name)
		}
	}
	return nil
}

// opsetOf is the version of ai.onnx that a model imports.
func opsetOf(m *onnx.Model) int64 {
	version := int64(0)
	for _, o := range m.Opsets {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			version = o.Version
		}
	}
	return version
}

// claims goes through the nodes that results need.
type claims struct {
	opset int64
	err   []error
	seen  map[string]bool
}

func (c *claims) add(err error) {
	if err != nil && !c.seen[err.Error()] {
		c.seen[err.Error()] = true
		c.err = append(c.err, err)
	}
}

func (c *claims) graph(g *onnx.Graph) {
	for i := range g.Initializers {
		if t := &g.Initializers[i]; array.Size(t.DType) == 0 {
			c.add(fmt.Errorf("constant %q: tensors of %s are not supported", t.Name, t.DType))
		}
	}
	for _, i := range needed(g) {
		n := &g.Nodes[i]
		_, err := op.Find(n, c.opset)
		c.add(err)
		for _, a := range n.Attributes {
			if a.Graph != nil {
				c.graph(a.Graph)
			}
		}
	}
}
