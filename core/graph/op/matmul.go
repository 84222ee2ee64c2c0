package op

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// panels gives the right factor of a product in the order that the kernel
// reads it, kept from run to run when it is fixed.
func (c *Call) panels(b []float32, k, n int, trans, fixed bool) *tensor.Panels[float32] {
	if p, ok := (*c.Cache).(*tensor.Panels[float32]); ok && fixed {
		return p
	}
	p := tensor.NewPanels[float32](k, n)
	if trans {
		p.PackTransposed(b, k)
	} else {
		p.Pack(b, n)
	}
	if fixed {
		*c.Cache = p
	}
	return p
}

// rowsPerTask is how many rows of a product go together at least.
const rowsPerTask = 24

// multiply computes o = a·b for m rows on the pool, cut into tiles of rows and
// columns. Which thread does one changes no bit.
func (c *Call) multiply(o []float32, m int, left tensor.Left[float32], b *tensor.Panels[float32], k, n int) {
	width := b.Width()
	cols := max(width, (grain*4/max(1, k)+width-1)/width*width)
	across := (n + cols - 1) / cols
	rows := m
	if m > 2*rowsPerTask {
		rows = max(rowsPerTask, min(m, (1<<20)/max(1, k*min(cols, n))/rowsPerTask*rowsPerTask))
	}
	down := (m + rows - 1) / rows
	c.each(across*down, min(grain, rows*min(cols, n)*k/8), func(_, lo, hi int) {
		for t := lo; t < hi; t++ {
			i, j := t/across*rows, t%across*cols
			mm, nn := min(rows, m-i), min(cols, n-j)
			view := b.View(0, k, j, j+nn)
			part := tensor.Left[float32]{Data: left.Data[i*left.Row:], Row: left.Row, Col: left.Col}
			view.Mul(mm, 1, part, 0, o[i*n+j:], n)
		}
	})
}

// matmul is MatMul with NumPy's rules of dimensions.
func matmul(c *Call) error {
	if t := c.In[0].Type; t != onnx.FLOAT {
		return products.by(0)(c)
	}
	a, b := c.In[0], c.In[1]
	if err := c.want(onnx.FLOAT, 1); err != nil {
		return err
	}
	g, err := factors(a.Shape, b.Shape)
	if err != nil {
		return err
	}
	out, err := c.result(0, onnx.FLOAT, g.shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o, x, y := array.Of[float32](out), array.Of[float32](a), array.Of[float32](b)
	if g.k == 0 {
		clear(o)
		return nil
	}
	fixed := c.fixed(1)
	if g.shared() { // one right factor: all rows at once
		c.multiply(o, g.m*g.batches, tensor.Rows(x, g.k), c.panels(y, g.k, g.n, false, fixed), g.k, g.n)
		return nil
	}
	for i := range g.batches {
		ai, bi := g.at(i)
		p := c.panels(y[bi*g.k*g.n:(bi+1)*g.k*g.n], g.k, g.n, false, false)
		c.multiply(o[i*g.m*g.n:(i+1)*g.m*g.n], g.m, tensor.Rows(x[ai*g.m*g.k:(ai+1)*g.m*g.k], g.k), p, g.k, g.n)
	}
	return nil
}

// geometry is how the factors of MatMul meet.
type geometry struct {
	shape, outer []int
	sa, sb       []int
	m, k, n      int
	batches      int
	same         bool // both left factors lie one behind the other and the right one is one
}

func (g *geometry) shared() bool { return g.same }

// at gives the matrices of batch i.
func (g *geometry) at(i int) (a, b int) {
	p := pairing{shape: g.outer, sa: g.sa, sb: g.sb}
	return p.at(i)
}

func factors(a, b []int) (g geometry, err error) {
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
	g.m, g.k, g.n = a[len(a)-2], a[len(a)-1], b[len(b)-1]
	if b[len(b)-2] != g.k {
		return g, fmt.Errorf("a product of %v and %v", a, b)
	}
	oa, ob := a[:len(a)-2], b[:len(b)-2]
	if g.outer, err = broadcast(oa, ob); err != nil {
		return g, err
	}
	g.sa, g.sb = stretch(oa, g.outer), stretch(ob, g.outer)
	if g.batches, err = array.Count(g.outer); err != nil {
		return g, err
	}
	g.same = product(ob) == 1 && product(oa) == g.batches
	g.shape = slices.Clone(g.outer)
	if !left {
		g.shape = append(g.shape, g.m)
	}
	if !right {
		g.shape = append(g.shape, g.n)
	}
	return g, nil
}

// slow is a product of numbers that have no kernel.
func slow[T number](c *Call) error {
	if err := c.want(typeOf[T](), 1); err != nil {
		return err
	}
	g, err := factors(c.In[0].Shape, c.In[1].Shape)
	if err != nil {
		return err
	}
	out, err := c.result(0, typeOf[T](), g.shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o, x, y := array.Of[T](out), array.Of[T](c.In[0]), array.Of[T](c.In[1])
	c.each(g.batches*g.m, g.k*g.n, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			ai, bi := g.at(r / g.m)
			row, left, right := o[r*g.n:(r+1)*g.n], x[(ai*g.m+r%g.m)*g.k:], y[bi*g.k*g.n:]
			clear(row)
			for i := range g.k {
				v := left[i]
				for j := range row {
					row[j] += v * right[i*g.n+j]
				}
			}
		}
	})
	return nil
}

// gemm is alpha·A·B + beta·C with either factor transposed.
func gemm(c *Call) error {
	in, err := c.floats(0, 1, 2)
	if err != nil {
		return err
	}
	a, b := c.In[0], c.In[1]
	if a.Rank() != 2 || b.Rank() != 2 {
		return fmt.Errorf("a product of %v and %v", a.Shape, b.Shape)
	}
	ta, tb := c.int("transA", 0) != 0, c.int("transB", 0) != 0
	m, k, n, kb := a.Shape[0], a.Shape[1], b.Shape[1], b.Shape[0]
	left := tensor.Rows(in[0], k)
	if ta {
		m, k = k, m
		left = tensor.Columns(in[0], m)
	}
	if tb {
		n, kb = kb, n
	}
	if k != kb {
		return fmt.Errorf("a product of %v and %v", a.Shape, b.Shape)
	}
	out, err := c.result(0, onnx.FLOAT, m, n)
	if err != nil || out.Len() == 0 {
		return err
	}
	o := array.Of[float32](out)
	if k == 0 {
		clear(o)
	} else {
		c.multiply(o, m, left, c.panels(in[1], k, n, tb, c.fixed(1)), k, n)
	}
	if alpha := c.float("alpha", 1); alpha != 1 {
		tensor.Scale(o, alpha)
	}
	if in[2] == nil {
		return nil
	}
	shape, err := broadcast(c.In[2].Shape, out.Shape)
	if err != nil || !slices.Equal(shape, out.Shape) {
		return fmt.Errorf("%v does not broadcast to %v", c.In[2].Shape, out.Shape)
	}
	beta, s := c.float("beta", 1), stretch(c.In[2].Shape, shape)
	for i := range m {
		for j := range n {
			o[i*n+j] += beta * in[2][i*s[0]+j*s[1]]
		}
	}
	return nil
}

// einsum sums over the letters that the result lacks. Factors are brought
// together by broadcasting: right for any equation, quick for none.
func einsum[T number](c *Call) error {
	in := make([][]T, len(c.In))
	for i := range in {
		if err := c.want(typeOf[T](), i); err != nil || c.In[i] == nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		in[i] = array.Of[T](c.In[i])
	}
	terms, result, err := letters(c.text("equation", ""), c.In)
	if err != nil {
		return err
	}
	var all []rune
	dims := map[rune]int{}
	for i, t := range terms {
		for k, l := range t {
			d := c.In[i].Shape[k]
			if old, ok := dims[l]; ok && old != d && old != 1 && d != 1 {
				return fmt.Errorf("%d and %d for one letter", old, d)
			} else if !ok {
				all = append(all, l)
			}
			dims[l] = max(d, dims[l])
			if d == 0 {
				return fmt.Errorf("sums over nothing are not supported")
			}
		}
	}
	shape, full := []int{}, []rune(result)
	for _, l := range full {
		if _, ok := dims[l]; !ok {
			return fmt.Errorf("the letter %q of the result is in no term", l)
		}
		shape = append(shape, dims[l])
	}
	for _, l := range all {
		if !slices.Contains(full, l) {
			full = append(full, l)
		}
	}
	walk := make([]int, len(full))
	steps := make([][]int, len(terms))
	for k, l := range full {
		walk[k] = dims[l]
	}
	for i, t := range terms {
		own := strides(c.In[i].Shape)
		steps[i] = make([]int, len(full))
		for k, l := range t {
			if c.In[i].Shape[k] > 1 {
				steps[i][slices.Index(full, l)] += own[k]
			}
		}
	}
	if _, err := array.Count(walk); err != nil {
		return err
	}
	out, err := c.result(0, typeOf[T](), shape...)
	if err != nil {
		return err
	}
	o, inner := array.Of[T](out), product(walk[len(shape):])
	c.each(len(o), inner*4, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			sum := T(0)
			for s := range inner {
				p := T(1)
				for i := range terms {
					at, q := 0, r*inner+s
					for k := len(walk) - 1; k >= 0; k-- {
						at += q % walk[k] * steps[i][k]
						q /= walk[k]
					}
					p *= in[i][at]
				}
				sum += p
			}
			o[r] = sum
		}
	})
	return nil
}

func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// letters splits an equation; the dimensions of an ellipsis become letters of
// their own.
func letters(equation string, in []*Array) (terms [][]rune, result []rune, err error) {
	left, right, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	parts := strings.Split(left, ",")
	if len(parts) != len(in) {
		return nil, nil, fmt.Errorf("%q with %d inputs", equation, len(in))
	}
	dots, count := 0, map[rune]int{}
	for i, p := range parts {
		n := in[i].Rank() - len(strings.Replace(p, "...", "", 1))
		if n < 0 || n > 0 && !strings.Contains(p, "...") {
			return nil, nil, fmt.Errorf("%q with %v", p, in[i].Shape)
		}
		t := spell(p, n)
		if len(t) != in[i].Rank() {
			return nil, nil, fmt.Errorf("%q with %v", p, in[i].Shape)
		}
		for _, l := range t {
			count[l]++
		}
		dots = max(dots, n)
		terms = append(terms, t)
	}
	if explicit {
		return terms, spell(right, dots), nil
	}
	result = spell("...", dots)
	var once []rune
	for l, n := range count {
		if n == 1 && l < 1000 {
			once = append(once, l)
		}
	}
	slices.Sort(once)
	return terms, append(result, once...), nil
}

// spell writes an ellipsis of n dimensions as letters from 1000 on, the last
// the same in each term.
func spell(p string, n int) []rune {
	before, after, found := strings.Cut(p, "...")
	out := []rune(before)
	if found {
		for i := range n {
			out = append(out, rune(1000+n-1-i))
		}
	}
	return append(out, []rune(after)...)
}
