package layers

import (
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/arith"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/product"
)

// Attention returns the kernel of softmax(q·kᵀ·scale + mask)·v (Vaswani et al.,
// arXiv 1706.03762). Call.In holds q, k, v and optionally the mask. The kernel
// works on blocks of rows of q, so that the matrix of scores is never complete.
// k is the right factor of the product: its last two dimensions are read
// transposed if Call.Transposed is set. The node is that of the softmax.
func Attention(scale float32) kernel.Func {
	return func(c *kernel.Call) error {
		a := attention{Call: c, scale: scale}
		if a.fits() {
			return a.run()
		}
		return a.separate()
	}
}

// attention is one application.
type attention struct {
	*kernel.Call
	scale       float32
	left, right kernel.Geometry
	mask        []float32
	rows        []int // strides of the mask within the scores
}

// fits reports whether run supports the inputs: the same number of matrices in
// all, softmax along the last dimension.
func (a *attention) fits() bool {
	q, k, v, m := a.In[0], a.In[1], a.In[2], a.Input(3)
	for _, x := range []*kernel.Array{q, k, v} {
		if x.Type != onnx.FLOAT || x.Rank() < 2 || x.Len() == 0 {
			return false
		}
	}
	shape := slices.Clone(k.Shape)
	if n := len(shape); a.Transposed {
		shape[n-1], shape[n-2] = shape[n-2], shape[n-1]
	}
	var err error
	if a.left, err = kernel.Factors(q.Shape, shape); err != nil {
		return false
	}
	if a.right, err = kernel.Factors(a.left.Shape, v.Shape); err != nil {
		return false
	}
	scores := a.left.Shape
	if m != nil {
		if m.Type != onnx.FLOAT {
			return false
		}
		all, err := kernel.Broadcast(m.Shape, scores)
		if err != nil || !slices.Equal(all, scores) {
			return false
		}
		a.mask, a.rows = kernel.Elements[float32](m), kernel.Stretch(m.Shape, scores)
	}
	absent := -1
	if a.Opset < 13 {
		absent = 1
	}
	along := a.Int("axis", absent)
	return slices.Equal(a.left.Outer, a.right.Outer) && (along == -1 || along == len(scores)-1)
}

// blockRows is the number of rows of q in a block.
const blockRows = 48

func (a *attention) run() error {
	out, err := a.Result(0, onnx.FLOAT, a.right.Shape...)
	if err != nil {
		return err
	}
	m, d, n, e := a.left.M, a.left.K, a.left.N, a.right.N
	block := min(m, blockRows)
	room, err := a.Arena.New(onnx.FLOAT, len(a.Lanes), block, n)
	if err != nil {
		return err
	}
	defer a.Arena.Release(room)
	q, k, v, o, scores := kernel.Elements[float32](a.In[0]), kernel.Elements[float32](a.In[1]), kernel.Elements[float32](a.In[2]), kernel.Elements[float32](out), kernel.Elements[float32](room)
	packed := func(l *kernel.Lane, i int) (keys, values *tensor.Panels[float32]) {
		_, ki := a.left.At(i)
		_, vi := a.right.At(i)
		keys, values = l.Pair(d, n, e)
		kernel.Pack(keys, k[ki*d*n:(ki+1)*d*n], d, n, a.Transposed)
		kernel.Pack(values, v[vi*n*e:(vi+1)*n*e], n, e, false)
		return keys, values
	}
	rows := func(thread, i, r int, keys, values *tensor.Panels[float32]) {
		s, h := scores[thread*block*n:][:block*n], min(block, m-r)
		qi, _ := a.left.At(i)
		keys.Mul(h, a.scale, tensor.Rows(q[(qi*m+r)*d:], d), 0, s, n)
		for j := range h {
			row := s[j*n : (j+1)*n]
			a.add(row, i, r+j)
			arith.Soften("Softmax", row, row)
		}
		values.Mul(h, 1, tensor.Rows(s, n), 0, o[(i*m+r)*e:], e)
	}
	size, blocks := n*(d+e)/8, (m+block-1)/block
	if a.left.Batches < 4 { // split the blocks of one matrix over all threads
		for i := range a.left.Batches {
			keys, values := packed(&a.Lanes[0], i)
			a.Each(blocks, min(kernel.Grain, block*size), func(thread, lo, hi int) {
				for b := lo; b < hi; b++ {
					rows(thread, i, b*block, keys, values)
				}
			})
		}
		return nil
	}
	a.Each(a.left.Batches, min(kernel.Grain, m*size), func(thread, lo, hi int) {
		for i := lo; i < hi; i++ {
			keys, values := packed(&a.Lanes[thread], i)
			for b := 0; b < blocks && !a.Ended(); b++ {
				rows(thread, i, b*block, keys, values)
			}
		}
	})
	return nil
}

// add adds a row of the mask to row r of the scores of matrix i.
func (a *attention) add(row []float32, i, r int) {
	if a.mask == nil {
		return
	}
	at, last := r*a.rows[len(a.rows)-2], a.rows[len(a.rows)-1]
	for k := len(a.left.Outer) - 1; k >= 0; k-- {
		at += i % a.left.Outer[k] * a.rows[k]
		i /= a.left.Outer[k]
	}
	if last == 0 {
		tensor.SumWith(row, row, a.mask[at])
		return
	}
	tensor.Add(row, a.mask[at:at+len(row)])
}

// separate computes one operator after another, for all inputs that run does
// not support.
func (a *attention) separate() error {
	do := func(name string, run kernel.Func, transposed bool, in ...*kernel.Array) (*kernel.Array, error) {
		c := *a.Call
		var none any
		n := *c.Node
		n.Op = name
		c.Node, c.Cache, c.Fixed, c.In, c.Out, c.Transposed, c.Then = &n, &none, nil, in, make([]*kernel.Array, 1), transposed, nil
		err := run(&c)
		return c.Out[0], err
	}
	s, err := do("MatMul", kernel.Widened(product.MatMul), a.Transposed, a.In[0], a.In[1])
	if err != nil {
		return err
	}
	next := func(out *kernel.Array, err error) error {
		a.Arena.Release(s)
		s = out
		return err
	}
	if a.scale != 1 {
		by, err := a.Arena.New(onnx.FLOAT)
		if err != nil {
			return err
		}
		defer a.Arena.Release(by)
		kernel.Elements[float32](by)[0] = a.scale
		if err := next(do("Mul", kernel.Widened(arith.Combine), false, s, by)); err != nil {
			return err
		}
	}
	if m := a.Input(3); m != nil {
		if err := next(do("Add", kernel.Widened(arith.Combine), false, s, m)); err != nil {
			return err
		}
	}
	if err := next(do("Softmax", kernel.Widened(arith.Softmax), false, s)); err != nil {
		return err
	}
	if err := next(do("MatMul", kernel.Widened(product.MatMul), false, s, a.In[2])); err != nil {
		return err
	}
	a.Out[0] = s
	return nil
}
