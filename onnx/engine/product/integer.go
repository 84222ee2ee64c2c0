package product

import (
	"fmt"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// byteInt lists the 8-bit integer types.
type byteInt interface{ int8 | uint8 }

// centered returns a quantized array as int16 minus its zero points: a single
// one, or one for each index of an axis.
func centered(c *kernel.Call, i, zi, along int) (*kernel.Array, error) {
	a, z := c.In[i], c.Input(zi)
	if a.Type != onnx.UINT8 && a.Type != onnx.INT8 {
		return nil, fmt.Errorf("input %d: got type %s, want int8 or uint8", i, a.Type)
	}
	n, inner := 1, max(1, a.Len())
	if z != nil {
		n = z.Len()
		if z.Type != a.Type || n == 0 {
			return nil, fmt.Errorf("type mismatch: zero points %s for %s", z.Type, a.Type)
		}
	}
	if n > 1 {
		k, err := kernel.Axis(along, a.Rank())
		if err != nil {
			return nil, err
		}
		if a.Shape[k] != n {
			return nil, fmt.Errorf("%d zero points do not match axis %d of %v", n, k, a.Shape)
		}
		inner = max(1, kernel.Product(a.Shape[k+1:]))
	}
	out, err := c.Arena.New(onnx.INT16, a.Shape...)
	if err != nil || out.Len() == 0 {
		return out, err
	}
	if a.Type == onnx.UINT8 {
		less[uint8](c, out, a, z, n, inner)
	} else {
		less[int8](c, out, a, z, n, inner)
	}
	return out, nil
}

// less subtracts zero points: that of run r of inner elements is r%n.
func less[T byteInt](c *kernel.Call, out, a, z *kernel.Array, n, inner int) {
	zero := make([]int16, n)
	if z != nil {
		for i, v := range kernel.Elements[T](z) {
			zero[i] = int16(v)
		}
	}
	o, x := kernel.Elements[int16](out), kernel.Elements[T](a)
	c.Each(len(o), 1, func(_, lo, hi int) {
		for lo < hi {
			end, by := min(hi, (lo/inner+1)*inner), zero[lo/inner%n]
			for i, v := range x[lo:end] {
				o[lo+i] = int16(v) - by
			}
			lo = end
		}
	})
}

// Product computes a product of int16 in int32; rows is the second factor, or
// nil.
type Product func(c *kernel.Call, x, w *kernel.Array, rows *Rows) (*kernel.Array, error)

// MultiplyIntegers returns the product of two quantized inputs in int32.
func MultiplyIntegers(c *kernel.Call, a, az, b, bz int, run Product) (*kernel.Array, error) {
	along := -1
	if conv(c) {
		along = 0
	}
	x, err := centered(c, a, az, -2)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(x)
	fixed := c.Same(b) && (c.Input(bz) == nil || c.Same(bz))
	if rows, ok := (*c.Cache).(*Rows); ok && fixed {
		return run(c, x, c.In[b], rows)
	}
	w, err := centered(c, b, bz, along)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(w)
	if !fixed || w.Len() == 0 || !conv(c) && w.Rank() != 2 {
		return run(c, x, w, nil)
	}
	rows := &Rows{}
	if conv(c) {
		rows.Size(w.Shape[0], w.Len()/w.Shape[0])
	} else {
		rows.Size(w.Shape[1], w.Shape[0])
	}
	if err := c.Arena.Keep(int64(2 * rows.n * rows.Depth)); err != nil {
		return nil, err
	}
	rows.Data = make([]int16, rows.n*rows.Depth)
	rows.Fill(kernel.Elements[int16](w), !conv(c))
	*c.Cache = rows
	return run(c, x, w, rows)
}

// conv reports whether the node is a convolution.
func conv(c *kernel.Call) bool { return c.Node.Op == "ConvInteger" || c.Node.Op == "QLinearConv" }

// Rows holds rows of integers, padded with zeros to a depth that the kernel
// supports.
type Rows struct {
	Data        []int16 // n rows of Depth numbers, the first k of which are used
	n, k, Depth int
}

// Size sets the shape: n rows of k numbers.
func (r *Rows) Size(n, k int) {
	r.n, r.k = n, k
	r.Depth = (k + tensor.Int16Step - 1) / tensor.Int16Step * tensor.Int16Step
}

// Fill copies n rows of k numbers, or the columns of a k×n matrix.
func (r *Rows) Fill(x []int16, columns bool) {
	for i := range r.n {
		row := r.Data[i*r.Depth : (i+1)*r.Depth]
		clear(row[r.k:])
		if !columns {
			copy(row, x[i*r.k:(i+1)*r.k])
			continue
		}
		for j := range r.k {
			row[j] = x[j*r.n+i]
		}
	}
}

// NewRows returns rows in memory of the arena.
func NewRows(c *kernel.Call, x []int16, n, k int, columns bool) (*Rows, *kernel.Array, error) {
	r := &Rows{}
	r.Size(n, k)
	room, err := c.Arena.New(onnx.INT16, n, r.Depth)
	if err != nil {
		return nil, nil, err
	}
	r.Data = kernel.Elements[int16](room)
	r.Fill(x, columns)
	return r, room, nil
}

// integerProduct is MatMul of int16; rows holds the columns of the right
// factor, or is nil.
func integerProduct(c *kernel.Call, x, w *kernel.Array, rows *Rows) (*kernel.Array, error) {
	g, err := kernel.Factors(x.Shape, w.Shape)
	if err != nil {
		return nil, err
	}
	out, err := c.Arena.Zeros(onnx.INT32, g.Shape...)
	if err != nil || out.Len() == 0 || g.K == 0 {
		return out, err
	}
	o, xs := kernel.Elements[int32](out), kernel.Elements[int16](x)
	for i := range g.Batches {
		ai, bi := g.At(i)
		right, room := rows, (*kernel.Array)(nil)
		if right == nil {
			if right, room, err = NewRows(c, kernel.Elements[int16](w)[bi*g.K*g.N:(bi+1)*g.K*g.N], g.N, g.K, true); err != nil {
				c.Arena.Release(out)
				return nil, err
			}
		}
		left, mine, err := NewRows(c, xs[ai*g.M*g.K:(ai+1)*g.M*g.K], g.M, g.K, false)
		if err != nil {
			c.Arena.Release(room)
			c.Arena.Release(out)
			return nil, err
		}
		multiplyRows(c, o[i*g.M*g.N:(i+1)*g.M*g.N], left, right, g.N)
		c.Arena.Release(mine)
		c.Arena.Release(room)
	}
	return out, nil
}

// multiplyRows multiplies rows by rows, in tiles on the pool.
func multiplyRows(c *kernel.Call, o []int32, a, b *Rows, ld int) {
	const down = 32
	across := max(4, min(b.n, kernel.Grain/a.Depth)&^3)
	wide, tall := (b.n+across-1)/across, (a.n+down-1)/down
	c.Each(wide*tall, down*across*a.Depth/16, func(_, lo, hi int) {
		for t := lo; t < hi; t++ {
			i, j := t/wide*down, t%wide*across
			m, n := min(down, a.n-i), min(across, b.n-j)
			tensor.MulInt16(o[i*ld+j:], ld, a.Data[i*a.Depth:], b.Data[j*b.Depth:], m, n, a.Depth)
		}
	})
}

func matmulInteger(c *kernel.Call) (err error) {
	c.Out[0], err = MultiplyIntegers(c, 0, 2, 1, 3, integerProduct)
	return err
}
