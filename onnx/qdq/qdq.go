// Package qdq quantises an ONNX model statically: weights become 8-bit
// integers, and values on the way get scales from the ranges that they were seen
// in, as pairs of QuantizeLinear and DequantizeLinear around each operator that
// is computed in integers. An engine without such operators rounds where the
// pairs stand and computes as before; a compiler for an accelerator takes an
// operator with the pairs around it for one of integers.
//
// [Insert] wants a model of fixed shapes without subgraphs, as onnx/engine/freeze
// makes it, with the ranges. Which operators are quantised is decided in
// choose.go, which pairs a value gets in pairs.go, the weights are made in
// weights.go.
//
// For 16 bits, ai.onnx has such pairs from opset 21 on; before, those of the
// domain com.microsoft stand in their place. A model of an opset below 13 is taken
// there if that changes the meaning of no operator in it (raise.go).
package qdq

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// Range is the least and the largest number that a value held. A value without
// a finite number has Low above High.
type Range struct{ Low, High float64 }

// with is the range of both.
func (r Range) with(o Range) Range { return Range{min(r.Low, o.Low), max(r.High, o.High)} }

// Options for Insert. The zero value is 8 bits for weights and values.
type Options struct {
	// Values is how many bits the values on the way have: 8, for 0 too, or 16.
	Values int
	// Keep are names of nodes that stay floats.
	Keep []string
}

// Kept are nodes of one operator that stayed floats, and why.
type Kept struct {
	Op    string   `json:"op"`
	Why   string   `json:"why"`
	Nodes []string `json:"nodes"`
}

// Floats reports whether the nodes compute in floats, and not in whole numbers.
func (k Kept) Floats() bool { return k.Why != whyNoFloats }

// Result is a quantised model.
type Result struct {
	Model     *onnx.Model
	Quantised int // nodes that are computed in integers
	Pairs     int // of QuantizeLinear and DequantizeLinear on values
	Weights   int // tensors that became integers
	Kept      []Kept
}

// irOfLeast is the IR version of ONNX 1.8, which brought opset 13.
const irOfLeast = 7

// domain of the operators that ai.onnx does not have in old opsets.
const microsoft = "com.microsoft"

// Insert gives a quantised copy of a model, which shares what stays. A model
// with nothing to quantise is an error, and so is a name of Keep that no node
// has.
func Insert(m *onnx.Model, ranges map[string]Range, opt Options) (*Result, error) {
	q := &quantiser{m: m, g: &m.Graph, ranges: maps.Clone(ranges), opt: opt, taken: make(map[string]bool), limit: math.MaxUint8, kind: onnx.UINT8}
	switch opt.Values {
	case 0, 8:
	case 16:
		q.limit, q.kind = math.MaxUint16, onnx.UINT16
	default:
		return nil, fmt.Errorf("quantising: values of %d bits, there are 8 and 16", opt.Values)
	}
	for _, o := range m.Opsets {
		switch o.Domain {
		case "", "ai.onnx":
			q.opset = o.Version
		case microsoft:
			q.imported = true
		}
	}
	q.index()
	old := q.opset
	if err := q.raise(); err != nil {
		return nil, fmt.Errorf("quantising: %w", err)
	}
	q.gelus()
	q.pads()
	if err := q.choose(); err != nil {
		return nil, fmt.Errorf("quantising: %w", err)
	}
	q.unify()
	if err := q.rewrite(); err != nil {
		return nil, fmt.Errorf("quantising: %w", err)
	}
	if q.result.Quantised == 0 {
		return nil, errors.New("quantising: there is no operator to compute in integers")
	}
	q.result.Kept = q.kept.list()
	if q.opset != old {
		q.result.Model.IRVersion = max(q.result.Model.IRVersion, irOfLeast)
		q.result.Model.Opsets = slices.Clone(q.result.Model.Opsets)
		for i, o := range q.result.Model.Opsets {
			if o.Domain == "" || o.Domain == "ai.onnx" {
				q.result.Model.Opsets[i].Version = q.opset
			}
		}
	}
	return &q.result, nil
}

// quantiser works on one model.
type quantiser struct {
	m        *onnx.Model
	g        *onnx.Graph
	ranges   map[string]Range
	opt      Options
	opset    int64
	imported bool // com.microsoft
	msGelu   bool // there is a GELU of com.microsoft's
	kind     onnx.DType
	limit    float64 // the largest integer of a value

	producer  map[string]int // node of each value
	consumers map[string][]int
	constants map[string]*onnx.Tensor
	results   map[string]bool
	taken     map[string]bool // names of the model
	named     map[string]bool // names of its nodes

	integer []bool // by node: computed in integers
	kept    keeping
	class   map[string]string // the value whose scale a value shares

	result Result
	to     *onnx.Graph
	made   map[string]string    // what integer nodes read in place of a value or a constant
	scales map[string][]float32 // of what they read
}

// replace puts nodes in the places of others and drops some, in a graph of its
// own; what is known of the values that the dropped ones gave goes with them.
func (q *quantiser) replace(put map[int]onnx.Node, drop map[int]bool) {
	if len(put) == 0 {
		return
	}
	g := *q.g
	g.Nodes = nil
	for i := range q.g.Nodes {
		if n, ok := put[i]; ok {
			g.Nodes = append(g.Nodes, n)
		} else if !drop[i] {
			g.Nodes = append(g.Nodes, q.g.Nodes[i])
		}
	}
	g.Values = slices.DeleteFunc(slices.Clone(g.Values), func(v onnx.Value) bool {
		i, made := q.producer[v.Name]
		return made && drop[i]
	})
	q.g = &g
	q.index()
}

// index notes who makes and who reads each value.
func (q *quantiser) index() {
	q.producer, q.consumers = make(map[string]int), make(map[string][]int)
	q.constants, q.results = make(map[string]*onnx.Tensor), make(map[string]bool)
	for i := range q.g.Initializers {
		t := &q.g.Initializers[i]
		q.constants[t.Name], q.taken[t.Name] = t, true
	}
	for _, v := range q.g.Inputs {
		q.taken[v.Name] = true
	}
	for _, v := range q.g.Outputs {
		q.results[v.Name] = true
	}
	q.named = make(map[string]bool)
	for i := range q.g.Nodes {
		n := &q.g.Nodes[i]
		q.named[n.Name] = true
		for _, name := range n.Inputs {
			q.consumers[name] = append(q.consumers[name], i)
			q.taken[name] = true
		}
		for _, name := range n.Outputs {
			q.producer[name], q.taken[name] = i, true
		}
	}
}

// fresh is a name that the model does not have yet.
func (q *quantiser) fresh(name string) string {
	for q.taken[name] {
		name += "_"
	}
	q.taken[name] = true
	return name
}

// maker is the node that gives a value; nil for inputs and constants.
func (q *quantiser) maker(name string) *onnx.Node {
	if i, ok := q.producer[name]; ok {
		return &q.g.Nodes[i]
	}
	return nil
}

// float reports a value that holds float32 numbers, of which a range is known.
func (q *quantiser) float(name string) bool {
	_, ok := q.ranges[name]
	return ok && q.constants[name] == nil
}
