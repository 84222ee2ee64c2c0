package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/onnxtest"
)

// model returns a model with the input x of the given dimensions and the output
// y, built by build.
func model(opset int64, build func(g *onnx.Graph), dims ...any) *onnx.Model {
	m := onnx.New("g", opset)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, dims...)}
	m.Graph.Outputs = []onnx.Value{{Name: "y"}}
	build(&m.Graph)
	return m
}

func compile(t *testing.T, m *onnx.Model, opt engine.Options) *engine.Program {
	t.Helper()
	p, err := engine.Compile(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func vector(v ...float32) engine.Tensor {
	t := engine.Tensor{Type: onnx.FLOAT, Shape: []int{len(v)}}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
	}
	return t
}

func run(t *testing.T, p *engine.Program, x engine.Tensor) []float64 {
	t.Helper()
	out, err := p.Run(t.Context(), map[string]engine.Tensor{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	return values(out["y"])
}

// branches returns a model that computes x+1 if the sum of x is above 0,
// otherwise x·x, a value of the outer graph.
func branches() *onnx.Model {
	return model(17, func(g *onnx.Graph) {
		one := g.Constant(onnx.Floats("one", nil, []float32{1}))
		zero := g.Constant(onnx.Floats("zero", nil, []float32{0}))
		g.Add("Mul", []string{"x", "x"}, "square")
		g.Add("ReduceSum", []string{"x"}, "sum", onnx.Int("keepdims", 0))
		g.Add("Greater", []string{"sum", zero}, "cond")
		var then, other onnx.Graph
		then.Add("Add", []string{"x", one}, "a")
		then.Outputs = []onnx.Value{{Name: "a"}}
		other.Add("Identity", []string{"square"}, "b")
		other.Outputs = []onnx.Value{{Name: "b"}}
		g.Add("If", []string{"cond"}, "y", onnx.Attribute{Name: "then_branch", Type: onnx.AttrGraph, Graph: &then}, onnx.Attribute{Name: "else_branch", Type: onnx.AttrGraph, Graph: &other})
	}, "N")
}

func TestIf(t *testing.T) {
	p := compile(t, branches(), engine.Options{Threads: 1})
	if got := run(t, p, vector(1, 2)); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("above 0: %v", got)
	}
	if got := run(t, p, vector(1, -2)); !slices.Equal(got, []float64{1, 4}) {
		t.Errorf("below 0: %v", got)
	}
}

// doubling returns a model that adds a value to itself n times and collects the
// results.
func doubling(n int64) *onnx.Model {
	return model(17, func(g *onnx.Graph) {
		times := g.Constant(onnx.Ints("n", nil, []int64{n}))
		var body onnx.Graph
		body.Inputs = []onnx.Value{onnx.TensorValue("i", onnx.INT64), onnx.TensorValue("c", onnx.BOOL), onnx.TensorValue("v", onnx.FLOAT, "N")}
		body.Add("Identity", []string{"c"}, "on")
		body.Add("Add", []string{"v", "v"}, "next")
		body.Add("Identity", []string{"next"}, "scan")
		body.Outputs = []onnx.Value{{Name: "on"}, {Name: "next"}, {Name: "scan"}}
		g.Nodes = append(g.Nodes, onnx.Node{Op: "Loop", Inputs: []string{times, "", "x"}, Outputs: []string{"last", "y"}, Attributes: []onnx.Attribute{{Name: "body", Type: onnx.AttrGraph, Graph: &body}}})
		g.Outputs = append(g.Outputs, onnx.Value{Name: "last"})
	}, "N")
}

func TestLoop(t *testing.T) {
	p := compile(t, doubling(3), engine.Options{Threads: 1})
	if got := run(t, p, vector(1, 5)); !slices.Equal(got, []float64{2, 10, 4, 20, 8, 40}) {
		t.Errorf("values of the iterations: %v", got)
	}
	p = compile(t, doubling(50), engine.Options{Threads: 1, Steps: 10})
	if _, err := p.Run(t.Context(), map[string]engine.Tensor{"x": vector(1)}); err == nil || !strings.Contains(err.Error(), "limit is 10") {
		t.Errorf("too many iterations: %v", err)
	}
}

// A normalization fused into a convolution has the result of the separate
// operators.
func TestNormalized(t *testing.T) {
	build := func(shared bool) *onnx.Model {
		return model(17, func(g *onnx.Graph) {
			c := func(name string, v ...float32) string {
				return g.Constant(onnx.Floats(name, []int64{int64(len(v))}, v))
			}
			w := g.Constant(onnx.Floats("w", []int64{2, 1, 2}, []float32{1, -1, 2, 0.5}))
			x := g.Add("Unsqueeze", []string{"x", g.Constant(onnx.Ints("axes", []int64{2}, []int64{0, 1}))}, "x3")
			g.Add("Conv", []string{x, w, c("b", 0.25, -3)}, "z")
			g.Add("BatchNormalization", []string{"z", c("scale", 2, -1), c("shift", 0.5, 1), c("mean", 1, 2), c("var", 4, 0.25)}, "n", onnx.Float("epsilon", 0.01))
			g.Add("Relu", []string{"n"}, "y")
			if shared {
				g.Outputs = append(g.Outputs, onnx.Value{Name: "z"})
			}
		}, 5)
	}
	x := vector(1, 4, -2, -2, 3)
	fused, alone := run(t, compile(t, build(false), engine.Options{Threads: 1}), x), run(t, compile(t, build(true), engine.Options{Threads: 1}), x)
	for i, v := range fused {
		if math.Abs(v-alone[i]) > 1e-5 {
			t.Errorf("element %d: got %v, want %v", i, v, alone[i])
		}
	}
	if len(fused) != 8 || slices.Max(fused) == 0 {
		t.Errorf("%v", fused)
	}
}

// An activation fused into a convolution changes no element; one whose input
// has another use is not fused.
func TestFused(t *testing.T) {
	build := func(op string, shared bool) *onnx.Model {
		return model(17, func(g *onnx.Graph) {
			w := g.Constant(onnx.Floats("w", []int64{1, 1, 2}, []float32{1, -1}))
			lo, hi := g.Constant(onnx.Floats("lo", nil, []float32{-1})), g.Constant(onnx.Floats("hi", nil, []float32{2}))
			x := g.Add("Unsqueeze", []string{"x", g.Constant(onnx.Ints("axes", []int64{2}, []int64{0, 1}))}, "x3")
			g.Add("Conv", []string{x, w}, "z")
			in := []string{"z"}
			if op == "Clip" {
				in = append(in, lo, hi)
			}
			g.Add(op, in, "y")
			if shared {
				g.Outputs = append(g.Outputs, onnx.Value{Name: "z"})
			}
		}, 5)
	}
	for op, want := range map[string][]float64{"Relu": {0, 6, 0, 0}, "Clip": {-1, 2, 0, -1}} {
		for _, shared := range []bool{false, true} {
			p := compile(t, build(op, shared), engine.Options{Threads: 1})
			out, err := p.Run(t.Context(), map[string]engine.Tensor{"x": vector(1, 4, -2, -2, 3)})
			if err != nil {
				t.Fatal(err)
			}
			if got := values(out["y"]); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", op, got, want)
			}
			if shared && !slices.Equal(values(out["z"]), []float64{-3, 6, 0, -5}) {
				t.Errorf("%s: input of the activation: %v", op, values(out["z"]))
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	long := func(g *onnx.Graph) {
		name := "x"
		for range 5 {
			name = g.Add("Neg", []string{name}, name+"n")
		}
		g.Add("Neg", []string{name}, "y")
	}
	big := func(g *onnx.Graph) {
		g.Add("Expand", []string{"x", g.Constant(onnx.Ints("s", []int64{2}, []int64{1 << 20, 1 << 10}))}, "y")
	}
	for name, c := range map[string]struct {
		m    *onnx.Model
		opt  engine.Options
		want string
	}{
		"unknown operators": {model(17, func(g *onnx.Graph) { g.Add("Foo", []string{"x"}, "z"); g.Add("Bar", []string{"z"}, "y") }, 1), engine.Options{}, "operator Foo is not supported\noperator Bar"},
		"an old operator":   {model(6, func(g *onnx.Graph) { g.Add("Add", []string{"x", "x"}, "y") }, 1), engine.Options{}, "operator Add of opset 6"},
		"an old opset":      {model(3, func(g *onnx.Graph) { g.Add("Neg", []string{"x"}, "y") }, 1), engine.Options{}, "opset 3"},
		"training":          {model(17, func(g *onnx.Graph) { g.Add("Dropout", []string{"x"}, "y", onnx.Int("training_mode", 1)) }, 1), engine.Options{}, "training mode"},
		"a domain": {model(17, func(g *onnx.Graph) {
			g.Nodes = []onnx.Node{{Op: "Gelu", Domain: "org.example", Inputs: []string{"x"}, Outputs: []string{"y"}}}
		}, 1), engine.Options{}, "org.example"},
		"too many nodes": {model(17, long, 1), engine.Options{Nodes: 3}, "more than 3 nodes"},
		"no producer":    {model(17, func(g *onnx.Graph) { g.Add("Neg", []string{"q"}, "y") }, 1), engine.Options{}, `"q"`},
	} {
		if _, err := engine.Compile(t.Context(), c.m, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := compile(t, model(17, big, 1), engine.Options{Threads: 1, Memory: 1 << 20})
	if _, err := p.Run(t.Context(), map[string]engine.Tensor{"x": vector(1)}); !errors.Is(err, engine.ErrMemory) {
		t.Errorf("a gigabyte: %v", err)
	}
	if _, err := p.Run(t.Context(), map[string]engine.Tensor{"x": vector(1)}); !errors.Is(err, engine.ErrMemory) {
		t.Errorf("after a failed run: %v", err)
	}
}

// Failed runs free their memory.
func TestFailedRuns(t *testing.T) {
	p := compile(t, model(17, func(g *onnx.Graph) {
		g.Add("Neg", []string{"x"}, "n")
		g.Add("ReduceSum", []string{"n"}, "s")
		g.Add("Expand", []string{"s", g.Constant(onnx.Ints("to", []int64{1}, []int64{1 << 24}))}, "y")
		g.Outputs = append(g.Outputs, onnx.Value{Name: "n"})
	}, "N"), engine.Options{Threads: 1, Memory: 1 << 20})
	x := vector(make([]float32, 10000)...)
	for i := range 50 {
		if _, err := p.Run(t.Context(), map[string]engine.Tensor{"x": x}); !errors.Is(err, engine.ErrMemory) || !strings.Contains(err.Error(), "Expand") {
			t.Fatalf("run %d: %v", i, err)
		}
	}
}

func TestInputs(t *testing.T) {
	m := model(17, func(g *onnx.Graph) { g.Add("Add", []string{"x", "z"}, "y") }, "N")
	m.Graph.Inputs = append(m.Graph.Inputs, onnx.TensorValue("z", onnx.FLOAT, "N"))
	p := compile(t, m, engine.Options{Threads: 1})
	for name, in := range map[string]map[string]engine.Tensor{
		"different size": {"x": vector(1), "z": vector(1, 2)},
		"missing":        {"x": vector(1)},
		"different type": {"x": vector(1), "z": {Type: onnx.INT32, Shape: []int{1}, Data: make([]byte, 4)}},
		"two dimensions": {"x": vector(1), "z": {Type: onnx.FLOAT, Shape: []int{1, 1}, Data: make([]byte, 4)}},
		"cut short":      {"x": vector(1), "z": {Type: onnx.FLOAT, Shape: []int{1}, Data: make([]byte, 3)}},
	} {
		if _, err := p.Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), `"z"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if _, err := p.Run(t.Context(), nil); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A chain of a hundred values needs memory for two of them.
func TestMemoryIsUsedAgain(t *testing.T) {
	p := compile(t, model(17, func(g *onnx.Graph) {
		name := "x"
		for range 99 {
			name = g.Add("Neg", []string{name}, name+"n")
		}
		g.Add("Neg", []string{name}, "y")
	}, 1000), engine.Options{Threads: 1})
	x := vector(make([]float32, 1000)...)
	for range 3 {
		run(t, p, x)
	}
	if got := p.Peak(); got < 8000 || got > 13000 {
		t.Errorf("peak of %d bytes for values of 4000 bytes", got)
	}
}

// A program does not need the bytes of its model.
func TestModelMayGo(t *testing.T) {
	m := model(17, func(g *onnx.Graph) {
		s := g.Add("Shape", []string{"x"}, "s")
		g.Add("ConstantOfShape", []string{s}, "c", onnxtest.TensorAttr("value", onnx.Floats("v", []int64{1}, []float32{3})))
		g.Add("Pad", []string{"c", g.Constant(onnx.Ints("p", []int64{2}, []int64{1, 1}))}, "y", onnx.String("mode", "edge"))
	}, "N")
	var b bytes.Buffer
	if _, err := onnx.Write(&b, m); err != nil {
		t.Fatal(err)
	}
	read, err := onnx.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	p := compile(t, read, engine.Options{Threads: 1})
	clear(b.Bytes())
	if got := run(t, p, vector(1, 2)); !slices.Equal(got, []float64{3, 3, 3, 3}) {
		t.Errorf("%v", got)
	}
}

// Constant expressions are folded, and Constant nodes support each kind of
// value.
func TestConstants(t *testing.T) {
	p := compile(t, model(17, func(g *onnx.Graph) {
		g.Add("Constant", nil, "a", onnx.Attribute{Name: "value_floats", Type: onnx.AttrFloats, Floats: []float32{1, 2}})
		g.Add("Constant", nil, "b", onnx.Float("value_float", 3))
		g.Add("Constant", nil, "c", onnx.IntList("value_ints", 2, 2))
		g.Add("Constant", nil, "i", onnx.Int("value_int", 1))
		g.Add("Constant", nil, "d", onnxtest.TensorAttr("value", onnx.Floats("v", nil, []float32{10})))
		g.Add("Cast", []string{"i"}, "f", onnx.Int("to", int64(onnx.FLOAT)))
		g.Add("Mul", []string{"a", "b"}, "ab")
		g.Add("Add", []string{"ab", "d"}, "abd")
		g.Add("Add", []string{"abd", "f"}, "k")
		g.Add("Expand", []string{"k", "c"}, "e")
		g.Add("Add", []string{"x", "e"}, "y")
	}, 1), engine.Options{Threads: 1})
	if got := run(t, p, vector(0.5)); !slices.Equal(got, []float64{14.5, 17.5, 14.5, 17.5}) {
		t.Errorf("%v", got)
	}
}
