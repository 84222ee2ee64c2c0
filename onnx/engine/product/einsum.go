package product

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx/engine/kernel"
)

// slow computes a product of types without a fast kernel.
func slow[T kernel.Number](c *kernel.Call) error {
	if err := c.Want(kernel.TypeOf[T](), 1); err != nil {
		return err
	}
	g, err := kernel.Factors(c.In[0].Shape, c.In[1].Shape)
	if err != nil {
		return err
	}
	out, err := c.Result(0, kernel.TypeOf[T](), g.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o, x, y := kernel.Elements[T](out), kernel.Elements[T](c.In[0]), kernel.Elements[T](c.In[1])
	c.Each(g.Batches*g.M, g.K*g.N, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			ai, bi := g.At(r / g.M)
			row, left, right := o[r*g.N:(r+1)*g.N], x[(ai*g.M+r%g.M)*g.K:], y[bi*g.K*g.N:]
			clear(row)
			for i := range g.K {
				if i%256 == 0 && c.Ended() {
					return
				}
				v := left[i]
				for j := range row {
					row[j] += v * right[i*g.N+j]
				}
			}
		}
	})
	return nil
}

// einsum sums over the letters that are missing in the result. Factors are
// broadcast to a common shape: correct for any equation, fast for none.
func einsum[T kernel.Number](c *kernel.Call) error {
	in := make([][]T, len(c.In))
	for i := range in {
		if err := c.Want(kernel.TypeOf[T](), i); err != nil || c.In[i] == nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		in[i] = kernel.Elements[T](c.In[i])
	}
	terms, result, err := letters(c.Text("equation", ""), c.In)
	if err != nil {
		return err
	}
	var all []rune
	dims := map[rune]int{}
	for i, t := range terms {
		for k, l := range t {
			d := c.In[i].Shape[k]
			if old, ok := dims[l]; ok && old != d && old != 1 && d != 1 {
				return fmt.Errorf("dimensions %d and %d of one letter differ", old, d)
			} else if !ok {
				all = append(all, l)
			}
			dims[l] = max(d, dims[l])
			if d == 0 {
				return fmt.Errorf("sums over empty dimensions are not supported")
			}
		}
	}
	shape, full := []int{}, []rune(result)
	for _, l := range full {
		if _, ok := dims[l]; !ok {
			return fmt.Errorf("letter %q of the result is in no term", l)
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
		strides := kernel.Strides(c.In[i].Shape)
		steps[i] = make([]int, len(full))
		for k, l := range t {
			if c.In[i].Shape[k] > 1 {
				steps[i][slices.Index(full, l)] += strides[k]
			}
		}
	}
	if _, err := kernel.Count(walk); err != nil {
		return err
	}
	out, err := c.Result(0, kernel.TypeOf[T](), shape...)
	if err != nil {
		return err
	}
	o, inner := kernel.Elements[T](out), kernel.Product(walk[len(shape):])
	c.Each(len(o), inner*4, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			sum := T(0)
			for s := range inner {
				if s%(1<<16) == 1<<16-1 && c.Ended() {
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

// letters splits an equation; the dimensions of an ellipsis become additional
// letters.
func letters(equation string, in []*kernel.Array) (terms [][]rune, result []rune, err error) {
	left, right, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	parts := strings.Split(left, ",")
	if len(parts) != len(in) {
		return nil, nil, fmt.Errorf("equation %q does not match %d inputs", equation, len(in))
	}
	dots, count := 0, map[rune]int{}
	for i, p := range parts {
		n := in[i].Rank() - len(strings.Replace(p, "...", "", 1))
		if n < 0 || n > 0 && !strings.Contains(p, "...") {
			return nil, nil, fmt.Errorf("term %q does not match %v", p, in[i].Shape)
		}
		t := spell(p, n)
		if len(t) != in[i].Rank() {
			return nil, nil, fmt.Errorf("term %q does not match %v", p, in[i].Shape)
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

// spell replaces an ellipsis of n dimensions by letters from 1000 on, with the
// last letter equal in all terms.
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
