package op

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/graph/array"
)

// geometry is how the factors of MatMul meet.
type geometry struct {
	shape, outer []int
	sa, sb       []int
	m, k, n      int
	batches      int
	same         bool // both left factors lie one behind the other and the right one is one
}

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
				if i%256 == 0 && c.ended() {
					return
				}
				v := left[i]
				for j := range row {
					row[j] += v * right[i*g.n+j]
				}
			}
		}
	})
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
				if s%(1<<16) == 1<<16-1 && c.ended() {
					return
				}
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
