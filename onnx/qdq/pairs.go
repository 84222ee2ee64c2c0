package qdq

import (
	"encoding/binary"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// scaling is a scale and a zero point for a range, which always includes 0.
type scaling struct {
	scale float32
	zero  int
}

// scalingOf maps a range to the integers from 0 to limit.
func scalingOf(r Range, limit float64) scaling {
	low, high := min(r.Low, 0), max(r.High, 0)
	scale := coarse((high - low) / limit)
	if !(scale >= math.SmallestNonzeroFloat32*(1<<23)) { // nearly all zeros
		return scaling{scale: 1}
	}
	return scaling{scale, int(min(limit, max(0, math.RoundToEven(float64(coarse(-low))/float64(scale)))))}
}

// coarse rounds a scale up to 12 bits: processors differ in the last bits of
// the observations, and the model must be reproducible.
func coarse(v float64) float32 {
	if v <= 0 || math.IsInf(v, 0) {
		return 0
	}
	f, e := math.Frexp(v)
	return float32(math.Ldexp(math.Ceil(f*(1<<12))/(1<<12), e))
}

// rewrite writes the quantized graph.
func (q *quantizer) rewrite() error {
	out := q.m.Share()
	q.result.Model, q.integers, q.scales = out, make(map[string]string), make(map[string][]float32)
	q.to = &out.Graph
	nodes := q.g.Nodes
	*q.to = onnx.Graph{Name: q.g.Name, Doc: q.g.Doc, Inputs: q.g.Inputs, Outputs: q.g.Outputs, Values: slices.Clone(q.g.Values)}
	for _, v := range q.g.Inputs {
		if q.paired(v.Name) {
			q.pair(v.Name, v.Name)
		}
	}
	used := make(map[string]bool)
	for i := range nodes {
		n := nodes[i]
		n.Inputs, n.Outputs = slices.Clone(n.Inputs), slices.Clone(n.Outputs)
		if q.integer[i] {
			q.result.Quantized++
			if err := q.inputs(&n); err != nil {
				return err
			}
		} else {
			for j, name := range n.Inputs {
				if integer, ok := q.integers[name]; ok && q.fromInteger(name) {
					n.Inputs[j] = integer
				}
			}
		}
		q.outputs(&n)
		for _, name := range n.Inputs {
			used[name] = true
		}
	}
	var kept []onnx.Tensor
	for i := range q.g.Initializers {
		if t := q.g.Initializers[i]; used[t.Name] {
			kept = append(kept, t)
		}
	}
	q.to.Initializers = append(kept, q.to.Initializers...)
	if (q.foreign() || q.msGelu) && !q.imported {
		out.Opsets = append(slices.Clone(out.Opsets), onnx.Opset{Domain: microsoft, Version: 1})
	}
	return nil
}

// fromInteger reports whether an integer node computes a value: all readers
// read the dequantized result.
func (q *quantizer) fromInteger(name string) bool {
	i, ok := q.producer[name]
	return ok && q.integer[i]
}

// paired reports whether a value gets a pair because an integer node writes or
// reads it.
func (q *quantizer) paired(name string) bool {
	return q.float(name) && (q.fromInteger(name) || slices.ContainsFunc(q.consumers[name], func(c int) bool { return q.integer[c] && q.reads(c, name) }))
}

// reads reports whether a node reads a value as an operand.
func (q *quantizer) reads(i int, name string) bool {
	n := &q.g.Nodes[i]
	at := slices.Index(n.Inputs, name)
	return at == 0 || at > 0 && kindOf(n) != movement && !(n.Op == "Clip")
}

// outputs adds a node followed by its pairs.
func (q *quantizer) outputs(n *onnx.Node) {
	var paired []string
	for j, name := range n.Outputs {
		if name == "" || !q.paired(name) {
			continue
		}
		paired = append(paired, name)
		if q.results[name] && q.fromInteger(name) { // the result keeps its name
			n.Outputs[j] = q.fresh(name + "_float")
		}
	}
	q.to.Nodes = append(q.to.Nodes, *n)
	for _, name := range paired {
		from := name
		if !slices.Contains(n.Outputs, name) {
			from = n.Outputs[slices.Index(q.g.Nodes[q.producer[name]].Outputs, name)]
		}
		q.pair(name, from)
	}
}

// pair adds the pair of a value; from is the current name of its floats.
func (q *quantizer) pair(name, from string) {
	s := scalingOf(q.ranges[q.classOf(name)], q.limit)
	if n := q.maker(name); n != nil && n.Op == "Softmax" {
		s = scalingOf(Range{0, q.ranges[q.classOf(name)].High}, q.limit)
	}
	scale, zero := q.parameters(name, s)
	ints := q.fresh(name + "_quantised")
	back := name
	if from == name {
		back = q.fresh(name + "_dequantised")
	}
	q.add("QuantizeLinear", []string{from, scale, zero}, ints)
	q.add("DequantizeLinear", []string{ints, scale, zero}, back)
	q.integers[name], q.scales[back] = back, []float32{s.scale}
	q.result.Pairs++
}

// parameters adds the constants of a scaling.
func (q *quantizer) parameters(name string, s scaling) (scale, zero string) {
	raw := []byte{byte(s.zero)}
	if q.kind == onnx.UINT16 {
		raw = binary.LittleEndian.AppendUint16(nil, uint16(s.zero))
	}
	scale = q.to.Constant(onnx.Floats(q.fresh(name+"_scale"), nil, []float32{s.scale}))
	return scale, q.to.Constant(onnx.RawTensor(q.fresh(name+"_zero"), q.kind, nil, raw))
}

// foreign reports whether pairs are those of com.microsoft.
func (q *quantizer) foreign() bool { return q.kind == onnx.UINT16 && q.opset < 21 }

func (q *quantizer) add(op string, inputs []string, output string, attributes ...onnx.Attribute) {
	q.to.Add(op, inputs, output, attributes...)
	n := &q.to.Nodes[len(q.to.Nodes)-1]
	for q.named[n.Name] {
		n.Name += "_"
	}
	q.named[n.Name] = true
	if q.foreign() {
		n.Domain = microsoft
	}
}
