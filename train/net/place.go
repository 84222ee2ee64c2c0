package net

import (
	"mm-abi.org/mm/train/nn"
)

// place returns the op that computes a step.
func (p *Pass[F]) place(at place[F]) op[F] {
	n, s := p.net, at.step
	switch s.Kind {
	case "linear":
		return newLinear(n, at)
	case "mlp":
		return newMLP(n, at)
	case "attention":
		return newAttention(n, at)
	case "cross_attention":
		return newCrossAttention(n, at)
	case "layer_norm":
		norm := nn.LayerNorm[F]{Gain: n.tensor(s.Name + ".gain"), Bias: n.tensor(s.Name + ".bias"), Eps: F(s.Eps)}
		return &layerNorm[F]{at, norm, nn.NewMatrix[F](at.out.y.Rows, 2)}
	case "rms_norm":
		return &rmsNorm[F]{at, nn.Norm[F]{Gain: n.tensor(s.Name + ".gain"), Eps: F(s.Eps)}, make([]F, at.out.y.Rows)}
	case "modulate":
		return &modulate[F]{at}
	case "gate":
		return &gate[F]{at}
	case "conv1d", "conv2d":
		if s.Depthwise() {
			c := &nn.Depthwise[F]{Geometry: s.Geometry(), Weight: n.tensor(s.Name + ".weight"), Bias: n.tensor(s.Name + ".bias")}
			return &windows[F]{at, &nn.DepthwisePass[F]{Depthwise: c, X: at.in[0].y, Y: at.out.y, DY: at.out.dy}}
		}
		return &windows[F]{at, &nn.ConvPass[F]{Conv: n.packed[s.Name].(*nn.Conv[F]), X: at.in[0].y, Y: at.out.y, DY: at.out.dy}}
	case "conv1d_transpose", "conv2d_transpose":
		return &windows[F]{at, &nn.TransposedPass[F]{Transposed: n.packed[s.Name].(*nn.Transposed[F]), X: at.in[0].y, Y: at.out.y, DY: at.out.dy}}
	case "position":
		return &position[F]{at, n.tensor(s.Name + ".weight")}
	case "queries":
		return &queries[F]{at, n.tensor(s.Name + ".weight")}
	case "embedding":
		return &embedding[F]{at, n.tensor(s.Name + ".weight")}
	case "time":
		return &timing[F]{at, s.Frequencies()}
	case "scale":
		return &affine[F]{at}
	case "mean":
		return &mean[F]{at}
	case "upsample1d", "upsample2d":
		return &pick[F]{at, s.Sources()}
	case "slice":
		if s.Axis == "rows" {
			return &pick[F]{at, s.Sources()}
		}
		return &columns[F]{at}
	case "pixel_shuffle":
		return &shuffle[F]{at}
	case "add":
		return &add[F]{at}
	case "multiply":
		return &multiply[F]{at}
	case "concat":
		return &concat[F]{at}
	case "reshape":
		return &reshape[F]{at}
	}
	return &activation[F]{at, nn.Activation(s.Kind)}
}
