package infer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
)

// paper computes the logits after tokens by the papers' formulas, in float64
// and without a cache, from the description of the block alone.
type paper struct {
	c Config
	y arch.Style
	w Memory
}

func formulas(c Config, w Memory) paper { return paper{c, c.Style(), w} }

func (p paper) get(name string) []float32 { return p.w[name].Data }

// product returns rows lo to lo+out of a matrix times x, plus their bias.
func (p paper) product(name string, x []float64, lo, out int) []float64 {
	y, w, b := make([]float64, out), p.get(name+".weight"), p.get(name+".bias")
	for i := range y {
		for j, v := range x {
			y[i] += v * float64(w[(lo+i)*len(x)+j])
		}
		if b != nil {
			y[i] += float64(b[lo+i])
		}
	}
	return y
}

// norm normalizes x with gains from at on; without gains x is unchanged.
func (p paper) norm(x []float64, name string, at int) []float64 {
	gain, bias := p.get(name+".weight"), p.get(name+".bias")
	if gain == nil {
		return x
	}
	var mean, square float64
	if p.y.LayerNorm {
		for _, v := range x {
			mean += v / float64(len(x))
		}
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v - mean) / math.Sqrt(square+float64(p.c.Epsilon)) * float64(gain[at+i])
		if bias != nil {
			y[i] += float64(bias[i])
		}
	}
	return y
}

func (p paper) act(x float64) float64 {
	switch p.c.Act() {
	case arch.GELU:
		return x * 0.5 * (1 + math.Erf(x/math.Sqrt2))
	case arch.ReLU:
		return max(x, 0)
	case arch.XIELU: // with α of the parabola and of the exponential
		c := p.c.Curves
		soft := func(x float32) float64 { return math.Log1p(math.Exp(float64(x))) }
		beta := float64(c.Slope[0])
		if x > 0 {
			return soft(c.Above[0])*x*x + beta*x
		}
		return (math.Expm1(min(x, float64(c.Least[0])))-x)*(beta+soft(c.Below[0])) + beta*x
	case arch.ReLU2:
		return max(x, 0) * max(x, 0)
	case arch.GELUTanh:
		return x * 0.5 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x / (1 + math.Exp(-x))
}

// rotate rotates a head by its position if its layer does.
func (p paper) rotate(x []float64, layer, pos int) {
	if !p.c.Rotated(layer) {
		return
	}
	r, divisors := p.c.Rope, p.get(arch.RopeFreqs)
	if r.Scaling == arch.LongRope {
		divisors = p.get(arch.RopeLong) // context longer than the original
	}
	if p.c.Local != nil && p.c.WindowOf(layer) > 0 {
		r, divisors = *p.c.Local, nil
	}
	scale := float64(r.AttentionFactor)
	if scale == 0 {
		scale = 1
	}
	n := r.Dims / 2
	for i := range n {
		angle := float64(pos) * math.Pow(float64(r.Base), -2*float64(i)/float64(r.Dims))
		if divisors != nil {
			angle /= float64(divisors[i])
		}
		a, b := 2*i, 2*i+1
		if r.Halves {
			a, b = i, i+n
		}
		cos, sin := math.Cos(angle)*scale, math.Sin(angle)*scale
		x[a], x[b] = x[a]*cos-x[b]*sin, x[a]*sin+x[b]*cos
	}
}

// heads returns the queries, keys or values of a position.
func (p paper) heads(block string, layer, pos int, x []float64, part string, n, at int) []float64 {
	name, d := block+"attn_"+part, p.c.HeadDim
	var out []float64
	if p.get(block+"attn_qkv.weight") != nil {
		out = p.product(block+"attn_qkv", x, at, n*d)
	} else {
		out = p.product(name, x, 0, n*d)
	}
	if part == "v" {
		return out
	}
	if p.y.HeadNorm == arch.WholeHeadNorm {
		out = p.norm(out, name+"_norm", 0)
	}
	for h := range n {
		head := out[h*d : (h+1)*d]
		if p.y.Turned {
			p.rotate(head, layer, pos)
			copy(head, p.norm(head, name+"_norm", 0))
			continue
		}
		switch p.y.HeadNorm {
		case arch.SharedNorm:
			copy(head, p.norm(head, name+"_norm", 0))
		case arch.SeparateNorm:
			copy(head, p.norm(head, name+"_norm", h*d))
		}
		p.rotate(head, layer, pos)
	}
	return out
}

// feed computes the feed-forward half.
func (p paper) feed(block string, x []float64) []float64 {
	join := func(gate, up []float64) []float64 {
		if p.c.Act() == arch.ClampedSiLU {
			for i, g := range gate {
				g = min(g, 7)
				gate[i] = (max(-7, min(7, up[i])) + 1) * g / (1 + math.Exp(-1.702*g))
			}
			return gate
		}
		for i := range gate {
			gate[i] = p.act(gate[i])
			if up != nil {
				gate[i] *= up[i]
			}
		}
		return gate
	}
	f := p.c.Hidden
	switch {
	case p.get(block+"ffn_gate_inp.weight") != nil:
		return p.mixture(block, x, join)
	case !p.y.Gated:
		return p.product(block+"ffn_down", join(p.product(block+"ffn_up", x, 0, f), nil), 0, p.c.Width)
	case p.y.FusedGate:
		return p.product(block+"ffn_down", join(p.product(block+"ffn_up", x, 0, f), p.product(block+"ffn_up", x, f, f)), 0, p.c.Width)
	}
	return p.product(block+"ffn_down", join(p.product(block+"ffn_gate", x, 0, f), p.product(block+"ffn_up", x, 0, f)), 0, p.c.Width)
}

func (p paper) mixture(block string, x []float64, join func(a, b []float64) []float64) []float64 {
	weight := p.product(block+"ffn_gate_inp", x, 0, p.c.Experts)
	var all, chosen float64
	for e := range weight {
		weight[e] = math.Exp(weight[e])
		if p.c.ExpertSigmoid {
			weight[e] /= 1 + weight[e]
		}
		all += weight[e]
	}
	score := slices.Clone(weight)
	for e, bias := range p.get(block + "exp_probs_b.bias") {
		if !p.c.ExpertSigmoid {
			score[e] /= all
		}
		score[e] += float64(bias)
	}
	better := func(e int) (n int) {
		for _, v := range score {
			if v > score[e] {
				n++
			}
		}
		return n
	}
	for e, v := range weight {
		if better(e) < p.c.ExpertsUsed {
			chosen += v
		}
	}
	if p.c.ExpertSum && p.c.ExpertSigmoid {
		chosen = 1
	} else if p.c.ExpertSum {
		chosen = all
	}
	if p.c.ExpertScale != 0 {
		chosen /= float64(p.c.ExpertScale)
	}
	out, f := make([]float64, p.c.Width), p.c.ExpertHidden
	for e, v := range weight {
		if better(e) >= p.c.ExpertsUsed {
			continue
		}
		h := join(p.product(block+"ffn_gate_exps", x, e*f, f), p.product(block+"ffn_up_exps", x, e*f, f))
		for i, o := range p.product(block+"ffn_down_exps", h, e*p.c.Width, p.c.Width) {
			out[i] += v / chosen * o
		}
	}
	if f := p.c.SharedHidden; f > 0 {
		share := 1.0
		if gate := p.get(block + "ffn_gate_inp_shexp.weight"); gate != nil {
			var dot float64
			for i, v := range x {
				dot += v * float64(gate[i])
			}
			share = 1 / (1 + math.Exp(-dot))
		}
		h := join(p.product(block+"ffn_gate_shexp", x, 0, f), p.product(block+"ffn_up_shexp", x, 0, f))
		for i, o := range p.product(block+"ffn_down_shexp", h, 0, p.c.Width) {
			out[i] += share * o
		}
	}
	return out
}

// attention computes softmax(q·k)·v of the last position of q.
func (p paper) attention(layer, t int, q []float64, k, v [][]float64) []float64 {
	d, out := p.c.HeadDim, make([]float64, p.c.Heads*p.c.HeadDim)
	scale := float64(p.c.AttentionScale)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d))
		if p.y.Unscaled {
			scale = 1
		}
	}
	if p.c.Cooling != 0 {
		scale *= 1 + float64(p.c.Cooling)*math.Log(1+math.Floor(float64(t)/float64(p.c.Rope.OriginalContext)))
	}
	from := 0
	if w := p.c.WindowOf(layer); w > 0 {
		from = max(0, t-w+1)
	}
	for h := range p.c.Heads {
		kh, sum := h*p.c.KVHeads/p.c.Heads, 0.0
		score := make([]float64, t+1)
		for s := from; s <= t; s++ {
			for i := range d {
				score[s] += q[h*d+i] * k[s][kh*d+i] * scale
			}
			if p.y.ALiBi {
				score[s] -= slope(h, p.c.Heads) * float64(t-s)
			}
			if limit := float64(p.c.AttentionCap); limit != 0 {
				score[s] = limit * math.Tanh(score[s]/limit)
			}
			score[s] = math.Exp(score[s])
			sum += score[s]
		}
		if sinks := p.get(fmt.Sprintf("blk.%d.attn_sinks.weight", layer)); sinks != nil {
			sum += math.Exp(float64(sinks[h]))
		}
		for s := from; s <= t; s++ {
			for i := range d {
				out[h*d+i] += score[s] / sum * v[s][kh*d+i]
			}
		}
	}
	return out
}

// slope returns the slope of a head by ALiBi's recipe: for a power of 2, the geometric
// sequence that ends in 2^-8; otherwise that of the power below, followed by every
// second one of the power above.
func slope(head, heads int) float64 {
	pow := math.Exp2(math.Floor(math.Log2(float64(heads))))
	start := math.Exp2(-8 / pow)
	if float64(head) < pow {
		return math.Pow(start, float64(head+1))
	}
	return math.Pow(math.Sqrt(start), 2*(float64(head)-pow)+1)
}

func (p paper) logits(tokens []int32) []float64 {
	c := p.c
	x := make([][]float64, len(tokens))
	scale := 1.0
	if p.y.RootWidth {
		scale = math.Sqrt(float64(c.Width))
	}
	if c.EmbeddingScale != 0 {
		scale *= float64(c.EmbeddingScale)
	}
	for t, token := range tokens {
		x[t] = make([]float64, c.Width)
		for i := range x[t] {
			x[t][i] = float64(p.get(arch.TokenEmbedding)[int(token)*c.Width+i]) * scale
			if p.y.Learned {
				x[t][i] += float64(p.get(arch.Positions)[t*c.Width+i])
			}
		}
		if p.y.EmbeddingNorm {
			x[t] = p.norm(x[t], arch.EmbeddingNorm, 0)
		}
	}
	residual := 1.0
	if c.ResidualScale != 0 {
		residual = float64(c.ResidualScale)
	}
	add := func(to, what []float64) {
		for i := range to {
			to[i] += residual * what[i]
		}
	}
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for l := range c.Layers {
		b := fmt.Sprintf("blk.%d.", l)
		q, k, v := make([][]float64, len(x)), make([][]float64, len(x)), make([][]float64, len(x))
		for t := range x {
			first := b + "attn_norm"
			if p.get(first+"_2.weight") != nil {
				first += "_2"
			}
			h := p.norm(x[t], first, 0)
			q[t], k[t], v[t] = p.heads(b, l, t, h, "q", c.Heads, 0), p.heads(b, l, t, h, "k", c.KVHeads, queries), p.heads(b, l, t, h, "v", c.KVHeads, queries+keys)
		}
		for t := range x {
			o := p.product(b+"attn_output", p.attention(l, t, q[t], k, v), 0, c.Width)
			second := b + "ffn_norm"
			if p.y.SharedInput && c.Parallel {
				second = b + "attn_norm"
			}
			post := b + "post_attention_norm"
			if c.Arch == "gpt-oss" || c.Arch == "seed_oss" || c.Arch == "glm4moe" { // the name of the second norm there
				second, post = post, ""
			}
			h := p.norm(x[t], second, 0)
			add(x[t], p.norm(o, post, 0))
			if !c.Parallel {
				h = p.norm(x[t], second, 0)
			}
			add(x[t], p.norm(p.feed(b, h), b+"post_ffw_norm", 0))
		}
	}
	output := "output"
	if _, untied := p.w[arch.Output]; !untied {
		output = "token_embd"
	}
	out := p.product(output, p.norm(x[len(x)-1], arch.OutputNorm, 0), 0, c.Vocab)
	bias := p.get(arch.OutputBias)
	for i := range out {
		if output != "output" && bias != nil {
			out[i] += float64(bias[i])
		}
		if c.LogitDivisor != 0 {
			out[i] /= float64(c.LogitDivisor)
		}
		if limit := float64(c.LogitCap); limit != 0 {
			out[i] = limit * math.Tanh(out[i]/limit)
		}
	}
	return out
}

// TestAgainstPaper compares every architecture with the formulas, with tied and
// untied outputs.
func TestAgainstPaper(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	for _, name := range arch.Known() {
		for _, n := range []int{5, 300} {
			cfg := small(name)
			if cfg.Latent != nil || cfg.Mixer != nil || cfg.Altup != nil {
				continue // core/hf compares these with transformers
			}
			if n == 5 && cfg.Window > 0 {
				cfg.Window = 3
			}
			if name == "qwen3moe" && n == 5 {
				cfg.ExpertSum = true
			}
			weights := weightsOf(cfg, uint64(n))
			s := open(t, cfg, weights, SessionOptions{KV: "f32"})
			tokens := draw(n, cfg.Vocab)
			if err := s.Feed(t.Context(), tokens); err != nil {
				t.Fatal(err)
			}
			want := formulas(cfg, weights).logits(tokens)
			for i, v := range s.Logits() {
				if !(math.Abs(float64(v)-want[i]) < 2e-4*max(1, math.Abs(want[i]))) {
					t.Errorf("%s, %d tokens: logit %d is %v, by the formulas %v", name, n, i, v, want[i])
					break
				}
			}
		}
	}
}
