package layers

import (
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// standardAttention computes Attention of ai.onnx.
func standardAttention(c *kernel.Call) error {
	if err := c.Want(onnx.FLOAT, 0, 1, 2, 4, 5); err != nil {
		return err
	}
	if c.Int("softmax_precision", 0) == int(onnx.DOUBLE) {
		return fmt.Errorf("softmax_precision float64 is not supported")
	}
	a := &heads{scale: c.Float("scale", 0), softcap: c.Float("softcap", 0)}
	past := 0
	for i, to := range []**kernel.Array{&a.q, &a.k, &a.v} {
		n := c.Int("kv_num_heads", 0)
		if i == 0 {
			n = c.Int("q_num_heads", 0)
		}
		x, err := split(c, c.In[i], n)
		if err != nil {
			return err
		}
		if i > 0 && c.Input(3+i) != nil {
			past = c.In[3+i].Dim(max(-2, -c.In[3+i].Rank()))
			y, err := after(c, c.In[3+i], x)
			c.Arena.Release(x)
			if err != nil {
				return err
			}
			x = y
		}
		defer c.Arena.Release(x)
		*to = x
	}
	if err := a.measure(); err != nil {
		return err
	}
	if err := a.masks(c, past); err != nil {
		return err
	}
	if len(c.Out) > 3 {
		if err := a.keepScores(c); err != nil {
			return err
		}
	}
	out, err := a.attend(c)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	c.Out[0] = out.View(out.Shape)
	if c.In[0].Rank() == 3 {
		c.Arena.Release(c.Out[0])
		if c.Out[0], err = joined(c, out); err != nil {
			return err
		}
	}
	for i, x := range []*kernel.Array{a.k, a.v} {
		if len(c.Out) > 1+i {
			c.Out[1+i] = x.View(x.Shape)
		}
	}
	return nil
}

// keepScores creates output 3, the scores at the point that
// qk_matmul_output_mode selects.
func (a *heads) keepScores(c *kernel.Call) error {
	out, err := c.Result(3, onnx.FLOAT, a.batch, a.heads, a.queries, a.keys)
	if err != nil {
		return err
	}
	points := []*[]float32{&a.raw, &a.capped, &a.ready, &a.at}
	mode := c.Int("qk_matmul_output_mode", 0)
	if mode < 0 || mode >= len(points) {
		return fmt.Errorf("qk_matmul_output_mode out of range: %d", mode)
	}
	*points[mode] = kernel.Elements[float32](out)
	return nil
}

// masks joins the mask, the causal mask behind the past positions, and the
// numbers of keys that are not padding.
func (a *heads) masks(c *kernel.Call, past int) error {
	causal, inf := c.Int("is_causal", 0) != 0, float32(math.Inf(-1))
	var mask func(b, h, s int, row []float32)
	if m := c.Input(3); m != nil {
		var err error
		if mask, err = a.added(m); err != nil {
			return err
		}
	}
	lens, err := c.Integers(6)
	if err != nil || lens != nil && len(lens) != a.batch {
		return fmt.Errorf("nonpad_kv_seqlen: got %d lengths, want %d: %v", len(lens), a.batch, err)
	}
	a.row = func(b, h, s int, row []float32) {
		if mask != nil {
			mask(b, h, s, row)
		}
		end := len(row)
		if causal {
			end = min(end, past+s+1)
		}
		if lens != nil {
			end = min(end, max(lens[b], 0))
		}
		for j := end; j < len(row); j++ {
			row[j] = inf
		}
	}
	return nil
}
