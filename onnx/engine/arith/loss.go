package arith

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// loss computes NegativeLogLikelihoodLoss, and SoftmaxCrossEntropyLoss, which
// also returns the logarithms of the probabilities.
func loss(c *kernel.Call) error {
	if c.Node.Op == "NegativeLogLikelihoodLoss" {
		return likelihood(c, c.In[0])
	}
	n, sub := *c.Node, *c
	n.Op, n.Attributes = "LogSoftmax", append(slices.Clone(n.Attributes), onnx.Int("axis", 1))
	sub.Node, sub.Opset, sub.In, sub.Out = &n, max(c.Opset, 13), c.In[:1], make([]*kernel.Array, 1)
	if err := Softmax(&sub); err != nil {
		return err
	}
	logs := sub.Out[0]
	defer c.Arena.Release(logs)
	if len(c.Out) > 1 {
		c.Out[1] = logs.View(logs.Shape)
	}
	return likelihood(c, logs)
}

// likelihood sets output 0 to the losses of the classes in input 1, weighted by
// input 2, or to their sum or mean.
func likelihood(c *kernel.Call, logs *kernel.Array) error {
	target := c.In[1]
	if logs.Type != onnx.FLOAT || logs.Rank() < 2 || target.Rank() != logs.Rank()-1 || target.Shape[0] != logs.Shape[0] || !slices.Equal(target.Shape[1:], logs.Shape[2:]) {
		return fmt.Errorf("shape mismatch: %s %v and targets %v", logs.Type, logs.Shape, target.Shape)
	}
	classes, inner := logs.Shape[1], kernel.Product(logs.Shape[2:])
	if err := c.Lengths(classes, 2); err != nil {
		return err
	}
	weights, err := c.Floats(2)
	if err != nil {
		return err
	}
	list, err := c.Integers(1)
	if err != nil {
		return err
	}
	out, err := c.Arena.Zeros(onnx.FLOAT, target.Shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	ignored, x, o := c.Attribute("ignore_index"), kernel.Elements[float32](logs), kernel.Elements[float32](out)
	sum, total := 0.0, 0.0
	for i, class := range list {
		if ignored != nil && int64(class) == ignored.Int {
			continue
		}
		if class < 0 || class >= classes {
			return fmt.Errorf("target %d out of range, want 0 to %d", class, classes-1)
		}
		w := float32(1)
		if weights[0] != nil {
			w = weights[0][class]
		}
		o[i] = -x[(i/inner*classes+class)*inner+i%inner] * w
		sum, total = sum+float64(o[i]), total+float64(w)
	}
	switch how := c.Text("reduction", "mean"); how {
	case "none":
		c.Out[0] = out.View(out.Shape)
		return nil
	case "mean":
		sum /= total
	case "sum":
	default:
		return fmt.Errorf("reduction %q is not supported", how)
	}
	one, err := c.Result(0, onnx.FLOAT)
	if err == nil {
		kernel.Elements[float32](one)[0] = float32(sum)
	}
	return err
}
