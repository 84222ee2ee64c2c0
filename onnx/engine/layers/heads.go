package layers

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// heads are queries, keys and values as [batch, heads, positions, size]. Each
// head of keys serves heads/groups heads of queries.
type heads struct {
	batch, heads, groups   int
	queries, keys          int // positions
	size, width            int // of a query and a key, and of a value
	scale                  float32
	softcap                float32
	q, k, v                *kernel.Array
	row                    func(b, h, s int, scores []float32) // masks a row of scores
	soften                 func(h int, scores []float32)       // nil: softmax
	raw, capped, ready, at []float32                           // the scores at four points; nil
}

// split returns an array as [batch, heads, positions, size]: one of three
// dimensions has the heads within the last.
func split(c *kernel.Call, a *kernel.Array, n int) (*kernel.Array, error) {
	if a.Rank() == 4 {
		return a.View(a.Shape), nil
	}
	if a.Rank() != 3 || n < 1 || a.Shape[2]%n != 0 {
		return nil, fmt.Errorf("shape mismatch: %v in %d heads", a.Shape, n)
	}
	shape := []int{a.Shape[0], a.Shape[1], n, a.Shape[2] / n}
	if _, err := kernel.Count(shape); err != nil {
		return nil, err
	}
	v := a.View(shape)
	defer c.Arena.Release(v)
	return c.Permuted(v, 0, 2, 1, 3)
}

// measure reads the sizes from the arrays, which belong to a then.
func (a *heads) measure() error {
	q, k, v := a.q.Shape, a.k.Shape, a.v.Shape
	if len(q) != 4 || len(k) != 4 || len(v) != 4 {
		return fmt.Errorf("got shapes %v, %v and %v, want four dimensions", q, k, v)
	}
	a.batch, a.heads, a.queries, a.size = q[0], q[1], q[2], q[3]
	a.groups, a.keys, a.width = k[1], k[2], v[3]
	if k[0] != a.batch || v[0] != a.batch || v[1] != a.groups || v[2] != a.keys || k[3] != a.size || a.groups == 0 || a.heads%a.groups != 0 {
		return fmt.Errorf("shape mismatch: queries %v, keys %v, values %v", q, k, v)
	}
	if a.scale == 0 {
		a.scale = float32(1 / math.Sqrt(float64(max(a.size, 1))))
	}
	return nil
}

// attend returns the attention as [batch, heads, positions, width].
func (a *heads) attend(c *kernel.Call) (*kernel.Array, error) {
	out, err := c.Arena.Zeros(onnx.FLOAT, a.batch, a.heads, a.queries, a.width)
	if err != nil || out.Len() == 0 || a.keys == 0 {
		return out, err
	}
	room, err := c.Arena.New(onnx.FLOAT, len(c.Lanes), min(a.queries, blockRows), a.keys)
	if err != nil {
		c.Arena.Release(out)
		return nil, err
	}
	defer c.Arena.Release(room)
	scores := kernel.Elements[float32](room)
	q, k, v, o := kernel.Elements[float32](a.q), kernel.Elements[float32](a.k), kernel.Elements[float32](a.v), kernel.Elements[float32](out)
	blocks, each := (a.queries+blockRows-1)/blockRows, a.heads/a.groups
	c.Each(a.batch*a.heads*blocks, kernel.Grain, func(thread, lo, hi int) {
		for t := lo; t < hi; t++ {
			i, from := t/blocks, t%blocks*blockRows
			b, h, n := i/a.heads, i%a.heads, min(blockRows, a.queries-from)
			g := b*a.groups + h/each
			keys, values := k[g*a.keys*a.size:(g+1)*a.keys*a.size], v[g*a.keys*a.width:(g+1)*a.keys*a.width]
			at := i*a.queries + from
			a.block(&c.Lanes[thread], b, h, from, n, q[at*a.size:], keys, values, scores[thread*min(a.queries, blockRows)*a.keys:], o[at*a.width:])
		}
	})
	return out, nil
}

// block computes n rows of one head, from position from on.
func (a *heads) block(l *kernel.Lane, b, h, from, n int, q, keys, values, scores, o []float32) {
	packed := n > 4 && a.size > 0
	left, right := (*tensor.Panels[float32])(nil), (*tensor.Panels[float32])(nil)
	if packed {
		left, right = l.Pair(a.size, a.keys, a.width)
		kernel.Pack(left, keys, a.size, a.keys, true)
		kernel.Pack(right, values, a.keys, a.width, false)
		left.Mul(n, a.scale, tensor.Rows(q, a.size), 0, scores, a.keys)
	}
	for r := range n {
		row := scores[r*a.keys : (r+1)*a.keys]
		for j := range row {
			if packed {
				break
			}
			row[j] = a.scale * tensor.Dot(q[r*a.size:(r+1)*a.size], keys[j*a.size:(j+1)*a.size])
		}
		a.finish(b, h, from+r, row)
		if packed {
			continue
		}
		for j, p := range row {
			if p != 0 {
				tensor.Axpy(o[r*a.width:(r+1)*a.width], p, values[j*a.width:(j+1)*a.width])
			}
		}
	}
	if packed {
		right.Mul(n, 1, tensor.Rows(scores, a.keys), 0, o, a.width)
	}
}

// finish turns a row of scores into weights.
func (a *heads) finish(b, h, s int, row []float32) {
	at := ((b*a.heads+h)*a.queries + s) * a.keys
	keep := func(dst []float32) {
		if dst != nil {
			copy(dst[at:], row)
		}
	}
	keep(a.raw)
	if a.softcap > 0 {
		tensor.TimesBy(row, row, 1/a.softcap)
		tensor.Tanh(row, row)
		tensor.TimesBy(row, row, a.softcap)
	}
	keep(a.capped)
	if a.row != nil {
		a.row(b, h, s, row)
	}
	keep(a.ready)
	if a.soften != nil {
		a.soften(h, row)
	} else {
		soften(row, 0, false)
	}
	keep(a.at)
}

// soften computes a softmax whose sum has another term, if extra is set. A row
// in which every position is masked becomes zeros.
func soften(row []float32, term float32, extra bool) {
	most := tensor.Max(row)
	if math.IsInf(float64(most), -1) && !extra {
		clear(row)
		return
	}
	if extra {
		most = max(most, term)
	}
	sum := tensor.ExpSum(row, row, most)
	if extra {
		sum += float32(math.Exp(float64(term - most)))
	}
	tensor.Scale(row, 1/sum)
}

// joined returns [batch, heads, positions, size] as [batch, positions,
// heads·size].
func joined(c *kernel.Call, a *kernel.Array) (*kernel.Array, error) {
	t, err := c.Permuted(a, 0, 2, 1, 3)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(t)
	return t.View([]int{t.Shape[0], t.Shape[1], t.Shape[2] * t.Shape[3]}), nil
}

// after returns the past positions followed by the new ones, both [batch,
// heads, positions, size]; without a past it shares the new ones.
func after(c *kernel.Call, past, a *kernel.Array) (*kernel.Array, error) {
	if past == nil {
		return a.View(a.Shape), nil
	}
	p, n := past.Shape, a.Shape
	if len(p) != 4 || len(n) != 4 || p[0] != n[0] || p[1] != n[1] || p[3] != n[3] || past.Type != onnx.FLOAT {
		return nil, fmt.Errorf("shape mismatch: past %s %v before %v", past.Type, p, n)
	}
	out, err := c.Arena.New(onnx.FLOAT, n[0], n[1], p[2]+n[2], n[3])
	if err != nil || out.Len() == 0 {
		return out, err
	}
	o, x, y := kernel.Elements[float32](out), kernel.Elements[float32](past), kernel.Elements[float32](a)
	before, new := p[2]*n[3], n[2]*n[3]
	for i := range n[0] * n[1] {
		copy(o[i*(before+new):], x[i*before:(i+1)*before])
		copy(o[i*(before+new)+before:], y[i*new:(i+1)*new])
	}
	return out, nil
}

// added adds arrays of scores that broadcast to [batch, heads, queries, keys].
// A shorter last dimension leaves later keys masked.
func (a *heads) added(m *kernel.Array) (func(b, h, s int, row []float32), error) {
	if m.Type != onnx.FLOAT && m.Type != onnx.BOOL {
		return nil, fmt.Errorf("mask of type %s is not supported", m.Type)
	}
	shape := slices.Clone(m.Shape)
	if len(shape) > 4 || len(shape) == 0 {
		return nil, fmt.Errorf("shape mismatch: mask %v", m.Shape)
	}
	for len(shape) < 4 {
		shape = append([]int{1}, shape...)
	}
	for i, d := range []int{a.batch, a.heads, a.queries} {
		if shape[i] != 1 && shape[i] != d {
			return nil, fmt.Errorf("shape mismatch: mask %v of %d×%d×%d×%d", m.Shape, a.batch, a.heads, a.queries, a.keys)
		}
	}
	n := shape[3]
	if n > a.keys && n != 1 {
		return nil, fmt.Errorf("shape mismatch: mask %v of %d keys", m.Shape, a.keys)
	}
	strides := kernel.Stretch(shape[:3], []int{a.batch, a.heads, a.queries})
	inf := float32(math.Inf(-1))
	return func(b, h, s int, row []float32) {
		at := (b*strides[0] + h*strides[1] + s*strides[2]) * n
		for j := range row {
			k := at + j
			switch {
			case n == 1 && a.keys > 1 && m.Rank() > 0:
				k = at
			case j >= n:
				row[j] = inf
				continue
			}
			if m.Type == onnx.FLOAT {
				row[j] += kernel.Elements[float32](m)[k]
			} else if !kernel.Elements[bool](m)[k] {
				row[j] = inf
			}
		}
	}, nil
}
