package arith

import (
	"fmt"
	"hash/fnv"
	"math"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// generator is the minimal standard generator of C++, with the distributions of
// libstdc++, so that a seed has the numbers that it has in ONNX Runtime. Each run
// starts at the seed. A node without one has a seed of its name.
type generator struct {
	state uint64
	wide  bool // float64 draws two numbers
	spare float64
	full  bool
}

const modulus = 1<<31 - 1

func newGenerator(c *kernel.Call, wide bool) *generator {
	seed := uint64(0)
	if a := c.Attribute("seed"); a != nil {
		seed = uint64(uint32(int64(a.Float)))
	} else {
		h := fnv.New64a()
		_, _ = h.Write([]byte(c.Node.Name + "\x00" + c.Node.Outputs[0]))
		seed = h.Sum64()
	}
	return &generator{state: max(seed%modulus, 1), wide: wide}
}

func (g *generator) next() float64 {
	g.state = g.state * 16807 % modulus
	return float64(g.state - 1)
}

// uniform returns a number from 0 to less than 1.
func (g *generator) uniform() float64 {
	if g.wide {
		low := g.next()
		return min((low+g.next()*(modulus-1))/((modulus-1)*(modulus-1)), math.Nextafter(1, 0))
	}
	v := float32(g.next()) / float32(modulus-1)
	return float64(min(v, math.Nextafter32(1, 0)))
}

// normal returns a number of the standard normal distribution, by the polar
// method.
func (g *generator) normal() float64 {
	if g.full {
		g.full = false
		return g.spare
	}
	round := func(v float64) float64 {
		if g.wide {
			return v
		}
		return float64(float32(v))
	}
	for {
		x := round(2*g.uniform() - 1)
		y := round(2*g.uniform() - 1)
		r := round(round(x*x) + round(y*y))
		if r > 1 || r == 0 {
			continue
		}
		m := round(math.Sqrt(round(-2 * round(math.Log(r)) / r)))
		g.spare, g.full = round(x*m), true
		return round(y * m)
	}
}

// random computes RandomUniform, RandomNormal, and those of an input's shape.
func random(c *kernel.Call) error {
	var shape []int
	kind := onnx.FLOAT
	if len(c.In) > 0 {
		shape, kind = c.In[0].Shape, c.In[0].Type
	} else {
		shape = c.Ints("shape")
	}
	kind = onnx.DType(c.Int("dtype", int(kind)))
	if kind != onnx.FLOAT && kind != onnx.DOUBLE && kind != onnx.FLOAT16 && kind != onnx.BFLOAT16 {
		return fmt.Errorf("unsupported type %s", kind)
	}
	out, err := c.Arena.New(onnx.DOUBLE, shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	g, o := newGenerator(c, kind == onnx.DOUBLE), kernel.Elements[float64](out)
	draw := func() float64 { return g.normal()*float64(c.Float("scale", 1)) + float64(c.Float("mean", 0)) }
	if c.Node.Op == "RandomUniform" || c.Node.Op == "RandomUniformLike" {
		low, high := float64(c.Float("low", 0)), float64(c.Float("high", 1))
		draw = func() float64 { return g.uniform()*(high-low) + low }
	}
	for i := range o {
		o[i] = draw()
	}
	c.Out[0], err = c.Cast(out, kind)
	return err
}

// bernoulli computes Bernoulli as the function that defines it: whether a
// uniform number is greater than the input.
func bernoulli(c *kernel.Call) error {
	p, err := c.Doubles(0)
	if err != nil {
		return err
	}
	out, err := c.Arena.New(onnx.BOOL, c.In[0].Shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	g := newGenerator(c, c.In[0].Type == onnx.DOUBLE)
	for i, v := range p {
		kernel.Elements[bool](out)[i] = g.uniform() > v
	}
	c.Out[0], err = c.Cast(out, onnx.DType(c.Int("dtype", int(c.In[0].Type))))
	return err
}
