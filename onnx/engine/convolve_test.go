package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// net is a model under construction whose constants may be inputs instead: then
// nothing can be fused, packed or laid out, and each operator runs separately.
type net struct {
	*onnx.Graph
	rng   *rand.Rand
	loose bool
	in    map[string]engine.Tensor
	n     int
}

// name returns a new name for a value.
func (g *net) name() string {
	g.n++
	return fmt.Sprintf("v%d", g.n)
}

// numbers adds a constant, or an input.
func (g *net) numbers(values []float32, dims ...int64) string {
	name := g.name()
	t := onnx.Floats(name, dims, values)
	if !g.loose {
		return g.Constant(t)
	}
	shape, declared := make([]int, len(dims)), make([]any, len(dims))
	for i, d := range dims {
		shape[i], declared[i] = int(d), d
	}
	g.Inputs = append(g.Inputs, onnx.TensorValue(name, onnx.FLOAT, declared...))
	data, err := t.Bytes()
	if err != nil {
		panic(err)
	}
	g.in[name] = engine.Tensor{Type: onnx.FLOAT, Shape: shape, Data: data}
	return name
}

// noise adds a constant of normally distributed numbers.
func (g *net) noise(dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(g.rng.NormFloat64())
	}
	return g.numbers(v, dims...)
}

func (g *net) number(v float32) string { return g.numbers([]float32{v}) }

// conv adds a convolution of 3×3 or 1×1.
func (g *net) conv(x string, in, out, size, groups int64, more ...onnx.Attribute) string {
	w := g.noise(out, in/groups, size, size)
	return g.Add("Conv", []string{x, w, g.noise(out)}, g.name(), append(more, onnx.Int("group", groups), onnx.IntList("pads", size/2, size/2, size/2, size/2))...)
}

// both builds a net with constants and with inputs instead, compares the
// results relative to their largest elements, and returns the steps of the
// first.
func both(t *testing.T, what string, seed uint64, opset int64, off float64, build func(g *net), dims ...int) []string {
	t.Helper()
	data := engine.Tensor{Type: onnx.FLOAT, Shape: dims}
	rng, size := rand.New(rand.NewPCG(seed, 1)), 1
	for _, d := range dims {
		size *= d
	}
	for range size {
		data.Data = binary.LittleEndian.AppendUint32(data.Data, math.Float32bits(float32(rng.NormFloat64())))
	}
	var results [2]map[string]engine.Tensor
	var steps []string
	for i, loose := range []bool{false, true} {
		declared := make([]any, len(dims))
		for k, d := range dims {
			declared[k] = d
		}
		m := model(opset, func(*onnx.Graph) {}, declared...)
		g := &net{Graph: &m.Graph, rng: rand.New(rand.NewPCG(seed, 2)), loose: loose, in: map[string]engine.Tensor{"x": data}}
		build(g)
		for _, threads := range []int{1, 2, 3} {
			p := compile(t, m, engine.Options{Threads: threads})
			if !loose {
				steps = engine.Steps(p)
			}
			for range 2 { // again, on used memory
				out, err := p.Run(t.Context(), g.in)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for name, a := range results[i] {
					if !bytes.Equal(a.Data, out[name].Data) {
						t.Errorf("%s: %d threads or a second run change %s", what, threads, name)
					}
				}
				results[i] = out
			}
		}
	}
	for name, want := range results[1] {
		a, b := values(results[0][name]), values(want)
		if !slices.Equal(results[0][name].Shape, want.Shape) {
			t.Fatalf("%s: %s: got %v, want %v", what, name, results[0][name].Shape, want.Shape)
		}
		most := 1.0
		for _, v := range b {
			if !math.IsInf(v, 0) && !math.IsNaN(v) {
				most = max(most, math.Abs(v))
			}
		}
		for i, v := range a {
			if v != b[i] && !(math.Abs(v-b[i]) <= off*most) && !(math.IsNaN(v) && math.IsNaN(b[i])) {
				t.Fatalf("%s: element %d of %s: got %g, want %g", what, i, name, v, b[i])
			}
		}
	}
	return steps
}

// Operators after a convolution are fused if that does not change the result.
func TestConvolutionJoins(t *testing.T) {
	if tensor.ConvLanes() == 0 {
		t.Skip("skipped: no kernels for blocked images")
	}
	const in, out = 5, 20
	for _, c := range []struct {
		name  string
		opset int64
		build func(g *net, z string) string // after a convolution
		want  string                        // the steps
	}{
		{"none", 17, func(g *net, z string) string { return z }, "Conv ToPlain"},
		{"relu", 17, func(g *net, z string) string { return g.Add("Relu", []string{z}, g.name()) }, "Conv ToPlain"},
		{"two activations", 17, func(g *net, z string) string {
			return g.Add("Sigmoid", []string{g.Add("Relu", []string{z}, g.name())}, g.name())
		}, "Conv Sigmoid ToPlain"},
		{"clip", 17, func(g *net, z string) string {
			return g.Add("Clip", []string{z, g.number(-1), g.number(2)}, g.name())
		}, "Conv ToPlain"},
		{"clip below", 17, func(g *net, z string) string { return g.Add("Clip", []string{z, g.number(-1)}, g.name()) }, "Conv ToPlain"},
		{"clip above", 17, func(g *net, z string) string { return g.Add("Clip", []string{z, "", g.number(-1)}, g.name()) }, "Conv ToPlain"},
		{"clip of attributes", 10, func(g *net, z string) string {
			return g.Add("Clip", []string{z}, g.name(), onnx.Float("min", -0.5), onnx.Float("max", 0.5))
		}, "Conv ToPlain"},
		{"leaky", 17, func(g *net, z string) string {
			return g.Add("LeakyRelu", []string{z}, g.name(), onnx.Float("alpha", 0.2))
		}, "Conv ToPlain"},
		{"leaky and a shortest", 17, func(g *net, z string) string {
			return g.Add("Max", []string{g.Add("LeakyRelu", []string{z}, g.name(), onnx.Float("alpha", 0.2)), g.number(-0.3)}, g.name())
		}, "Conv ToPlain"},
		{"leaky of more than one", 17, func(g *net, z string) string {
			return g.Add("LeakyRelu", []string{z}, g.name(), onnx.Float("alpha", 2))
		}, "Conv LeakyRelu ToPlain"},
		{"hard sigmoid", 17, func(g *net, z string) string { return g.Add("HardSigmoid", []string{z}, g.name()) }, "Conv ToPlain"},
		{"hard swish", 17, func(g *net, z string) string { return g.Add("HardSwish", []string{z}, g.name()) }, "Conv ToPlain"},
		{"hard swish in parts", 17, func(g *net, z string) string {
			c := g.Add("Clip", []string{g.Add("Add", []string{z, g.number(3)}, g.name()), g.number(0), g.number(6)}, g.name())
			return g.Add("Div", []string{g.Add("Mul", []string{z, c}, g.name()), g.number(6)}, g.name())
		}, "Conv ToPlain"},
		{"hard swish in parts, turned", 17, func(g *net, z string) string {
			c := g.Add("Clip", []string{g.Add("Add", []string{g.number(3), z}, g.name()), g.number(0), g.number(6)}, g.name())
			return g.Add("Mul", []string{g.Add("Mul", []string{c, z}, g.name()), g.number(1. / 6)}, g.name())
		}, "Conv ToPlain"},
		{"swish of a hard sigmoid", 17, func(g *net, z string) string {
			return g.Add("Mul", []string{z, g.Add("HardSigmoid", []string{z}, g.name(), onnx.Float("alpha", 0.3))}, g.name())
		}, "Conv ToPlain"},
		{"hard sigmoid of a different value", 17, func(g *net, z string) string {
			s := g.Add("HardSigmoid", []string{g.Add("Abs", []string{z}, g.name())}, g.name())
			return g.Add("Mul", []string{z, s}, g.name())
		}, "Conv Abs HardSigmoid Mul ToPlain"},
		{"hard sigmoid with another use", 17, func(g *net, z string) string {
			s := g.Add("HardSigmoid", []string{z}, g.name())
			g.Outputs = append(g.Outputs, onnx.Value{Name: s})
			return g.Add("Mul", []string{z, s}, g.name())
		}, "Conv HardSigmoid Mul ToPlain ToPlain"},
		{"another use", 17, func(g *net, z string) string {
			g.Outputs = append(g.Outputs, onnx.Value{Name: z})
			return g.Add("Relu", []string{z}, g.name())
		}, "Conv Relu ToPlain ToPlain"},
		{"arithmetic of numbers", 17, func(g *net, z string) string {
			z = g.Add("Mul", []string{g.number(3), z}, g.name())
			z = g.Add("Add", []string{z, g.number(2)}, g.name())
			z = g.Add("Sub", []string{z, g.number(1)}, g.name())
			return g.Add("Div", []string{z, g.number(-4)}, g.name())
		}, "Conv ToPlain"},
		{"number minus value", 17, func(g *net, z string) string { return g.Add("Sub", []string{g.number(1), z}, g.name()) }, "Conv Sub ToPlain"},
		{"number divided by value", 17, func(g *net, z string) string {
			return g.Add("Div", []string{g.number(1), g.Add("Sigmoid", []string{z}, g.name())}, g.name())
		}, "Conv Sigmoid Div ToPlain"},
		{"division by zero", 17, func(g *net, z string) string { return g.Add("Div", []string{z, g.number(0)}, g.name()) }, "Conv Div ToPlain"},
		{"arithmetic of channels", 17, func(g *net, z string) string {
			z = g.Add("Mul", []string{z, g.noise(out, 1, 1)}, g.name())
			return g.Add("Add", []string{g.noise(1, out, 1, 1), z}, g.name())
		}, "Conv ToPlain"},
		{"arithmetic of columns", 17, func(g *net, z string) string { return g.Add("Mul", []string{z, g.noise(7)}, g.name()) }, "Conv ToPlain Mul"},
		{"arithmetic of more dimensions", 17, func(g *net, z string) string { return g.Add("Mul", []string{z, g.noise(1, 1, 1, 1, 1)}, g.name()) }, "Conv ToPlain Mul"},
		{"arithmetic after an activation", 17, func(g *net, z string) string {
			z = g.Add("Relu", []string{z}, g.name())
			z = g.Add("Mul", []string{z, g.number(3)}, g.name())
			return g.Add("Sub", []string{z, g.number(1)}, g.name())
		}, "Conv ToPlain"},
		{"number divided by activation", 17, func(g *net, z string) string {
			return g.Add("Div", []string{g.number(1), g.Add("Clip", []string{z, g.number(1), g.number(2)}, g.name())}, g.name())
		}, "Conv Div ToPlain"},
		{"number minus activation", 17, func(g *net, z string) string {
			return g.Add("Sub", []string{g.number(1), g.Add("Relu", []string{z}, g.name())}, g.name())
		}, "Conv Sub ToPlain"},
		{"a number of four dimensions", 17, func(g *net, z string) string {
			return g.Add("Max", []string{g.Add("LeakyRelu", []string{z}, g.name(), onnx.Float("alpha", 0.2)), g.noise(1, 1, 1, 1)}, g.name())
		}, "Conv ToPlain"},
		{"a number of five dimensions", 17, func(g *net, z string) string {
			return g.Add("Mul", []string{g.Add("Relu", []string{z}, g.name()), g.noise(1, 1, 1, 1, 1)}, g.name())
		}, "Conv ToPlain Mul"},
		{"channels after an activation", 17, func(g *net, z string) string {
			z = g.Add("Relu", []string{z}, g.name())
			return g.Add("Mul", []string{z, g.noise(out, 1, 1)}, g.name())
		}, "Conv Mul ToPlain"},
		{"normalised twice", 17, func(g *net, z string) string {
			for range 2 {
				z = g.Add("BatchNormalization", []string{z, g.noise(out), g.noise(out), g.noise(out), g.numbers(slices.Repeat([]float32{0.7}, out), out)}, g.name(), onnx.Float("epsilon", 0.1))
			}
			return z
		}, "Conv ToPlain"},
		{"sum", 17, func(g *net, z string) string {
			return g.Add("Relu", []string{g.Add("Add", []string{g.conv("x", in, out, 1, 1), z}, g.name())}, g.name())
		}, "Conv Conv ToPlain"},
		{"a sum with itself", 17, func(g *net, z string) string { return g.Add("Add", []string{z, z}, g.name()) }, "Conv Add ToPlain"},
		{"a sum of an activation", 17, func(g *net, z string) string {
			return g.Add("Add", []string{g.Add("Relu", []string{z}, g.name()), g.Add("Relu", []string{g.conv("x", in, out, 1, 1)}, g.name())}, g.name())
		}, "Conv Conv Add ToPlain"},
		{"a broadcast sum", 17, func(g *net, z string) string {
			p := g.Add("GlobalAveragePool", []string{"x"}, g.name())
			return g.Add("Relu", []string{g.Add("Add", []string{z, g.conv(p, in, out, 1, 1)}, g.name())}, g.name())
		}, "Conv GlobalAveragePool Conv ToPlain"},
		{"an image by one of one channel", 17, func(g *net, z string) string {
			return g.Add("Mul", []string{z, g.conv("x", in, 1, 1, 1)}, g.name())
		}, "Conv Conv ToPlain ToPlain Mul"},
		{"squeeze and excite", 17, func(g *net, z string) string {
			p := g.Add("GlobalAveragePool", []string{z}, g.name())
			s := g.Add("Sigmoid", []string{g.conv(p, out, out, 1, 1)}, g.name())
			return g.Add("Mul", []string{s, z}, g.name())
		}, "Conv GlobalAveragePool Conv Sigmoid Mul ToPlain"},
		{"depthwise", 17, func(g *net, z string) string { return g.Add("Relu", []string{g.conv(z, out, out, 3, out)}, g.name()) }, "Conv Conv ToPlain"},
		{"pools", 17, func(g *net, z string) string {
			z = g.Add("MaxPool", []string{z}, g.name(), onnx.IntList("kernel_shape", 3, 2), onnx.IntList("strides", 2, 1), onnx.Int("ceil_mode", 1))
			z = g.Add("AveragePool", []string{z}, g.name(), onnx.IntList("kernel_shape", 2, 3), onnx.IntList("pads", 1, 1, 0, 2))
			return g.Add("AveragePool", []string{z}, g.name(), onnx.IntList("kernel_shape", 2, 3), onnx.IntList("pads", 1, 1, 0, 2), onnx.Int("count_include_pad", 1))
		}, "Conv MaxPool AveragePool AveragePool ToPlain"},
		{"the places of a pool", 17, func(g *net, z string) string {
			g.Nodes = append(g.Nodes, onnx.Node{Name: "p", Op: "MaxPool", Inputs: []string{z}, Outputs: []string{"p", "places"}, Attributes: []onnx.Attribute{onnx.IntList("kernel_shape", 2, 2)}})
			g.Outputs = append(g.Outputs, onnx.Value{Name: "places"})
			return "p"
		}, "Conv ToPlain MaxPool"},
		{"joined channels", 17, func(g *net, z string) string {
			return g.Add("Concat", []string{z, g.conv("x", in, 7, 3, 1), g.conv("x", in, 32, 3, 1)}, g.name(), onnx.Int("axis", 1))
		}, "Conv Conv Conv Concat ToPlain"},
		{"joined channels from behind", 17, func(g *net, z string) string {
			return g.Add("Concat", []string{z, g.conv("x", in, 32, 3, 1)}, g.name(), onnx.Int("axis", -3))
		}, "Conv Conv Concat ToPlain"},
		{"joined rows", 17, func(g *net, z string) string { return g.Add("Concat", []string{z, z}, g.name(), onnx.Int("axis", 2)) }, "Conv ToPlain Concat"},
		{"joined with the input", 17, func(g *net, z string) string { return g.Add("Concat", []string{z, "x"}, g.name(), onnx.Int("axis", 1)) }, "Conv ToPlain Concat"},
		{"wider", 17, func(g *net, z string) string {
			s := g.Constant(onnx.Floats("scales", []int64{4}, []float32{1, 1, 2, 2.5}))
			return g.Add("Resize", []string{z, "", s}, g.name(), onnx.String("mode", "nearest"), onnx.String("nearest_mode", "floor"), onnx.String("coordinate_transformation_mode", "asymmetric"))
		}, "Conv Resize ToPlain"},
		{"wider by lines", 17, func(g *net, z string) string {
			s := g.Constant(onnx.Floats("scales", []int64{4}, []float32{1, 1, 2, 1.5}))
			return g.Add("Resize", []string{z, "", s}, g.name(), onnx.String("mode", "linear"))
		}, "Conv Resize ToPlain"},
		{"more channels", 17, func(g *net, z string) string {
			s := g.Constant(onnx.Floats("scales", []int64{4}, []float32{1, 2, 1, 1}))
			return g.Add("Resize", []string{z, "", s}, g.name(), onnx.String("mode", "nearest"))
		}, "Conv ToPlain Resize"},
		{"transposed", 17, func(g *net, z string) string {
			z = g.Add("ConvTranspose", []string{z, g.noise(out, 24, 2, 3)}, g.name(), onnx.IntList("strides", 2, 3))
			z = g.Add("Add", []string{z, g.noise(1, 24, 1, 1)}, g.name())
			z = g.Add("Relu", []string{g.Add("BatchNormalization", []string{z, g.noise(24), g.noise(24), g.noise(24), g.numbers(slices.Repeat([]float32{0.7}, 24), 24)}, g.name())}, g.name())
			z = g.Add("ConvTranspose", []string{z, g.noise(24, 1, 2, 2), g.noise(1)}, g.name(), onnx.IntList("strides", 2, 2))
			return g.Add("HardSigmoid", []string{z}, g.name())
		}, "Conv ConvTranspose ConvTranspose"},
		{"transposed with gaps", 17, func(g *net, z string) string {
			z = g.Add("ConvTranspose", []string{z, g.noise(out, 6, 2, 2)}, g.name(), onnx.IntList("strides", 3, 3))
			return g.Add("Relu", []string{z}, g.name())
		}, "Conv ToPlain ConvTranspose"},
		{"transposed with overlaps", 17, func(g *net, z string) string {
			return g.Add("ConvTranspose", []string{z, g.noise(out, 6, 4, 4), g.noise(6)}, g.name(), onnx.IntList("strides", 2, 2), onnx.IntList("pads", 1, 1, 1, 1))
		}, "Conv ToPlain ConvTranspose"},
		{"padded before", 17, func(g *net, z string) string {
			z = g.Add("Pad", []string{z, g.Constant(onnx.Ints("pads", []int64{8}, []int64{0, 0, 1, 0, 0, 0, 2, 1})), g.number(0)}, g.name())
			return g.conv(z, out, 8, 3, 1)
		}, "Conv Conv ToPlain"},
		{"padded by ones", 17, func(g *net, z string) string {
			z = g.Add("Pad", []string{z, g.Constant(onnx.Ints("pads", []int64{8}, []int64{0, 0, 1, 0, 0, 0, 2, 1})), g.number(1)}, g.name())
			return g.conv(z, out, 8, 3, 1)
		}, "Conv ToPlain Pad ToBlocks Conv ToPlain"},
		{"padded channels", 17, func(g *net, z string) string {
			z = g.Add("Pad", []string{z, g.Constant(onnx.Ints("pads", []int64{8}, []int64{0, 1, 0, 0, 0, 1, 0, 0})), g.number(0)}, g.name())
			return g.conv(z, out+2, 8, 3, 1)
		}, "Conv ToPlain Pad ToBlocks Conv ToPlain"},
		{"padded before a pool", 17, func(g *net, z string) string {
			z = g.Add("Pad", []string{z, g.Constant(onnx.Ints("pads", []int64{8}, []int64{0, 0, 1, 0, 0, 0, 1, 1})), g.number(-math.MaxFloat32)}, g.name())
			return g.Add("MaxPool", []string{z}, g.name(), onnx.IntList("kernel_shape", 3, 3), onnx.String("auto_pad", "VALID"), onnx.IntList("strides", 2, 2))
		}, "Conv MaxPool ToPlain"},
		{"padded beyond a pool", 17, func(g *net, z string) string {
			z = g.Add("Pad", []string{z, g.Constant(onnx.Ints("pads", []int64{8}, []int64{0, 0, 3, 0, 0, 0, 0, 0})), g.number(-math.MaxFloat32)}, g.name())
			return g.Add("MaxPool", []string{z}, g.name(), onnx.IntList("kernel_shape", 3, 3))
		}, "Conv ToPlain Pad MaxPool"},
		{"read in a branch", 17, func(g *net, z string) string {
			g.Add("Greater", []string{g.Add("ReduceSum", []string{"x"}, g.name(), onnx.Int("keepdims", 0)), g.number(0)}, "cond")
			var then, other onnx.Graph
			then.Add("Relu", []string{z}, "a")
			then.Outputs = []onnx.Value{{Name: "a"}}
			other.Add("Neg", []string{z}, "b")
			other.Outputs = []onnx.Value{{Name: "b"}}
			return g.Add("If", []string{"cond"}, g.name(), onnx.Attribute{Name: "then_branch", Type: onnx.AttrGraph, Graph: &then}, onnx.Attribute{Name: "else_branch", Type: onnx.AttrGraph, Graph: &other})
		}, "Conv ReduceSum Greater ToPlain If"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			steps := both(t, c.name, 3, c.opset, 1e-4, func(g *net) {
				y := c.build(g, g.conv("x", in, out, 3, 1))
				g.Outputs[0] = onnx.Value{Name: y}
			}, 2, in, 6, 7)
			if got := strings.Join(steps, " "); got != c.want {
				t.Errorf("steps: got %s, want %s", got, c.want)
			}
		})
	}
}

// Random nets have the same results when their constants are unknown.
func TestConvolutionNets(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		h, w, batch := 1+r.IntN(12), 1+r.IntN(20), 1+r.IntN(2)
		build := func(g *net) {
			type value struct {
				name     string
				channels int64
			}
			rng := rand.New(rand.NewPCG(seed, 4))
			list := []value{{"x", 3}}
			for range 12 {
				v := list[max(0, len(list)-1-rng.IntN(3))]
				next := value{channels: v.channels}
				same := func() (string, bool) {
					for _, o := range list {
						if o.channels == v.channels && o.name != v.name && rng.IntN(2) == 0 {
							return o.name, true
						}
					}
					return "", false
				}
				switch rng.IntN(12) {
				case 0, 1, 2:
					next.channels = int64(1 + rng.IntN(40))
					next.name = g.conv(v.name, v.channels, next.channels, 1+2*int64(rng.IntN(2)), 1)
				case 3:
					next.name = g.conv(v.name, v.channels, v.channels, 3, v.channels)
				case 4:
					next.name = g.Add("Relu", []string{v.name}, g.name())
				case 5:
					next.name = g.Add("HardSigmoid", []string{v.name}, g.name())
				case 6:
					next.name = g.Add("Mul", []string{v.name, g.noise(v.channels, 1, 1)}, g.name())
				case 7:
					o, ok := same()
					if !ok {
						o = v.name
					}
					next.name = g.Add("Add", []string{o, v.name}, g.name())
				case 8:
					o := list[rng.IntN(len(list))]
					next.channels += o.channels
					next.name = g.Add("Concat", []string{v.name, o.name}, g.name(), onnx.Int("axis", 1))
				case 9:
					next.name = g.Add("MaxPool", []string{v.name}, g.name(), onnx.IntList("kernel_shape", 3, 3), onnx.IntList("pads", 1, 1, 1, 1))
				case 10:
					s := g.Add("GlobalAveragePool", []string{v.name}, g.name())
					next.name = g.Add("Mul", []string{v.name, g.Add("HardSigmoid", []string{g.conv(s, v.channels, v.channels, 1, 1)}, g.name())}, g.name())
				case 11:
					next.name = g.Add("LeakyRelu", []string{v.name}, g.name(), onnx.Float("alpha", 0.1))
				}
				list = append(list, next)
			}
			g.Outputs[0] = onnx.Value{Name: list[len(list)-1].name}
			if rng.IntN(2) == 0 {
				g.Outputs = append(g.Outputs, onnx.Value{Name: list[len(list)-3].name})
			}
		}
		both(t, fmt.Sprint("seed ", seed), seed, 17, 2e-3, build, batch, 3, h, w)
	}
}

// A run ends soon after its context in the middle of a convolution.
func TestConvolutionCancelled(t *testing.T) {
	const channels, side = 64, 400
	for _, threads := range []int{1, 2} {
		m := model(17, func(*onnx.Graph) {}, 1, channels, side, side)
		g := &net{Graph: &m.Graph, rng: rand.New(rand.NewPCG(1, 2))}
		g.Outputs[0] = onnx.Value{Name: g.conv("x", channels, channels, 7, 1)}
		p := compile(t, m, engine.Options{Threads: threads})
		x := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, channels, side, side}, Data: make([]byte, 4*channels*side*side)}
		shortest, begun := time.Hour, 100*time.Millisecond
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			var ended time.Time
			go func() {
				time.Sleep(begun)
				ended = time.Now()
				cancel()
			}()
			_, err := p.Run(ctx, map[string]engine.Tensor{"x": x})
			over := time.Now()
			<-ctx.Done()
			if err == nil { // a fast machine
				begun /= 2
				continue
			}
			took := over.Sub(ended)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("canceled run: %v", err)
			}
			if shortest = min(shortest, took); shortest < 50*time.Millisecond {
				break
			}
		}
		if shortest > 50*time.Millisecond {
			t.Errorf("%d threads: ended %v after its context", threads, shortest)
		}
	}
}
