package net_test

import (
	"encoding/json"
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

// steps trains n samples of a batch by plain descent and gives all weights.
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
			t.Fatal("weights are no numbers")
		}
	}
	for _, threads := range []int{1, 2, 3, 7} {
		if got := steps(t, threads, 6, 6); !slices.Equal(got, want) {
			t.Errorf("%d threads give other bits than one", threads)
		}
	}
	if got := steps(t, 2, 9, 6); !slices.Equal(got, want) {
		t.Error("six samples of nine give other bits than six of six")
	}
	if slices.Equal(steps(t, 2, 6, 5), want) {
		t.Error("five samples give what six do")
	}
}

// TestFrozen: what is frozen has no gradient, and the rest the same one.
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
			t.Errorf("%s: frozen or not, and the other way its gradient", w.Name)
		}
		if w.Grad != nil && !slices.Equal(w.Grad, want[w.Name]) {
			t.Errorf("%s: another gradient beside frozen tensors", w.Name)
		}
	}
	if net.Goes(pass, 0) {
		t.Error("the gradient goes below everything that trains")
	}
}

func TestFaults(t *testing.T) {
	x := []net.Port{{Name: "x", Rows: 6, Cols: 4}}
	for _, c := range []struct {
		cfg  net.Config
		want string
	}{
		{net.Config{}, "a network takes at least one input"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "gelu"}}}, "a network gives at least one output"},
		{net.Config{Inputs: []net.Port{{Name: "x", Rows: 0, Cols: 4}}}, "input x: [0, 4] is no shape"},
		{net.Config{Inputs: []net.Port{{Name: "x", Rows: 1 << 19, Cols: 1 << 19}}}, "is no shape"},
		{net.Config{Inputs: append(x, x...)}, `input "x": its name is taken`},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "glue"}}}, `layer glue0: kind "glue" is none of add, attention`},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "linear"}}}, "layer linear0 (linear): out is 0, must be at least 1"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "linear", Out: 3, Stride: net.Sizes{2}, Heads: 2}}}, "layer linear0: linear has no parameter heads\nlayer linear0: linear has no parameter stride"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "gelu", Inputs: []string{"y"}}}}, `layer gelu0 (gelu): there is no "y" before it`},
		{net.Config{Layers: []net.Layer{{Kind: "add", Inputs: []string{"", ""}}}}, `there is no "" before it`},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "add"}}}, "takes 2 to 16 inputs, not 1"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "attention", Heads: 3}}}, "4 channels are no multiple of 3 heads"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "attention", Heads: -1}}}, "heads is -1, must lie in 0.."},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "cross_attention", Heads: 2}}}, "names no memory"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "conv2d", Out: 3, Kernel: net.Sizes{3}}}}, "x has 6 rows, no square: height is wanted"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "conv2d", Out: 3, Kernel: net.Sizes{3}, Height: 4}}}, "no multiple of the height 4"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "conv1d", Out: 3, Kernel: net.Sizes{7}}}}, "a window of 1×7 does not fit 1×6"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "conv1d", Out: 3, Kernel: net.Sizes{2}, Groups: 3}}}, "3 groups do not divide 4 and 3 channels"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "slice", From: 3, To: 9}}}, "from 3 to 9 lies outside the 4 cols"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "reshape", Rows: 5}}}, "does not hold the elements of [6, 4]"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "mean", Factor: 4}}}, "6 rows are no multiple of 4"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "linear", Out: 3, Residual: "x"}}}, "does not fit the output of [6, 3]"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "gelu"}, {Kind: "silu", Inputs: []string{"x"}}}, Outputs: []string{"silu1"}}, "layer gelu0 (gelu): nothing takes what it gives"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "gelu"}}, Outputs: []string{"x"}}, `output "x" is no layer`},
		{net.Config{Inputs: append(x, net.Port{Name: "y", Rows: 1, Cols: 1}), Layers: []net.Layer{{Kind: "gelu", Inputs: []string{"x"}}}, Outputs: []string{"gelu0"}}, "input y: nothing takes it"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "linear", Out: 1 << 20}, {Kind: "linear", Out: 1 << 20}}}, "the network has more than"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "upsample1d", Factor: 1 << 10}, {Kind: "upsample1d", Factor: 1 << 10}}}, "too large"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Kind: "layer_norm", Eps: math.NaN()}}}, "eps is NaN"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Name: "a.qkv", Kind: "linear", Out: 4}, {Name: "a", Kind: "attention", Heads: 1}}}, "tensor a.qkv.weight is another layer's as well"},
		{net.Config{Inputs: x, Layers: []net.Layer{{Name: "a", Kind: "gelu"}, {Name: "a", Kind: "silu"}}}, `layer "a": its name is taken`},
		{net.Config{Inputs: x, Layers: []net.Layer{{Name: "b", Kind: "block"}}}, "layer b.attention (attention): heads is 0"},
	} {
		_, err := net.New[float32](c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %q is wanted", err, c.want)
		}
	}
}

func TestFLOPs(t *testing.T) {
	for _, c := range []struct {
		layer net.Layer
		want  int // multiplications on the way forward
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
			t.Errorf("%s: %d operations, %d wanted", c.layer.Kind, got, 6*c.want)
		}
	}
}

// TestInit: a seed means the same weights, and every block starts as the
// identity.
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
			t.Errorf("seed %d: the same weights or others, the wrong way", seed)
		}
		before = all
		pass, r := n.NewPass(nil, 1), nn.NewRandom(1)
		for _, p := range cfg.Inputs {
			nn.FillNormal(pass.In(p.Name).Data, r, 1)
		}
		pass.Forward(1)
		if !slices.Equal(pass.Out("y").Data, pass.In("x").Data) {
			t.Error("two blocks change what passes them at the start")
		}
		if slices.Max(pass.Out("z").Data) == 0 {
			t.Error("a layer that is no residual starts at zero")
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
			t.Error("a network without layers is taken")
		}
	})
}
