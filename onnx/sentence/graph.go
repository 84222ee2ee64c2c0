package sentence

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
)

// leastOpset is the first version of ai.onnx with the operators of the pooling.
const leastOpset = 11

// Names of the outputs in exports of transformers and sentence-transformers.
const (
	lastState   = "last_hidden_state"
	tokenStates = "token_embeddings"
	logits      = "logits"
)

// lead begins the added names of a graph.
const lead = "mm."

// Finish adds the pooling, or the sigmoid of a classifier, to an exported graph of the
// model: its states or logits become the output of [Config.Model]. The graph's tensors
// and nodes are kept.
func (c Config) Finish(m *onnx.Model, p Pooling) (err error) {
	g := &m.Graph
	version := int64(0)
	for _, o := range m.Opsets {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			version = o.Version
		}
	}
	if version < leastOpset {
		return fmt.Errorf("unsupported opset %d, want at least %d", version, leastOpset)
	}
	if err := c.inputs(g); err != nil {
		return err
	}
	states, err := c.result(g)
	if err != nil {
		return err
	}
	for _, name := range []string{Embedding, Scores} {
		rename(g, name, lead+name+".inner")
	}
	if states == Embedding || states == Scores {
		states = lead + states + ".inner"
	}
	tail := onnx.New("tail", version)
	w := &writer{c: c, m: tail, g: &tail.Graph, written: map[string]bool{}, opset: version}
	defer w.halted(new(*onnx.Model), &err)
	out, value := Embedding, onnx.TensorValue(Embedding, onnx.FLOAT, "N", p.Size(c.Width))
	if c.Labels > 0 {
		out, value = Scores, onnx.TensorValue(Scores, onnx.FLOAT, "N", c.Labels)
		y := "states"
		if c.Sigmoid {
			y = w.g.Add("Sigmoid", []string{y}, "share")
		}
		w.g.Add("Identity", []string{y}, out)
	} else {
		mask := w.g.Add("Cast", []string{Mask}, "mask", onnx.Int("to", int64(onnx.FLOAT)))
		w.g.Add("Identity", []string{w.pool(p, "states", mask)}, out)
	}
	if w.err != nil {
		return w.err
	}
	join(g, w.g, map[string]string{"states": states, Mask: Mask, out: out})
	g.Outputs = []onnx.Value{value}
	return nil
}

// inputs replaces the inputs of the graph. The segments of an encoder are zeros.
func (c Config) inputs(g *onnx.Graph) error {
	constant := map[string]bool{}
	for _, t := range g.Initializers {
		constant[t.Name] = true
	}
	var kept []onnx.Value
	seen := map[string]bool{}
	for _, v := range g.Inputs {
		if constant[v.Name] {
			kept = append(kept, v)
			continue
		}
		if !slices.Contains([]string{IDs, Mask, Segments}, v.Name) {
			return fmt.Errorf("unsupported input %.80q, want %s, %s and %s", v.Name, IDs, Mask, Segments)
		}
		if v.Type.DType != onnx.INT64 || len(v.Type.Dims) != 2 || v.Type.Dims[0].Value != onnx.Unknown || v.Type.Dims[1].Value != onnx.Unknown {
			return fmt.Errorf("input %s: got %s %v, want int64 of any two dimensions", v.Name, v.Type.DType, v.Type.Dims)
		}
		seen[v.Name] = true
	}
	if !seen[IDs] || !seen[Mask] {
		return fmt.Errorf("missing input %s or %s", IDs, Mask)
	}
	for _, name := range []string{IDs, Mask, Segments} {
		if name != Segments || seen[name] && c.Two() {
			kept = append(kept, onnx.TensorValue(name, onnx.INT64, "N", "T"))
		}
	}
	if seen[Segments] && !c.Two() {
		zeros := onnx.Node{Name: lead + Segments, Op: "Sub", Inputs: []string{IDs, IDs}, Outputs: []string{Segments}}
		g.Nodes = append([]onnx.Node{zeros}, g.Nodes...)
	}
	g.Inputs = kept
	return nil
}

// result returns the name of the states or logits.
func (c Config) result(g *onnx.Graph) (string, error) {
	names, last, rank := []string{lastState, tokenStates}, c.Width, 3
	if c.Labels > 0 {
		names, last, rank = []string{logits}, c.Labels, 2
	}
	var have []string
	for _, v := range g.Outputs {
		have = append(have, v.Name)
	}
	for _, name := range names {
		i := slices.Index(have, name)
		if i < 0 {
			continue
		}
		t := g.Outputs[i].Type
		if t.DType != onnx.FLOAT {
			return "", fmt.Errorf("unsupported output %s of type %s, want float", name, t.DType)
		}
		if t.Ranked && (len(t.Dims) != rank || t.Dims[rank-1].Value != onnx.Unknown && t.Dims[rank-1].Value != int64(last)) {
			return "", fmt.Errorf("output %s: got %v, want %d dimensions, the last %d", name, t.Dims, rank, last)
		}
		return name, nil
	}
	return "", fmt.Errorf("missing output %s, got %.200s", strings.Join(names, " or "), strings.Join(have, ", "))
}

// join appends the nodes of a tail. Its names get a lead, except those in ports.
func join(g, tail *onnx.Graph, ports map[string]string) {
	name := func(s string) string {
		if to, ok := ports[s]; ok {
			return to
		}
		return lead + s
	}
	for _, t := range tail.Initializers {
		t.Name = name(t.Name)
		g.Initializers = append(g.Initializers, t)
	}
	for _, n := range tail.Nodes {
		n.Name = lead + n.Name
		for i, s := range n.Inputs {
			n.Inputs[i] = name(s)
		}
		for i, s := range n.Outputs {
			n.Outputs[i] = name(s)
		}
		g.Nodes = append(g.Nodes, n)
	}
}

// rename changes the name of a value, in graphs of nodes as well.
func rename(g *onnx.Graph, from, to string) {
	swap := func(names []string) {
		for i := range names {
			if names[i] == from {
				names[i] = to
			}
		}
	}
	for _, values := range [][]onnx.Value{g.Inputs, g.Outputs, g.Values} {
		for i := range values {
			if values[i].Name == from {
				values[i].Name = to
			}
		}
	}
	for i := range g.Initializers {
		if g.Initializers[i].Name == from {
			g.Initializers[i].Name = to
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		swap(n.Inputs)
		swap(n.Outputs)
		for j := range n.Attributes {
			for _, sub := range n.Attributes[j].Subgraphs() {
				rename(sub, from, to)
			}
		}
	}
}
