package layers

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/product"
)

// masked is the mask of MultiHeadAttention and of Attention of com.microsoft:
// a filter value is added to the scores of keys that the mask excludes.
type masked struct {
	filter   float32
	causal   bool
	past     int
	keep     func(b, s, k int) bool // nil: all
	bias     func(b, h, s int, row []float32)
	smallest float32
}

// newMask reads the attributes, and the mask and the bias in two inputs.
func newMask(c *kernel.Call, a *heads, mask, bias, past int) (*masked, error) {
	m := &masked{filter: c.Float("mask_filter_value", -10000), causal: c.Int("unidirectional", 0) != 0, past: past, smallest: -math.MaxFloat32}
	if x := c.Input(bias); x != nil {
		if x.Rank() != 4 || x.Dim(-1) != a.keys || x.Dim(-2) != a.queries {
			return nil, fmt.Errorf("shape mismatch: bias %v of %d×%d scores", x.Shape, a.queries, a.keys)
		}
		var err error
		if m.bias, err = a.added(x); err != nil {
			return nil, err
		}
	}
	x := c.Input(mask)
	if x == nil {
		return m, nil
	}
	list, err := c.Integers(mask)
	if err != nil {
		return nil, err
	}
	s, b := x.Shape, a.batch
	switch {
	case len(s) == 1 && s[0] == b: // numbers of keys
		m.keep = func(b, _, k int) bool { return k < list[b] }
	case len(s) == 1 && s[0] == 2*b: // ends, then starts
		m.keep = func(i, _, k int) bool { return k < list[i] && k >= list[b+i] }
	case len(s) == 2 && s[0] == b && s[1] == a.keys:
		m.keep = func(b, _, k int) bool { return list[b*a.keys+k] > 0 }
	case len(s) == 3 && s[0] == b && s[1] == a.queries && s[2] == a.keys:
		m.keep = func(b, q, k int) bool { return list[(b*a.queries+q)*a.keys+k] > 0 }
	case len(s) == 2 && s[1] == 1 && (s[0] == b || s[0] == 1):
		return m, nil
	default:
		return nil, fmt.Errorf("mask %v of %d batches, %d queries and %d keys is not supported", s, b, a.queries, a.keys)
	}
	return m, nil
}

func (m *masked) row(b, h, s int, row []float32) {
	for k := range row {
		if m.keep != nil && !m.keep(b, s, k) {
			row[k] += m.filter
		}
		if m.causal && k > m.past+s {
			row[k] = m.smallest
		}
	}
	if m.bias != nil {
		m.bias(b, h, s, row)
	}
}

// biased returns an array with a part of a bias along its last dimension added.
func biased(c *kernel.Call, x *kernel.Array, bias []float32) (*kernel.Array, error) {
	if bias == nil {
		return x.View(x.Shape), nil
	}
	n := x.Dim(-1)
	if n != len(bias) {
		return nil, fmt.Errorf("shape mismatch: a bias of %d for %v", len(bias), x.Shape)
	}
	out, err := c.Arena.New(onnx.FLOAT, x.Shape...)
	if err != nil || n == 0 {
		return out, err
	}
	for i := 0; i < x.Len(); i += n {
		tensor.Sum(kernel.Elements[float32](out)[i:i+n], kernel.Elements[float32](x)[i:i+n], bias)
	}
	return out, nil
}

// multiHead computes MultiHeadAttention.
func multiHead(c *kernel.Call) error {
	if _, err := c.Floats(0, 1, 2, 3, 5, 6, 7); err != nil {
		return err
	}
	n := c.Int("num_heads", 0)
	if n < 1 || c.Input(8) != nil || c.Input(9) != nil || len(c.Out) > 3 {
		return fmt.Errorf("%d heads, a shared cache and the output qk are not supported", n)
	}
	parts, err := unpacked(c, n)
	if err != nil {
		return err
	}
	a := &heads{scale: c.Float("scale", 0)}
	past := 0
	for i, to := range []**kernel.Array{&a.q, &a.k, &a.v} {
		x := parts[i]
		if i > 0 && c.Input(5+i) != nil {
			past = c.In[5+i].Dim(max(-2, -c.In[5+i].Rank()))
			if x, err = after(c, c.In[5+i], parts[i]); err != nil {
				return err
			}
			c.Arena.Release(parts[i])
		}
		defer c.Arena.Release(x)
		*to = x
	}
	if err := a.measure(); err != nil {
		return err
	}
	m, err := newMask(c, a, 4, 5, past)
	if err != nil {
		return err
	}
	a.row = m.row
	out, err := a.attend(c)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	if c.Out[0], err = joined(c, out); err != nil {
		return err
	}
	for i, x := range []*kernel.Array{a.k, a.v} {
		if len(c.Out) > 1+i {
			c.Out[1+i] = x.View(x.Shape)
		}
	}
	return nil
}

// unpacked returns queries, keys and values with their biases as [batch, heads,
// positions, size].
func unpacked(c *kernel.Call, n int) (parts [3]*kernel.Array, err error) {
	q, k, v := c.In[0], c.Input(1), c.Input(2)
	switch {
	case q == nil:
		return parts, fmt.Errorf("missing queries")
	case q.Rank() != 3 || k == nil || v == nil:
		return parts, fmt.Errorf("packed queries, keys and values are not supported")
	}
	var bias []float32
	if b := c.Input(3); b != nil {
		bias = kernel.Elements[float32](b)
	}
	for i, x := range []*kernel.Array{q, k, v} {
		part := []float32(nil)
		if bias != nil {
			width := x.Dim(-1)
			if x.Rank() == 4 {
				return parts, fmt.Errorf("a bias of keys in heads is not supported")
			}
			if width > len(bias) {
				return parts, fmt.Errorf("shape mismatch: a bias of %d for %v", c.In[3].Len(), x.Shape)
			}
			part, bias = bias[:width], bias[width:]
		}
		y, err := biased(c, x, part)
		if err != nil {
			return parts, err
		}
		parts[i], err = split(c, y, n)
		c.Arena.Release(y)
		if err != nil {
			return parts, err
		}
	}
	if len(bias) != 0 {
		return parts, fmt.Errorf("a bias of %d is too long", c.In[3].Len())
	}
	return parts, nil
}

// packedAttention computes Attention of com.microsoft: queries, keys and values
// are products of the input with one matrix.
func packedAttention(c *kernel.Call) error {
	if _, err := c.Floats(0, 1, 2, 4, 5); err != nil {
		return err
	}
	n := c.Int("num_heads", 0)
	if n < 1 || c.Int("do_rotary", 0) != 0 || c.Input(6) != nil {
		return fmt.Errorf("%d heads, rotary positions and a shared cache are not supported", n)
	}
	x, w := c.In[0], c.In[1]
	if x.Rank() != 3 || w.Rank() != 2 {
		return fmt.Errorf("shape mismatch: %v by %v", x.Shape, w.Shape)
	}
	sizes := c.Ints("qkv_hidden_sizes")
	if sizes == nil {
		sizes = []int{w.Shape[1] / 3, w.Shape[1] / 3, w.Shape[1] / 3}
	}
	if len(sizes) != 3 || sizes[0] < 0 || sizes[1] < 0 || sizes[2] < 0 || sizes[0]+sizes[1]+sizes[2] != w.Shape[1] {
		return fmt.Errorf("sizes %v do not match weights %v", sizes, w.Shape)
	}
	all, err := c.Nested("MatMul", product.MatMul, x, w)
	if err != nil {
		return err
	}
	defer c.Arena.Release(all)
	if b := c.Input(2); b != nil {
		y, err := biased(c, all, kernel.Elements[float32](b))
		if err != nil {
			return err
		}
		defer c.Arena.Release(y)
		all = y
	}
	a, past, err := headsOfProduct(c, all, sizes, n)
	if a != nil {
		defer func() {
			for _, x := range []*kernel.Array{a.q, a.k, a.v} {
				c.Arena.Release(x)
			}
		}()
	}
	if err != nil {
		return err
	}
	if err := a.measure(); err != nil {
		return err
	}
	m, err := newMask(c, a, 3, 5, past)
	if err != nil {
		return err
	}
	a.row = m.row
	out, err := a.attend(c)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	if c.Out[0], err = joined(c, out); err != nil || len(c.Out) < 2 {
		return err
	}
	return a.stacked(c)
}

// headsOfProduct splits the product into queries, and keys and values behind
// their past.
func headsOfProduct(c *kernel.Call, all *kernel.Array, sizes []int, n int) (a *heads, past int, err error) {
	a = &heads{scale: c.Float("scale", 0)}
	s, first := all.Shape, 0
	for i, to := range []**kernel.Array{&a.q, &a.k, &a.v} {
		if sizes[i]%n != 0 {
			return a, 0, fmt.Errorf("cannot split %d numbers into %d heads", sizes[i], n)
		}
		d := sizes[i] / n
		x, err := c.Arena.New(onnx.FLOAT, s[0], n, s[1], d)
		if err != nil {
			return a, 0, err
		}
		c.Strided(x, all, x.Shape, first, []int{s[1] * s[2], d, s[2], 1})
		*to = x
		first += sizes[i]
		p := c.Input(4)
		if i == 0 || p == nil {
			continue
		}
		if p.Rank() != 5 || p.Shape[0] != 2 {
			return a, 0, fmt.Errorf("shape mismatch: past %v", p.Shape)
		}
		past = p.Shape[3]
		half, err := c.Arena.New(onnx.FLOAT, p.Shape[1:]...)
		if err != nil {
			return a, 0, err
		}
		copy(kernel.Elements[float32](half), kernel.Elements[float32](p)[(i-1)*half.Len():])
		y, err := after(c, half, x)
		c.Arena.Release(half)
		if err != nil {
			return a, 0, err
		}
		c.Arena.Release(x)
		*to = y
	}
	return a, past, nil
}

// stacked sets output 1 to the keys, followed by the values.
func (a *heads) stacked(c *kernel.Call) error {
	if a.size != a.width {
		return fmt.Errorf("keys of %d and values of %d numbers have no common cache", a.size, a.width)
	}
	out, err := c.Result(1, onnx.FLOAT, append([]int{2}, a.k.Shape...)...)
	if err != nil {
		return err
	}
	copy(kernel.Elements[float32](out), kernel.Elements[float32](a.k))
	copy(kernel.Elements[float32](out)[a.k.Len():], kernel.Elements[float32](a.v))
	return nil
}
