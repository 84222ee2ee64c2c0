package layers

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/product"
)

// dynamicLSTM computes DynamicQuantizeLSTM: an LSTM with weights of 8 bits, of
// which the inputs and the states are rounded to 8 bits by their range.
func dynamicLSTM(c *kernel.Call) error {
	if err := c.Want(onnx.FLOAT, 0); err != nil {
		return err
	}
	if c.Attribute("activations") != nil || c.Attribute("clip") != nil {
		return fmt.Errorf("custom activations and a clip are not supported")
	}
	n, sub, none := *c.Node, *c, any(nil)
	n.Op = "LSTM"
	sub.Node, sub.Cache, sub.Fixed = &n, &none, nil
	sub.In = make([]*kernel.Array, 8)
	copy(sub.In[3:], c.In[3:8])
	defer func() {
		for _, a := range sub.In[:3] {
			c.Arena.Release(a)
		}
	}()
	x, err := c.Arena.New(onnx.FLOAT, c.In[0].Shape...)
	if err != nil {
		return err
	}
	sub.In[0] = x
	if err := coarseSteps(c, x); err != nil {
		return err
	}
	for i := range 2 {
		if sub.In[1+i], err = gateWeights(c, 1+i, 8+2*i); err != nil {
			return err
		}
	}
	k, err := cellOf(&sub)
	if err != nil {
		return err
	}
	k.coarse = true
	return k.sequences(&sub)
}

// coarseSteps rounds the steps that the longest sequence has to 8 bits together.
func coarseSteps(c *kernel.Call, x *kernel.Array) error {
	lens, err := c.Integers(4)
	if err != nil {
		return err
	}
	from, to := kernel.Elements[float32](c.In[0]), kernel.Elements[float32](x)
	n := len(from)
	if len(lens) > 0 && x.Rank() > 0 && x.Len() > 0 {
		n = n / x.Shape[0] * min(max(slices.Max(lens), 0), x.Shape[0])
	}
	product.Coarse(to[:n], from[:n])
	return nil
}

// gateWeights returns quantized weights [directions, inputs, gates] as floats
// [directions, gates, inputs]. The scales and zero points, one for each direction
// or gate, are in the inputs si and si+1.
func gateWeights(c *kernel.Call, i, si int) (*kernel.Array, error) {
	w := c.In[i]
	if w.Rank() != 3 || w.Type != onnx.INT8 && w.Type != onnx.UINT8 {
		return nil, fmt.Errorf("input %d: got %s %v, want three dimensions of 8 bits", i, w.Type, w.Shape)
	}
	by, err := c.Doubles(si)
	if err != nil {
		return nil, err
	}
	zero, err := c.Doubles(si + 1)
	if err != nil {
		return nil, err
	}
	dirs, gates := w.Shape[0], w.Shape[2]
	if len(by) != len(zero) || len(by) != dirs && len(by) != dirs*gates || c.In[si+1].Type != w.Type || w.Len() == 0 {
		return nil, fmt.Errorf("input %d: got scales %v and zero points %v for %v", i, c.In[si].Shape, c.In[si+1].Shape, w.Shape)
	}
	turned, err := c.Permuted(w, 0, 2, 1)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(turned)
	cast, err := c.Cast(turned, onnx.FLOAT)
	if err != nil {
		return nil, err
	}
	o, each := kernel.Elements[float32](cast), w.Len()/len(by)
	for k := range o {
		o[k] = (o[k] - float32(zero[k/each])) * float32(by[k/each])
	}
	return cast, nil
}
