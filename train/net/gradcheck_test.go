package net_test

import (
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/nettest"
	"mm-abi.org/mm/train/nn"
)

// checked is a network, a pass over three samples, of which two are used, and
// the loss Σ c·out + out²/2 over its outputs.
type checked struct {
	net  *net.Net[float64]
	pass *net.Pass[float64]
	c    map[string][]float64
}

func newChecked(t *testing.T, cfg net.Config) *checked {
	t.Helper()
	n, err := net.New[float64](cfg)
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
		k.pass.WantInput(p.Name)
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
	for name, cfg := range nettest.Networks() {
		t.Run(name, func(t *testing.T) {
			k := newChecked(t, cfg)
			k.backward(false)
			k.backward(false) // overwrites the first gradient
			for _, s := range k.net.Steps() {
				seen[s.Kind] = true
			}
			var all []nn.Comparison
			for _, w := range k.net.Params().Tensors() {
				all = append(all, nn.Compare(w.Name, w.Data, w.Grad, k.loss, 12))
			}
			for _, p := range cfg.Inputs {
				x, dx := k.pass.In(p.Name), k.pass.InGrad(p.Name)
				if p.Name == "ids" {
					if slices.Max(dx.Data) != 0 || slices.Min(dx.Data) != 0 {
						t.Errorf("ids have a gradient: %v", dx.Data)
					}
					continue
				}
				end := (2*p.Rows-1)*x.LD + x.Cols
				all = append(all, nn.Compare(p.Name, x.Data[:end], dx.Data[:end], k.loss, 20))
			}
			for _, c := range all {
				if c.Error > 1e-7 || c.Norm == 0 {
					t.Errorf("%s: error %.2g of a gradient of %.2g", c.Tensor, c.Error, c.Norm)
				}
			}
		})
	}
	for _, name := range net.Composites() {
		seen[name] = true
	}
	for _, name := range net.Kinds() {
		if !seen[name] {
			t.Errorf("kind %s: not in any network", name)
		}
	}
}

// Gradients are added if add is set.
func TestAdd(t *testing.T) {
	for name, cfg := range nettest.Networks() {
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
					t.Fatalf("%s: %s[%d]: %v, want twice %v", name, w.Name, i, g, once[w.Name][i])
				}
			}
		}
	}
}

// WantInput after NewPass changes no other gradient.
func TestWantInput(t *testing.T) {
	cfg := nettest.Networks()["block"]
	k := newChecked(t, cfg)
	k.backward(false)
	late := k.net.NewPass(nil, 3)
	want := map[string][]float64{}
	for _, w := range k.net.Params().Tensors() {
		want[w.Name] = slices.Clone(w.Grad)
	}
	early := k.pass
	k.pass = late
	k.backward(false)
	late.WantInput("x")
	late.WantInput("c")
	for _, p := range cfg.Inputs {
		late.In(p.Name).CopyFrom(early.In(p.Name))
	}
	k.backward(false)
	for _, w := range k.net.Params().Tensors() {
		if !slices.Equal(w.Grad, want[w.Name]) {
			t.Errorf("%s: gradient changed", w.Name)
		}
	}
	if !slices.Equal(late.InGrad("x").Data, early.InGrad("x").Data) {
		t.Error("input gradient changed")
	}
}

// A smaller batch after a full one is not affected by the other samples.
func TestFewer(t *testing.T) {
	for name, cfg := range nettest.Networks() {
		k := newChecked(t, cfg)
		k.backward(false)
		want := map[string][]float64{}
		for _, w := range k.net.Params().Tensors() {
			want[w.Name] = slices.Clone(w.Grad)
		}
		k.pass.Forward(3)
		for _, out := range cfg.Outputs {
			copy(k.pass.OutGrad(out).Data, k.c[out])
		}
		k.pass.Backward(3, false)
		k.backward(false)
		for _, w := range k.net.Params().Tensors() {
			if !slices.Equal(w.Grad, want[w.Name]) {
				t.Errorf("%s: %s: gradient changed", name, w.Name)
			}
		}
	}
}

// float32 kernels agree with float64 in all gradients.
func TestSingle(t *testing.T) {
	for name, cfg := range nettest.Networks() {
		k := newChecked(t, cfg)
		k.backward(false)
		n, err := net.New[float32](cfg)
		if err != nil {
			t.Fatal(err)
		}
		single := func(to []float32, from []float64) {
			for i, v := range from {
				to[i] = float32(v)
			}
		}
		for i, w := range n.Params().Tensors() {
			single(w.Data, k.net.Params().Tensors()[i].Data)
		}
		n.Pack(true)
		pass := n.NewPass(nil, 3)
		for _, p := range cfg.Inputs {
			single(pass.In(p.Name).Data, k.pass.In(p.Name).Data)
		}
		pass.Forward(2)
		for _, out := range cfg.Outputs {
			y, dy := pass.Out(out), pass.OutGrad(out)
			for i, v := range y.Data[:2*len(y.Data)/3] {
				dy.Data[i] = v + float32(k.c[out][i])
			}
		}
		pass.Backward(2, false)
		for i, w := range n.Params().Tensors() {
			var diff, norm float64
			for j, g := range k.net.Params().Tensors()[i].Grad {
				diff, norm = diff+(float64(w.Grad[j])-g)*(float64(w.Grad[j])-g), norm+g*g
			}
			if !(diff <= 1e-7*norm) { // attention close to one-hot cancels most of it
				t.Errorf("%s: %s: gradient differs from float64 by %.1e", name, w.Name, math.Sqrt(diff/norm))
			}
		}
	}
}
