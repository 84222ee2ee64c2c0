package engine

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op"
)

// Claims returns an error that lists everything in a valid model that the
// engine does not support; nil if Compile will not refuse it by name. It does
// not read the weights, so the cost depends only on the size of the structure.
// Compile may still find a shape that it cannot compute.
func Claims(m *onnx.Model) error {
	c := &claims{seen: make(map[string]bool), opset: opsetOf(m)}
	c.add(supported(m))
	g, err := inlined(m, defaultNodes)
	if c.add(err); err == nil {
		c.graph(g)
	}
	return errors.Join(c.err...)
}

// supported refuses unsupported parts of a model other than nodes.
func supported(m *onnx.Model) error {
	if len(m.Graph.Sparse) > 0 {
		return errors.New("sparse constants are not supported")
	}
	for _, v := range m.Inputs() {
		if v.Type.Kind != onnx.TensorKind || kernel.Size(v.Type.DType) == 0 {
			return fmt.Errorf("input %q: only tensors of numbers are supported", v.Name)
		}
	}
	return nil
}

// opsetOf returns the version of ai.onnx that a model imports.
func opsetOf(m *onnx.Model) int64 {
	version := int64(0)
	for _, o := range m.Opsets {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			version = o.Version
		}
	}
	return version
}

// claims visits the nodes that results need.
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
		if t := &g.Initializers[i]; kernel.Size(t.DType) == 0 {
			c.add(fmt.Errorf("constant %q: tensors of %s are not supported", t.Name, t.DType))
		}
	}
	for _, i := range needed(g) {
		n := &g.Nodes[i]
		_, err := op.Check(n, c.opset)
		c.add(err)
		for _, a := range n.Attributes {
			if a.Graph != nil {
				c.graph(a.Graph)
			}
		}
	}
}
