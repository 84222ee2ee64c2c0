package layers

import (
	"fmt"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// rotation rotates the first dim numbers of each head by the rows of cosines
// and sines at its position.
type rotation struct {
	cos, sin []float32 // rows of dim/2
	dim      int
	pairs    bool // neighbors rotate together, not halves
	rows     int
}

// turn rotates x, the numbers of one head, at a position.
func (r *rotation) turn(x []float32, at int) {
	h := r.dim / 2
	tensor.Rotate(x[:r.dim], r.dim, r.cos[at*h:(at+1)*h], r.sin[at*h:(at+1)*h], r.pairs)
}

// rotationOf reads the caches of cosines and sines in two inputs; dim 0 means
// that the rotation is as wide as they are.
func rotationOf(c *kernel.Call, ci, si, dim, size int, pairs bool) (*rotation, error) {
	in, err := c.Floats(ci, si)
	if err != nil {
		return nil, err
	}
	cos, sin := c.Input(ci), c.Input(si)
	if cos == nil || sin == nil || cos.Rank() < 1 || fmt.Sprint(cos.Shape) != fmt.Sprint(sin.Shape) {
		return nil, fmt.Errorf("missing or unequal inputs %d and %d", ci, si)
	}
	h := cos.Dim(-1)
	if dim == 0 {
		dim = 2 * h
	}
	if h == 0 || dim != 2*h || dim > size {
		return nil, fmt.Errorf("shape mismatch: %v rotates %d of %d numbers", cos.Shape, dim, size)
	}
	return &rotation{cos: in[0], sin: in[1], dim: dim, pairs: pairs, rows: cos.Len() / h}, nil
}

// rotate rotates [batch, positions, heads, size] or, if inner is set, [batch,
// heads, positions, size] into output 0. place returns the row for a position.
func (r *rotation) rotate(c *kernel.Call, shape [4]int, inner bool, place func(b, s int) int) error {
	x := c.In[0]
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o, size := kernel.Elements[float32](out), shape[3]
	copy(o, kernel.Elements[float32](x))
	for b := range shape[0] {
		n := shape[1]
		if inner {
			n = shape[2]
		}
		for s := range n {
			if at := place(b, s); at < 0 || at >= r.rows {
				return fmt.Errorf("position %d out of range, want 0 to %d", at, r.rows-1)
			}
		}
	}
	c.Each(len(o)/size, 2*size, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			b, s := i/(shape[1]*shape[2]), i/shape[2]%shape[1]
			if inner {
				s = i % shape[2]
			}
			r.turn(o[i*size:(i+1)*size], place(b, s))
		}
	})
	return nil
}

// headsOf returns the four dimensions of an input and whether its heads come
// before its positions.
func headsOf(x *kernel.Array, n int) (shape [4]int, inner bool, err error) {
	switch {
	case x.Rank() == 4:
		return [4]int(x.Shape), true, nil
	case x.Rank() == 3 && n > 0 && x.Shape[2]%n == 0:
		return [4]int{x.Shape[0], x.Shape[1], n, x.Shape[2] / n}, false, nil
	}
	return shape, false, fmt.Errorf("shape mismatch: %v in %d heads", x.Shape, n)
}

// microsoftRotary computes RotaryEmbedding of com.microsoft: positions are one
// for each batch and position, or the first of all.
func microsoftRotary(c *kernel.Call) error {
	x, dim, n := c.In[0], c.Int("rotary_embedding_dim", 0), c.Int("num_heads", 0)
	if err := c.Want(onnx.FLOAT, 0); err != nil {
		return err
	}
	if c.Float("scale", 1) != 1 || c.Int("is_packed_batching", 0) != 0 {
		return fmt.Errorf("scale and packed batches are not supported")
	}
	if n == 0 && dim > 0 {
		return fmt.Errorf("rotary_embedding_dim needs num_heads")
	}
	if cos := c.In[2]; n == 0 && x.Rank() == 3 && cos.Rank() > 0 && cos.Dim(-1) > 0 {
		n = x.Shape[2] / (2 * cos.Dim(-1))
	}
	shape, inner, err := headsOf(x, n)
	if err != nil {
		return err
	}
	r, err := rotationOf(c, 2, 3, dim, shape[3], c.Int("interleaved", 0) != 0)
	if err != nil {
		return err
	}
	ids, err := c.Integers(1)
	if err != nil {
		return err
	}
	positions := shape[1]
	if inner {
		positions = shape[2]
	}
	if len(ids) == 1 {
		return r.rotate(c, shape, inner, func(_, s int) int { return ids[0] + s })
	}
	if len(ids) != shape[0]*positions {
		return fmt.Errorf("got %d positions, want %d", len(ids), shape[0]*positions)
	}
	return r.rotate(c, shape, inner, func(b, s int) int { return ids[b*positions+s] })
}

// rotary computes RotaryEmbedding of ai.onnx: without positions the caches have
// a row for each batch and position.
func rotary(c *kernel.Call) error {
	if err := c.Want(onnx.FLOAT, 0); err != nil {
		return err
	}
	shape, inner, err := headsOf(c.In[0], c.Int("num_heads", 0))
	if err != nil {
		return err
	}
	r, err := rotationOf(c, 1, 2, c.Int("rotary_embedding_dim", 0), shape[3], c.Int("interleaved", 0) != 0)
	if err != nil {
		return err
	}
	positions := shape[1]
	if inner {
		positions = shape[2]
	}
	ids, err := c.Integers(3)
	if err != nil {
		return err
	}
	switch {
	case c.Input(3) == nil && r.rows == shape[0]*positions:
		return r.rotate(c, shape, inner, func(b, s int) int { return b*positions + s })
	case c.Input(3) == nil || len(ids) != shape[0]*positions:
		return fmt.Errorf("got %d positions and %d rows of cosines, want %d", len(ids), r.rows, shape[0]*positions)
	}
	return r.rotate(c, shape, inner, func(b, s int) int { return ids[b*positions+s] })
}
