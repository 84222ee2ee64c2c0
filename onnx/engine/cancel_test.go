package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// A run ends soon after its context, also in the middle of a large operator.
// The test takes the minimum of a few tries, because other programs may use the
// processor.
func TestCancelledInside(t *testing.T) {
	const limit = 200 * time.Millisecond // a whole run takes more than a second
	product := func(g *onnx.Graph) { g.Add("MatMul", []string{"x", "x"}, "y") }
	for _, c := range []struct {
		name  string
		kind  onnx.DType
		n     int
		build func(g *onnx.Graph)
	}{
		{"a product", onnx.FLOAT, 4096, product},
		{"a product of doubles", onnx.DOUBLE, 2048, product},
		{"a sum of products", onnx.FLOAT, 200, func(g *onnx.Graph) {
			n := onnx.Node{Op: "Einsum", Inputs: []string{"x", "x"}, Outputs: []string{"y"}, Attributes: []onnx.Attribute{{Name: "equation", Type: onnx.AttrString, String: []byte("ij,kl->")}}}
			g.Nodes = append(g.Nodes, n)
		}},
	} {
		for _, threads := range []int{1, 2} {
			m := onnx.New("g", 17)
			m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", c.kind, c.n, c.n)}
			m.Graph.Outputs = []onnx.Value{{Name: "y"}}
			c.build(&m.Graph)
			p := compile(t, m, engine.Options{Threads: threads})
			size := 4
			if c.kind == onnx.DOUBLE {
				size = 8
			}
			x := engine.Tensor{Type: c.kind, Shape: []int{c.n, c.n}, Data: make([]byte, size*c.n*c.n)}
			shortest, begun := time.Hour, 100*time.Millisecond // after packing, during the product
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
					t.Fatalf("%s: canceled run: %v", c.name, err)
				}
				if shortest = min(shortest, took); shortest < limit {
					break
				}
			}
			t.Logf("%s, %d threads: %v after its context", c.name, threads, shortest)
			if shortest > limit {
				t.Errorf("%s, %d threads: ended %v after its context", c.name, threads, shortest)
			}
		}
	}
}
