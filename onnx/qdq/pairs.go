package qdq

import (
	"encoding/binary"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// scaling is a scale and a zero point for a range, which always holds 0.
type scaling struct {
	scale float32
	zero  int
}

// scalingOf spreads the integers from 0 to limit over a range.
func scalingOf(r Range, limit float64) scaling {
	low, high := min(r.Low, 0), max(r.High, 0)
	scale := coarse((high - low) / limit)
	if !(scale >= math.SmallestNonzeroFloat32*(1<<23)) { // nothing but zeros, nearly
		return scaling{scale: 1}
	}
	return scaling{scale, int(min(limit, max(0, math.RoundToEven(float64(coarse(-low))/float64(scale)))))}
}

// coarse rounds a scale up to 12 bits: processors differ in the last bits of what
// was seen, and the model is to be the same.
func coarse(v float64) float32 {
	if v <= 0 || math.IsInf(v, 0) {
		return 0
	}
	f, e := math.Frexp(v)
	return float32(math.Ldexp(math.Ceil(f*(1<<12))/(1<<12), e))
}

// rewrite writes the quantised graph.
func (q *quantiser) rewrite() error {
	out := q.m.Share()
	q.result.Model, q.made, q.scales = out, make(map[string]string), make(map[string][]float32)
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
			q.result.Quantised++
			if err := q.inputs(&n); err != nil {
				return err
			}
		} else {
			for j, name := range n.Inputs {
				if made, ok := q.made[name]; ok && q.fromInteger(name) {
					n.Inputs[j] = made
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

// fromInteger reports a value that an integer node gives: everybody reads what
// comes back from the integers.
func (q *quantiser) fromInteger(name string) bool {
	i, ok := q.producer[name]
	return ok && q.integer[i]
}

// paired reports whether a value gets a pair: an integer node gives or reads it.
func (q *quantiser) paired(name string) bool {
	return q.float(name) && (q.fromInteger(name) || slices.ContainsFunc(q.consumers[name], func(c int) bool { return q.integer[c] && q.reads(c, name) }))
}

// reads reports whether a node reads a value as numbers to compute with.
func (q *quantiser) reads(i int, name string) bool {
	n := &q.g.Nodes[i]
	at := slices.Index(n.Inputs, name)
	return at == 0 || at > 0 && kindOf(n) != movement && !(n.Op == "Clip")
}

// outputs adds a node with the pairs behind it.
func (q *quantiser) outputs(n *onnx.Node) {
	var behind []string
	for j, name := range n.Outputs {
		if name == "" || !q.paired(name) {
			continue
		}
		behind = append(behind, name)
		if q.results[name] && q.fromInteger(name) { // the result keeps its name
			n.Outputs[j] = q.fresh(name + "_float")
		}
	}
	q.to.Nodes = append(q.to.Nodes, *n)
	for _, name := range behind {
		from := name
		if !slices.Contains(n.Outputs, name) {
			from = n.Outputs[slices.Index(q.g.Nodes[q.producer[name]].Outputs, name)]
		}
		q.pair(name, from)
	}
}

// pair adds the pair of a value; from is the name that its floats have now.
func (q *quantiser) pair(name, from string) {
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
	q.made[name], q.scales[back] = back, []float32{s.scale}
	q.result.Pairs++
}

// parameters adds the constants of a scaling.
func (q *quantiser) parameters(name string, s scaling) (scale, zero string) {
	raw := []byte{byte(s.zero)}
	if q.kind == onnx.UINT16 {
		raw = binary.LittleEndian.AppendUint16(nil, uint16(s.zero))
	}
	scale = q.to.Constant(onnx.Floats(q.fresh(name+"_scale"), nil, []float32{s.scale}))
	return scale, q.to.Constant(onnx.RawTensor(q.fresh(name+"_zero"), q.kind, nil, raw))
}

// foreign reports whether pairs are those of com.microsoft.
func (q *quantiser) foreign() bool { return q.kind == onnx.UINT16 && q.opset < 21 }

func (q *quantiser) add(op string, inputs []string, output string, attributes ...onnx.Attribute) {
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
