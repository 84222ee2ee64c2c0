package op

import (
	"fmt"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// whole8 are 8-bit numbers.
type whole8 interface{ int8 | uint8 }

// centred gives a quantised array as int16 less its zero points, which are one
// or one for each index of an axis.
func (c *Call) centred(i, zi, along int) (*Array, error) {
	a, z := c.In[i], c.input(zi)
	if a.Type != onnx.UINT8 && a.Type != onnx.INT8 {
		return nil, fmt.Errorf("input %d is of %s, wanted are 8 bits", i, a.Type)
	}
	n, inner := 1, max(1, a.Len())
	if z != nil {
		n = z.Len()
		if z.Type != a.Type || n == 0 {
			return nil, fmt.Errorf("zero points of %s for %s", z.Type, a.Type)
		}
	}
	if n > 1 {
		k, err := axis(along, a.Rank())
		if err != nil {
			return nil, err
		}
		if a.Shape[k] != n {
			return nil, fmt.Errorf("%d zero points along axis %d of %v", n, k, a.Shape)
		}
		inner = max(1, product(a.Shape[k+1:]))
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

// less takes zero points away: the one of run r of inner elements is r%n.
func less[T whole8](c *Call, out, a, z *Array, n, inner int) {
	zero := make([]int16, n)
	if z != nil {
		for i, v := range array.Of[T](z) {
			zero[i] = int16(v)
		}
	}
	o, x := array.Of[int16](out), array.Of[T](a)
	c.each(len(o), 1, func(_, lo, hi int) {
		for lo < hi {
			end, by := min(hi, (lo/inner+1)*inner), zero[lo/inner%n]
			for i, v := range x[lo:end] {
				o[lo+i] = int16(v) - by
			}
			lo = end
		}
	})
}

// integerProduct gives the product of two quantised inputs in int32.
func (c *Call) integerProduct(a, az, b, bz int, run func(c *Call, x, w *Array, rows *wholeRows) (*Array, error)) (*Array, error) {
	along := -1
	if c.conv() {
		along = 0
	}
	x, err := c.centred(a, az, -2)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(x)
	fixed := c.fixed(b) && (c.input(bz) == nil || c.fixed(bz))
	if rows, ok := (*c.Cache).(*wholeRows); ok && fixed {
		return run(c, x, c.In[b], rows)
	}
	w, err := c.centred(b, bz, along)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(w)
	if !fixed || w.Len() == 0 || !c.conv() && w.Rank() != 2 {
		return run(c, x, w, nil)
	}
	rows := &wholeRows{}
	if c.conv() {
		rows.size(w.Shape[0], w.Len()/w.Shape[0])
	} else {
		rows.size(w.Shape[1], w.Shape[0])
	}
	if err := c.Arena.Keep(int64(2 * rows.n * rows.depth)); err != nil {
		return nil, err
	}
	rows.data = make([]int16, rows.n*rows.depth)
	rows.fill(array.Of[int16](w), !c.conv())
	*c.Cache = rows
	return run(c, x, w, rows)
}

func (c *Call) conv() bool { return c.Node.Op == "ConvInteger" || c.Node.Op == "QLinearConv" }

// wholeRows are rows of whole numbers, with zeros behind them up to a depth
// that the kernel takes.
type wholeRows struct {
	data        []int16
	n, k, depth int
}

func (r *wholeRows) size(n, k int) {
	r.n, r.k = n, k
	r.depth = (k + tensor.Int16Step - 1) / tensor.Int16Step * tensor.Int16Step
}

// fill copies n rows of k numbers, or the columns of a k×n matrix.
func (r *wholeRows) fill(x []int16, columns bool) {
	for i := range r.n {
		row := r.data[i*r.depth : (i+1)*r.depth]
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

// rows makes rows in memory of the arena.
func (c *Call) rows(x []int16, n, k int, columns bool) (*wholeRows, *Array, error) {
	r := &wholeRows{}
	r.size(n, k)
	room, err := c.Arena.New(onnx.INT16, n, r.depth)
	if err != nil {
		return nil, nil, err
	}
	r.data = array.Of[int16](room)
	r.fill(x, columns)
	return r, room, nil
}

// wholeProduct is MatMul of int16; rows are the right factor's columns, if they
// are known.
func wholeProduct(c *Call, x, w *Array, rows *wholeRows) (*Array, error) {
	g, err := factors(x.Shape, w.Shape)
	if err != nil {
		return nil, err
	}
	out, err := c.Arena.Zeros(onnx.INT32, g.shape...)
	if err != nil || out.Len() == 0 || g.k == 0 {
		return out, err
	}
	o, xs := array.Of[int32](out), array.Of[int16](x)
	for i := range g.batches {
		ai, bi := g.at(i)
		right, room := rows, (*Array)(nil)
		if right == nil {
			if right, room, err = c.rows(array.Of[int16](w)[bi*g.k*g.n:(bi+1)*g.k*g.n], g.n, g.k, true); err != nil {
				c.Arena.Release(out)
				return nil, err
			}
		}
		left, mine, err := c.rows(xs[ai*g.m*g.k:(ai+1)*g.m*g.k], g.m, g.k, false)
		if err != nil {
			c.Arena.Release(room)
			c.Arena.Release(out)
			return nil, err
		}
		c.wholes(o[i*g.m*g.n:(i+1)*g.m*g.n], left, right, g.n)
		c.Arena.Release(mine)
		c.Arena.Release(room)
	}
	return out, nil
}

// wholes multiplies rows by rows, in tiles on the pool.
func (c *Call) wholes(o []int32, a, b *wholeRows, ld int) {
	const down = 32
	across := max(4, min(b.n, grain/a.depth)&^3)
	wide, tall := (b.n+across-1)/across, (a.n+down-1)/down
	c.each(wide*tall, down*across*a.depth/16, func(_, lo, hi int) {
		for t := lo; t < hi; t++ {
			i, j := t/wide*down, t%wide*across
			m, n := min(down, a.n-i), min(across, b.n-j)
			tensor.MulInt16(o[i*ld+j:], ld, a.data[i*a.depth:], b.data[j*b.depth:], m, n, a.depth)
		}
	})
}

// wholeConv is a convolution of int16; rows are the weights of each channel, if
// they are known.
func wholeConv(c *Call, x, w *Array, rows *wholeRows) (*Array, error) {
	g, err := c.convolution(x.Shape, w.Shape)
	if err != nil {
		return nil, err
	}
	out, err := c.Arena.Zeros(onnx.INT32, g.outs(g.batch, g.result)...)
	k := g.cin * g.kernelSize
	if err != nil || out.Len() == 0 || k == 0 {
		return out, err
	}
	weights, room := rows, (*Array)(nil)
	if weights == nil {
		if weights, room, err = c.rows(array.Of[int16](w), g.result, k, false); err != nil {
			c.Arena.Release(out)
			return nil, err
		}
		defer c.Arena.Release(room)
	}
	// A tile's patches: as columns first, then as rows.
	tile := min(g.outSize, 64)
	threads := len(c.Lanes)
	patches := wholeRows{}
	patches.size(tile, k)
	cols, err := c.Arena.New(onnx.INT16, threads, k+patches.depth, tile)
	if err != nil {
		c.Arena.Release(out)
		return nil, err
	}
	defer c.Arena.Release(cols)
	o, xs, cs := array.Of[int32](out), array.Of[int16](x), array.Of[int16](cols)
	tiles := (g.outSize + tile - 1) / tile
	c.each(g.batch*g.groups*tiles, tile*k*max(1, g.cout/16), func(thread, lo, hi int) {
		mine := cs[thread*(k+patches.depth)*tile:][:(k+patches.depth)*tile]
		for t := lo; t < hi; t++ {
			i, p := t/tiles, t%tiles*tile
			n := min(tile, g.outSize-p)
			for ch := range g.cin {
				at := i*g.cin + ch
				columns(&g.window, mine[ch*g.kernelSize*n:], n, xs[at*g.inSize:(at+1)*g.inSize], p, p+n)
			}
			seen := wholeRows{data: mine[k*tile:]}
			seen.size(n, k)
			seen.fill(mine, true)
			first := i % g.groups * g.cout
			tensor.MulInt16(o[(i/g.groups*g.result+first)*g.outSize+p:], g.outSize, weights.data[first*weights.depth:], seen.data, g.cout, n, weights.depth)
		}
	})
	return out, nil
}

func matmulInteger(c *Call) (err error) {
	c.Out[0], err = c.integerProduct(0, 2, 1, 3, wholeProduct)
	return err
}

func convInteger(c *Call) (err error) {
	c.Out[0], err = c.integerProduct(0, 2, 1, 3, wholeConv)
	return err
}
