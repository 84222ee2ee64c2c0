package layers

import (
	"fmt"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// imageScaler computes x·scale + bias of the channel: an experimental operator
// of the first versions of ONNX, which exporters of Windows ML wrote at the
// beginning of image models.
func imageScaler(c *kernel.Call) error {
	x := c.In[0]
	in, err := c.Floats(0)
	if err != nil {
		return err
	}
	at := c.Attribute("bias")
	if x.Rank() != 4 || at == nil || len(at.Floats) != x.Shape[1] {
		return fmt.Errorf("%v: want one bias for each channel", x.Shape)
	}
	out, err := c.Result(0, onnx.FLOAT, x.Shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	scale, inner, o := c.Float("scale", 1), x.Shape[2]*x.Shape[3], kernel.Elements[float32](out)
	c.Each(len(o)/inner, inner, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			scaled(o[r*inner:(r+1)*inner], in[0][r*inner:], scale, at.Floats[r%x.Shape[1]])
		}
	})
	return nil
}
