package op

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// panels gives the right factor of a product in the order that the kernel
// reads it, kept from run to run when it is fixed.
func (c *Call) panels(b []float32, k, n int, trans, fixed bool) (*tensor.Panels[float32], error) {
	if p, ok := (*c.Cache).(*tensor.Panels[float32]); ok && fixed {
		return p, nil
	}
	if !fixed {
		_, p := c.Lanes[0].room(0, k, n)
		pack(p, b, k, n, trans)
		return p, nil
	}
	p, err := c.kept(b, k, n, trans)
	if err == nil {
		*c.Cache = p
	}
	return p, err
}

// kept packs weights that stay, and counts their memory.
func (c *Call) kept(b []float32, k, n int, trans bool) (*tensor.Panels[float32], error) {
	if err := c.Arena.Keep(tensor.PanelsSize[float32](k, n)); err != nil {
		return nil, err
	}
	p := tensor.NewPanels[float32](k, n)
	pack(p, b, k, n, trans)
	return p, nil
}

// pack stores a k×n matrix, or the transpose of an n×k one.
func pack(p *tensor.Panels[float32], b []float32, k, n int, trans bool) {
	if trans {
		p.PackTransposed(b, k)
	} else {
		p.Pack(b, n)
	}
}

// Prepare packs the weights that a node's kernel reads in an order of its own.
// It reports the inputs whose elements no run will look at. What it cannot
// judge it leaves to the run.
func Prepare(c *Call) (packed []int, err error) {
	switch c.Node.Op {
	case "MatMul", "Gemm":
		b := c.input(1)
		if b == nil || !c.fixed(1) || b.Type != onnx.FLOAT || b.Rank() != 2 || b.Len() == 0 || c.input(0) != nil && c.In[0].Type != onnx.FLOAT {
			return nil, nil
		}
		k, n, trans := b.Shape[0], b.Shape[1], c.Transposed
		if c.Node.Op == "Gemm" {
			trans = c.int("transB", 0) != 0
		}
		if trans {
			k, n = n, k
		}
		if _, err := c.panels(array.Of[float32](b), k, n, trans, true); err != nil {
			return nil, err
		}
		return []int{1}, nil
	case "LSTM", "GRU", "RNN":
		return c.prepareCell()
	}
	return nil, nil
}

// follow adds a row of numbers to a product and applies the activation that was
// joined to the node.
type follow struct {
	bias []float32 // as many as columns, or nil
	act  func(dst, x []float32)
}

func (a *follow) do(row []float32, col int) {
	if a.bias != nil {
		tensor.Add(row, a.bias[col:col+len(row)])
	}
	if a.act != nil {
		a.act(row, row)
	}
}

// rowsPerTask is how many rows of a product go together at least.
const rowsPerTask = 24

// multiply computes o = a·b for m rows on the pool.
func (c *Call) multiply(o []float32, m int, left tensor.Left[float32], b *tensor.Panels[float32], k, n int) {
	c.multiplyThen(o, m, left, b, k, n, follow{})
}

// multiplyThen computes o = a·b for m rows on the pool, cut into tiles of rows
// and columns, and what follows. Which thread does one changes no bit.
func (c *Call) multiplyThen(o []float32, m int, left tensor.Left[float32], b *tensor.Panels[float32], k, n int, then follow) {
	width := b.Width()
	cols := max(width, (grain*4/max(1, k)+width-1)/width*width)
	rows := m
	if m > 2*rowsPerTask {
		rows = max(rowsPerTask, min(m, (1<<20)/max(1, k*min(cols, n))/rowsPerTask*rowsPerTask))
	}
	across, down := (n+cols-1)/cols, (m+rows-1)/rows
	if across*down == 1 {
		b.Mul(m, 1, left, 0, o, n)
		for i := 0; i < m && (then.bias != nil || then.act != nil); i++ {
			then.do(o[i*n:(i+1)*n], 0)
		}
		return
	}
	c.each(across*down, min(grain, rows*min(cols, n)*k/8), func(_, lo, hi int) {
		for t := lo; t < hi; t++ {
			i, j := t/across*rows, t%across*cols
			mm, nn := min(rows, m-i), min(cols, n-j)
			view := b.View(0, k, j, j+nn)
			part := tensor.Left[float32]{Data: left.Data[i*left.Row:], Row: left.Row, Col: left.Col}
			view.Mul(mm, 1, part, 0, o[i*n+j:], n)
			for r := 0; r < mm && (then.bias != nil || then.act != nil); r++ {
				then.do(o[(i+r)*n+j:(i+r)*n+j+nn], j)
			}
		}
	})
}

// matmul is MatMul with NumPy's rules of dimensions. Joined to it may be a
// transposition of the right factor, numbers to add to each row as input 2, and
// an activation.
func matmul(c *Call) error {
	if t := c.In[0].Type; t != onnx.FLOAT {
		if !c.Transposed {
			return products.by(0)(c)
		}
		return c.turned()
	}
	a, b := c.In[0], c.In[1]
	if err := c.want(onnx.FLOAT, 1, 2); err != nil {
		return err
	}
	if p, ok := (*c.Cache).(*tensor.Panels[float32]); ok && c.fixed(1) && b.Rank() == 2 {
		return c.times(p)
	}
	right := b.Shape
	if c.Transposed {
		if b.Rank() < 2 {
			return fmt.Errorf("a transposition of %v", b.Shape)
		}
		right = slices.Clone(b.Shape)
		right[len(right)-1], right[len(right)-2] = right[len(right)-2], right[len(right)-1]
	}
	g, err := factors(a.Shape, right)
	if err != nil {
		return err
	}
	then, err := c.follow(g.n)
	if err != nil {
		return err
	}
	out, err := c.result(0, onnx.FLOAT, g.shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o, x := array.Of[float32](out), array.Of[float32](a)
	if g.k == 0 {
		clear(o)
		for r := range len(o) / g.n {
			then.do(o[r*g.n:(r+1)*g.n], 0)
		}
		return nil
	}
	y := array.Of[float32](b)
	if g.same && c.fixed(1) || g.same && g.m*g.batches > few { // one right factor: all rows at once
		p, err := c.panels(y, g.k, g.n, c.Transposed, c.fixed(1))
		if err != nil {
			return err
		}
		c.multiplyThen(o, g.m*g.batches, tensor.Rows(x, g.k), p, g.k, g.n, then)
		return nil
	}
	c.batches(&g, o, x, y, then)
	return nil
}

// follow gives what is joined to a product of n columns.
func (c *Call) follow(n int) (follow, error) {
	then := follow{act: c.Then}
	if s := c.input(2); s != nil {
		if s.Rank() == 0 || s.Len() != n || s.Dim(-1) != n {
			return then, fmt.Errorf("%v to add to rows of %d", s.Shape, n)
		}
		then.bias = array.Of[float32](s)
	}
	return then, nil
}

// times multiplies all rows by packed weights of k×n.
func (c *Call) times(p *tensor.Panels[float32]) error {
	a, k, n := c.In[0], p.Rows(), p.Columns()
	if a.Rank() == 0 || a.Dim(-1) != k {
		return fmt.Errorf("a product of %v and %v", a.Shape, c.In[1].Shape)
	}
	then, err := c.follow(n)
	if err != nil {
		return err
	}
	var shape [array.MaxRank]int
	copy(shape[:], a.Shape)
	shape[a.Rank()-1] = n
	out, err := c.result(0, onnx.FLOAT, shape[:a.Rank()]...)
	if err != nil || out.Len() == 0 {
		return err
	}
	c.multiplyThen(array.Of[float32](out), a.Len()/k, tensor.Rows(array.Of[float32](a), k), p, k, n, then)
	return nil
}

// turned multiplies numbers that have no kernel by a transposed right factor.
func (c *Call) turned() error {
	b := c.In[1]
	if b.Rank() < 2 {
		return fmt.Errorf("a transposition of %v", b.Shape)
	}
	shape, stride, n := slices.Clone(b.Shape), strides(b.Shape), b.Rank()
	shape[n-1], shape[n-2] = shape[n-2], shape[n-1]
	stride[n-1], stride[n-2] = stride[n-2], stride[n-1]
	t, err := c.Arena.New(b.Type, shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(t)
	c.strided(t, b, shape, 0, stride)
	defer func() { c.In[1] = b }()
	c.In[1] = t
	return products.by(0)(c)
}

// few rows are not worth packing what they are multiplied with.
const few = 3

// batches multiplies many small matrices, whole ones on a thread, or large
// ones one after the other.
func (c *Call) batches(g *geometry, o, x, y []float32, then follow) {
	one := func(l *Lane, i int) (left, right, dst []float32, p *tensor.Panels[float32]) {
		ai, bi := g.at(i)
		left, right, dst = x[ai*g.m*g.k:(ai+1)*g.m*g.k], y[bi*g.k*g.n:(bi+1)*g.k*g.n], o[i*g.m*g.n:(i+1)*g.m*g.n]
		if g.m > few {
			_, p = l.room(0, g.k, g.n)
			pack(p, right, g.k, g.n, c.Transposed)
		}
		return left, right, dst, p
	}
	if g.batches < 8 && g.m > few && g.m*g.k*g.n > 1<<22 {
		for i := range g.batches {
			left, _, dst, p := one(&c.Lanes[0], i)
			c.multiplyThen(dst, g.m, tensor.Rows(left, g.k), p, g.k, g.n, then)
		}
		return
	}
	c.each(g.batches, min(grain, g.m*g.k*g.n/8), func(thread, lo, hi int) {
		for i := lo; i < hi; i++ {
			left, right, dst, p := one(&c.Lanes[thread], i)
			if p != nil {
				p.Mul(g.m, 1, tensor.Rows(left, g.k), 0, dst, g.n)
			} else {
				thin(dst, left, right, g.m, g.k, g.n, c.Transposed)
			}
			for r := 0; r < g.m && (then.bias != nil || then.act != nil); r++ {
				then.do(dst[r*g.n:(r+1)*g.n], 0)
			}
		}
	})
}

// thin multiplies few rows by a matrix as it lies.
func thin(dst, a, b []float32, m, k, n int, trans bool) {
	for i := range m {
		row, left := dst[i*n:(i+1)*n], a[i*k:(i+1)*k]
		if trans {
			for j := range row {
				row[j] = tensor.Dot(left, b[j*k:(j+1)*k])
			}
			continue
		}
		clear(row)
		for r, v := range left {
			tensor.Axpy(row, v, b[r*n:(r+1)*n])
		}
	}
}

// gemm is alpha·A·B + beta·C with either factor transposed.
func gemm(c *Call) error {
	if err := c.want(onnx.FLOAT, 0, 1, 2); err != nil {
		return err
	}
	a, b := c.In[0], c.In[1]
	if a.Rank() != 2 || b.Rank() != 2 {
		return fmt.Errorf("a product of %v and %v", a.Shape, b.Shape)
	}
	ta, tb := c.int("transA", 0) != 0, c.int("transB", 0) != 0
	m, k, n, kb := a.Shape[0], a.Shape[1], b.Shape[1], b.Shape[0]
	left := tensor.Rows(array.Of[float32](a), k)
	if ta {
		m, k = k, m
		left = tensor.Columns(left.Data, m)
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
	alpha, beta, add := c.float("alpha", 1), c.float("beta", 1), c.input(2)
	var stride []int
	if add != nil {
		shape, err := broadcast(add.Shape, out.Shape)
		if err != nil || !slices.Equal(shape, out.Shape) {
			return fmt.Errorf("%v does not broadcast to %v", add.Shape, out.Shape)
		}
		stride = stretch(add.Shape, shape)
	}
	then := follow{act: c.Then}
	plain := alpha == 1 && beta == 1 && add != nil && stride[0] == 0 && (stride[1] == 1 || n == 1)
	if plain {
		then.bias, add = array.Of[float32](add), nil
	}
	if alpha != 1 || add != nil {
		then.act = nil
	}
	o := array.Of[float32](out)
	if err := c.gemmProduct(o, m, k, n, left, tb, then); err != nil {
		return err
	}
	if alpha != 1 {
		tensor.Scale(o, alpha)
	}
	if add != nil {
		v := array.Of[float32](add)
		for i := range m {
			for j := range n {
				o[i*n+j] += beta * v[i*stride[0]+j*stride[1]]
			}
		}
	}
	if c.Then != nil && then.act == nil {
		c.Then(o, o)
	}
	return nil
}

// gemmProduct is the product of Gemm with what follows it.
func (c *Call) gemmProduct(o []float32, m, k, n int, left tensor.Left[float32], trans bool, then follow) error {
	if k == 0 {
		clear(o)
		for i := range m {
			then.do(o[i*n:(i+1)*n], 0)
		}
		return nil
	}
	p, ok := (*c.Cache).(*tensor.Panels[float32])
	if !ok || !c.fixed(1) {
		var err error
		if p, err = c.panels(array.Of[float32](c.In[1]), k, n, trans, c.fixed(1)); err != nil {
			return err
		}
	}
	c.multiplyThen(o, m, left, p, k, n, then)
	return nil
}
