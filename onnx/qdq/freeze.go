package qdq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// FreezeOptions are the options of Freeze. The zero value is ready for use.
type FreezeOptions struct {
	Graph engine.Options
}

// Frozen is a model of fixed shapes.
type Frozen struct {
	// Model has every dimension and type; constants are initializers. It shares
	// the weights of the original model.
	Model *onnx.Model
	// Ranges are those of the float32 values of nodes and inputs.
	Ranges map[string]Range
	// Folded counts the nodes that became constants.
	Folded int
}

// Freeze fixes a model to the shapes of its inputs, at least one set, all with
// the same shapes. Branches, loops and functions in the model are refused by
// the node's name, and so is a shape that differs between sets.
func Freeze(ctx context.Context, m *onnx.Model, inputs []map[string]engine.Tensor, opt FreezeOptions) (*Frozen, error) {
	if len(inputs) == 0 {
		return nil, errors.New("freezing: no inputs")
	}
	f, err := newFreezer(m)
	if err != nil {
		return nil, fmt.Errorf("freezing: %w", err)
	}
	p, err := engine.Compile(ctx, f.observable(), opt.Graph)
	if err != nil {
		return nil, fmt.Errorf("freezing: %w", err)
	}
	defer p.Close()
	for i, in := range inputs {
		out, err := p.Run(ctx, in)
		if err == nil {
			err = f.look(in, out)
		}
		if err != nil {
			return nil, fmt.Errorf("freezing: inputs %d: %w", i, err)
		}
	}
	return f.model()
}

// seen holds the observations of a value.
type seen struct {
	dtype onnx.DType
	shape []int
	Range
	data []byte // of a constant value
}

// freezer works on one model.
type freezer struct {
	m        *onnx.Model
	constant map[string]bool // values that do not depend on the inputs
	values   map[string]*seen
	order    []string // the values of nodes, in the order of execution
}

func newFreezer(m *onnx.Model) (*freezer, error) {
	f := &freezer{m: m, constant: make(map[string]bool), values: make(map[string]*seen)}
	if len(m.Functions) > 0 {
		return nil, errors.New("functions in the model are not supported")
	}
	for i := range m.Graph.Initializers {
		f.constant[m.Graph.Initializers[i].Name] = true
	}
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		if f.constants(n) {
			for _, name := range n.Outputs {
				f.constant[name] = true
			}
		}
		for _, a := range n.Attributes {
			if len(a.Subgraphs()) > 0 {
				return nil, fmt.Errorf("node %q (%s) branches or loops, which has no fixed shape", n.Name, n.Op)
			}
		}
		for _, name := range n.Outputs {
			if name != "" {
				f.order = append(f.order, name)
			}
		}
	}
	return f, nil
}

// constants reports whether the outputs of a node are the same in every run
// with the same shapes.
func (f *freezer) constants(n *onnx.Node) bool {
	switch n.Op {
	case "Shape", "Size", "Constant":
		return true
	case "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli":
		return false
	case "DequantizeLinear":
		// It dequantizes integer weights, and compilers need it.
		return false
	}
	for _, name := range n.Inputs {
		if name != "" && !f.constant[name] {
			return false
		}
	}
	return len(n.Inputs) > 0
}

// observable returns the model with every value among its results.
func (f *freezer) observable() *onnx.Model {
	out := *f.m.Share()
	out.Graph.Outputs = nil
	for _, name := range f.order {
		out.Graph.Outputs = append(out.Graph.Outputs, onnx.Value{Name: name})
	}
	return &out
}

// look records the values of one run.
func (f *freezer) look(in, out map[string]engine.Tensor) error {
	for _, v := range f.m.Inputs() {
		if err := f.note(v.Name, in[v.Name]); err != nil {
			return err
		}
	}
	for _, name := range f.order {
		if err := f.note(name, out[name]); err != nil {
			return err
		}
	}
	return nil
}

func (f *freezer) note(name string, t engine.Tensor) error {
	s := f.values[name]
	if s == nil {
		s = &seen{dtype: t.Type, shape: t.Shape, Range: Range{Low: math.Inf(1), High: math.Inf(-1)}}
		if f.constant[name] {
			s.data = t.Data
		}
		f.values[name] = s
	}
	if !slices.Equal(s.shape, t.Shape) || s.dtype != t.Type {
		return fmt.Errorf("%q is %s %v, but %s %v with the inputs before: its shape depends on the values of the inputs", name, t.Type, t.Shape, s.dtype, s.shape)
	}
	if t.Type != onnx.FLOAT {
		return nil
	}
	for at := 0; at+4 <= len(t.Data); at += 4 {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[at:])))
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.Low, s.High = min(s.Low, v), max(s.High, v)
		}
	}
	return nil
}

// model writes the observations into a model.
func (f *freezer) model() (*Frozen, error) {
	g := &f.m.Graph
	out := &Frozen{Model: f.m.Share(), Ranges: make(map[string]Range)}
	out.Model.Graph = onnx.Graph{Name: g.Name, Doc: g.Doc}
	// Before version 4 constants had to be listed as inputs.
	out.Model.IRVersion = max(out.Model.IRVersion, 4)
	to := &out.Model.Graph
	for _, v := range f.m.Inputs() {
		to.Inputs = append(to.Inputs, f.value(v.Name))
		f.ranged(v.Name, out.Ranges)
	}
	inputs := make(map[string]bool)
	for _, v := range g.Outputs {
		to.Outputs = append(to.Outputs, f.value(v.Name))
		inputs[v.Name] = true
	}
	needed := f.needed(inputs)
	for i := range g.Initializers {
		if needed[g.Initializers[i].Name] {
			to.Initializers = append(to.Initializers, g.Initializers[i])
		}
	}
	for i := range g.Nodes {
		n := g.Nodes[i]
		if len(n.Outputs) == 0 {
			continue
		}
		if f.constants(&n) {
			out.Folded++
			for _, name := range n.Outputs {
				if inputs[name] {
					return nil, fmt.Errorf("freezing: result %q does not depend on the inputs", name)
				}
				if needed[name] {
					to.Initializers = append(to.Initializers, f.tensor(name))
				}
			}
			continue
		}
		if !slices.ContainsFunc(n.Outputs, func(name string) bool { return needed[name] }) {
			continue
		}
		to.Nodes = append(to.Nodes, n)
		for _, name := range n.Outputs {
			if name == "" {
				continue
			}
			f.ranged(name, out.Ranges)
			if !inputs[name] {
				to.Values = append(to.Values, f.value(name))
			}
		}
	}
	return out, nil
}

// needed returns the values that results depend on after folding.
func (f *freezer) needed(inputs map[string]bool) map[string]bool {
	want := make(map[string]bool)
	for name := range inputs {
		want[name] = true
	}
	for i := len(f.m.Graph.Nodes) - 1; i >= 0; i-- {
		n := &f.m.Graph.Nodes[i]
		if f.constants(n) || !slices.ContainsFunc(n.Outputs, func(name string) bool { return want[name] }) {
			continue
		}
		for _, name := range n.Inputs {
			want[name] = true
		}
	}
	return want
}

func (f *freezer) ranged(name string, into map[string]Range) {
	if s := f.values[name]; s.dtype == onnx.FLOAT {
		into[name] = s.Range
	}
}

// value returns a value with its observed shape.
func (f *freezer) value(name string) onnx.Value {
	s := f.values[name]
	dims := make([]any, len(s.shape))
	for i, d := range s.shape {
		dims[i] = d
	}
	return onnx.TensorValue(name, s.dtype, dims...)
}

// tensor returns a constant value.
func (f *freezer) tensor(name string) onnx.Tensor {
	s := f.values[name]
	dims := make([]int64, len(s.shape))
	for i, d := range s.shape {
		dims[i] = int64(d)
	}
	return onnx.RawTensor(name, s.dtype, dims, s.data)
}
