package net

import "fmt"

// composite describes a kind of layer that expands to other layers.
type composite struct {
	parameters []string
	parts      func(l Layer, in Port) ([]Layer, error)
}

// composites returns the table of composites. The last part yields the output.
func composites() map[string]composite {
	return map[string]composite{
		"block":     {[]string{"heads", "hidden", "activation", "memory", "condition", "eps"}, block},
		"patches":   {[]string{"out", "kernel", "height", "no_bias"}, patches},
		"resampler": {[]string{"count", "out", "heads", "hidden", "activation", "eps"}, resampler},
	}
}

// patches cuts an image into squares and embeds each (Dosovitskiy et al., arXiv
// 2010.11929): a convolution with adjacent windows.
func patches(l Layer, _ Port) ([]Layer, error) {
	l.Kind, l.Stride = "conv2d", l.Kernel
	return []Layer{l}, nil
}

// resampler maps any number of positions to Count: learned queries attend to
// them (Alayrac et al., arXiv 2204.14198), followed by a feed-forward network
// if Hidden is set.
func resampler(l Layer, in Port) ([]Layer, error) {
	if l.Count < 1 || l.Heads < 1 {
		return nil, fmt.Errorf("count %d and heads %d must be positive", l.Count, l.Heads)
	}
	name := func(part string) string { return l.Name + "." + part }
	parts := []Layer{
		{Name: name("queries"), Kind: "queries", Inputs: l.Inputs, Count: l.Count, Out: l.Out},
		{Name: name("norm"), Kind: "layer_norm", Inputs: l.Inputs, Eps: l.Eps},
		{Name: name("attention"), Kind: "cross_attention", Inputs: []string{name("queries")}, Memory: name("norm"), Heads: l.Heads},
	}
	if l.Hidden == 0 {
		return parts, nil
	}
	return append(parts,
		Layer{Name: name("norm2"), Kind: "layer_norm", Inputs: []string{name("attention")}, Eps: l.Eps},
		Layer{Name: name("mlp"), Kind: "mlp", Inputs: []string{name("norm2")}, Residual: name("attention"), Hidden: l.Hidden, Activation: l.Activation}), nil
}

// block is a pre-norm transformer block with, if Memory is set, cross attention
// between its halves. With a condition, one row, the norms of the halves have
// no weights: a linear layer computes from that row their scales and shifts and
// the gates of the halves (AdaLN-Zero: Peebles and Xie, arXiv 2212.09748).
func block(l Layer, in Port) ([]Layer, error) {
	b := blockParts{l: l, at: l.Inputs[0], width: in.Cols}
	if l.Condition != "" {
		b.add(Layer{Name: b.name("silu"), Kind: "silu", Inputs: []string{l.Condition}})
		b.add(Layer{Name: b.name("modulation"), Kind: "linear", Inputs: []string{b.name("silu")}, Out: 6 * in.Cols, Zero: true})
	}
	b.half("attention", Layer{Kind: "attention", Heads: l.Heads}, 0)
	if l.Memory != "" {
		b.add(Layer{Name: b.name("memory_norm"), Kind: "layer_norm", Inputs: []string{b.at}, Eps: l.Eps})
		b.add(Layer{Name: b.name("memory"), Kind: "cross_attention", Inputs: []string{b.name("memory_norm")}, Memory: l.Memory, Residual: b.at, Heads: l.Heads})
		b.at = b.name("memory")
	}
	b.half("mlp", Layer{Kind: "mlp", Hidden: l.Hidden, Activation: l.Activation}, 3*in.Cols)
	return b.parts, nil
}

// blockParts collects the parts of a block.
type blockParts struct {
	l     Layer
	at    string // value of the residual stream
	width int
	parts []Layer
}

func (b *blockParts) name(part string) string { return b.l.Name + "." + part }

func (b *blockParts) add(l Layer) { b.parts = append(b.parts, l) }

// half appends a norm and the layer after it. from is the first column of this
// half's modulation.
func (b *blockParts) half(name string, work Layer, from int) {
	norm, gate := b.name(name+"_norm"), b.name(name+"_gate")
	b.add(Layer{Name: norm, Kind: "layer_norm", Inputs: []string{b.at}, Eps: b.l.Eps, NoAffine: b.l.Condition != ""})
	work.Name, work.Inputs = b.name(name), []string{norm}
	if b.l.Condition == "" {
		work.Residual = b.at
		b.add(work)
		b.at = work.Name
		return
	}
	modulated := b.name(name + "_modulated")
	b.add(Layer{Name: modulated, Kind: "modulate", Inputs: []string{norm, b.name("modulation")}, From: from})
	work.Inputs = []string{modulated}
	b.add(work)
	b.add(Layer{Name: gate, Kind: "gate", Inputs: []string{b.at, work.Name, b.name("modulation")}, From: from + 2*b.width})
	b.at = gate
}

// products names the weights, without ".weight", of the step's own products.
func (s *Step) products() []string {
	switch s.Kind {
	case "linear":
		return []string{s.Name}
	case "mlp":
		return []string{s.Name + ".up", s.Name + ".down"}
	case "attention":
		return []string{s.Name + ".qkv", s.Name + ".out"}
	case "cross_attention":
		return []string{s.Name + ".q", s.Name + ".kv", s.Name + ".out"}
	}
	return nil
}

// tensors names the possible weights of the step.
func (s *Step) tensors() []string {
	all := []string{s.Name + ".gain", s.Name + ".weight", s.Name + ".bias"}
	for _, p := range s.products() {
		if p != s.Name {
			all = append(all, p+".weight", p+".bias")
		}
	}
	return all
}

// multiplications returns the multiplications of one sample in the forward
// pass.
func (s *Step) multiplications() int {
	rows := s.Gives.Rows
	switch s.Kind {
	case "linear":
		return rows * s.Takes[0].Cols * s.Gives.Cols
	case "mlp":
		return rows * s.Hidden * (s.Takes[0].Cols + s.Gives.Cols)
	case "attention":
		return rows * s.Gives.Cols * (4*s.Gives.Cols + 2*rows)
	case "cross_attention":
		m := s.Takes[1]
		return rows*s.Gives.Cols*(2*s.Gives.Cols+2*m.Rows) + 2*m.Rows*m.Cols*s.Gives.Cols
	case "conv1d", "conv2d":
		g := s.Geometry()
		return rows * g.KH * g.KW * g.C / s.Groups * s.Gives.Cols
	case "conv1d_transpose", "conv2d_transpose":
		g := s.Geometry()
		return s.Takes[0].Rows * g.KH * g.KW * s.Takes[0].Cols * s.Gives.Cols
	}
	return 0
}
