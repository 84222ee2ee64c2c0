package image

import (
	"fmt"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/arith"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/product"
)

// Microsoft returns the operators of com.microsoft of this package.
func Microsoft() kernel.Operators {
	return kernel.Operators{
		"FusedConv":          {Run: fusedConv, Since: 1, Min: 2, Max: 4},
		"QLinearAveragePool": {Run: qlinearPool, Since: 1, Min: 4, Max: 5, Raw: true},
	}
}

// fusedConv computes a convolution, adds an array and applies an activation.
func fusedConv(c *kernel.Call) error {
	act, err := activation(c)
	if err != nil {
		return err
	}
	out, err := c.Nested("Conv", convolve, c.In[0], c.In[1], c.Input(2))
	if err != nil {
		return err
	}
	c.Out[0] = out
	o := kernel.Elements[float32](out)
	if z := c.Input(3); z != nil {
		if z.Type != onnx.FLOAT || fmt.Sprint(z.Shape) != fmt.Sprint(out.Shape) {
			return fmt.Errorf("shape mismatch: %v added to %v", z.Shape, out.Shape)
		}
		tensor.Add(o, kernel.Elements[float32](z))
	}
	if act != nil {
		c.Each(len(o), 4, func(_, lo, hi int) { act(o[lo:hi], o[lo:hi]) })
	}
	return nil
}

// activation returns the function of the attributes activation and
// activation_params; nil without one.
func activation(c *kernel.Call) (func(dst, x []float32), error) {
	name, params := c.Text("activation", ""), []float32(nil)
	if a := c.Attribute("activation_params"); a != nil {
		params = a.Floats
	}
	want := map[string][]string{"": {}, "Relu": {}, "Sigmoid": {}, "Tanh": {}, "LeakyRelu": {"alpha"}, "HardSigmoid": {"alpha", "beta"}, "Clip": {"", ""}}
	names, ok := want[name]
	if !ok || len(params) != len(names) {
		return nil, fmt.Errorf("activation %q with %d parameters is not supported", name, len(params))
	}
	switch name {
	case "":
		return nil, nil
	case "Clip":
		return func(dst, x []float32) { tensor.Clip(dst, x, params[0], params[1]) }, nil
	}
	n := &onnx.Node{Op: name}
	for i, v := range params {
		n.Attributes = append(n.Attributes, onnx.Attribute{Name: names[i], Type: onnx.AttrFloat, Float: v})
	}
	return arith.Activation(n, c.Opset), nil
}

// qlinearPool computes QLinearAveragePool; with channels_last the channels are
// the last dimension.
func qlinearPool(c *kernel.Call) error {
	x, err := product.Real(c, 0, 1, 2)
	if err != nil {
		return err
	}
	defer func() { c.Arena.Release(x) }()
	n, last := x.Rank(), c.Int("channels_last", 0) != 0
	if n < 3 {
		return fmt.Errorf("%v has no dimension for a window", x.Shape)
	}
	move := func(perm []int) error {
		y, err := c.Permuted(x, perm...)
		if err == nil {
			c.Arena.Release(x)
			x = y
		}
		return err
	}
	if last {
		if err := move(append([]int{0, n - 1}, kernel.Sequence(n - 1)[1:]...)); err != nil {
			return err
		}
	}
	y, err := c.Nested("AveragePool", pooling[float32], x)
	if err != nil {
		return err
	}
	c.Arena.Release(x)
	x = y
	if last {
		if err := move(append(append([]int{0}, kernel.Sequence(n)[2:]...), 1)); err != nil {
			return err
		}
	}
	return product.Quantized(c, x, 3, 4, true)
}
