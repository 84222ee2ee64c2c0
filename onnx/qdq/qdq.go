// Package qdq quantizes an ONNX model statically: weights become 8-bit integers,
// and intermediate values get scales from their observed ranges, as pairs of
// QuantizeLinear and DequantizeLinear around each operator that is computed in
// integers. An engine without integer operators rounds at the pairs and computes
// in floats; a compiler for an accelerator replaces an operator with its pairs by
// an integer operator.
//
// [Freeze] makes a model of fixed shapes, because compilers for accelerators
// support no open sizes: it runs the model on each set of inputs with onnx/engine
// and observes every intermediate value. Dimensions become the observed numbers,
// values that depend only on constants and shapes become constants, and every
// value gets its type and its [Range] over all inputs, the calibration.
//
// [Insert] requires a model of fixed shapes without subgraphs and its ranges, as
// returned by Freeze. choose.go decides which operators are quantized,
// pairs.go which pairs a value gets, and weights.go quantizes the weights.
//
// [QuantizeWeights] quantizes only the weights of MatMul, Gemm and Conv, for engines that
// convert them to floats when they load them: the file gets smaller, but speed and memory
// do not change (onlyweights.go).
//
// ai.onnx has 16-bit pairs since opset 21; for older opsets those of the domain
// com.microsoft are used. A model of an opset below 13 is raised to 13 if that
// changes the meaning of none of its operators (raise.go).
package qdq

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// Range is the range of the observed numbers of a value. Low exceeds High if no
// finite number was observed.
type Range struct{ Low, High float64 }

// with returns the union of both ranges.
func (r Range) with(o Range) Range { return Range{min(r.Low, o.Low), max(r.High, o.High)} }

// Options are the options of Insert. The zero value selects 8 bits for weights
// and values.
type Options struct {
	// Values is the number of bits of intermediate values: 8, also if zero, or
	// 16.
	Values int
	// Keep lists the names of nodes that stay floats.
	Keep []string
}

// Kept lists nodes of one operator that stayed floats, and the reason.
type Kept struct {
	Op    string   `json:"op"`
	Why   string   `json:"why"`
	Nodes []string `json:"nodes"`
}

// Floats reports whether the nodes compute in floats instead of integers.
func (k Kept) Floats() bool { return k.Why != whyNoFloats }

// Result is a quantized model.
type Result struct {
	Model     *onnx.Model
	Quantized int // nodes computed in integers
	Pairs     int // pairs of QuantizeLinear and DequantizeLinear on values
	Weights   int // tensors that became integers
	Kept      []Kept
}

// minIR is the IR version of ONNX 1.8, which introduced opset 13.
const minIR = 7

// microsoft is the domain of the operators that old opsets of ai.onnx lack.
const microsoft = "com.microsoft"

// Insert returns a quantized copy of a model, which shares unchanged parts. A
// model without operators to quantize is an error, and so is an unknown name in
// Keep.
func Insert(m *onnx.Model, ranges map[string]Range, opt Options) (*Result, error) {
	q := &quantizer{m: m, g: &m.Graph, ranges: maps.Clone(ranges), opt: opt, names: make(map[string]bool), limit: math.MaxUint8, kind: onnx.UINT8}
	switch opt.Values {
	case 0, 8:
	case 16:
		q.limit, q.kind = math.MaxUint16, onnx.UINT16
	default:
		return nil, fmt.Errorf("quantizing: unsupported values of %d bits, want 8 or 16", opt.Values)
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
		return nil, fmt.Errorf("quantizing: %w", err)
	}
	q.gelus()
	q.pads()
	if err := q.choose(); err != nil {
		return nil, fmt.Errorf("quantizing: %w", err)
	}
	q.unify()
	if err := q.rewrite(); err != nil {
		return nil, fmt.Errorf("quantizing: %w", err)
	}
	if q.result.Quantized == 0 {
		return nil, errors.New("quantizing: no operator to compute in integers")
	}
	q.result.Kept = q.kept.list()
	if q.opset != old {
		q.result.Model.IRVersion = max(q.result.Model.IRVersion, minIR)
		q.result.Model.Opsets = slices.Clone(q.result.Model.Opsets)
		for i, o := range q.result.Model.Opsets {
			if o.Domain == "" || o.Domain == "ai.onnx" {
				q.result.Model.Opsets[i].Version = q.opset
			}
		}
	}
	return &q.result, nil
}

// quantizer holds the state of quantizing one model.
type quantizer struct {
	m        *onnx.Model
	g        *onnx.Graph
	ranges   map[string]Range
	opt      Options
	opset    int64
	imported bool // the model imports com.microsoft
	msGelu   bool // a GELU of com.microsoft was inserted
	kind     onnx.DType
	limit    float64 // the largest integer of a value

	producer  map[string]int // index of the node that computes each value
	consumers map[string][]int
	constants map[string]*onnx.Tensor
	results   map[string]bool
	names     map[string]bool // names in the model
	named     map[string]bool // names of its nodes

	integer []bool // by node: computed in integers
	kept    keeping
	class   map[string]string // the value whose scale a value shares

	result   Result
	to       *onnx.Graph
	integers map[string]string    // names that integer nodes read instead of a value or a constant
	scales   map[string][]float32 // scales of these names
}

// replace replaces some nodes and drops others, in a copy of the graph;
// declarations of the outputs of dropped nodes are dropped too.
func (q *quantizer) replace(put map[int]onnx.Node, drop map[int]bool) {
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
		i, ok := q.producer[v.Name]
		return ok && drop[i]
	})
	q.g = &g
	q.index()
}

// index records the producer and the readers of each value.
func (q *quantizer) index() {
	q.producer, q.consumers = make(map[string]int), make(map[string][]int)
	q.constants, q.results = make(map[string]*onnx.Tensor), make(map[string]bool)
	for i := range q.g.Initializers {
		t := &q.g.Initializers[i]
		q.constants[t.Name], q.names[t.Name] = t, true
	}
	for _, v := range q.g.Inputs {
		q.names[v.Name] = true
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
			q.names[name] = true
		}
		for _, name := range n.Outputs {
			q.producer[name], q.names[name] = i, true
		}
	}
}

// fresh returns a name that is not used in the model.
func (q *quantizer) fresh(name string) string {
	for q.names[name] {
		name += "_"
	}
	q.names[name] = true
	return name
}

// maker returns the node that computes a value; nil for inputs and constants.
func (q *quantizer) maker(name string) *onnx.Node {
	if i, ok := q.producer[name]; ok {
		return &q.g.Nodes[i]
	}
	return nil
}

// float reports whether a value holds float32 numbers with a known range.
func (q *quantizer) float(name string) bool {
	_, ok := q.ranges[name]
	return ok && q.constants[name] == nil
}
