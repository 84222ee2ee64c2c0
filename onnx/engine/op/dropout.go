package op

import (
	"fmt"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// dropout returns its input unchanged.
func dropout(c *kernel.Call) error {
	if train := c.Input(2); train != nil {
		ratio, err := []float64{0.5}, error(nil)
		if c.Input(1) != nil {
			ratio, err = c.Doubles(1)
		}
		if err != nil || train.Type != onnx.BOOL || train.Len() != 1 || kernel.Elements[bool](train)[0] && (len(ratio) != 1 || ratio[0] != 0) {
			return fmt.Errorf("training mode is not supported")
		}
	}
	c.Out[0] = c.In[0].View(c.In[0].Shape)
	if len(c.Out) < 2 {
		return nil
	}
	mask := onnx.BOOL
	if c.Opset < 10 {
		mask = c.In[0].Type
	}
	flat, err := c.Arena.New(onnx.BOOL, c.In[0].Shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(flat)
	for i := range flat.Bytes() {
		flat.Bytes()[i] = 1
	}
	c.Out[1], err = c.Cast(flat, mask)
	return err
}
