package net_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/nettest"
	"mm-abi.org/mm/train/nn"
)

// pictures is a small encoder: convolution, blocks, a resampler.
func pictures() net.Config {
	return net.Config{
		Inputs: []net.Port{{Name: "image", Rows: 16 * 16, Cols: 3}, {Name: "t", Rows: 1, Cols: 1}},
		Layers: []net.Layer{
			{Kind: "conv2d", Out: 8, Kernel: net.Sizes{3}, Pad: net.Sizes{1}}, {Kind: "gelu"},
			{Kind: "patches", Out: 16, Kernel: net.Sizes{4}}, {Name: "x", Kind: "position"},
			{Name: "t.sin", Kind: "time", Inputs: []string{"t"}, Out: 8}, {Name: "c", Kind: "linear", Out: 16},
			{Name: "b", Kind: "block", Inputs: []string{"x"}, Heads: 2, Condition: "c"},
			{Kind: "resampler", Count: 4, Heads: 2, Hidden: 24}, {Name: "y", Kind: "linear", Out: 5},
		},
		Outputs: []string{"y"},
	}
}

// steps trains on n samples of a batch by gradient descent and returns all
// weights.
func steps(t *testing.T, threads, B, n int) []float32 {
	t.Helper()
	net, err := net.New[float32](pictures())
	if err != nil {
		t.Fatal(err)
	}
	net.Init(5)
	var p *pool.Pool
	if threads > 0 {
		p = pool.New(threads)
		defer p.Close()
	}
	pass, r := net.NewPass(p, B), nn.NewRandom(7)
	for _, name := range []string{"image", "t"} {
		x := pass.In(name)
		for i := range n * x.Rows / B {
			nn.FillNormal(x.Row(i), r, 1)
		}
	}
	for range 3 {
		pass.Forward(n)
		y, dy := pass.Out("y"), pass.OutGrad("y")
		for i := range n * y.Rows / B {
			for j, v := range y.Row(i) {
				dy.Row(i)[j] = v - 1
			}
		}
		pass.Backward(n, false)
		for _, w := range net.Params().Tensors() {
			for i, g := range w.Grad {
				w.Data[i] -= 0.01 * g
			}
		}
		net.Pack(false)
	}
	var all []float32
	for _, w := range net.Params().Tensors() {
		all = append(all, w.Data...)
	}
	return all
}

func TestThreads(t *testing.T) {
	want := steps(t, 0, 6, 6)
	for _, v := range want {
		if math.IsNaN(float64(v)) {
			t.Fatal("weights are NaN")
		}
	}
	for _, threads := range []int{1, 2, 3, 7} {
		if got := steps(t, threads, 6, 6); !slices.Equal(got, want) {
			t.Errorf("%d threads: not bit-identical to one", threads)
		}
	}
	if got := steps(t, 2, 9, 6); !slices.Equal(got, want) {
		t.Error("six samples of nine: not bit-identical to six of six")
	}
	if slices.Equal(steps(t, 2, 6, 5), want) {
		t.Error("five samples: same result as six")
	}
}

// A frozen tensor has no gradient, and the other gradients are unchanged.
func TestFrozen(t *testing.T) {
	k := newChecked(t, nettest.Networks()["block"])
	k.backward(false)
	want := map[string][]float64{}
	for _, w := range k.net.Params().Tensors() {
		want[w.Name] = slices.Clone(w.Grad)
	}
	frozen := func(name string) bool { return strings.HasPrefix(name, "a.") || strings.HasSuffix(name, ".bias") }
	k.net.Params().Freeze(frozen)
	r, pass := k.pass, k.net.NewPass(nil, 3)
	for _, p := range k.net.Config().Inputs {
		pass.In(p.Name).CopyFrom(r.In(p.Name))
	}
	k.pass = pass
	k.backward(false)
	for _, w := range k.net.Params().Tensors() {
		if frozen(w.Name) != (w.Grad == nil) {
			t.Errorf("%s: wrong gradient for its frozen state", w.Name)
		}
		if w.Grad != nil && !slices.Equal(w.Grad, want[w.Name]) {
			t.Errorf("%s: gradient changed by frozen tensors", w.Name)
		}
	}
	if net.Goes(pass, 0) {
		t.Error("gradient propagated below all trained tensors")
	}
}

func TestFaults(t *testing.T) {
	x := []net.Port{{Name: "x", Rows: 6, Cols: 4}}
	for _, c := range []struct {
		cfg  net.Config
		want string
	}{
		{net.Config{}, "missing inputs"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "gelu"}}}, "missing outputs"},
		{net.Config{Inputs: []net.Port{{Name: "x", Rows: 0, Cols: 4}}}, "input x: invalid shape [0, 4]"},
		{net.Config{Inputs: []net.Port{{Name: "x", Rows: 1 << 19, Cols: 1 << 19}}}, "invalid shape"},
		{net.Config{Inputs: append(x, x...)}, `input "x": duplicate or invalid name`},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "glue"}}}, `layer glue0: unknown kind "glue", want one of add, attention`},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "linear"}}}, "layer linear0 (linear): out is 0, want at least 1"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "linear", Out: 3, Stride: net.Sizes{2}, Heads: 2}}}, "layer linear0: linear has no parameter heads\nlayer linear0: linear has no parameter stride"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "gelu", Inputs: []string{"y"}}}}, `layer gelu0 (gelu): unknown input "y"`},
		{net.Config{Layers: []net.Layer{{Kind: "add", Inputs: []string{"", ""}}}}, `unknown input ""`},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "add"}}}, "1 inputs, want 2 to 16"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "attention", Heads: 3}}}, "4 channels are not a multiple of 3 heads"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "attention", Heads: -1}}}, "heads out of range: got -1, want 0 to "},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "cross_attention", Heads: 2}}}, "missing memory"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "conv2d", Out: 3, Kernel: net.Sizes{3}}}}, "x has 6 rows, not a square: height is required"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "conv2d", Out: 3, Kernel: net.Sizes{3}, Height: 4}}}, "not a multiple of height 4"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "conv1d", Out: 3, Kernel: net.Sizes{7}}}}, "a window of 1×7 does not fit 1×6"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "conv1d", Out: 3, Kernel: net.Sizes{2}, Groups: 3}}}, "3 groups do not divide 4 and 3 channels"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "slice", From: 3, To: 9}}}, "from 3 to 9 is outside the 4 cols"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "reshape", Rows: 5}}}, "from [6, 4]"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "mean", Factor: 4}}}, "6 rows are not a multiple of factor 4"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "linear", Out: 3, Residual: "x"}}}, "shape mismatch: got [6, 4], want [6, 3]"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "gelu"}, {Kind: "silu", Inputs: []string{"x"}}}, Outputs: []string{"silu1"}}, "layer gelu0 (gelu): unused output"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "gelu"}}, Outputs: []string{"x"}}, `output "x": unknown layer`},
		{net.Config{Inputs: append(x, net.Port{Name: "y", Rows: 1, Cols: 1}), Layers: []net.Layer{{Kind: "gelu", Inputs: []string{"x"}}}, Outputs: []string{"gelu0"}}, "input y: unused"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "linear", Out: 1 << 20}, {Kind: "linear", Out: 1 << 20}}}, "network has more than"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "upsample1d", Factor: 1 << 10}, {Kind: "upsample1d", Factor: 1 << 10}}}, "too large"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "layer_norm", Eps: math.NaN()}}}, "eps is NaN"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Name: "a.qkv", Kind: "linear", Out: 4}, {Name: "a", Kind: "attention", Heads: 1}}}, "duplicate tensor a.qkv.weight"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Name: "a", Kind: "gelu"}, {Name: "a", Kind: "silu"}}}, `layer "a": duplicate or invalid name`},
		{net.Config{Inputs: x, Layers: []net.Layer{{Name: "b", Kind: "block"}}}, "layer b.attention (attention): heads is 0"},
	} {
		_, err := net.New[float32](c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// A description at each limit is accepted, one beyond is refused.
func TestLimits(t *testing.T) {
	in := func(rows, cols int) net.Config {
		return net.Config{Inputs: []net.Port{{Name: "x", Rows: rows, Cols: cols}}, Layers: []net.Layer{{Kind: "gelu"}}, Outputs: []string{"gelu0"}}
	}
	product := func(out int, bias bool) net.Config {
		c := in(1, net.MaxWeights/(1<<14))
		c.Layers, c.Outputs = []net.Layer{{Kind: "linear", Name: "y", Out: out, NoBias: !bias}}, []string{"y"}
		return c
	}
	deep := func(n int) net.Config {
		c := in(1, 1)
		c.Layers = make([]net.Layer, n)
		for i := range c.Layers {
			c.Layers[i].Kind = "gelu"
		}
		c.Outputs = []string{fmt.Sprintf("gelu%d", n-1)}
		return c
	}
	slice := func(to int) net.Config {
		c := in(1, 8)
		c.Layers, c.Outputs = []net.Layer{{Kind: "slice", Name: "y", To: 4}, {Kind: "linear", Name: "z", Out: to}}, []string{"z"}
		return c
	}
	for name, c := range map[string][2]net.Config{
		"rows":       {in(net.MaxExtent, 1), in(net.MaxExtent+1, 1)},
		"cols":       {in(1, net.MaxExtent), in(1, net.MaxExtent+1)},
		"parameters": {slice(net.MaxExtent), slice(net.MaxExtent + 1)},
		"elements":   {in(net.MaxExtent, net.MaxElements/net.MaxExtent), in(net.MaxExtent, net.MaxElements/net.MaxExtent+1)},
		"weights":    {product(1<<14, false), product(1<<14, true)},
		"steps":      {deep(4096), deep(4097)}, // net.MaxSteps
	} {
		if _, err := net.Describe(c[0]); err != nil {
			t.Errorf("%s at the limit: %v", name, err)
		}
		if _, err := net.Describe(c[1]); err == nil {
			t.Errorf("%s beyond the limit: accepted", name)
		}
	}
}

// An output has the height of its input image only if it has as many pixels.
func TestHeight(t *testing.T) {
	n, err := net.New[float32](net.Config{
		Inputs:  []net.Port{{Name: "x", Rows: 16, Cols: 1, Height: 2}},
		Layers:  []net.Layer{{Kind: "gelu"}, {Kind: "mean", Factor: 4}},
		Outputs: []string{"mean1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := n.Steps(); s[0].Gives.Height != 2 || s[1].Gives.Height != 0 {
		t.Errorf("heights %d and %d, want 2 and 0", s[0].Gives.Height, s[1].Gives.Height)
	}
}

func TestFLOPs(t *testing.T) {
	for _, c := range []struct {
		layer net.Layer
		want  int // multiplications of the forward pass
	}{
		{net.Layer{Kind: "linear", Out: 5}, 6 * 4 * 5},
		{net.Layer{Kind: "mlp", Hidden: 7}, 2 * 6 * 4 * 7},
		{net.Layer{Kind: "attention", Heads: 2}, 4*6*4*4 + 2*6*6*4},
		{net.Layer{Kind: "conv1d", Out: 6, Kernel: net.Sizes{3}, Groups: 2}, 4 * 3 * 2 * 6},
		{net.Layer{Kind: "conv2d", Out: 6, Kernel: net.Sizes{2}, Height: 2}, 2 * 4 * 4 * 6},
		{net.Layer{Kind: "conv1d_transpose", Out: 6, Kernel: net.Sizes{3}}, 6 * 3 * 4 * 6},
		{net.Layer{Kind: "gelu"}, 0},
	} {
		c.layer.Name = "y"
		n, err := net.New[float32](net.Config{Inputs: []net.Port{{Name: "x", Rows: 6, Cols: 4}}, Layers: []net.Layer{c.layer}, Outputs: []string{"y"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.FLOPs(); got != 6*c.want {
			t.Errorf("%s: %d operations, want %d", c.layer.Kind, got, 6*c.want)
		}
	}
}

// A seed gives the same weights, and every block starts as the identity.
func TestInit(t *testing.T) {
	cfg := net.Config{Inputs: []net.Port{{Name: "x", Rows: 3, Cols: 8}, {Name: "m", Rows: 2, Cols: 4}, {Name: "c", Rows: 1, Cols: 4}},
		Layers:  []net.Layer{{Kind: "block", Heads: 2, Memory: "m"}, {Name: "y", Kind: "block", Heads: 2, Condition: "c"}, {Name: "z", Kind: "linear", Out: 2}},
		Outputs: []string{"y", "z"}}
	var before []float32
	for _, seed := range []uint64{4, 4, 5} {
		n, err := net.New[float32](cfg)
		if err != nil {
			t.Fatal(err)
		}
		n.Init(seed)
		var all []float32
		for _, w := range n.Params().Tensors() {
			all = append(all, w.Data...)
		}
		if before != nil && slices.Equal(before, all) != (seed == 4) {
			t.Errorf("seed %d: wrong weights", seed)
		}
		before = all
		pass, r := n.NewPass(nil, 1), nn.NewRandom(1)
		for _, p := range cfg.Inputs {
			nn.FillNormal(pass.In(p.Name).Data, r, 1)
		}
		pass.Forward(1)
		if !slices.Equal(pass.Out("y").Data, pass.In("x").Data) {
			t.Error("new blocks are not the identity")
		}
		if slices.Max(pass.Out("z").Data) == 0 {
			t.Error("layer without residual starts at zero")
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, cfg := range nettest.Networks() {
		data, err := json.Marshal(cfg)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"inputs":[{"name":"x","rows":64,"cols":3}],"layers":[{"kind":"conv2d","out":4,"kernel":[3,3],"stride":2,"name":"y"}],"outputs":["y"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var cfg net.Config
		if json.Unmarshal(data, &cfg) != nil {
			return
		}
		if n, err := net.Describe(cfg); err == nil && n == 0 {
			t.Error("network without layers accepted")
		}
	})
}
