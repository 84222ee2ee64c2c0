package kernel

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx/engine/array"
)

// Axis brings an axis into [0, rank), where it may count from the end.
func Axis(v, rank int) (int, error) {
	if v < -rank || v >= rank {
		return 0, fmt.Errorf("axis %d of %d dimensions", v, rank)
	}
	if v < 0 {
		v += rank
	}
	return v, nil
}

// AllAxes brings axes into [0, rank), each once, sorted.
func AllAxes(list []int, rank int) ([]int, error) {
	out := make([]int, len(list))
	for i, v := range list {
		k, err := Axis(v, rank)
		if err != nil {
			return nil, err
		}
		out[i] = k
	}
	slices.Sort(out)
	if len(slices.Compact(slices.Clone(out))) != len(out) {
		return nil, fmt.Errorf("the axes %v name one twice", list)
	}
	return out, nil
}

// Sequence is 0 to n-1.
func Sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Product multiplies dimensions that are known to be sound.
func Product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// Strides are the distances in elements of a row-major array.
func Strides(shape []int) []int {
	out := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = n
		n *= shape[i]
	}
	return out
}

// Broadcast gives the shape that shapes have in common by ONNX's
// multidirectional broadcasting.
func Broadcast(shapes ...[]int) ([]int, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		for i, d := range s {
			k := rank - len(s) + i
			switch {
			case d == out[k] || d == 1:
			case out[k] == 1:
				out[k] = d
			default:
				return nil, fmt.Errorf("the shapes %v do not broadcast", shapes)
			}
		}
	}
	return out, nil
}

// Stretch gives the strides by which an array of one shape is read as one of
// another that it broadcasts to.
func Stretch(shape, to []int) []int {
	own, out := Strides(shape), make([]int, len(to))
	for i, d := range shape {
		if d != 1 {
			out[len(to)-len(shape)+i] = own[i]
		}
	}
	return out
}

// Pairing is how two arrays are walked together: rows of the innermost
// dimension, in which each goes on by 0 or 1 elements.
type Pairing struct {
	shape  []int // of the outer dimensions
	sa, sb []int
	N      int // elements of a row
	IA, IB int // how far each goes on from one to the next: 0 or 1
}

// Pair merges the dimensions that both arrays walk alike.
func Pair(a, b, out []int) Pairing {
	sa, sb := Stretch(a, out), Stretch(b, out)
	var p Pairing
	p.N, p.IA, p.IB = 1, 1, 1
	i := len(out) - 1
	for i >= 0 && out[i] == 1 {
		i--
	}
	if i >= 0 {
		p.N, p.IA, p.IB = out[i], sa[i], sb[i]
		for i--; i >= 0 && (out[i] == 1 || sa[i] == p.IA*p.N && sb[i] == p.IB*p.N); i-- {
			p.N *= out[i]
		}
	}
	p.shape, p.sa, p.sb = out[:i+1], sa[:i+1], sb[:i+1]
	return p
}

// At is where row r begins in both arrays, by element.
func (p *Pairing) At(r int) (a, b int) {
	for i := len(p.shape) - 1; i >= 0; i-- {
		k := r % p.shape[i]
		r /= p.shape[i]
		a += k * p.sa[i]
		b += k * p.sb[i]
	}
	return a, b
}

// At gives the matrices of batch i.
func (g *Geometry) At(i int) (a, b int) {
	p := Pairing{shape: g.Outer, sa: g.sa, sb: g.sb}
	return p.At(i)
}

// Geometry is how the factors of MatMul meet.
type Geometry struct {
	Shape, Outer []int // of the product, and of its matrices' batch
	sa, sb       []int
	M, K, N      int // matrices of M×K by matrices of K×N
	Batches      int
	Same         bool // both left factors lie one behind the other and the right one is one
}

// Factors gives how arrays of two shapes are multiplied by NumPy's rules,
// or what is wrong with them.
func Factors(a, b []int) (g Geometry, err error) {
	if len(a) == 0 || len(b) == 0 {
		return g, fmt.Errorf("a product of %v and %v", a, b)
	}
	left, right := len(a) == 1, len(b) == 1
	if left {
		a = []int{1, a[0]}
	}
	if right {
		b = []int{b[0], 1}
	}
	g.M, g.K, g.N = a[len(a)-2], a[len(a)-1], b[len(b)-1]
	if b[len(b)-2] != g.K {
		return g, fmt.Errorf("a product of %v and %v", a, b)
	}
	oa, ob := a[:len(a)-2], b[:len(b)-2]
	if g.Outer, err = Broadcast(oa, ob); err != nil {
		return g, err
	}
	g.sa, g.sb = Stretch(oa, g.Outer), Stretch(ob, g.Outer)
	if g.Batches, err = array.Count(g.Outer); err != nil {
		return g, err
	}
	g.Same = Product(ob) == 1 && Product(oa) == g.Batches
	g.Shape = slices.Clone(g.Outer)
	if !left {
		g.Shape = append(g.Shape, g.M)
	}
	if !right {
		g.Shape = append(g.Shape, g.N)
	}
	return g, nil
}
