package arith

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// together returns an array whose last dimensions are the given axes, their
// number of elements, and the number of groups. The caller must release the
// array.
func together(c *kernel.Call, x *kernel.Array, axes []int) (packed *kernel.Array, groups, n int, err error) {
	var perm []int
	groups, n = 1, 1
	for i, d := range x.Shape {
		if !slices.Contains(axes, i) {
			perm = append(perm, i)
			groups *= d
		}
	}
	for _, k := range axes {
		n *= x.Shape[k]
	}
	perm = append(perm, axes...)
	if slices.IsSorted(perm) {
		return x.View(x.Shape), groups, n, nil
	}
	strides := kernel.Strides(x.Shape)
	shape, stride := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		shape[i], stride[i] = x.Shape[p], strides[p]
	}
	if packed, err = c.Arena.New(x.Type, shape...); err == nil {
		c.Strided(packed, x, shape, 0, stride)
	}
	return packed, groups, n, err
}

// without returns a shape without some axes, or with 1 in their place.
func without(shape, axes []int, keep bool) []int {
	var out []int
	for i, d := range shape {
		switch {
		case !slices.Contains(axes, i):
			out = append(out, d)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

// reduction combines the elements along some axes.
func reduction[T kernel.Number](c *kernel.Call) error {
	x := c.In[0]
	since := int64(18)
	if c.Node.Op == "ReduceSum" {
		since = 13
	}
	axes, err := c.Axes("axes", 1, since)
	if err != nil {
		return err
	}
	if len(axes) == 0 {
		if c.Int("noop_with_empty_axes", 0) != 0 {
			return Folded(c, x, x.Shape, x.Len(), 1, fold[T](c.Node.Op))
		}
		axes = nil
		for i := range x.Shape {
			axes = append(axes, i)
		}
	}
	if axes, err = kernel.AllAxes(axes, x.Rank()); err != nil {
		return err
	}
	packed, groups, n, err := together(c, x, axes)
	if err != nil {
		return err
	}
	defer c.Arena.Release(packed)
	return Folded(c, packed, without(x.Shape, axes, c.Int("keepdims", 1) != 0), groups, n, fold[T](c.Node.Op))
}

// Folded creates output 0 with one number for each group of n.
func Folded(c *kernel.Call, x *kernel.Array, shape []int, groups, n int, f func(x *kernel.Array, out *kernel.Array, lo, hi, n int)) error {
	out, err := c.Result(0, x.Type, shape...)
	if err != nil {
		return err
	}
	c.Each(groups, n, func(_, lo, hi int) { f(x, out, lo, hi, n) })
	return nil
}

func fold[T kernel.Number](name string) func(x, out *kernel.Array, lo, hi, n int) {
	f := Folding[T](name)
	return func(x, out *kernel.Array, lo, hi, n int) {
		xs, o := kernel.Elements[T](x), kernel.Elements[T](out)
		for g := lo; g < hi; g++ {
			o[g] = f(xs[g*n : (g+1)*n])
		}
	}
}

// Folding returns the function of the named reduction.
func Folding[T kernel.Number](name string) func(x []T) T {
	sum := func(f func(v T) T) func(x []T) T {
		return func(x []T) T {
			var s T
			for _, v := range x {
				s += f(v)
			}
			return s
		}
	}
	root := func(f func(x []T) T, g func(float64) float64) func(x []T) T {
		return func(x []T) T { return T(g(float64(f(x)))) }
	}
	switch name {
	case "ReduceMax":
		return func(x []T) T { return Extreme(x, 1) }
	case "ReduceMin":
		return func(x []T) T { return Extreme(x, -1) }
	case "ReduceProd":
		return func(x []T) T {
			p := T(1)
			for _, v := range x {
				p *= v
			}
			return p
		}
	case "ReduceMean":
		return func(x []T) T {
			var s T
			for _, v := range x {
				s += v
			}
			if len(x) == 0 {
				return divide(s, T(0))
			}
			return s / T(len(x))
		}
	case "ReduceL1":
		return sum(func(v T) T { return max(v, -v) })
	case "ReduceL2":
		return root(sum(func(v T) T { return v * v }), math.Sqrt)
	case "ReduceSumSquare":
		return sum(func(v T) T { return v * v })
	case "ReduceLogSum":
		return root(sum(func(v T) T { return v }), math.Log)
	case "ReduceLogSumExp":
		return func(x []T) T {
			if len(x) == 0 {
				return T(math.Inf(-1))
			}
			most, s := float64(slices.Max(x)), 0.0
			if math.IsInf(most, 0) {
				most = 0
			}
			for _, v := range x {
				s += math.Exp(float64(v) - most)
			}
			return T(most + math.Log(s))
		}
	}
	return sum(func(v T) T { return v })
}

// Extreme returns the largest, or with sign -1 the smallest of x; if x is
// empty, the neutral element.
func Extreme[T kernel.Number](x []T, sign int) T {
	if len(x) > 0 {
		if sign > 0 {
			return slices.Max(x)
		}
		return slices.Min(x)
	}
	var v T
	least, most := float64(math.Inf(-1)), math.Inf(1)
	if kernel.Integral[T]() {
		t := kernel.TypeOf[T]()
		bits := 8*kernel.Size(t) - 1
		least, most = -math.Ldexp(1, bits), math.Ldexp(1, bits)-1
		if t == onnx.UINT8 || t == onnx.UINT16 || t == onnx.UINT32 || t == onnx.UINT64 {
			least, most = 0, math.Ldexp(1, bits+1)-1
		}
	}
	if v = T(most); sign > 0 {
		v = T(least)
	}
	return v
}

// truth reduces bool: the maximum is Or, the minimum And.
func truth(c *kernel.Call) error {
	if c.In[0].Type != onnx.BOOL {
		return reductions.By(0)(c)
	}
	x, err := c.Cast(c.In[0], onnx.UINT8)
	if err != nil {
		return err
	}
	defer c.Arena.Release(x)
	in := c.In
	c.In = append([]*kernel.Array{x}, in[1:]...)
	err = reductions.By(0)(c)
	c.In = in
	if err != nil {
		return err
	}
	o := c.Out[0]
	for i, v := range o.Bytes() {
		o.Bytes()[i] = min(v, 1)
	}
	if o.Len() > 0 && kernel.Product(x.Shape) == 0 && c.Node.Op == "ReduceMin" {
		o.Bytes()[0] = 1
	}
	o.Type = onnx.BOOL
	return nil
}

// argument computes ArgMax and ArgMin.
func argument[T kernel.Number](c *kernel.Call) error {
	x := c.In[0]
	along, err := kernel.Axis(c.Int("axis", 0), x.Rank())
	if err != nil {
		return err
	}
	packed, groups, n, err := together(c, x, []int{along})
	if err != nil {
		return err
	}
	defer c.Arena.Release(packed)
	if n == 0 {
		return fmt.Errorf("ArgMax or ArgMin of an empty axis")
	}
	out, err := c.Result(0, onnx.INT64, without(x.Shape, []int{along}, c.Int("keepdims", 1) != 0)...)
	if err != nil {
		return err
	}
	least, last := c.Node.Op == "ArgMin", c.Int("select_last_index", 0) != 0
	xs, o := kernel.Elements[T](packed), kernel.Elements[int64](out)
	for g := range groups {
		row, best := xs[g*n:(g+1)*n], 0
		for i, v := range row {
			if v == row[best] && last || v > row[best] && !least || v < row[best] && least {
				best = i
			}
		}
		o[g] = int64(best)
	}
	return nil
}

// topK returns the largest or smallest elements along an axis, and their
// indices.
func topK[T kernel.Number](c *kernel.Call) error {
	x := c.In[0]
	along, err := kernel.Axis(c.Int("axis", -1), x.Rank())
	if err != nil {
		return err
	}
	k := c.Int("k", 0)
	if c.Opset >= 10 {
		list, err := c.Integers(1)
		if err != nil || len(list) != 1 {
			return fmt.Errorf("k is not a single number: %v", err)
		}
		k = list[0]
	}
	if k < 0 || k > x.Shape[along] {
		return fmt.Errorf("k is %d for %d elements", k, x.Shape[along])
	}
	shape := slices.Clone(x.Shape)
	shape[along] = k
	values, err := c.Result(0, x.Type, shape...)
	if err != nil {
		return err
	}
	places, err := c.Result(1, onnx.INT64, shape...)
	if err != nil {
		return err
	}
	if len(c.Out) < 2 {
		defer c.Arena.Release(places)
	}
	n, inner, largest := x.Shape[along], kernel.Product(x.Shape[along+1:]), c.Int("largest", 1) != 0
	xs, v, p := kernel.Elements[T](x), kernel.Elements[T](values), kernel.Elements[int64](places)
	order := make([]int, n)
	for g := range kernel.Product(x.Shape[:along]) * inner {
		base, at := g/inner*n*inner+g%inner, g/inner*k*inner+g%inner
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			r := cmp.Compare(xs[base+a*inner], xs[base+b*inner])
			if largest {
				return -r
			}
			return r
		})
		for i := range k {
			v[at+i*inner], p[at+i*inner] = xs[base+order[i]*inner], int64(order[i])
		}
	}
	return nil
}

// cumulate computes CumSum and CumProd.
func cumulate[T kernel.Number](c *kernel.Call) error {
	x := c.In[0]
	list, err := c.Integers(1)
	if err != nil || len(list) != 1 {
		return fmt.Errorf("axis is not a single number: %v", err)
	}
	along, err := kernel.Axis(list[0], x.Rank())
	if err != nil {
		return err
	}
	out, err := c.Result(0, x.Type, x.Shape...)
	if err != nil {
		return err
	}
	exclusive, backward, times := c.Int("exclusive", 0) != 0, c.Int("reverse", 0) != 0, c.Node.Op == "CumProd"
	n, inner := x.Shape[along], kernel.Product(x.Shape[along+1:])
	xs, o := kernel.Elements[T](x), kernel.Elements[T](out)
	for g := range kernel.Product(x.Shape[:along]) * inner {
		var sum T
		if times {
			sum = 1
		}
		for i := range n {
			if backward {
				i = n - 1 - i
			}
			at, before := g/inner*n*inner+i*inner+g%inner, sum
			if times {
				sum *= xs[at]
			} else {
				sum += xs[at]
			}
			o[at] = sum
			if exclusive {
				o[at] = before
			}
		}
	}
	return nil
}

// Softmax computes Softmax, LogSoftmax and Hardmax. Before opset 13 all
// dimensions from the axis on are merged.
func Softmax(c *kernel.Call) error {
	x := c.In[0]
	if x.Type != onnx.FLOAT && x.Type != onnx.DOUBLE {
		return fmt.Errorf("%s is not supported", x.Type)
	}
	from := -1
	if c.Opset < 13 {
		from = 1
	}
	if x.Rank() == 0 {
		return fmt.Errorf("softmax of a scalar")
	}
	along, err := kernel.Axis(c.Int("axis", from), x.Rank())
	if err != nil {
		return err
	}
	n, inner := kernel.Product(x.Shape[along:]), 1
	if c.Opset >= 13 {
		n, inner = x.Shape[along], kernel.Product(x.Shape[along+1:])
	}
	wide, err := c.Cast(x, onnx.FLOAT)
	if err != nil {
		return err
	}
	defer c.Arena.Release(wide)
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	xs, o := kernel.Elements[float32](wide), kernel.Elements[float32](out)
	c.Each(len(o)/n, n*4, func(_, lo, hi int) {
		var row []float32
		if inner > 1 {
			row = make([]float32, n)
		}
		for g := lo; g < hi; g++ {
			base := g/inner*n*inner + g%inner
			if inner == 1 {
				Soften(c.Node.Op, o[base:base+n], xs[base:base+n])
				continue
			}
			for i := range row {
				row[i] = xs[base+i*inner]
			}
			Soften(c.Node.Op, row, row)
			for i, v := range row {
				o[base+i*inner] = v
			}
		}
	})
	if x.Type == onnx.DOUBLE {
		c.Out[0], err = c.Cast(out, onnx.DOUBLE)
		c.Arena.Release(out)
	}
	return err
}

// Soften computes one row of softmax; dst may be x.
func Soften(name string, dst, x []float32) {
	most := tensor.Max(x)
	switch name {
	case "Softmax":
		tensor.Scale(dst, 1/tensor.ExpSum(dst, x, most))
	case "LogSoftmax":
		sum := 0.0
		for _, v := range x {
			sum += math.Exp(float64(v - most))
		}
		tensor.SumWith(dst, x, -most-float32(math.Log(sum)))
	default:
		i := slices.Index(x, most)
		clear(dst)
		if i >= 0 {
			dst[i] = 1
		}
	}
}
