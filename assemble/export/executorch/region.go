package executorch

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"mm-abi.org/mm/onnx/lower"
)

// stage is a step of a method: a region that XNNPACK computes, and then single nodes.
type stage struct{ region, single []*lower.Node }

// stages divides nodes so that every region reads only values computed before it.
func (c *converter) stages(nodes []*lower.Node) []stage {
	type place struct {
		stage     int
		delegated bool
	}
	at, out := map[*lower.Value]place{}, []stage{{}}
	for _, n := range nodes {
		p := place{delegated: c.takes(n)}
		for _, v := range n.In {
			from, ok := at[v]
			if ok && p.delegated && !from.delegated {
				from.stage++
			}
			p.stage = max(p.stage, from.stage)
		}
		at[n.Out] = p
		if p.stage == len(out) {
			out = append(out, stage{})
		}
		if s := &out[p.stage]; p.delegated {
			s.region = append(s.region, n)
		} else {
			s.single = append(s.single, n)
		}
	}
	return out
}

// worth reports whether XNNPACK has more to do than to move data.
func worth(nodes []*lower.Node) bool {
	return slices.ContainsFunc(nodes, func(n *lower.Node) bool {
		return !slices.Contains([]lower.Op{lower.Reshape, lower.Transpose, lower.Slice, lower.Concat, lower.Pad}, n.Op)
	})
}

// delegate writes a region as a call of XNNPACK. Results that later nodes or the
// method need are its outputs.
func (c *converter) delegate(nodes []*lower.Node, needed map[*lower.Value]bool) {
	r := &region{c: c, narrow: map[*lower.Value]uint32{}, wide: map[*lower.Value]uint32{}, arguments: map[int]uint32{}}
	for _, n := range nodes {
		r.node(n)
	}
	var outputs []*lower.Value
	for _, n := range nodes {
		if needed[n.Out] {
			outputs = append(outputs, n.Out)
			r.x.outputs = append(r.x.outputs, r.get(n.Out))
		}
	}
	for _, v := range outputs {
		c.at[v] = c.tensor(Float32, v.Shape)
		r.args = append(r.args, c.at[v])
	}
	at := c.p.delegate(r.x.bytes())
	i := slices.Index(c.m.Delegates, at)
	if i < 0 {
		i = len(c.m.Delegates)
		c.m.Delegates = append(c.m.Delegates, at)
	}
	c.m.Calls = append(c.m.Calls, Call{Operator: i, Delegate: true, Args: r.args})
}

// region is the part of a graph that XNNPACK computes in a call. Its images are
// N×H×W×C: a value of three or four dimensions may be in that layout (wide), in the
// graph's (narrow), or in both.
type region struct {
	c            *converter
	x            xnn
	narrow, wide map[*lower.Value]uint32
	args         []int // values of the method
	arguments    map[int]uint32
}

// packed adds weights, which XNNPACK copies before the runtime frees them, and
// returns their index.
func (r *region) packed(data []byte) int {
	r.x.constants = append(r.x.constants, xnnConstant{r.c.p.named(data), len(data)})
	return len(r.x.constants)
}

// floats adds numbers that XNNPACK does not copy: they are an argument.
func (r *region) floats(x []float32, dims ...int) uint32 {
	if len(dims) == 0 {
		dims = []int{1}
	}
	return r.argument(r.c.number32s(x, dims), dims)
}

// argument adds a value of the method.
func (r *region) argument(at int, dims []int) uint32 {
	id, ok := r.arguments[at]
	if !ok {
		id = r.fresh(dims...)
		r.args, r.arguments[at], r.x.inputs = append(r.args, at), id, append(r.x.inputs, id)
	}
	return id
}

// fresh adds a computed value.
func (r *region) fresh(dims ...int) uint32 { return r.x.value(xnnValue{dtype: xnnFloat32, dims: dims}) }

// get returns a value in the graph's layout.
func (r *region) get(v *lower.Value) uint32 {
	id, ok := r.narrow[v]
	wide, turned := r.wide[v]
	switch {
	case ok:
		return id
	case turned && len(v.Shape) == 3:
		s := v.Shape
		flat := r.reshaped(wide, s[0], s[2], s[1])
		id = r.transposed(flat, []int{s[0], s[2], s[1]}, 0, 2, 1)
	case turned:
		id = r.transposed(wide, widened(v.Shape), 0, 3, 1, 2)
	case v.Const != nil:
		id = r.floats(v.Const.Floats, v.Shape...)
	default:
		id = r.argument(r.c.get(v), v.Shape)
	}
	r.narrow[v] = id
	return id
}

// images returns a value as N×H×W×C.
func (r *region) images(v *lower.Value) uint32 {
	id, ok := r.wide[v]
	switch s := v.Shape; {
	case ok:
		return id
	case v.Const != nil && len(s) == 4:
		id = r.floats(permuted(v.Const.Floats, s, []int{0, 2, 3, 1}), widened(s)...)
	case v.Const != nil && v.Size() == 1:
		return r.get(v)
	case len(s) == 3:
		id = r.reshaped(r.transposed(r.get(v), s, 0, 2, 1), widened(s)...)
	default:
		id = r.transposed(r.get(v), s, 0, 2, 3, 1)
	}
	r.wide[v] = id
	return id
}

// widened returns the shape of N×C×H×W or N×C×W as N×H×W×C.
func widened(s []int) []int {
	if len(s) == 3 {
		return []int{s[0], 1, s[2], s[1]}
	}
	return []int{s[0], s[2], s[3], s[1]}
}

func (r *region) reshaped(id uint32, shape ...int) uint32 {
	out := r.fresh(shape...)
	r.x.node(xnnReshape, uint32(len(shape)), shape, id, out, uint32(0))
	return out
}

func (r *region) transposed(id uint32, shape []int, order ...int) uint32 {
	dims := make([]int, len(order))
	for i, at := range order {
		dims[i] = shape[at]
	}
	out := r.fresh(dims...)
	r.x.node(xnnTranspose, uint32(len(order)), order, id, out, uint32(0))
	return out
}

// layout decides in which layout an operation of single elements runs, and returns
// its operands and its result.
func (r *region) layout(n *lower.Node) (in []uint32, out uint32) {
	wide, fits := false, len(n.Out.Shape) == 3 || len(n.Out.Shape) == 4
	for _, v := range n.In {
		_, is := r.wide[v]
		wide = wide || is
		fits = fits && (len(v.Shape) == len(n.Out.Shape) && (len(v.Shape) == 4 || v.Const == nil) || v.Const != nil && v.Size() == 1)
	}
	if wide && fits {
		for _, v := range n.In {
			in = append(in, r.images(v))
		}
		out = r.fresh(widened(n.Out.Shape)...)
		r.wide[n.Out] = out
		return in, out
	}
	for _, v := range n.In {
		in = append(in, r.get(v))
	}
	return in, r.result(n)
}

// result adds the value of a node's result in the graph's layout.
func (r *region) result(n *lower.Node) uint32 {
	r.narrow[n.Out] = r.fresh(n.Out.Shape...)
	return r.narrow[n.Out]
}

// permuted returns a tensor of four dimensions with them in another order.
func permuted(data []float32, shape, order []int) []float32 {
	step := make([]int, 4)
	for i, n := 3, 1; i >= 0; i-- {
		step[i] = n
		n *= shape[i]
	}
	out := make([]float32, 0, len(data))
	for a := range shape[order[0]] {
		for b := range shape[order[1]] {
			for c := range shape[order[2]] {
				for d := range shape[order[3]] {
					out = append(out, data[a*step[order[0]]+b*step[order[1]]+c*step[order[2]]+d*step[order[3]]])
				}
			}
		}
	}
	return out
}

// named returns the key of data that delegates of all methods share.
func (p *Program) named(data []byte) string {
	sum := sha256.Sum256(data)
	key := hex.EncodeToString(sum[:])
	if _, ok := p.keys[key]; !ok {
		if p.keys == nil {
			p.keys = map[string]int{}
		}
		p.keys[key] = len(p.Named)
		p.Named = append(p.Named, Named{Key: key, Data: data})
	}
	return key
}
