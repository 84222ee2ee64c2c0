package image

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/product"
)

// convTranspose computes the gradient of Conv in its input: weights times input
// are the contributions of each input element to the outputs around it.
func convTranspose(c *kernel.Call) error {
	in, err := c.Floats(0, 1, 2)
	if err != nil {
		return err
	}
	x, w := c.In[0].Shape, c.In[1].Shape
	groups := c.Int("group", 1)
	if len(x) < 3 || len(w) != len(x) || groups < 1 || x[1]%groups != 0 || w[0] != x[1] || w[1] == 0 || x[1] == 0 {
		return fmt.Errorf("shape mismatch: kernel %v over %v in %d groups", w, x, groups)
	}
	g, err := windowOf(c, x[2:], w[2:])
	if err != nil {
		return err
	}
	if err := widen(c, &g); err != nil {
		return err
	}
	cin, cout := x[1]/groups, w[1]
	if err := g.sound(cout); err != nil {
		return err
	}
	if err := c.Lengths(cout*groups, 2); err != nil {
		return err
	}
	out, err := c.Result(0, onnx.FLOAT, g.outs(x[0], cout*groups)...)
	if err != nil || out.Len() == 0 {
		return err
	}
	k := cout * g.kernelSize
	cols, err := c.Arena.New(onnx.FLOAT, k, g.inSize)
	if err != nil {
		return err
	}
	defer c.Arena.Release(cols)
	o, cs := kernel.Elements[float32](out), kernel.Elements[float32](cols)
	for i := range x[0] * groups {
		gr := i % groups
		if g.inSize > 0 {
			weights := in[1][gr*cin*k : (gr+1)*cin*k]
			p := tensor.NewPanels[float32](cin, g.inSize)
			p.Pack(in[0][i*cin*g.inSize:(i+1)*cin*g.inSize], g.inSize)
			product.Multiply(c, cs, k, tensor.Columns(weights, k), p, cin, g.inSize)
		}
		c.Each(cout, g.kernelSize*g.inSize, func(_, lo, hi int) {
			for ch := lo; ch < hi; ch++ {
				plane := o[(i*cout+ch)*g.outSize : (i*cout+ch+1)*g.outSize]
				bias(plane, in[2], gr*cout+ch)
				g.scatter(plane, cs[ch*g.kernelSize*g.inSize:])
				after(c, plane, 0)
			}
		})
	}
	return nil
}

// widen computes the size of the output of a transposed convolution.
func widen(c *kernel.Call, g *window) error {
	extra, shape, auto := c.Ints("output_padding"), c.Ints("output_shape"), c.Text("auto_pad", "NOTSET")
	if extra != nil && len(extra) != g.rank || shape != nil && len(shape) < g.rank {
		return fmt.Errorf("bad output_padding %v or output_shape %v", extra, shape)
	}
	for k := 3 - g.rank; k < 3; k++ {
		i, add := k-3+g.rank, 0
		if extra != nil {
			add = extra[i]
		}
		if add < 0 || add > 1<<20 || g.in[k] > 1<<24 {
			return fmt.Errorf("bad output_padding %v", extra)
		}
		full := g.stride[k]*(g.in[k]-1) + add + (g.kernel[k]-1)*g.dilation[k] + 1
		switch {
		case shape != nil || auto == "SAME_UPPER" || auto == "SAME_LOWER":
			g.out[k] = g.in[k] * g.stride[k]
			if shape != nil {
				g.out[k] = shape[len(shape)-g.rank+i]
			}
			if g.out[k] < 0 || g.out[k] > math.MaxInt32 {
				return fmt.Errorf("bad output_shape %v", shape)
			}
			total := max(0, full-g.out[k])
			g.before[k] = total / 2
			if auto == "SAME_LOWER" || shape != nil && auto == "NOTSET" {
				g.before[k] = total - total/2
			}
			if shape != nil && auto == "NOTSET" {
				g.before[k] = total / 2
			}
		default:
			if auto == "VALID" {
				g.before[k], g.after[k] = 0, 0
			}
			g.out[k] = full - g.before[k] - g.after[k]
		}
	}
	if _, err := kernel.Count(g.out[:]); err != nil {
		return err
	}
	g.measure()
	return nil
}

// scatter adds the kernel's contributions of each input to a plane of outputs.
func (w *window) scatter(o, cols []float32) {
	for k := range w.kernelSize {
		kd, kh, kw := k/(w.kernel[1]*w.kernel[2]), k/w.kernel[2]%w.kernel[1], k%w.kernel[2]
		// The inputs [lo, hi) of a row that reach the output.
		off, step := kw*w.dilation[2]-w.before[2], w.stride[2]
		lo, hi := 0, 0
		if off < 0 {
			lo = (-off + step - 1) / step
		}
		if last := w.out[2] - 1 - off; last >= 0 {
			hi = min(last/step+1, w.in[2])
		}
		if lo >= hi {
			continue
		}
		for r := range w.in[0] * w.in[1] {
			d := r/w.in[1]*w.stride[0] + kd*w.dilation[0] - w.before[0]
			h := r%w.in[1]*w.stride[1] + kh*w.dilation[1] - w.before[1]
			if d < 0 || d >= w.out[0] || h < 0 || h >= w.out[1] {
				continue
			}
			row, from := o[(d*w.out[1]+h)*w.out[2]:][:w.out[2]], cols[k*w.inSize+r*w.in[2]:][lo:hi]
			if step == 1 {
				tensor.Add(row[lo+off:hi+off], from)
				continue
			}
			at := lo*step + off
			for _, v := range from {
				row[at] += v
				at += step
			}
		}
	}
}
