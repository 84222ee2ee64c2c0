package engine_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// small returns models of a few nodes each, to be mutated.
func small(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	write := func(m *onnx.Model) {
		var b bytes.Buffer
		if _, err := onnx.Write(&b, m); err != nil {
			t.Fatal(err)
		}
		out = append(out, b.Bytes())
	}
	add := func(opset int64, build func(g *onnx.Graph) string) {
		m := onnx.New("g", opset)
		m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 2, 4, 4)}
		m.Graph.Outputs = []onnx.Value{{Name: build(&m.Graph)}}
		write(m)
	}
	write(branches())
	write(doubling(3))
	x := []string{"x"}
	list := func(g *onnx.Graph, name string, v ...int64) string {
		return g.Constant(onnx.Ints(name, []int64{int64(len(v))}, v))
	}
	weights := func(g *onnx.Graph, dims ...int64) string {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		return g.Constant(onnx.Floats("w", dims, make([]float32, n)))
	}
	add(13, func(g *onnx.Graph) string {
		return g.Add("Conv", []string{"x", weights(g, 2, 1, 3, 3)}, "y", onnx.IntList("pads", 1, 1, 1, 1), onnx.IntList("strides", 2, 1), onnx.Int("group", 2))
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("ConvTranspose", []string{"x", weights(g, 2, 3, 2, 2)}, "y", onnx.IntList("strides", 2, 2), onnx.IntList("output_padding", 1, 1))
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("MaxPool", x, "y", onnx.IntList("kernel_shape", 2, 2), onnx.Int("ceil_mode", 1), onnx.IntList("dilations", 2, 1))
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("Slice", []string{"x", list(g, "a", 0, 1), list(g, "b", 3, -1), list(g, "c", 2, 3), list(g, "d", 2, -1)}, "y")
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("Pad", []string{"x", list(g, "a", 0, 0, 1, 1, 0, 0, 2, 2)}, "y", onnx.String("mode", "reflect"))
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("Gather", []string{"x", list(g, "a", 1, -1)}, "y", onnx.Int("axis", 2))
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("GatherND", []string{"x", g.Constant(onnx.Ints("a", []int64{2, 2}, []int64{0, 1, 0, 0}))}, "y")
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("Tile", []string{g.Add("Expand", []string{"x", list(g, "a", 2, 2, 4, 4)}, "e"), list(g, "b", 1, 2, 1, 3)}, "y")
	})
	add(13, func(g *onnx.Graph) string {
		s := g.Constant(onnx.Floats("s", []int64{4}, []float32{1, 1, 1.5, 2}))
		return g.Add("Resize", []string{"x", "", s}, "y", onnx.String("mode", "linear"))
	})
	add(13, func(g *onnx.Graph) string {
		s := g.Add("Shape", x, "s")
		return g.Add("Reshape", []string{g.Add("Transpose", x, "t", onnx.IntList("perm", 3, 1, 0, 2)), s}, "y")
	})
	add(13, func(g *onnx.Graph) string {
		w := weights(g, 4, 3)
		return g.Add("Softmax", []string{g.Add("MatMul", []string{"x", w}, "m")}, "y", onnx.Int("axis", 1))
	})
	add(13, func(g *onnx.Graph) string { return g.Add("TopK", []string{"x", list(g, "a", 3)}, "y") })
	add(13, func(g *onnx.Graph) string {
		s := g.Add("ReduceSum", []string{"x", list(g, "a", 1, -1)}, "s")
		return g.Add("CumSum", []string{s, list(g, "b", 0)}, "y", onnx.Int("reverse", 1))
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("Einsum", []string{"x", "x"}, "y", onnx.String("equation", "...ij,...jk->...ik"))
	})
	add(13, func(g *onnx.Graph) string {
		x3 := g.Add("Reshape", []string{"x", list(g, "a", 4, 2, 4)}, "x3")
		r := g.Constant(onnx.Floats("r", []int64{1, 12, 3}, make([]float32, 36)))
		return g.Add("LSTM", []string{x3, weights(g, 1, 12, 4), r}, "y", onnx.Int("hidden_size", 3))
	})
	add(13, func(g *onnx.Graph) string {
		a := g.Add("ConstantOfShape", []string{list(g, "a", 2, 3)}, "c")
		return g.Add("Concat", []string{a, a}, "y", onnx.Int("axis", -1))
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("DepthToSpace", []string{g.Add("SpaceToDepth", x, "s", onnx.Int("blocksize", 2))}, "y", onnx.Int("blocksize", 2))
	})
	add(13, func(g *onnx.Graph) string {
		return g.Add("NonZero", []string{g.Add("Split", x, "s", onnx.Int("axis", 2))}, "y")
	})
	return out
}

// zeros returns inputs of the declared sizes, 1 for unknown sizes.
func zeros(p *engine.Program) map[string]engine.Tensor {
	in := make(map[string]engine.Tensor)
	for _, v := range p.Inputs() {
		shape := make([]int, len(v.Type.Dims))
		for i, d := range v.Type.Dims {
			shape[i] = 1
			if d.Value >= 0 && d.Param == "" {
				shape[i] = int(min(d.Value, 64))
			}
		}
		n, err := kernel.Count(shape)
		if err != nil || n > 1<<16 {
			return nil
		}
		in[v.Name] = engine.Tensor{Type: v.Type.DType, Shape: shape, Data: make([]byte, n*kernel.Size(v.Type.DType))}
	}
	return in
}

// For any bytes, running the model returns results or an error that blames the
// model.
func FuzzRun(f *testing.F) {
	for _, m := range small(f) {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := onnx.Parse(data)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		p, err := engine.Compile(ctx, m, engine.Options{Threads: 1, Memory: 8 << 20, Steps: 100})
		if errors.Is(err, engine.ErrInternal) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		defer func() { _ = p.Close() }()
		if _, err := p.Run(ctx, zeros(p)); errors.Is(err, engine.ErrInternal) {
			t.Fatal(err)
		}
	})
}

// The seeds of the fuzzer run.
func TestSmall(t *testing.T) {
	for i, data := range small(t) {
		m, err := onnx.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 2})
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		if _, err := p.Run(t.Context(), zeros(p)); err != nil {
			t.Errorf("%d: %v", i, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
