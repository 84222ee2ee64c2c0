package image_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op"
)

// ints returns an attribute of integers.
func ints(name string, v ...int) onnx.Attribute {
	list := make([]int64, len(v))
	for i, n := range v {
		list[i] = int64(n)
	}
	return onnx.IntList(name, list...)
}

// picture returns a random array.
func picture(t *testing.T, m *kernel.Arena, seed uint64, shape ...int) *kernel.Array {
	t.Helper()
	a, err := m.New(onnx.FLOAT, shape...)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range a.Len() {
		kernel.Elements[float32](a)[i] = float32(r.NormFloat64())
	}
	return a
}

// apply runs an operator of an opset on several numbers of threads, whose
// results must be equal, and returns its outputs.
func apply(t *testing.T, m *kernel.Arena, n *onnx.Node, opset int64, after *kernel.After, outputs int, in ...*kernel.Array) ([]*kernel.Array, error) {
	t.Helper()
	n.Inputs = nil
	for range in {
		n.Inputs = append(n.Inputs, "x")
	}
	run, err := op.Find(n, opset)
	if err != nil {
		return nil, err
	}
	var first []*kernel.Array
	for _, threads := range []int{1, 2, 3} {
		p := pool.New(threads)
		c := &kernel.Call{
			Context: t.Context(), Arena: m, Pool: p, Node: n, Opset: opset, In: in, Fixed: slices.Repeat([]bool{true}, len(in)),
			Cache: new(any), Lanes: make([]kernel.Lane, threads), Rows: make([]tensor.Row, threads), After: after,
		}
		for range 2 { // again, with the cache of the first run
			c.Out = make([]*kernel.Array, outputs)
			err = run(c)
			if err != nil {
				break
			}
			if first == nil {
				first = c.Out
			}
			for i, a := range c.Out {
				if !bytes.Equal(a.Bytes(), first[i].Bytes()) {
					t.Errorf("%s: %d threads change output %d", n.Op, threads, i)
				}
			}
		}
		p.Close()
		if err != nil {
			return nil, err
		}
	}
	return first, nil
}

// windowed is a case of a convolution or a pool; nil selects the default of the
// standard.
type windowed struct {
	x, w             []int // shapes; w is the kernel of a pool
	group            int
	stride, dilation []int
	pads             []int // before and after
	auto             string
	more             []onnx.Attribute
	out              []int // the shape of the result
	before           []int // the padding that auto_pad implies
}

// node returns the case as a node.
func (c *windowed) node(op string) *onnx.Node {
	n := &onnx.Node{Op: op, Attributes: slices.Clone(c.more)}
	add := func(name string, v []int) {
		if v != nil {
			n.Attributes = append(n.Attributes, ints(name, v...))
		}
	}
	add("strides", c.stride)
	add("dilations", c.dilation)
	add("pads", c.pads)
	if c.auto != "" {
		n.Attributes = append(n.Attributes, onnx.String("auto_pad", c.auto))
	}
	if c.group > 0 {
		n.Attributes = append(n.Attributes, onnx.Int("group", int64(c.group)))
	}
	return n
}

// seen calls f for the input coordinates under the kernel element k at output
// o, if they are within the image of the given size.
func (c *windowed) seen(size, o, k []int, f func(at []int)) {
	at := make([]int, len(size))
	for i := range size {
		s, d, b := 1, 1, 0
		if c.stride != nil {
			s = c.stride[i]
		}
		if c.dilation != nil {
			d = c.dilation[i]
		}
		switch {
		case c.before != nil:
			b = c.before[i]
		case c.pads != nil:
			b = c.pads[i]
		}
		if at[i] = o[i]*s + k[i]*d - b; at[i] < 0 || at[i] >= size[i] {
			return
		}
	}
	f(at)
}

// coordinates visits the coordinates of an array of the given shape, in order.
func coordinates(shape []int, f func(at []int)) {
	at := make([]int, len(shape))
	for range kernel.Product(shape) {
		f(at)
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// place returns the offset of coordinates in an array.
func place(shape, at []int) int {
	n := 0
	for i, d := range shape {
		n = n*d + at[i]
	}
	return n
}

// nearly compares results with those in float64, of n terms each.
func nearly(t *testing.T, what string, got *kernel.Array, shape []int, want []float64, n int) {
	t.Helper()
	if !slices.Equal(got.Shape, shape) {
		t.Fatalf("%s: got shape %v, want %v", what, got.Shape, shape)
	}
	for i, v := range kernel.Elements[float32](got) {
		if !(math.Abs(float64(v)-want[i]) <= 2e-6*math.Sqrt(float64(n))*(2+math.Abs(want[i]))) {
			t.Fatalf("%s: element %d: got %g, want %g", what, i, v, want[i])
		}
	}
}

// afters lists the operations that may be fused into a convolution, and their
// functions.
var afters = []struct {
	after *kernel.After
	f     func(v float64) float64
}{
	{nil, func(v float64) float64 { return v }},
	{&kernel.After{Low: 0, High: float32(math.Inf(1))}, func(v float64) float64 { return max(v, 0) }},
	{&kernel.After{Low: -1, High: 2}, func(v float64) float64 { return min(max(v, -1), 2) }},
	{&kernel.After{Low: float32(math.Inf(-1)), High: float32(math.Inf(1)), Shape: &tensor.Shaper{A: 0.25, B: 0.5, High: 1, Scale: 2, Shift: -1, Form: tensor.ShapeTimes}},
		func(v float64) float64 { return v*min(max(v/4+0.5, 0), 1)*2 - 1 }},
}

// Conv computes the sum defined by the standard.
func TestConv(t *testing.T) {
	for _, c := range []windowed{
		{x: []int{1, 3, 8}, w: []int{4, 3, 3}, out: []int{1, 4, 6}},
		{x: []int{2, 3, 7, 9}, w: []int{5, 3, 3, 2}, pads: []int{1, 0, 2, 1}, out: []int{2, 5, 8, 9}},
		{x: []int{1, 4, 9, 9}, w: []int{6, 2, 3, 3}, group: 2, stride: []int{2, 3}, pads: []int{1, 1, 1, 1}, out: []int{1, 6, 5, 3}},
		{x: []int{2, 3, 9, 31}, w: []int{3, 1, 3, 5}, group: 3, dilation: []int{2, 1}, pads: []int{2, 2, 2, 2}, out: []int{2, 3, 9, 31}},
		{x: []int{1, 3, 5, 6}, w: []int{6, 1, 3, 3}, group: 3, stride: []int{1, 2}, pads: []int{0, 1, 0, 1}, out: []int{1, 6, 3, 3}},
		{x: []int{1, 2, 4, 5, 6}, w: []int{3, 2, 2, 3, 1}, stride: []int{1, 2, 2}, pads: []int{1, 0, 0, 0, 1, 0}, out: []int{1, 3, 4, 2, 3}},
		{x: []int{1, 64, 40, 41}, w: []int{50, 64, 1, 1}, out: []int{1, 50, 40, 41}},
		{x: []int{1, 5, 30, 31}, w: []int{70, 5, 3, 3}, pads: []int{1, 1, 1, 1}, out: []int{1, 70, 30, 31}},
		{x: []int{1, 2, 7, 8}, w: []int{2, 2, 3, 3}, auto: "SAME_UPPER", stride: []int{2, 2}, out: []int{1, 2, 4, 4}, before: []int{1, 0}},
		{x: []int{1, 2, 7, 8}, w: []int{2, 2, 3, 3}, auto: "SAME_LOWER", stride: []int{2, 2}, out: []int{1, 2, 4, 4}, before: []int{1, 1}},
		{x: []int{1, 2, 7, 8}, w: []int{2, 2, 3, 3}, auto: "VALID", pads: []int{1, 1, 1, 1}, out: []int{1, 2, 5, 6}, before: []int{0, 0}},
		{x: []int{1, 1, 2, 2}, w: []int{1, 1, 1, 1}, pads: []int{3, 3, 3, 3}, out: []int{1, 1, 8, 8}},
		{x: []int{0, 2, 5}, w: []int{1, 2, 3}, out: []int{0, 1, 3}},
	} {
		m := &kernel.Arena{}
		x, w, b := picture(t, m, 1, c.x...), picture(t, m, 2, c.w...), picture(t, m, 3, c.w[0])
		groups := max(c.group, 1)
		size, per := c.x[2:], c.w[0]/groups
		sums := make([]float64, kernel.Product(c.out))
		coordinates(c.out, func(o []int) {
			sum := float64(kernel.Elements[float32](b)[o[1]])
			for ch := range c.w[1] {
				coordinates(c.w[2:], func(k []int) {
					c.seen(size, o[2:], k, func(at []int) {
						sum += float64(kernel.Elements[float32](x)[place(c.x, append([]int{o[0], o[1]/per*c.w[1] + ch}, at...))]) *
							float64(kernel.Elements[float32](w)[place(c.w, append([]int{o[1], ch}, k...))])
					})
				})
			}
			sums[place(c.out, o)] = sum
		})
		for i, a := range afters {
			what := fmt.Sprintf("%v by %v, after %d", c.x, c.w, i)
			out, err := apply(t, m, c.node("Conv"), 17, a.after, 1, x, w, b)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			want := make([]float64, len(sums))
			for k, v := range sums {
				want[k] = a.f(v)
			}
			nearly(t, what, out[0], c.out, want, kernel.Product(c.w[1:])+1)
		}
	}
}

// ConvTranspose adds the contributions of each input to the outputs around it.
func TestConvTranspose(t *testing.T) {
	for _, c := range []windowed{
		{x: []int{1, 3, 5}, w: []int{3, 2, 3}, out: []int{1, 2, 7}},
		{x: []int{2, 3, 4, 5}, w: []int{3, 4, 2, 2}, stride: []int{2, 2}, out: []int{2, 4, 8, 10}},
		{x: []int{1, 4, 4, 5}, w: []int{4, 3, 4, 3}, group: 2, stride: []int{2, 3}, pads: []int{1, 0, 2, 1}, out: []int{1, 6, 7, 14}},
		{x: []int{1, 2, 4, 5}, w: []int{2, 3, 3, 2}, dilation: []int{2, 3}, out: []int{1, 3, 8, 8}},
		{x: []int{1, 2, 3, 3}, w: []int{2, 1, 3, 3}, stride: []int{2, 2}, pads: []int{1, 1, 1, 1}, more: []onnx.Attribute{ints("output_padding", 1, 0)}, out: []int{1, 1, 6, 5}},
		{x: []int{1, 1, 3, 2, 2}, w: []int{1, 2, 2, 2, 3}, stride: []int{1, 2, 1}, out: []int{1, 2, 4, 4, 4}},
		{x: []int{1, 1, 3, 3}, w: []int{1, 1, 2, 2}, pads: []int{2, 0, 0, 0}, out: []int{1, 1, 2, 4}},
	} {
		m := &kernel.Arena{}
		groups := max(c.group, 1)
		channels := c.w[1] * groups
		x, w, b := picture(t, m, 1, c.x...), picture(t, m, 2, c.w...), picture(t, m, 3, channels)
		sums := make([]float64, kernel.Product(c.out))
		coordinates(c.out, func(o []int) { sums[place(c.out, o)] = float64(kernel.Elements[float32](b)[o[1]]) })
		// An input corresponds to an output of a Conv.
		coordinates(c.x, func(i []int) {
			g := i[1] / (c.x[1] / groups)
			for ch := range c.w[1] {
				coordinates(c.w[2:], func(k []int) {
					c.seen(c.out[2:], i[2:], k, func(at []int) {
						sums[place(c.out, append([]int{i[0], g*c.w[1] + ch}, at...))] += float64(kernel.Elements[float32](x)[place(c.x, i)]) *
							float64(kernel.Elements[float32](w)[place(c.w, append([]int{i[1], ch}, k...))])
					})
				})
			}
		})
		for i, a := range afters {
			what := fmt.Sprintf("%v by %v, after %d", c.x, c.w, i)
			out, err := apply(t, m, c.node("ConvTranspose"), 17, a.after, 1, x, w, b)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			want := make([]float64, len(sums))
			for k, v := range sums {
				want[k] = a.f(v)
			}
			nearly(t, what, out[0], c.out, want, kernel.Product(c.w)+1)
		}
	}
}

// Pools compute the maximum, the mean and the norm of their windows.
func TestPools(t *testing.T) {
	for _, c := range []windowed{
		{x: []int{1, 2, 9}, w: []int{3}, out: []int{1, 2, 7}},
		{x: []int{2, 3, 8, 9}, w: []int{2, 3}, stride: []int{2, 3}, out: []int{2, 3, 4, 3}},
		{x: []int{1, 2, 7, 8}, w: []int{3, 3}, stride: []int{2, 2}, pads: []int{1, 1, 1, 1}, out: []int{1, 2, 4, 4}},
		{x: []int{1, 2, 7, 9}, w: []int{3, 2}, pads: []int{2, 1, 0, 0}, dilation: []int{2, 3}, out: []int{1, 2, 5, 7}},
		{x: []int{1, 1, 7, 7}, w: []int{2, 2}, stride: []int{2, 2}, more: []onnx.Attribute{onnx.Int("ceil_mode", 1)}, out: []int{1, 1, 4, 4}},
		{x: []int{1, 1, 4, 5, 6}, w: []int{2, 2, 3}, out: []int{1, 1, 3, 4, 4}},
		{x: []int{1, 1, 7, 8}, w: []int{3, 3}, stride: []int{2, 2}, auto: "SAME_UPPER", out: []int{1, 1, 4, 4}, before: []int{1, 0}},
	} {
		for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
			opset := int64(22)
			if op == "LpPool" && (c.dilation != nil || c.more != nil) {
				continue
			}
			m := &kernel.Arena{}
			x := picture(t, m, 1, c.x...)
			n := c.node(op)
			n.Attributes = append(n.Attributes, ints("kernel_shape", c.w...))
			want, places := make([]float64, kernel.Product(c.out)), make([]int64, kernel.Product(c.out))
			coordinates(c.out, func(o []int) {
				most, sum, squares, count, first := math.Inf(-1), 0.0, 0.0, 0, 0
				coordinates(c.w, func(k []int) {
					c.seen(c.x[2:], o[2:], k, func(at []int) {
						i := place(c.x, append([]int{o[0], o[1]}, at...))
						v := float64(kernel.Elements[float32](x)[i])
						if v > most {
							most, first = v, i
						}
						sum, squares, count = sum+v, squares+v*v, count+1
					})
				})
				i := place(c.out, o)
				want[i], places[i] = map[string]float64{"MaxPool": most, "AveragePool": sum / float64(count), "LpPool": math.Sqrt(squares)}[op], int64(first)
			})
			outputs := 1
			if op == "MaxPool" {
				outputs = 2
			}
			what := fmt.Sprintf("%s of %v by %v", op, c.x, c.w)
			out, err := apply(t, m, n, opset, nil, outputs, x)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			nearly(t, what, out[0], c.out, want, kernel.Product(c.w))
			if op == "MaxPool" {
				if !slices.Equal(kernel.Elements[int64](out[1]), places) {
					t.Errorf("%s: indices: got %v, want %v", what, kernel.Elements[int64](out[1]), places)
				}
				alone, err := apply(t, m, n, opset, nil, 1, x)
				if err != nil {
					t.Fatal(err)
				}
				nearly(t, what+" without places", alone[0], c.out, want, 1)
			}
		}
	}
}

// Linear interpolation matches its definition, over every dimension and order.
func TestResizeLinear(t *testing.T) {
	for _, c := range []struct {
		x, to []int
		mode  string
	}{
		{[]int{1, 2, 5, 6}, []int{1, 2, 10, 15}, "half_pixel"},
		{[]int{2, 1, 8, 7}, []int{2, 1, 3, 20}, "asymmetric"},
		{[]int{1, 3, 4, 40}, []int{1, 3, 9, 11}, "align_corners"},
		{[]int{1, 3, 4}, []int{2, 5, 7}, "half_pixel"},
	} {
		m := &kernel.Arena{}
		x := picture(t, m, 1, c.x...)
		sizes, err := m.New(onnx.INT64, len(c.to))
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range c.to {
			kernel.Elements[int64](sizes)[i] = int64(d)
		}
		n := &onnx.Node{Op: "Resize", Attributes: []onnx.Attribute{onnx.String("mode", "linear"), onnx.String("coordinate_transformation_mode", c.mode)}}
		out, err := apply(t, m, n, 17, nil, 1, x, nil, nil, sizes)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float64, kernel.Product(c.to))
		coordinates(c.to, func(o []int) {
			sum := 0.0
			corners := slices.Repeat([]int{2}, len(o))
			coordinates(corners, func(k []int) {
				at, part := make([]int, len(o)), 1.0
				for i := range o {
					scale := float64(c.to[i]) / float64(c.x[i])
					v := (float64(o[i])+0.5)/scale - 0.5
					switch c.mode {
					case "asymmetric":
						v = float64(o[i]) / scale
					case "align_corners":
						if v = 0; c.to[i] > 1 {
							v = float64(o[i]) * float64(c.x[i]-1) / float64(c.to[i]-1)
						}
					}
					v = min(max(v, 0), float64(c.x[i]-1))
					low := math.Floor(v)
					at[i] = min(int(low)+k[i], c.x[i]-1)
					part *= map[int]float64{0: 1 - (v - low), 1: v - low}[k[i]]
				}
				sum += part * float64(kernel.Elements[float32](x)[place(c.x, at)])
			})
			want[place(c.to, o)] = sum
		})
		nearly(t, fmt.Sprintf("%v to %v by %s", c.x, c.to, c.mode), out[0], c.to, want, 16)
	}
}

// Invalid inputs end in a specific error, not in a panic.
func TestWindowFaults(t *testing.T) {
	one := func(dims ...int) windowed { return windowed{x: dims, w: []int{2, 2, 3, 3}} }
	for _, c := range []struct {
		name, op string
		c        windowed
		bias     int
		says     string
	}{
		{"image too small", "Conv", one(1, 2, 2, 5), 2, "window of 3 exceeds 2"},
		{"channels", "Conv", one(1, 3, 5, 5), 2, "kernel ["},
		{"ranks", "Conv", one(1, 2, 5), 2, "kernel ["},
		{"bias", "Conv", one(1, 2, 5, 5), 3, "want 2 elements"},
		{"groups", "Conv", windowed{x: []int{1, 3, 5, 5}, w: []int{2, 1, 3, 3}, group: 3}, 2, "in 3 groups"},
		{"zero stride", "Conv", windowed{x: []int{1, 2, 5, 5}, w: []int{2, 2, 3, 3}, stride: []int{0, 1}}, 2, "strides [0 1]"},
		{"zero dilation", "Conv", windowed{x: []int{1, 2, 5, 5}, w: []int{2, 2, 3, 3}, dilation: []int{1, 0}}, 2, "dilations [1 0]"},
		{"negative padding", "Conv", windowed{x: []int{1, 2, 5, 5}, w: []int{2, 2, 3, 3}, pads: []int{0, -1, 0, 0}}, 2, "pads"},
		{"too few strides", "Conv", windowed{x: []int{1, 2, 5, 5}, w: []int{2, 2, 3, 3}, stride: []int{1}}, 2, "strides [1]"},
		{"huge dilation", "Conv", windowed{x: []int{1, 2, 5, 5}, w: []int{2, 2, 3, 3}, dilation: []int{1 << 40, 1}}, 2, "dilations"},
		{"channels of a transposed convolution", "ConvTranspose", one(1, 3, 5, 5), 2, "kernel ["},
		{"negative transposed output", "ConvTranspose", windowed{x: []int{1, 2, 5, 5}, w: []int{2, 2, 3, 3}, pads: []int{9, 0, 0, 0}}, 2, "negative"},
		{"transposed bias", "ConvTranspose", one(1, 2, 5, 5), 1, "want 2 elements"},
	} {
		m := &kernel.Arena{Limit: 1 << 30}
		_, err := apply(t, m, c.c.node(c.op), 17, nil, 1, picture(t, m, 1, c.c.x...), picture(t, m, 2, c.c.w...), picture(t, m, 3, c.bias))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.says)
		}
	}
}
