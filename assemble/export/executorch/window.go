package executorch

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx/lower"
)

// pads returns pads as constant_pad_nd counts them: from the last dimension, before
// and after.
func pads(before, after []int) (out []int) {
	for i := len(before) - 1; i >= 0; i-- {
		out = append(out, before[i], after[i])
	}
	return out
}

// padded extends the last dimensions of a tensor.
func (c *converter) padded(at int, before, after []int, value float64) int {
	t := c.m.Values[at].(*Tensor)
	shape, first := slices.Clone(t.Shape), len(t.Shape)-len(before)
	for i := range before {
		shape[first+i] += before[i] + after[i]
	}
	return c.call("aten::constant_pad_nd.out", t.Type, shape, at, c.counts(pads(before, after)...), c.number(value))
}

// dilations returns those of a node, 1 where it has none.
func dilations(n *lower.Node, rank int) []int {
	if len(n.Dilations) > 0 {
		return n.Dilations
	}
	return slices.Repeat([]int{1}, rank)
}

func (c *converter) conv(n *lower.Node) (int, error) {
	rank := len(n.Out.Shape) - 2
	if rank > 2 {
		return 0, fmt.Errorf("convolution over %d dimensions", rank)
	}
	x, before := c.get(n.In[0]), n.Before
	if !slices.Equal(n.Before, n.After) {
		x, before = c.padded(x, n.Before, n.After, 0), make([]int, rank)
	}
	w, _ := c.weights(n)
	return c.floats("aten::convolution.out", n.Out.Shape, x, w, c.bias(n), c.counts(n.Strides...), c.counts(before...), c.counts(dilations(n, rank)...),
		c.flag(false), c.counts(make([]int, rank)...), c.count(n.Groups)), nil
}

func (c *converter) bias(n *lower.Node) int {
	if len(n.In) < 3 {
		return c.none()
	}
	return c.get(n.In[2])
}

// transposedConv writes a transposed convolution without pads, and cuts its result.
func (c *converter) transposedConv(n *lower.Node) (int, error) {
	rank := len(n.Out.Shape) - 2
	if rank > 2 {
		return 0, fmt.Errorf("convolution over %d dimensions", rank)
	}
	each, kernel, shape := dilations(n, rank), n.In[1].Shape[2:], slices.Clone(n.Out.Shape)
	more := make([]int, rank)
	for i := range rank {
		full := (n.In[0].Shape[2+i]-1)*n.Strides[i] + each[i]*(kernel[i]-1) + 1
		more[i] = max(0, n.Before[i]+n.Out.Shape[2+i]-full)
		if more[i] >= max(n.Strides[i], each[i]) || n.Before[i] < 0 {
			return 0, fmt.Errorf("pads %v, %v", n.Before, n.After)
		}
		shape[2+i] = full + more[i]
	}
	w, _ := c.weights(n)
	at := c.floats("aten::convolution.out", shape, c.get(n.In[0]), w, c.bias(n), c.counts(n.Strides...), c.counts(make([]int, rank)...), c.counts(each...),
		c.flag(true), c.counts(more...), c.count(n.Groups))
	for i := range rank {
		if want := n.Out.Shape[2+i]; shape[2+i] != want {
			shape = slices.Clone(shape)
			shape[2+i] = want
			at = c.floats("aten::slice_copy.Tensor_out", shape, at, c.count(2+i), c.count(n.Before[i]), c.count(n.Before[i]+want), c.count(1))
		}
	}
	return at, nil
}

// pool writes a pool. One over a single dimension has rows of height 1.
func (c *converter) pool(n *lower.Node) (int, error) {
	rank := len(n.Out.Shape) - 2
	if rank > 2 {
		return 0, fmt.Errorf("pool over %d dimensions", rank)
	}
	each := dilations(n, rank)
	lift := func(shape []int) []int { return slices.Concat(shape[:2], flat(shape[2:], 1)) }
	x, before := c.get(n.In[0]), slices.Clone(n.Before)
	small := func(p, k int) bool { return p >= 0 && 2*p <= k }
	fits := slices.Equal(n.Before, n.After)
	for i, p := range before {
		fits = fits && small(p, n.Kernel[i])
	}
	if !fits {
		value := math.Inf(-1)
		if n.Op == lower.AvgPool {
			if value = 0; !n.Counted {
				return 0, fmt.Errorf("pads %v, %v that do not count", n.Before, n.After)
			}
		}
		x, before = c.padded(x, n.Before, n.After, value), make([]int, rank)
	}
	x = c.alias(x, lift(c.shape(x)))
	shape := lift(n.Out.Shape)
	args := []int{x, c.counts(flat(n.Kernel, 1)...), c.counts(flat(n.Strides, 1)...), c.counts(flat(before, 0)...)}
	if n.Op == lower.MaxPool {
		more := []*Tensor{{Type: Int64, Shape: shape}}
		return c.alias(c.calls("aten::max_pool2d_with_indices.out", Float32, shape, more, append(args, c.counts(flat(each, 1)...), c.flag(false))...), n.Out.Shape), nil
	}
	if slices.ContainsFunc(each, func(d int) bool { return d != 1 }) {
		return 0, fmt.Errorf("dilations %v", each)
	}
	return c.alias(c.floats("aten::avg_pool2d.out", shape, append(args, c.flag(false), c.flag(n.Counted), c.none())...), n.Out.Shape), nil
}

// resize writes Resize of rows and columns by whole factors.
func (c *converter) resize(n *lower.Node) (int, error) {
	corner, nearest, _ := strings.Cut(n.Corner, " ")
	in, out := n.In[0].Shape, n.Out.Shape
	if len(in) != 4 || in[0] != out[0] || in[1] != out[1] {
		return 0, fmt.Errorf("shapes %v and %v", in, out)
	}
	if corner == "pytorch_half_pixel" && out[2] > 1 && out[3] > 1 {
		corner = "half_pixel"
	}
	whole, size := out[2]%in[2] == 0 && out[3]%in[3] == 0, c.counts(out[2], out[3])
	switch {
	case n.Mode == "nearest" && whole && (corner == "half_pixel" || corner == "asymmetric" && nearest == "floor"):
		return c.floats("aten::upsample_nearest2d.vec_out", out, c.get(n.In[0]), size, c.none()), nil
	case n.Mode == "linear" && (corner == "half_pixel" || corner == "align_corners"):
		return c.floats("aten::upsample_bilinear2d.vec_out", out, c.get(n.In[0]), size, c.flag(corner == "align_corners"), c.none()), nil
	}
	return 0, fmt.Errorf("mode %s with %s from %v to %v", n.Mode, n.Corner, in, out)
}

// pad writes Pad. Modes other than constant extend the last two dimensions only.
func (c *converter) pad(n *lower.Node) (int, error) {
	if slices.Min(slices.Concat(n.Before, n.After)) < 0 {
		return 0, fmt.Errorf("negative pads %v, %v", n.Before, n.After)
	}
	if n.Mode == "constant" {
		return c.padded(c.get(n.In[0]), n.Before, n.After, float64(n.Low)), nil
	}
	name, ok := map[string]string{"reflect": "aten::reflection_pad2d.out", "edge": "aten::replication_pad2d.out"}[n.Mode]
	last := len(n.Before) - 2
	if !ok || len(n.Before) < 3 || len(n.Before) > 4 || slices.Max(slices.Concat(n.Before[:last], n.After[:last])) > 0 {
		return 0, fmt.Errorf("mode %q with pads %v, %v", n.Mode, n.Before, n.After)
	}
	return c.floats(name, n.Out.Shape, c.get(n.In[0]), c.counts(pads(n.Before[last:], n.After[last:])...)), nil
}
