package lower

import (
	"math"
	"slices"
)

// simplify fuses the error-function form of GELU, and drops nodes that no output
// needs.
func (g *Graph) simplify() {
	f := newFlow(g)
	for _, n := range g.Nodes {
		if n.Op == Erf {
			f.gelu(n)
		}
	}
	needed := map[*Value]bool{}
	for _, o := range g.Outputs {
		needed[o] = true
	}
	var kept []*Node
	for _, n := range slices.Backward(g.Nodes) {
		if !needed[n.Out] {
			continue
		}
		for _, v := range n.In {
			needed[v] = true
		}
		kept = append(kept, n)
	}
	slices.Reverse(kept)
	g.Nodes = kept
}

// flow finds producers and readers.
type flow struct {
	from map[*Value]*Node
	to   map[*Value][]*Node
}

func newFlow(g *Graph) *flow {
	f := &flow{map[*Value]*Node{}, map[*Value][]*Node{}}
	for _, n := range g.Nodes {
		f.from[n.Out] = n
		for _, v := range n.In {
			f.to[v] = append(f.to[v], n)
		}
	}
	for _, o := range g.Outputs {
		f.to[o] = append(f.to[o], nil)
	}
	return f
}

// only returns the only reader of a value if it is the operator.
func (f *flow) only(v *Value, op Op) *Node {
	if r := f.to[v]; len(r) == 1 && r[0] != nil && r[0].Op == op {
		return r[0]
	}
	return nil
}

// other returns the operand of a node that is not v.
func (n *Node) other(v *Value) *Value {
	if n.In[0] == v {
		return n.In[1]
	}
	return n.In[0]
}

// number reports whether v is a constant number close to x.
func number(v *Value, x float64) bool {
	return v.Const != nil && len(v.Const.Floats) == 1 && math.Abs(float64(v.Const.Floats[0])-x) < 1e-4*math.Abs(x)
}

// gelu replaces x·½·(1 + erf(x/√2)) by GELU, in any order of its factors.
func (f *flow) gelu(erf *Node) {
	scaled := f.from[erf.In[0]]
	if scaled == nil || scaled.Op != Div && scaled.Op != Mul {
		return
	}
	var x *Value
	switch {
	case scaled.Op == Div && number(scaled.In[1], math.Sqrt2):
		x = scaled.In[0]
	case scaled.Op == Mul && number(scaled.In[1], 1/math.Sqrt2):
		x = scaled.In[0]
	case scaled.Op == Mul && number(scaled.In[0], 1/math.Sqrt2):
		x = scaled.In[1]
	default:
		return
	}
	more := f.only(erf.Out, Add)
	if more == nil || !number(more.other(erf.Out), 1) {
		return
	}
	first := f.only(more.Out, Mul)
	if first == nil {
		return
	}
	last := first
	switch factor := first.other(more.Out); {
	case number(factor, 0.5): // ½·(1 + erf) · x
		if last = f.only(first.Out, Mul); last == nil || last.other(first.Out) != x {
			return
		}
	case factor == x: // x·(1 + erf) · ½
		if last = f.only(first.Out, Mul); last == nil || !number(last.other(first.Out), 0.5) {
			return
		}
	default: // (½·x) · (1 + erf)
		half := f.from[factor]
		if half == nil || half.Op != Mul || !(half.In[0] == x && number(half.In[1], 0.5) || half.In[1] == x && number(half.In[0], 0.5)) {
			return
		}
	}
	*last = Node{Op: Gelu, Name: last.Name, In: []*Value{x}, Out: last.Out, Mode: "none"}
}
