package net

import (
	"testing"

	"mm-abi.org/mm/core/nn"
)

// every is a network of each kind of layer, some in several shapes.
var every = map[string]Config{
	"linear": {
		Inputs:  []Port{{Name: "x", Rows: 5, Cols: 6}},
		Layers:  []Layer{{Name: "a", Kind: "linear", Out: 7}, {Name: "b", Kind: "linear", Out: 6, NoBias: true, Residual: "x"}},
		Outputs: []string{"b", "a"},
	},
	"activations": {
		Inputs: []Port{{Name: "x", Rows: 4, Cols: 5}},
		Layers: []Layer{{Kind: "gelu"}, {Kind: "silu"}, {Name: "t", Kind: "tanh"}, {Name: "s", Kind: "sigmoid", Inputs: []string{"x"}},
			{Kind: "relu", Inputs: []string{"x"}, Name: "r"}, {Name: "y", Kind: "add", Inputs: []string{"t", "s", "r", "x"}}},
		Outputs: []string{"y"},
	},
	"norms": {
		Inputs: []Port{{Name: "x", Rows: 4, Cols: 9}},
		Layers: []Layer{{Name: "a", Kind: "layer_norm"}, {Name: "b", Kind: "rms_norm", Inputs: []string{"x"}, Eps: 1e-6},
			{Name: "c", Kind: "layer_norm", Inputs: []string{"x"}, NoAffine: true}, {Name: "y", Kind: "add", Inputs: []string{"a", "b", "c"}}},
		Outputs: []string{"y"},
	},
	"mlp": {
		Inputs:  []Port{{Name: "x", Rows: 50, Cols: 6}},
		Layers:  []Layer{{Name: "a", Kind: "mlp", Hidden: 10, Residual: "x"}, {Name: "b", Kind: "mlp", Activation: nn.SiLU, Out: 3}},
		Outputs: []string{"b"},
	},
	"attention": {
		Inputs:  []Port{{Name: "x", Rows: 51, Cols: 8}},
		Layers:  []Layer{{Name: "a", Kind: "attention", Heads: 2, Residual: "x"}, {Name: "b", Kind: "attention", Heads: 4, NoBias: true}},
		Outputs: []string{"b"},
	},
	"cross attention": {
		Inputs:  []Port{{Name: "x", Rows: 3, Cols: 8}, {Name: "m", Rows: 11, Cols: 5}},
		Layers:  []Layer{{Name: "a", Kind: "cross_attention", Heads: 2, Memory: "m", Residual: "x"}, {Name: "b", Kind: "cross_attention", Heads: 1, Memory: "a"}},
		Outputs: []string{"b"},
	},
	"block": {
		Inputs:  []Port{{Name: "x", Rows: 6, Cols: 8}, {Name: "m", Rows: 4, Cols: 5}, {Name: "c", Rows: 1, Cols: 3}},
		Layers:  []Layer{{Name: "a", Kind: "block", Heads: 2}, {Name: "b", Kind: "block", Heads: 2, Hidden: 12, Memory: "m", Condition: "c"}},
		Outputs: []string{"b"},
	},
	"modulation of every row": {
		Inputs:  []Port{{Name: "x", Rows: 3, Cols: 4}, {Name: "c", Rows: 3, Cols: 14}},
		Layers:  []Layer{{Name: "a", Kind: "modulate", Inputs: []string{"x", "c"}, From: 2}, {Name: "b", Kind: "gate", Inputs: []string{"x", "a", "c"}, From: 10}},
		Outputs: []string{"b"},
	},
	"conv1d": {
		Inputs: []Port{{Name: "x", Rows: 11, Cols: 6}},
		Layers: []Layer{{Name: "a", Kind: "conv1d", Out: 4, Kernel: Sizes{3}, Stride: Sizes{2}, Pad: Sizes{1}},
			{Name: "b", Kind: "conv1d", Out: 6, Kernel: Sizes{2}, Groups: 2}, {Name: "c", Kind: "conv1d", Out: 6, Kernel: Sizes{3}, Pad: Sizes{1}, Groups: 6}},
		Outputs: []string{"c"},
	},
	"conv2d": {
		Inputs: []Port{{Name: "x", Rows: 7 * 6, Cols: 3, Height: 7}},
		Layers: []Layer{{Name: "a", Kind: "conv2d", Out: 4, Kernel: Sizes{3, 2}, Stride: Sizes{2, 1}, Pad: Sizes{1, 1}},
			{Name: "b", Kind: "conv2d", Out: 6, Kernel: Sizes{3}, Pad: Sizes{1}, Groups: 2, NoBias: true}, {Name: "c", Kind: "conv2d", Out: 6, Kernel: Sizes{3}, Pad: Sizes{1}, Stride: Sizes{2}, Groups: 6},
			{Name: "d", Kind: "conv2d", Out: 5, Kernel: Sizes{1}}},
		Outputs: []string{"d"},
	},
	"transposed": {
		Inputs:  []Port{{Name: "x", Rows: 6, Cols: 3, Height: 2}},
		Layers:  []Layer{{Name: "a", Kind: "conv2d_transpose", Out: 4, Kernel: Sizes{4, 3}, Stride: Sizes{2}, Pad: Sizes{1}}, {Name: "b", Kind: "conv1d_transpose", Out: 2, Kernel: Sizes{4}, Stride: Sizes{2}, Pad: Sizes{1}, NoBias: true}},
		Outputs: []string{"b"},
	},
	"patches and positions": {
		Inputs:  []Port{{Name: "x", Rows: 64, Cols: 3}},
		Layers:  []Layer{{Name: "a", Kind: "patches", Out: 5, Kernel: Sizes{4}}, {Name: "b", Kind: "position"}},
		Outputs: []string{"b"},
	},
	"resampler": {
		Inputs:  []Port{{Name: "x", Rows: 9, Cols: 6}},
		Layers:  []Layer{{Name: "a", Kind: "resampler", Count: 4, Out: 8, Heads: 2, Hidden: 10}, {Name: "b", Kind: "resampler", Count: 2, Heads: 1}},
		Outputs: []string{"b"},
	},
	"enlarging": {
		Inputs: []Port{{Name: "x", Rows: 6, Cols: 8, Height: 2}},
		Layers: []Layer{{Kind: "upsample2d", Factor: 2}, {Kind: "pixel_shuffle", Factor: 2, Name: "p"}, {Name: "y", Kind: "upsample1d", Factor: 3},
			{Name: "z", Kind: "mean", Factor: 3}, {Name: "w", Kind: "add", Inputs: []string{"z", "p"}}},
		Outputs: []string{"w", "y"},
	},
	"arranging": {
		Inputs: []Port{{Name: "x", Rows: 6, Cols: 8}},
		Layers: []Layer{{Name: "a", Kind: "slice", From: 2, To: 6}, {Name: "b", Kind: "slice", Inputs: []string{"x"}, Axis: "rows", From: 1, To: 4},
			{Name: "c", Kind: "reshape", Inputs: []string{"b"}, Cols: 4}, {Name: "d", Kind: "concat", Inputs: []string{"a", "c"}},
			{Name: "e", Kind: "concat", Inputs: []string{"d", "x"}, Axis: "rows"}, {Name: "f", Kind: "mean", Factor: 3, Every: 2}, {Name: "g", Kind: "scale", Scale: 0.5, Offset: 1},
			{Name: "h", Kind: "multiply", Inputs: []string{"g", "f"}}, {Name: "i", Kind: "mean"}},
		Outputs: []string{"i", "h"},
	},
	"time": {
		Inputs:  []Port{{Name: "t", Rows: 2, Cols: 1}},
		Layers:  []Layer{{Kind: "time", Out: 6, Scale: 3, Period: 50}, {Name: "y", Kind: "linear", Out: 3}},
		Outputs: []string{"y"},
	},
	"embedding": {
		Inputs:  []Port{{Name: "ids", Rows: 5, Cols: 1}},
		Layers:  []Layer{{Name: "e", Kind: "embedding", Count: 4, Out: 3}, {Name: "y", Kind: "gelu"}},
		Outputs: []string{"y"},
	},
}

// checked is a network, a pass over three samples, of which two are used, and
// the loss Σ c·out + out²/2 over its outputs.
type checked struct {
	net  *Net[float64]
	pass *Pass[float64]
	c    map[string][]float64
}

func newChecked(t *testing.T, cfg Config) *checked {
	t.Helper()
	n, err := New[float64](cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := nn.NewRandom(3)
	for _, w := range n.Params().Tensors() {
		nn.FillNormal(w.Data, r, 0.5)
	}
	n.Pack(true)
	k := &checked{n, n.NewPass(nil, 3), map[string][]float64{}}
	for _, p := range cfg.Inputs {
		if p.Name != "ids" {
			k.pass.WantInput(p.Name)
		}
		x := k.pass.In(p.Name)
		for t := range x.Rows {
			nn.FillNormal(x.Row(t), r, 1)
			if p.Name == "ids" {
				x.Row(t)[0] = float64(int(4 * r.Uniform()))
			}
		}
	}
	for _, name := range cfg.Outputs {
		k.c[name] = make([]float64, len(k.pass.Out(name).Data))
		nn.FillNormal(k.c[name], r, 1)
	}
	return k
}

func (k *checked) outputs(visit func(y, dy, c []float64)) {
	for _, name := range k.net.Config().Outputs {
		out, grad := k.pass.Out(name), k.pass.OutGrad(name)
		for t := range out.Rows / 3 * 2 {
			visit(out.Row(t), grad.Row(t), k.c[name][t*out.Cols:])
		}
	}
}

func (k *checked) loss() float64 {
	k.net.Pack(true)
	k.pass.Forward(2)
	sum := 0.0
	k.outputs(func(y, _, c []float64) {
		for i, v := range y {
			sum += v*c[i] + v*v/2
		}
	})
	return sum
}

func (k *checked) backward(add bool) {
	k.loss()
	k.outputs(func(y, dy, c []float64) {
		for i, v := range y {
			dy[i] = c[i] + v
		}
	})
	k.pass.Backward(2, add)
}

func TestGradients(t *testing.T) {
	seen := map[string]bool{}
	for name, cfg := range every {
		t.Run(name, func(t *testing.T) {
			k := newChecked(t, cfg)
			k.backward(false)
			k.backward(false) // nothing is left of the first
			for _, s := range k.net.Steps() {
				seen[s.Kind] = true
			}
			var all []nn.Comparison
			for _, w := range k.net.Params().Tensors() {
				all = append(all, nn.Compare(w.Name, w.Data, w.Grad, k.loss, 30))
			}
			for _, p := range cfg.Inputs {
				if p.Name == "ids" {
					continue
				}
				x, dx := k.pass.In(p.Name), k.pass.InGrad(p.Name)
				end := (2*p.Rows-1)*x.LD + x.Cols
				all = append(all, nn.Compare(p.Name, x.Data[:end], dx.Data[:end], k.loss, 40))
			}
			for _, c := range all {
				if c.Error > 1e-7 || c.Norm == 0 {
					t.Errorf("%s: error %.2g of a gradient of %.2g", c.Tensor, c.Error, c.Norm)
				}
			}
		})
	}
	for name := range composites() {
		seen[name] = true
	}
	for name := range kinds() {
		if !seen[name] {
			t.Errorf("no network has a layer of kind %s", name)
		}
	}
}

// TestAdd: gradients are added where that is asked for.
func TestAdd(t *testing.T) {
	for name, cfg := range every {
		k := newChecked(t, cfg)
		k.backward(false)
		once := map[string][]float64{}
		for _, w := range k.net.Params().Tensors() {
			once[w.Name] = append([]float64(nil), w.Grad...)
		}
		k.backward(true)
		for _, w := range k.net.Params().Tensors() {
			for i, g := range w.Grad {
				if diff := g - 2*once[w.Name][i]; diff > 1e-9 || diff < -1e-9 {
					t.Fatalf("%s: %s[%d]: %v, twice %v wanted", name, w.Name, i, g, once[w.Name][i])
				}
			}
		}
	}
}
