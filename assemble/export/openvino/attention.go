package openvino

import (
	"slices"

	"mm-abi.org/mm/onnx/lower"
	"mm-abi.org/mm/onnx/window"
)

// attention is an operator of the writer: queries, keys, values, and the mask. It is
// one operation of OpenVINO, which its plugins join with the caches.
const attention lower.Op = "Attention"

// attend replaces the products, the mask and the softmax of each attention by one node.
func attend(g *lower.Graph) {
	from, to := map[*lower.Value]*lower.Node{}, map[*lower.Value][]*lower.Node{}
	for _, n := range g.Nodes {
		from[n.Out] = n
		for _, v := range n.In {
			to[v] = append(to[v], n)
		}
	}
	for _, n := range g.Nodes {
		if n.Op == lower.Softmax {
			replace(n, from, to)
		}
	}
	prune(g)
}

// replace replaces the attention around a softmax, if it has the form that package
// window writes: queries that share keys may be stacked for both products.
func replace(n *lower.Node, from map[*lower.Value]*lower.Node, to map[*lower.Value][]*lower.Node) {
	through := func(v *lower.Value, op lower.Op) (*lower.Value, bool) {
		if p := from[v]; p != nil && p.Op == op {
			return p.In[0], true
		}
		return v, false
	}
	masked := from[n.In[0]]
	if masked == nil || masked.Op != lower.Add || masked.In[1].Name != window.Masks && masked.In[1].Name != window.LocalMasks || n.Axis != len(n.Out.Shape)-1 {
		return
	}
	scores, stacked := through(masked.In[0], lower.Reshape)
	first := from[scores]
	if first == nil || first.Op != lower.MatMul {
		return
	}
	q, k := first.In[0], first.In[1]
	if stacked {
		q, _ = through(q, lower.Reshape)
	}
	if !first.TransposeB {
		if t := from[k]; t == nil || t.Op != lower.Transpose || !slices.Equal(t.Perm, []int{0, 1, 3, 2}) {
			return
		}
		k = from[k].In[0]
	}
	last := next(n, lower.Reshape, to, stacked)
	last = next(last, lower.MatMul, to, true)
	if last == nil {
		return
	}
	v := last.In[1]
	last = next(last, lower.Reshape, to, stacked)
	want := append(slices.Clone(n.Out.Shape[:3]), v.Shape[len(v.Shape)-1])
	if last == nil || len(q.Shape) != 4 || !slices.Equal(q.Shape[:3], want[:3]) || !slices.Equal(last.Out.Shape, want) || !slices.Equal(k.Shape, v.Shape) {
		return
	}
	*last = lower.Node{Op: attention, Name: last.Name, In: []*lower.Value{q, k, v, masked.In[1]}, Out: last.Out}
}

// next returns the only reader of a node's result if it is the operator, and the node
// itself if there is to be none.
func next(n *lower.Node, op lower.Op, to map[*lower.Value][]*lower.Node, is bool) *lower.Node {
	if n == nil || !is {
		return n
	}
	if r := to[n.Out]; len(r) == 1 && r[0].Op == op && r[0].In[0] == n.Out {
		return r[0]
	}
	return nil
}

// prune drops the nodes that no output needs.
func prune(g *lower.Graph) {
	needed := map[*lower.Value]bool{}
	for _, v := range g.Outputs {
		needed[v] = true
	}
	var kept []*lower.Node
	for _, n := range slices.Backward(g.Nodes) {
		if needed[n.Out] {
			kept = append(kept, n)
			for _, v := range n.In {
				needed[v] = true
			}
		}
	}
	slices.Reverse(kept)
	g.Nodes = kept
}

// attended writes an attention. Keys and values that several queries share are
// repeated, which plugins recognize and do not compute.
func (w *writer) attended(n *lower.Node) *result {
	q, mask := w.value(n.In[0]), w.value(n.In[3])
	k, v := w.repeated(w.value(n.In[1]), q.shape[1]), w.repeated(w.value(n.In[2]), q.shape[1])
	return w.add("ScaledDotProductAttention", "opset13", f32, n.Out.Shape, []*result{q, k, v, mask, w.number(1)}, "causal", "false")
}

// repeated returns keys or values for each of so many heads.
func (w *writer) repeated(x *result, heads int) *result {
	b, g, s, d := x.shape[0], x.shape[1], x.shape[2], x.shape[3]
	if g == heads {
		return x
	}
	each := w.add("Unsqueeze", "opset1", f32, []int{b, g, 1, s, d}, []*result{x, w.ints(2)})
	each = w.add("Broadcast", "opset3", f32, []int{b, g, heads / g, s, d}, []*result{each, w.ints(1, 1, heads/g, 1, 1)}, "mode", "bidirectional")
	return w.add("Reshape", "opset1", f32, []int{b, heads, s, d}, []*result{each, w.ints(0, heads, -1, d)}, "special_zero", "true")
}
