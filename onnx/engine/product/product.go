// Package product holds the matrix products MatMul, Gemm and Einsum, the
// conversions between floats and 8-bit integers, and the products of the latter.
// [MultiplyIntegers] and [Linear] take the product as a function, because
// package image applies them to convolutions.
package product

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// panels returns the packed right factor of a product, cached between runs if
// it is fixed.
func panels(c *kernel.Call, b []float32, k, n int, trans, fixed bool) (*tensor.Panels[float32], error) {
	if p, ok := (*c.Cache).(*tensor.Panels[float32]); ok && fixed {
		return p, nil
	}
	if !fixed {
		_, p := c.Lanes[0].Room(0, k, n)
		kernel.Pack(p, b, k, n, trans)
		return p, nil
	}
	p, err := c.Kept(b, k, n, trans)
	if err == nil {
		*c.Cache = p
	}
	return p, err
}

// Prepare packs the right factor if it is the same in each run.
func Prepare(c *kernel.Call) (packed []int, err error) {
	b := c.Input(1)
	if b == nil || !c.Same(1) || b.Type != onnx.FLOAT || b.Rank() != 2 || b.Len() == 0 || c.Input(0) != nil && c.In[0].Type != onnx.FLOAT {
		return nil, nil
	}
	k, n, trans := b.Shape[0], b.Shape[1], c.Transposed
	if c.Node.Op == "Gemm" {
		trans = c.Int("transB", 0) != 0
	}
	if trans {
		k, n = n, k
	}
	if _, err := panels(c, kernel.Elements[float32](b), k, n, trans, true); err != nil {
		return nil, err
	}
	return []int{1}, nil
}

// follow adds a row of numbers to a product and applies the activation that was
// fused into the node.
type follow struct {
	bias []float32 // one for each column, or nil
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

// rowsPerTask is the minimum number of rows of a product in a task.
const rowsPerTask = 24

// Multiply computes o = a·b for m rows on the pool.
func Multiply(c *kernel.Call, o []float32, m int, left tensor.Left[float32], b *tensor.Panels[float32], k, n int) {
	multiplyThen(c, o, m, left, b, k, n, follow{})
}

// multiplyThen computes o = a·b for m rows on the pool, in tiles of rows and
// columns, followed by then. The assignment of tiles to threads changes no bit.
func multiplyThen(c *kernel.Call, o []float32, m int, left tensor.Left[float32], b *tensor.Panels[float32], k, n int, then follow) {
	width := b.Width()
	cols := max(width, (kernel.Grain*4/max(1, k)+width-1)/width*width)
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
	c.Each(across*down, min(kernel.Grain, rows*min(cols, n)*k/8), func(_, lo, hi int) {
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

// MatMul is the operator with NumPy's rules of dimensions. A transposition of
// the right factor, a row to add as input 2, and an activation may be fused
// into it.
func MatMul(c *kernel.Call) error {
	if t := c.In[0].Type; t != onnx.FLOAT {
		if !c.Transposed {
			return products.By(0)(c)
		}
		return turned(c)
	}
	a, b := c.In[0], c.In[1]
	if err := c.Want(onnx.FLOAT, 1, 2); err != nil {
		return err
	}
	if p, ok := (*c.Cache).(*tensor.Panels[float32]); ok && c.Same(1) && b.Rank() == 2 {
		return times(c, p)
	}
	right := b.Shape
	if c.Transposed {
		if b.Rank() < 2 {
			return fmt.Errorf("cannot transpose %v", b.Shape)
		}
		right = slices.Clone(b.Shape)
		right[len(right)-1], right[len(right)-2] = right[len(right)-2], right[len(right)-1]
	}
	g, err := kernel.Factors(a.Shape, right)
	if err != nil {
		return err
	}
	then, err := followOf(c, g.N)
	if err != nil {
		return err
	}
	out, err := c.Result(0, onnx.FLOAT, g.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o, x := kernel.Elements[float32](out), kernel.Elements[float32](a)
	if g.K == 0 {
		clear(o)
		for r := range len(o) / g.N {
			then.do(o[r*g.N:(r+1)*g.N], 0)
		}
		return nil
	}
	y := kernel.Elements[float32](b)
	if g.Same && c.Same(1) || g.Same && g.M*g.Batches > few { // one right factor: all rows in one product
		p, err := panels(c, y, g.K, g.N, c.Transposed, c.Same(1))
		if err != nil {
			return err
		}
		multiplyThen(c, o, g.M*g.Batches, tensor.Rows(x, g.K), p, g.K, g.N, then)
		return nil
	}
	batches(c, &g, o, x, y, then)
	return nil
}

// followOf returns the operations fused into a product of n columns.
func followOf(c *kernel.Call, n int) (follow, error) {
	then := follow{act: c.Then}
	if s := c.Input(2); s != nil {
		if s.Rank() == 0 || s.Len() != n || s.Dim(-1) != n {
			return then, fmt.Errorf("shape mismatch: adding %v to rows of %d", s.Shape, n)
		}
		then.bias = kernel.Elements[float32](s)
	}
	return then, nil
}

// times multiplies all rows by packed weights of k×n.
func times(c *kernel.Call, p *tensor.Panels[float32]) error {
	a, k, n := c.In[0], p.Rows(), p.Columns()
	if a.Rank() == 0 || a.Dim(-1) != k {
		return fmt.Errorf("shape mismatch: product of %v and %v", a.Shape, c.In[1].Shape)
	}
	then, err := followOf(c, n)
	if err != nil {
		return err
	}
	var shape [kernel.MaxRank]int
	copy(shape[:], a.Shape)
	shape[a.Rank()-1] = n
	out, err := c.Result(0, onnx.FLOAT, shape[:a.Rank()]...)
	if err != nil || out.Len() == 0 {
		return err
	}
	multiplyThen(c, kernel.Elements[float32](out), a.Len()/k, tensor.Rows(kernel.Elements[float32](a), k), p, k, n, then)
	return nil
}

// turned multiplies types without a fast kernel by a transposed right factor.
func turned(c *kernel.Call) error {
	b := c.In[1]
	if b.Rank() < 2 {
		return fmt.Errorf("cannot transpose %v", b.Shape)
	}
	shape, stride, n := slices.Clone(b.Shape), kernel.Strides(b.Shape), b.Rank()
	shape[n-1], shape[n-2] = shape[n-2], shape[n-1]
	stride[n-1], stride[n-2] = stride[n-2], stride[n-1]
	t, err := c.Arena.New(b.Type, shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(t)
	c.Strided(t, b, shape, 0, stride)
	defer func() { c.In[1] = b }()
	c.In[1] = t
	return products.By(0)(c)
}

// few is the number of rows up to which packing the right factor does not pay.
const few = 3

// batches multiplies many small matrices, each on one thread, or large ones one
// after another.
func batches(c *kernel.Call, g *kernel.Geometry, o, x, y []float32, then follow) {
	one := func(l *kernel.Lane, i int) (left, right, dst []float32, p *tensor.Panels[float32]) {
		ai, bi := g.At(i)
		left, right, dst = x[ai*g.M*g.K:(ai+1)*g.M*g.K], y[bi*g.K*g.N:(bi+1)*g.K*g.N], o[i*g.M*g.N:(i+1)*g.M*g.N]
		if g.M > few {
			_, p = l.Room(0, g.K, g.N)
			kernel.Pack(p, right, g.K, g.N, c.Transposed)
		}
		return left, right, dst, p
	}
	if g.Batches < 8 && g.M > few && g.M*g.K*g.N > 1<<22 {
		for i := range g.Batches {
			left, _, dst, p := one(&c.Lanes[0], i)
			multiplyThen(c, dst, g.M, tensor.Rows(left, g.K), p, g.K, g.N, then)
		}
		return
	}
	c.Each(g.Batches, min(kernel.Grain, g.M*g.K*g.N/8), func(thread, lo, hi int) {
		for i := lo; i < hi; i++ {
			left, right, dst, p := one(&c.Lanes[thread], i)
			if p != nil {
				p.Mul(g.M, 1, tensor.Rows(left, g.K), 0, dst, g.N)
			} else {
				thin(dst, left, right, g.M, g.K, g.N, c.Transposed)
			}
			for r := 0; r < g.M && (then.bias != nil || then.act != nil); r++ {
				then.do(dst[r*g.N:(r+1)*g.N], 0)
			}
		}
	})
}

// thin multiplies few rows by an unpacked matrix.
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

// gemm computes alpha·A·B + beta·C with either factor transposed.
func gemm(c *kernel.Call) error {
	if err := c.Want(onnx.FLOAT, 0, 1, 2); err != nil {
		return err
	}
	a, b := c.In[0], c.In[1]
	if a.Rank() != 2 || b.Rank() != 2 {
		return fmt.Errorf("shape mismatch: product of %v and %v", a.Shape, b.Shape)
	}
	ta, tb := c.Int("transA", 0) != 0, c.Int("transB", 0) != 0
	m, k, n, kb := a.Shape[0], a.Shape[1], b.Shape[1], b.Shape[0]
	left := tensor.Rows(kernel.Elements[float32](a), k)
	if ta {
		m, k = k, m
		left = tensor.Columns(left.Data, m)
	}
	if tb {
		n, kb = kb, n
	}
	if k != kb {
		return fmt.Errorf("shape mismatch: product of %v and %v", a.Shape, b.Shape)
	}
	out, err := c.Result(0, onnx.FLOAT, m, n)
	if err != nil || out.Len() == 0 {
		return err
	}
	alpha, beta, add := c.Float("alpha", 1), c.Float("beta", 1), c.Input(2)
	var stride []int
	if add != nil {
		shape, err := kernel.Broadcast(add.Shape, out.Shape)
		if err != nil || !slices.Equal(shape, out.Shape) {
			return fmt.Errorf("%v does not broadcast to %v", add.Shape, out.Shape)
		}
		stride = kernel.Stretch(add.Shape, shape)
	}
	then := follow{act: c.Then}
	plain := alpha == 1 && beta == 1 && add != nil && stride[0] == 0 && (stride[1] == 1 || n == 1)
	if plain {
		then.bias, add = kernel.Elements[float32](add), nil
	}
	if alpha != 1 || add != nil {
		then.act = nil
	}
	o := kernel.Elements[float32](out)
	if err := gemmProduct(c, o, m, k, n, left, tb, then); err != nil {
		return err
	}
	if alpha != 1 {
		tensor.Scale(o, alpha)
	}
	if add != nil {
		v := kernel.Elements[float32](add)
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

// gemmProduct computes the product of Gemm, followed by then.
func gemmProduct(c *kernel.Call, o []float32, m, k, n int, left tensor.Left[float32], trans bool, then follow) error {
	if k == 0 {
		clear(o)
		for i := range m {
			then.do(o[i*n:(i+1)*n], 0)
		}
		return nil
	}
	p, ok := (*c.Cache).(*tensor.Panels[float32])
	if !ok || !c.Same(1) {
		var err error
		if p, err = panels(c, kernel.Elements[float32](c.In[1]), k, n, trans, c.Same(1)); err != nil {
			return err
		}
	}
	multiplyThen(c, o, m, left, p, k, n, then)
	return nil
}
