package image

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/product"
)

// integerConv is a convolution of int16; rows holds the weights of each
// channel, or is nil.
func integerConv(c *kernel.Call, x, w *kernel.Array, rows *product.Rows) (*kernel.Array, error) {
	g, err := convolutionOf(c, x.Shape, w.Shape)
	if err != nil {
		return nil, err
	}
	out, err := c.Arena.Zeros(onnx.INT32, g.outs(g.batch, g.result)...)
	k := g.cin * g.kernelSize
	if err != nil || out.Len() == 0 || k == 0 {
		return out, err
	}
	weights, room := rows, (*kernel.Array)(nil)
	if weights == nil {
		if weights, room, err = product.NewRows(c, kernel.Elements[int16](w), g.result, k, false); err != nil {
			c.Arena.Release(out)
			return nil, err
		}
		defer c.Arena.Release(room)
	}
	// A tile's patches: first as columns, then as rows.
	tile := min(g.outSize, 64)
	threads := len(c.Lanes)
	patches := product.Rows{}
	patches.Size(tile, k)
	cols, err := c.Arena.New(onnx.INT16, threads, k+patches.Depth, tile)
	if err != nil {
		c.Arena.Release(out)
		return nil, err
	}
	defer c.Arena.Release(cols)
	o, xs, cs := kernel.Elements[int32](out), kernel.Elements[int16](x), kernel.Elements[int16](cols)
	tiles := (g.outSize + tile - 1) / tile
	c.Each(g.batch*g.groups*tiles, tile*k*max(1, g.cout/16), func(thread, lo, hi int) {
		mine := cs[thread*(k+patches.Depth)*tile:][:(k+patches.Depth)*tile]
		for t := lo; t < hi; t++ {
			i, p := t/tiles, t%tiles*tile
			n := min(tile, g.outSize-p)
			for ch := range g.cin {
				at := i*g.cin + ch
				columns(&g.window, mine[ch*g.kernelSize*n:], n, xs[at*g.inSize:(at+1)*g.inSize], p, p+n)
			}
			seen := product.Rows{Data: mine[k*tile:]}
			seen.Size(n, k)
			seen.Fill(mine, true)
			first := i % g.groups * g.cout
			tensor.MulInt16(o[(i/g.groups*g.result+first)*g.outSize+p:], g.outSize, weights.Data[first*weights.Depth:], seen.Data, g.cout, n, weights.Depth)
		}
	})
	return out, nil
}

func convInteger(c *kernel.Call) (err error) {
	if done, err := bytesConv(c); done || err != nil {
		return err
	}
	c.Out[0], err = product.MultiplyIntegers(c, 0, 2, 1, 3, integerConv)
	return err
}

func qlinearConv(c *kernel.Call) error { return product.Linear(c, integerConv) }
