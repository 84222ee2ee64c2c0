package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attending is attention in float64 with a loss that weights its output.
type attending struct {
	params *Params[float64]
	attn   *Attention[float64]
	in     Matrix[float64]
	mixed  Matrix[float64]
	dmixed Matrix[float64] // weights of the loss
	pass   AttentionPass[float64]
	seqs   []Sequence
}

func newAttending(heads, kv int, causal, normed, rotated bool, T int, starts []int32) *attending {
	const c, d = 6, 4
	wide := (heads + 2*kv) * d
	specs := []Spec{
		{Name: "q", Shape: []int{heads * d, c}}, {Name: "k", Shape: []int{kv * d, c}}, {Name: "v", Shape: []int{kv * d, c}},
	}
	if normed {
		specs = append(specs, Spec{Name: "qn", Vector: true, Shape: []int{d}}, Spec{Name: "kn", Vector: true, Shape: []int{d}})
	}
	a := &attending{params: NewParams[float64](specs)}
	r := NewRandom(11)
	for _, t := range a.params.Tensors() {
		FillNormal(t.Data, r, 0.6)
	}
	a.attn = &Attention[float64]{Heads: heads, KVHeads: kv, HeadDim: d, Causal: causal, QKV: a.params.Linear("q", "k", "v"),
		QNorm: Norm[float64]{a.params.Tensor("qn"), 1e-6}, KNorm: Norm[float64]{a.params.Tensor("kn"), 1e-6}}
	if a.attn.QKV.Out != wide {
		panic("wrong stacking")
	}
	n := 2 * T
	a.in, a.mixed, a.dmixed = NewMatrix[float64](n, c), NewMatrix[float64](n, heads*d), NewMatrix[float64](n, heads*d)
	for t := range n {
		FillNormal(a.in.Row(t), r, 1)
		FillNormal(a.dmixed.Row(t), r, 1)
	}
	var rot *Rotation[float64]
	if rotated {
		rot = NewRotation[float64](100, d, T, true)
	}
	a.pass = NewAttentionPass(a.attn, rot, a.in, a.mixed)
	a.seqs = []Sequence{{Lo: 0, Hi: T, Starts: starts}, {Lo: T, Hi: n}}
	return a
}

func (a *attending) loss() float64 {
	a.attn.QKV.Pack(true)
	s := NewAttentionScratch[float64](a.attn.HeadDim, a.seqs[0].Hi)
	sum := 0.0
	for _, q := range a.seqs {
		a.pass.Forward(&s, q)
		for t := q.Lo; t < q.Hi; t++ {
			for i, v := range a.mixed.Row(t) {
				sum += v * a.dmixed.Row(t)[i]
			}
		}
	}
	return sum
}

// Every gradient of causal and bidirectional attention, with grouped heads,
// head norms, rotation and documents, agrees with central differences. T
// exceeds a block of queries, so that blocks and panels meet.
func TestAttentionGradients(t *testing.T) {
	T := queryBlock + 7
	starts := make([]int32, T)
	for i := range starts {
		for _, at := range []int{5, 6, 30, queryBlock + 2} {
			if i >= at {
				starts[i] = int32(at)
			}
		}
	}
	for _, causal := range []bool{true, false} {
		for _, normed := range []bool{false, true} {
			for _, doc := range [][]int32{nil, starts} {
				name := fmt.Sprintf("causal=%v normed=%v documents=%v", causal, normed, doc != nil)
				t.Run(name, func(t *testing.T) {
					a := newAttending(4, 2, causal, normed, normed, T, doc)
					a.loss()
					spread, s := a.params.Spread(), NewAttentionScratch[float64](4, T)
					spreads := [][]float64{a.params.Spread(), spread}
					din := NewMatrix[float64](2*T, a.in.Cols)
					for i, q := range a.seqs {
						dm := NewMatrix[float64](T, a.mixed.Cols)
						dm.CopyFrom(a.dmixed.Part(q.Lo, q.Hi))
						a.pass.Backward(&s, q, din.Part(q.Lo, q.Hi), dm, spreads[i], true)
					}
					a.params.ClearVectors()
					a.params.Reduce(spreads)
					g := NewGradients(&a.pass.Product)
					g.Compute(NewGradientScratch[float64](), 0, g.Len(), false)
					checks := []Comparison{Compare("in", a.in.Data, din.Data, a.loss, 60)}
					for _, w := range a.params.Tensors() {
						checks = append(checks, Compare(w.Name, w.Data, w.Grad, a.loss, 12))
					}
					for _, c := range checks {
						if !(c.Error < 1e-7) || c.Norm == 0 {
							t.Errorf("%s: relative error %.2g, norm %.2g", c.Tensor, c.Error, c.Norm)
						}
					}
				})
			}
		}
	}
}

// Bidirectional attention is softmax over the whole document.
func TestAttentionByTheFormula(t *testing.T) {
	T := 9
	starts := []int32{0, 0, 0, 3, 3, 3, 3, 7, 7}
	for _, causal := range []bool{false, true} {
		a := newAttending(2, 1, causal, false, false, T, starts)
		a.loss()
		y := a.pass.Product.Y
		for h := range 2 {
			for i := range T {
				q := y.Row(i)[h*4 : h*4+4]
				var p [9]float64
				sum := 0.0
				for j := range T {
					if starts[j] != starts[i] || causal && j > i {
						continue
					}
					dot := 0.0
					for d, v := range y.Row(j)[8:12] {
						dot += v * q[d]
					}
					p[j] = math.Exp(dot / 2)
					sum += p[j]
				}
				for d := range 4 {
					want := 0.0
					for j := range T {
						want += p[j] / sum * y.Row(j)[12+d]
					}
					if got := a.mixed.Row(i)[h*4+d]; math.Abs(got-want) > 1e-12 {
						t.Fatalf("causal=%v head %d position %d: %v, want %v", causal, h, i, got, want)
					}
				}
			}
		}
	}
}

func TestSequence(t *testing.T) {
	s := Sequence{Lo: 10, Hi: 16, Starts: []int32{0, 0, 2, 2, 2, 5}}
	var got [][2]int
	for i := range 6 {
		got = append(got, [2]int{s.Start(i), s.End(i)})
	}
	if d := cmp.Diff([][2]int{{0, 2}, {0, 2}, {2, 5}, {2, 5}, {2, 5}, {5, 6}}, got); d != "" {
		t.Error(d)
	}
	s.Starts = nil
	if s.Start(4) != 0 || s.End(0) != 6 {
		t.Error("sequence without starts: want one document")
	}
}

// The gradients of a feed-forward network and the norm before it, gated or not,
// agree with central differences over more positions than a block.
func TestFFNGradients(t *testing.T) {
	const c, f, T = 5, 7, RowBlock + 3
	for _, gated := range []bool{true, false} {
		up := f
		if gated {
			up = 2 * f
		}
		p := NewParams[float64]([]Spec{{Name: "gain", Vector: true, Shape: []int{c}}, {Name: "up", Shape: []int{up, c}}, {Name: "down", Shape: []int{c, f}}})
		r := NewRandom(2)
		for _, w := range p.Tensors() {
			FillNormal(w.Data, r, 0.7)
		}
		net := &FFN[float64]{Up: p.Linear("up"), Down: p.Linear("down"), Gated: gated}
		norm := Norm[float64]{p.Tensor("gain"), 1e-6}
		x, n, out, dout := NewMatrix[float64](T, c), NewMatrix[float64](T, c), NewMatrix[float64](T, c), NewMatrix[float64](T, c)
		for t := range T {
			FillNormal(x.Row(t), r, 1)
			FillNormal(dout.Row(t), r, 1)
		}
		rms := make([]float64, T)
		pass := NewFFNPass(net, n, out, dout)
		loss := func() float64 {
			net.Up.Pack(true)
			net.Down.Pack(true)
			norm.Forward(n, x, rms, 0, T)
			out.Zero()
			pass.Forward(0, T)
			sum := 0.0
			for t := range T {
				for i, v := range out.Row(t) {
					sum += v * dout.Row(t)[i]
				}
			}
			return sum
		}
		loss()
		dn, dx, spread := NewMatrix[float64](T, c), NewMatrix[float64](T, c), p.Spread()
		pass.Backward(dn, NewFFNScratch[float64](f, T), 0, T, true)
		norm.Backward(dx, dn, x, rms, spread, 0, T)
		p.ClearVectors()
		p.Reduce([][]float64{spread})
		g := NewGradients(&pass.UpProduct, nil, &pass.DownProduct)
		g.Compute(NewGradientScratch[float64](), 0, g.Len(), false)
		for _, k := range []Comparison{
			Compare("x", x.Data, dx.Data, loss, 50), Compare("gain", norm.Gain.Data, norm.Gain.Grad, loss, 5),
			Compare("up", p.Tensor("up").Data, p.Tensor("up").Grad, loss, 30), Compare("down", p.Tensor("down").Data, p.Tensor("down").Grad, loss, 30),
		} {
			if !(k.Error < 1e-7) || k.Norm == 0 {
				t.Errorf("gated=%v %s: relative error %.2g, norm %.2g", gated, k.Tensor, k.Error, k.Norm)
			}
		}
	}
}

// A second batch is added to the first. A frozen tensor has no panel. If one of
// two stacked tensors is frozen, the gradient of the other is unchanged.
func TestGradientsAddAndFreeze(t *testing.T) {
	p := NewParams[float32]([]Spec{{Name: "a", Shape: []int{3, 4}}, {Name: "b", Shape: []int{2, 4}}})
	x, y, dy := NewMatrix[float32](6, 4), NewMatrix[float32](6, 5), NewMatrix[float32](6, 5)
	r := NewRandom(1)
	for i := range 6 {
		FillNormal(x.Row(i), r, 1)
		FillNormal(dy.Row(i), r, 1)
	}
	grads := func(add bool) map[string][]float32 {
		product := NewProduct(p.Linear("a", "b"), x, y, dy)
		g := NewGradients(&product)
		g.Compute(NewGradientScratch[float32](), 0, g.Len(), add)
		all := map[string][]float32{}
		for _, w := range p.Tensors() {
			all[w.Name] = append([]float32(nil), w.Grad...)
		}
		return all
	}
	once := grads(false)
	if !cmp.Equal(once, grads(false)) {
		t.Error("gradient not replaced")
	}
	for name, twice := range grads(true) {
		for i, v := range twice {
			if v != 2*once[name][i] || v == 0 {
				t.Errorf("%s[%d] is %v after adding, %v before", name, i, v, once[name][i])
			}
		}
	}
	p.Freeze(func(n string) bool { return n == "a" })
	if left := grads(false); len(left["a"]) != 0 || !cmp.Equal(left["b"], once["b"]) {
		t.Errorf("with a frozen: %v, want %v", left, once["b"])
	}
	p.Freeze(func(string) bool { return true })
	if g := NewGradients[float32](); g.Len() != 0 || len(grads(false)["b"]) != 0 {
		t.Error("gradient computed although everything is frozen")
	}
	if p.Linear("c") != nil || p.Tensor("c") != nil {
		t.Error("found a tensor that does not exist")
	}
}

// The numbers of a seed do not change between versions of Go.
func TestRandom(t *testing.T) {
	r := NewRandom(31)
	got := []string{fmt.Sprintf("%.12f", r.Uniform()), fmt.Sprintf("%.12f", r.Normal()), fmt.Sprintf("%.12f", r.Normal())}
	want := []string{"0.907585442994", "-0.651713989373", "-1.801885677524"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
