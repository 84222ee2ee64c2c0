package llm

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// randomModel returns a model with every weight drawn, so that none is zero.
func randomModel[F tensor.Float](t testing.TB, c Config, seed uint64) *Model[F] {
	t.Helper()
	m, err := New[F](c)
	if err != nil {
		t.Fatal(err)
	}
	r := nn.NewRandom(seed)
	for _, w := range m.Tensors() {
		for i := range w.Data {
			v := r.Normal()
			if !w.Matrix() {
				w.Data[i] = F(float32(0.6 + 0.2*v))
			} else {
				w.Data[i] = F(float32(v * invSqrt(w.Shape[1])))
			}
		}
	}
	return m
}

// randomBatch returns documents that end inside sequences, and missing targets.
func randomBatch[F tensor.Float](c Config, B, T int, seed uint64) Batch[F] {
	r := nn.NewRandom(seed)
	b := Batch[F]{Tokens: make([]int32, B*T), Targets: make([]int32, B*T), Starts: make([]int32, B*T)}
	for i := range b.Tokens {
		b.Tokens[i] = int32(r.Uniform() * float64(c.Vocab))
		b.Targets[i] = int32(r.Uniform() * float64(c.Vocab))
		if r.Uniform() < 0.1 {
			b.Targets[i] = -1
		}
		switch {
		case i%T == 0:
		case r.Uniform() < 0.1:
			b.Starts[i] = int32(i % T)
		default:
			b.Starts[i] = b.Starts[i-1]
		}
	}
	return b
}

func train[F tensor.Float](t testing.TB, m *Model[F], p *Pass[F], b Batch[F]) float64 {
	t.Helper()
	loss, err := p.Train(b, 1/float64(Count(b.Targets)), false)
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

// Gradients and loss of the float32 kernels agree with float64 in plain Go, at
// sizes that fill entire panels and at odd ones.
func TestFloat32AgreesWithFloat64(t *testing.T) {
	for name, c := range variants() {
		for _, size := range []string{"small", "whole"} {
			T := 19
			if size == "whole" {
				c.Dim, c.HeadDim, c.Hidden, c.Vocab, T = 64, 32, 96, 64, 70
			}
			c.Context = T
			t.Run(name+"/"+size, func(t *testing.T) {
				a, b := randomModel[float32](t, c, 5), randomModel[float64](t, c, 5)
				a.Refresh(nil)
				b.Refresh(nil)
				ba, bb := randomBatch[float32](c, 3, T, 9), randomBatch[float64](c, 3, T, 9)
				la, lb := train(t, a, a.NewPass(nil, 3, T), ba), train(t, b, b.NewPass(nil, 3, T), bb)
				if math.Abs(la-lb) > 1e-5*lb {
					t.Errorf("loss %v in float32, %v in float64", la, lb)
				}
				for i, w := range a.Tensors() {
					if e := distance(w.Grad, b.Tensors()[i].Grad); e > 2e-4 {
						t.Errorf("%s: gradients differ by %.2g", w.Name, e)
					}
				}
			})
		}
	}
}

// distance returns ‖a-b‖/‖b‖.
func distance(a []float32, b []float64) float64 {
	var d, n float64
	for i, v := range b {
		d += (float64(a[i]) - v) * (float64(a[i]) - v)
		n += v * v
	}
	return math.Sqrt(d / n)
}

// The result is bit-identical for one, two and three threads, including a
// second batch added to the first.
func TestThreadsBitwise(t *testing.T) {
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			var want [][]float32
			var wantLoss float64
			for threads := 1; threads <= 3; threads++ {
				p := pool.New(threads)
				defer p.Close()
				m := randomModel[float32](t, c, 1)
				m.Refresh(p)
				pass := m.NewPass(p, 4, 16)
				loss := train(t, m, pass, randomBatch[float32](c, 4, 16, 2))
				more, err := pass.Train(randomBatch[float32](c, 4, 16, 3), 0.01, true)
				if err != nil {
					t.Fatal(err)
				}
				var got [][]float32
				for _, w := range m.Tensors() {
					got = append(got, w.Grad)
				}
				if threads == 1 {
					want, wantLoss = got, loss+more
				}
				if loss+more != wantLoss {
					t.Errorf("%d threads: loss %v, want %v", threads, loss+more, wantLoss)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%d threads: gradients differ from one thread's", threads)
				}
			}
		})
	}
}

// Adding a batch yields the sum of both batches' gradients.
func TestTrainAdds(t *testing.T) {
	for _, name := range []string{"plain", "tied", "rwkv"} {
		c := variants()[name]
		m := randomModel[float64](t, c, 1)
		m.Refresh(nil)
		pass := m.NewPass(nil, 2, 12)
		one, two := randomBatch[float64](c, 2, 12, 2), randomBatch[float64](c, 2, 12, 3)
		sums := map[string][]float64{}
		for _, b := range []Batch[float64]{one, two} {
			if _, err := pass.Train(b, 0.5, false); err != nil {
				t.Fatal(err)
			}
			for _, w := range m.Tensors() {
				if sums[w.Name] == nil {
					sums[w.Name] = make([]float64, len(w.Grad))
				}
				for i, g := range w.Grad {
					sums[w.Name][i] += g
				}
			}
		}
		pass.Train(one, 0.5, false)
		pass.Train(two, 0.5, true)
		for _, w := range m.Tensors() {
			for i, g := range w.Grad {
				if math.Abs(g-sums[w.Name][i]) > 1e-12 {
					t.Fatalf("%s %s[%d] = %v, want %v", name, w.Name, i, g, sums[w.Name][i])
				}
			}
		}
	}
}

// Text before a document does not affect it.
func TestDocumentsAreSeparate(t *testing.T) {
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			m := randomModel[float64](t, c, 1)
			m.Refresh(nil)
			const T, start = 14, 6
			b := randomBatch[float64](c, 1, T, 4)
			for i := range T {
				b.Starts[i], b.Targets[i] = 0, 1
				if i >= start {
					b.Starts[i] = start
				} else {
					b.Targets[i] = -1
				}
			}
			pass := m.NewPass(nil, 1, T)
			first := train(t, m, pass, b)
			for i := range start {
				b.Tokens[i] = (b.Tokens[i] + 5) % int32(c.Vocab)
			}
			if second := train(t, m, pass, b); first != second {
				t.Errorf("loss of the second document went from %v to %v with the first's tokens", first, second)
			}
			// The same document at the start of a sequence.
			alone := Batch[float64]{Tokens: b.Tokens[start:], Targets: b.Targets[start:]}
			if loss := train(t, m, m.NewPass(nil, 1, T-start), alone); math.Abs(loss-first) > 1e-9 {
				t.Errorf("loss %v alone, %v after another document", loss, first)
			}
		})
	}
}

// A position does not attend to later ones.
func TestCausal(t *testing.T) {
	for name, c := range variants() {
		m := randomModel[float64](t, c, 1)
		m.Refresh(nil)
		const T, cut = 40, 33
		b := randomBatch[float64](c, 1, T, 4)
		b.Starts = nil
		for i := range T {
			b.Targets[i] = -1
			if i < cut {
				b.Targets[i] = 2
			}
		}
		pass := m.NewPass(nil, 1, T)
		first := train(t, m, pass, b)
		for i := cut; i < T; i++ {
			b.Tokens[i] = (b.Tokens[i] + 3) % int32(c.Vocab)
		}
		if second := train(t, m, pass, b); first != second {
			t.Errorf("%s: loss changed from %v to %v with later tokens", name, first, second)
		}
	}
}

// A frozen tensor has no gradient, and the gradients of the others do not
// depend on the frozen ones.
func TestFreeze(t *testing.T) {
	plans := map[string]func(string) bool{
		"embedding":  func(n string) bool { return n == "token_embd.weight" },
		"all but q":  func(n string) bool { return n != "blk.0.attn_q.weight" },
		"all but k":  func(n string) bool { return n != "blk.1.attn_k.weight" },
		"head only":  func(n string) bool { return n != "output.weight" },
		"second ffn": func(n string) bool { return n != "blk.1.ffn_down.weight" && n != "blk.1.ffn_up.weight" },
		"first norm": func(n string) bool { return n != "blk.0.attn_norm.weight" },
		"everything": func(string) bool { return true },
	}
	c := variants()["everything"]
	m := randomModel[float64](t, c, 1)
	m.Refresh(nil)
	b := randomBatch[float64](c, 2, 12, 4)
	loss := train(t, m, m.NewPass(nil, 2, 12), b)
	want := map[string][]float64{}
	for _, w := range m.Tensors() {
		want[w.Name] = append([]float64(nil), w.Grad...)
	}
	for name, frozen := range plans {
		m.Freeze(frozen)
		if got := train(t, m, m.NewPass(nil, 2, 12), b); got != loss {
			t.Errorf("%s: loss %v, want %v", name, got, loss)
		}
		for _, w := range m.Tensors() {
			if frozen(w.Name) != (w.Grad == nil) {
				t.Errorf("%s: %s has %d gradients", name, w.Name, len(w.Grad))
			}
			for i, g := range w.Grad {
				if math.Abs(g-want[w.Name][i]) > 1e-13 {
					t.Fatalf("%s: %s[%d] = %v, want %v", name, w.Name, i, g, want[w.Name][i])
				}
			}
		}
	}
}

// The backward pass ends at the lowest half block that trains.
func TestFreezeEndsBackward(t *testing.T) {
	c := variants()["plain"]
	for name, lowest := range map[string]int{
		"output.weight": 4, "output_norm.weight": 4, "blk.1.ffn_up.weight": 3, "blk.1.attn_q.weight": 2,
		"blk.0.ffn_norm.weight": 1, "blk.0.attn_norm.weight": 0, "token_embd.weight": -1,
	} {
		m := randomModel[float64](t, c, 1)
		m.Freeze(func(n string) bool { return n != name })
		if p := m.NewPass(nil, 1, 4); p.lowest != lowest {
			t.Errorf("%s: the backward pass ends at half block %d, want %d", name, p.lowest, lowest)
		}
	}
}

// Injecting the token's embedding row changes nothing, and its gradient equals
// that of the embedding.
func TestInjection(t *testing.T) {
	for _, name := range []string{"plain", "embed-norm", "rwkv"} {
		c := variants()[name]
		m := randomModel[float64](t, c, 1)
		m.Refresh(nil)
		pass := m.NewPass(nil, 1, 8)
		b := randomBatch[float64](c, 1, 8, 4)
		for i := range b.Tokens {
			b.Tokens[i] = int32(i)
		}
		loss := train(t, m, pass, b)
		want := append([]float64(nil), m.embed.Grad...)
		b.Rows = []int32{5, 2}
		for _, r := range b.Rows {
			b.Embeds = append(b.Embeds, m.embed.Data[int(r)*c.Dim:int(r+1)*c.Dim]...)
		}
		b.EmbedGrads = make([]float64, len(b.Embeds))
		m.Freeze(func(string) bool { return true }) // only a projector trains
		pass = m.NewPass(nil, 1, 8)
		if got := train(t, m, pass, b); got != loss {
			t.Errorf("%s: loss %v, want %v", name, got, loss)
		}
		for i, r := range b.Rows {
			if d := cmp.Diff(want[int(r)*c.Dim:int(r+1)*c.Dim], b.EmbedGrads[i*c.Dim:(i+1)*c.Dim]); d != "" {
				t.Errorf("%s: gradient of row %d: %s", name, r, d)
			}
		}
	}
}

func TestBatchRefused(t *testing.T) {
	c := variants()["plain"]
	m := randomModel[float32](t, c, 1)
	m.Refresh(nil)
	pass := m.NewPass(nil, 1, 4)
	good := func() Batch[float32] {
		return Batch[float32]{Tokens: []int32{1, 2, 3, 4}, Targets: []int32{2, 3, 4, -1}, Starts: []int32{0, 0, 2, 2}}
	}
	for name, f := range map[string]func(*Batch[float32]){
		"length":         func(b *Batch[float32]) { b.Tokens = b.Tokens[1:] },
		"token":          func(b *Batch[float32]) { b.Tokens[2] = int32(c.Vocab) },
		"negative token": func(b *Batch[float32]) { b.Tokens[0] = -1 },
		"target":         func(b *Batch[float32]) { b.Targets[3] = int32(c.Vocab) },
		"start":          func(b *Batch[float32]) { b.Starts[1] = 2 },
		"start goes back": func(b *Batch[float32]) {
			b.Starts[3] = 1
		},
		"row":        func(b *Batch[float32]) { b.Rows, b.Embeds = []int32{4}, make([]float32, c.Dim) },
		"row twice":  func(b *Batch[float32]) { b.Rows, b.Embeds = []int32{1, 1}, make([]float32, 2*c.Dim) },
		"embeds":     func(b *Batch[float32]) { b.Rows, b.Embeds = []int32{1}, make([]float32, c.Dim-1) },
		"embedgrads": func(b *Batch[float32]) { b.EmbedGrads = make([]float32, 1) },
	} {
		b := good()
		f(&b)
		if _, err := pass.Train(b, 1, false); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := pass.Train(good(), 1, false); err != nil {
		t.Error(err)
	}
}

// A step does not allocate.
func TestTrainDoesNotAllocate(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	for name, c := range variants() {
		m := randomModel[float32](t, c, 1)
		m.Refresh(p)
		pass, b := m.NewPass(p, 2, 16), randomBatch[float32](c, 2, 16, 3)
		train(t, m, pass, b)
		if n := testing.AllocsPerRun(5, func() { train(t, m, pass, b) }); n > 0 {
			t.Errorf("%s: %v allocations a step", name, n)
		}
	}
}

// A bfloat16 pass changes every gradient, those of adapters and the head too,
// but only slightly.
func TestBF16Pass(t *testing.T) {
	c := Config{Vocab: 50, Dim: 32, Layers: 2, Heads: 2, Context: 16}
	grads := [2]map[string][]float32{}
	for i := range grads {
		m := randomModel[float32](t, c, 3)
		if err := m.Adapt(LoRA{Rank: 4}, 1); err != nil {
			t.Fatal(err)
		}
		r := nn.NewRandom(2)
		for _, a := range m.Adapters() {
			nn.FillNormal(a.Data, r, 0.1)
		}
		m.Freeze(func(string) bool { return false })
		m.BF16 = i == 1
		m.Stale()
		m.Refresh(nil)
		pass, b := m.NewPass(nil, 2, 16), randomBatch[float32](c, 2, 16, 4)
		if got := pass.works[0].panel.BF16(); got != m.BF16 {
			t.Errorf("bfloat16 weight gradients: %v, want %v", got, m.BF16)
		}
		train(t, m, pass, b)
		if n := testing.AllocsPerRun(3, func() { train(t, m, pass, b) }); n > 0 {
			t.Errorf("%v allocations a step", n)
		}
		grads[i] = map[string][]float32{}
		for _, x := range m.Tensors() {
			grads[i][x.Name] = x.Grad
		}
	}
	for name, g := range grads[0] {
		var off, norm float64
		for i, v := range g {
			d := float64(v - grads[1][name][i])
			off, norm = off+d*d, norm+float64(v)*float64(v)
		}
		if share := math.Sqrt(off / norm); !(share > 1e-4 && share < 0.03) {
			t.Errorf("%s: gradient off by %g of its length", name, share)
		}
	}
}

func TestParameters(t *testing.T) {
	small := Config{Vocab: 1024, Dim: 128, Layers: 4, Heads: 4, Context: 128}
	large := Config{Vocab: 1024, Dim: 192, Layers: 6, Heads: 6, Context: 256}
	tied := small
	tied.Tied = true
	for _, c := range []struct {
		Config
		want int
	}{{small, 1_311_872}, {tied, 1_180_800}, {large, 3_934_656}} {
		m, err := New[float32](c.Config)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, w := range m.Tensors() {
			n += len(w.Data)
		}
		if n != c.want || c.Parameters() != c.want {
			t.Errorf("%d weights allocated, %d counted, want %d", n, c.Parameters(), c.want)
		}
	}
	if got := small.FLOPs(128); got != 7_471_104 {
		t.Errorf("%d operations per position", got)
	}
}

func TestValidate(t *testing.T) {
	good := Config{Vocab: 10, Dim: 8, Layers: 1, Heads: 2, Context: 4}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(*Config){
		"vocab": func(c *Config) { c.Vocab = 0 }, "dim": func(c *Config) { c.Dim = -1 },
		"huge": func(c *Config) { c.Hidden = 1 << 40 }, "groups": func(c *Config) { c.KVHeads = 3 },
		"odd head": func(c *Config) { c.HeadDim = 3 }, "mixer": func(c *Config) { c.Mixer = "mamba" },
		"activation": func(c *Config) { c.Activation = "gelu" }, "rope": func(c *Config) { c.Rope = "none" },
		"base": func(c *Config) { c.RopeBase = -1 }, "eps": func(c *Config) { c.NormEps = 1 },
		"rwkv qk-norm": func(c *Config) { c.Mixer, c.QKNorm = RWKV, true },
		"rwkv gqa":     func(c *Config) { c.Mixer, c.KVHeads = RWKV, 1 },
	} {
		c := good
		f(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := New[float32](c); err == nil {
			t.Errorf("%s: built", name)
		}
	}
}

// A configuration at the limit of each dimension is valid, one beyond is not.
func TestLimits(t *testing.T) {
	for name, set := range map[string]func(c *Config, n int){
		"vocab":   func(c *Config, n int) { c.Vocab = n },
		"hidden":  func(c *Config, n int) { c.Hidden = n },
		"context": func(c *Config, n int) { c.Context = n },
		"heads":   func(c *Config, n int) { c.Heads, c.KVHeads, c.HeadDim = n/2, n/2, 2+n%2*2 },
	} {
		at, beyond := variants()["plain"], variants()["plain"]
		set(&at, maxExtent)
		set(&beyond, maxExtent+1)
		if err := at.Validate(); err != nil {
			t.Errorf("%s at the limit: %v", name, err)
		}
		if beyond.Validate() == nil {
			t.Errorf("%s beyond the limit: accepted", name)
		}
	}
}

// An untied model computes the same as the tied one.
func TestUntie(t *testing.T) {
	c := variants()["tied-norm"]
	m := randomModel[float64](t, c, 1)
	u, err := m.Untie()
	if err != nil {
		t.Fatal(err)
	}
	if u.Config.Tied || u.Tensor("output.weight") == nil || &u.Tensor("output.weight").Data[0] == &u.embed.Data[0] {
		t.Fatal("head is still tied")
	}
	m.Refresh(nil)
	u.Refresh(nil)
	b := randomBatch[float64](c, 2, 8, 1)
	if a, b := train(t, m, m.NewPass(nil, 2, 8), b), train(t, u, u.NewPass(nil, 2, 8), b); a != b {
		t.Errorf("loss %v tied, %v untied", a, b)
	}
	if again, _ := u.Untie(); again != u {
		t.Error("copied an untied model")
	}
}
