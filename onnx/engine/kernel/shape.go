package kernel

import (
	"fmt"
	"slices"
)

// Axis maps an axis, which may count from the end, to [0, rank).
func Axis(v, rank int) (int, error) {
	if v < -rank || v >= rank {
		return 0, fmt.Errorf("axis %d out of range for %d dimensions", v, rank)
	}
	if v < 0 {
		v += rank
	}
	return v, nil
}

// AllAxes maps axes to [0, rank), without duplicates, sorted.
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
		return nil, fmt.Errorf("duplicate axis in %v", list)
	}
	return out, nil
}

// Sequence returns 0 to n-1.
func Sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Product multiplies valid dimensions.
func Product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// Strides returns the strides in elements of a row-major array.
func Strides(shape []int) []int {
	out := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = n
		n *= shape[i]
	}
	return out
}

// Broadcast returns the common shape of shapes by ONNX's multidirectional
// broadcasting.
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
				return nil, fmt.Errorf("shapes %v do not broadcast", shapes)
			}
		}
	}
	return out, nil
}

// Stretch returns the strides by which an array of one shape is read in a shape
// that it broadcasts to.
func Stretch(shape, to []int) []int {
	strides, out := Strides(shape), make([]int, len(to))
	for i, d := range shape {
		if d != 1 {
			out[len(to)-len(shape)+i] = strides[i]
		}
	}
	return out
}

// Pairing describes how two arrays are walked together: by rows of the
// innermost dimension, in which each advances by 0 or 1 elements.
type Pairing struct {
	shape  []int // outer dimensions
	sa, sb []int
	N      int // elements of a row
	IA, IB int // the advance of each within a row: 0 or 1
}

// Pair merges the dimensions in which both arrays have the same strides.
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

// At returns the index of the first element of row r in both arrays.
func (p *Pairing) At(r int) (a, b int) {
	for i := len(p.shape) - 1; i >= 0; i-- {
		k := r % p.shape[i]
		r /= p.shape[i]
		a += k * p.sa[i]
		b += k * p.sb[i]
	}
	return a, b
}

// At returns the indices of the matrices of batch i.
func (g *Geometry) At(i int) (a, b int) {
	p := Pairing{shape: g.Outer, sa: g.sa, sb: g.sb}
	return p.At(i)
}

// Geometry describes the product of the factors of MatMul.
type Geometry struct {
	Shape, Outer []int // of the product, and of its batch of matrices
	sa, sb       []int
	M, K, N      int // matrices of M×K by matrices of K×N
	Batches      int
	Same         bool // the left factors are contiguous and the right one is shared
}

// Factors returns how arrays of two shapes are multiplied by NumPy's rules, or
// an error.
func Factors(a, b []int) (g Geometry, err error) {
	if len(a) == 0 || len(b) == 0 {
		return g, fmt.Errorf("shape mismatch: product of %v and %v", a, b)
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
		return g, fmt.Errorf("shape mismatch: product of %v and %v", a, b)
	}
	oa, ob := a[:len(a)-2], b[:len(b)-2]
	if g.Outer, err = Broadcast(oa, ob); err != nil {
		return g, err
	}
	g.sa, g.sb = Stretch(oa, g.Outer), Stretch(ob, g.Outer)
	if g.Batches, err = Count(g.Outer); err != nil {
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
