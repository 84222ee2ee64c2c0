package llm

import (
	"math"
	"testing"

	"mm-abi.org/mm/train/nn"
)

// The decoder computes the logits of the pass at every position, for RWKV from
// a state of fixed size, for attention from the cache.
func TestDecoderEqualsPass(t *testing.T) {
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			m := randomModel[float64](t, c, 3)
			m.Refresh(nil)
			T := c.Context
			b := randomBatch[float64](c, 1, T, 5)
			b.Starts = nil
			pass := m.NewPass(nil, 1, T)
			if err := pass.load(b); err != nil {
				t.Fatal(err)
			}
			pass.forward(&pass.works[0], 0, T)
			pass.head.Forward(0, T, false)
			d := m.NewDecoder()
			for round := range 2 { // the second after Reset
				for i, token := range b.Tokens {
					logits, err := d.Feed(token)
					if err != nil {
						t.Fatal(err)
					}
					for v, want := range pass.head.Y.Row(i) {
						if math.Abs(logits[v]-want) > 1e-12*max(1, math.Abs(want)) {
							t.Fatalf("round %d position %d: logit %d is %v, want %v", round, i, v, logits[v], want)
						}
					}
				}
				if c.WithDefaults().Mixer == Attention {
					if _, err := d.Feed(0); err == nil {
						t.Error("fed beyond the context")
					}
				}
				d.Reset()
			}
			if _, err := d.Feed(int32(c.Vocab)); err == nil {
				t.Error("token outside the vocabulary accepted")
			}
		})
	}
}

// The pass updates RWKV's state along the text. Without a state the formula is
// o_t = Σ_{s<t} (Σ_i r_ti·k_si·w_i^(t-1-s))·v_s + (Σ_i r_ti·u_i·k_ti)·v_t.
func TestRWKVEqualsItsSum(t *testing.T) {
	const T, D = 17, 6
	r := nn.NewRandom(1)
	draw := func(n int) []float64 { x := make([]float64, n); nn.FillNormal(x, r, 1); return x }
	rs, ks, vs, u, decay := draw(T*D), draw(T*D), draw(T*D), draw(D), draw(D)
	w, state, o := make([]float64, D), make([]float64, D*D), make([]float64, D)
	decays(w, decay)
	for p := range T {
		recur(o, state, rs[p*D:(p+1)*D], ks[p*D:(p+1)*D], vs[p*D:(p+1)*D], u, w)
		for j := range D {
			var want float64
			for s := range p + 1 {
				for i := range D {
					f := u[i]
					if s < p {
						f = math.Pow(w[i], float64(p-1-s))
					}
					want += rs[p*D+i] * ks[s*D+i] * f * vs[s*D+j]
				}
			}
			if math.Abs(o[j]-want) > 1e-9 {
				t.Fatalf("o[%d,%d] = %v, want %v", p, j, o[j], want)
			}
		}
	}
}

// Adapters start without effect, train, and act like their merged weights.
func TestLoRA(t *testing.T) {
	for _, name := range []string{"everything", "tied", "rwkv"} {
		c := variants()[name]
		m := randomModel[float64](t, c, 3)
		m.Refresh(nil)
		b := randomBatch[float64](c, 2, 12, 5)
		before := train(t, m, m.NewPass(nil, 2, 12), b)
		if err := m.Adapt(LoRA{Rank: 2, Alpha: 8}, 1); err != nil {
			t.Fatal(err)
		}
		m.Refresh(nil)
		pass := m.NewPass(nil, 2, 12)
		if got := train(t, m, pass, b); got != before {
			t.Errorf("%s: loss %v with fresh adapters, want %v", name, got, before)
		}
		for range 3 {
			for _, w := range m.Tensors() {
				for i, g := range w.Grad {
					w.Data[i] -= 0.5 * g
				}
			}
			m.Refresh(nil)
			train(t, m, pass, b)
		}
		adapted := train(t, m, pass, b)
		if adapted >= before {
			t.Errorf("%s: loss went from %v to %v", name, before, adapted)
		}
		m.Merge()
		m.Refresh(nil)
		if got := train(t, m, m.NewPass(nil, 2, 12), b); math.Abs(got-adapted) > 1e-9 {
			t.Errorf("%s: loss %v merged, %v with adapters", name, got, adapted)
		}
	}
	m := randomModel[float64](t, variants()["plain"], 1)
	if m.Adapt(LoRA{Rank: 2, Targets: []string{"attn_qq"}}, 1) == nil || m.Adapt(LoRA{}, 1) == nil {
		t.Error("a wrong target or rank was accepted")
	}
}
