package infer

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

func (m *Model) load(l *loader) {
	c := m.cfg
	y := c.Style()
	l.begin("", c.Globals())
	m.embedding = l.embedding(arch.TokenEmbedding, c.Width, c.Vocab)
	m.positions = l.vector(arch.Positions, c.Width*c.Context)
	m.outputNorm = l.norm(c.OutputNorm(), c.Width, y)
	if y.EmbeddingNorm {
		m.inputNorm = l.norm(arch.EmbeddingNorm, c.Width, y)
	}
	if y.ALiBi {
		m.slopes = arch.Slopes(c.Heads)
	}
	if l.there(arch.Output) {
		m.output = l.linear("output", c.Width, c.Vocab)
	} else {
		m.output = l.linear("token_embd", c.Width, c.Vocab)
		m.output.bias = l.vector(arch.OutputBias, c.Vocab)
	}
	if c.Rope.Scaling == arch.LongRope {
		m.ropeShort = l.divisors(arch.RopeShort, c.Rope.Dims/2)
		m.ropeLong = l.divisors(arch.RopeLong, c.Rope.Dims/2)
	} else {
		m.ropeShort = l.divisors(arch.RopeFreqs, c.Rope.Dims/2)
		m.ropeLong = m.ropeShort
	}
	if m.many = c.Altup != nil && c.Altup.Streams > 1; c.Altup != nil && c.Altup.PerLayer > 0 {
		m.altup = &altup{}
		m.altup.load(l, c)
	}
	m.layers = make([]layer, c.Layers)
	slot, at := 0, 0
	for i := range m.layers {
		l.begin(arch.Block(i), c.Layer(i, l.there))
		m.layers[i].slot, m.layers[i].cutoff, m.layers[i].wide = slot, c.Cutoff(i), c.HiddenOf(i)
		m.layers[i].dim, m.layers[i].keyHeads, m.layers[i].values = c.HeadDimOf(i), c.KVHeadsOf(i), c.HeadDimOf(i)
		if c.Latent != nil {
			m.layers[i].values = c.Latent.Rank
		}
		m.layers[i].lone = c.Feeding != nil
		if c.Feeds(i) {
			m.layers[i].hiddenNorm = l.norm("attn_norm", c.Width, c.Style())
			m.layers[i].loadFeed(l, c, i)
			continue
		}
		if c.Recurs(i) {
			m.layers[i].loadRecurrent(l, c, i, at)
			at += c.Mixer.Memory(c.Width)
			continue
		}
		if at := c.KeysOf(i); at != i {
			m.layers[i].slot, m.layers[i].shares = m.layers[at].slot, true
		} else {
			slot++
		}
		m.layers[i].load(l, c, i)
		m.layers[i].window = c.WindowOf(i)
		switch {
		case !c.Rotated(i):
			m.layers[i].rotation = -1
		case m.layers[i].window > 0 && c.Local != nil:
			m.layers[i].rotation = 1
		}
	}
	m.act, m.gates = c.Act(), y.QueryGates
	m.embeddingScale, m.attentionScale = 1, c.QueryScale()
	if y.RootWidth {
		m.embeddingScale = float32(math.Sqrt(float64(c.Width)))
	}
	if c.EmbeddingScale != 0 {
		m.embeddingScale *= c.EmbeddingScale
	}
}

// loadRecurrent loads a layer with a state.
func (y *layer) loadRecurrent(l *loader, c Config, i, at int) {
	y.attentionNorm = l.norm("attn_norm", c.Width, c.Style())
	y.loadMixer(l, c, at)
	if c.Hidden > 0 && !y.lone {
		name := "ffn_norm"
		if !l.expects(name + ".weight") {
			name = "post_attention_norm"
		}
		y.hiddenNorm = l.norm(name, c.Width, c.Style())
		y.loadFeed(l, c, i)
	}
}

func (y *layer) load(l *loader, c Config, i int) {
	style := c.Style()
	queries, keys := c.Heads*y.dim, y.keyHeads*y.dim
	y.attentionNorm = l.norm("attn_norm", c.Width, style)
	// Weights are in memory in load order, which is the order of use.
	switch {
	case c.Latent != nil:
		y.loadLatent(l, c)
		queries = c.Heads * c.Latent.Value
	case l.expects("attn_qkv.weight"):
		parts := l.linears("attn_qkv", c.Width, queries, keys, keys)
		y.query, y.key, y.value = parts[0], parts[1], parts[2]
	case y.shares:
		y.query = l.linear("attn_q", c.Width, queries)
	default:
		y.key = l.linear("attn_k", c.Width, keys)
		y.value = l.linear("attn_v", c.Width, keys)
		if style.QueryGates {
			y.query = l.linear("attn_q", c.Width, 2*queries)
		} else {
			y.query = l.linear("attn_q", c.Width, queries)
		}
	}
	y.queryNorm = l.headNorm("attn_q_norm.weight", c.Heads, y.dim, style)
	if !y.shares {
		y.keyNorm = l.headNorm("attn_k_norm.weight", y.keyHeads, y.dim, style)
	}
	if style.ValueNorm {
		y.valueNorm.gain = slices.Repeat([]float32{1}, y.dim)
	}
	y.attentionOut = l.linear("attn_output", queries, c.Width)
	y.attentionPost = l.norm("post_attention_norm", c.Width, style)
	y.hiddenNorm = l.norm("ffn_norm", c.Width, style)
	if style.Sinks {
		y.sinks = l.vector("attn_sinks.weight", c.Heads)
	}
	if !style.PostNorm && l.expects("post_attention_norm.weight") { // another name
		y.hiddenNorm, y.attentionPost = y.attentionPost, norm{}
	}
	if c.Parallel && !l.expects("ffn_norm.weight") {
		y.hiddenNorm = y.attentionNorm
		if two := l.norm("attn_norm_2", c.Width, style); two.gain != nil {
			y.attentionNorm = two
		}
	}
	y.hiddenPost = l.norm("post_ffw_norm", c.Width, style)
	if c.Altup != nil {
		y.loadAltup(l, c)
	}
	if !y.lone {
		y.loadFeed(l, c, i)
	}
}

// loadFeed loads the feed-forward half.
func (y *layer) loadFeed(l *loader, c Config, i int) {
	switch style := c.Style(); {
	case l.expects("ffn_gate_inp.weight"):
		y.loadExperts(l, c)
		if style.Joined {
			y.loadDense(l, c)
		}
	case !style.Gated:
		if c.Curves != nil {
			y.feed.curve = newCurve(c.Curves, i)
		}
		y.feed.up = l.linear("ffn_up", c.Width, y.wide)
		y.feed.down = l.linear("ffn_down", y.wide, c.Width)
	case l.expects("ffn_gate.weight"):
		y.loadDense(l, c)
	default:
		parts := l.linears("ffn_up", c.Width, c.Hidden, c.Hidden)
		y.feed.gate, y.feed.up = parts[0], parts[1]
		y.feed.down = l.linear("ffn_down", c.Hidden, c.Width)
	}
}

// loadDense loads a feed-forward layer with a gate.
func (y *layer) loadDense(l *loader, c Config) {
	y.feed.gate = l.linear("ffn_gate", c.Width, y.wide)
	y.feed.up = l.linear("ffn_up", c.Width, y.wide)
	y.feed.down = l.linear("ffn_down", y.wide, c.Width)
}

// loadExperts loads the router and the experts, which are in one tensor of
// three dimensions or, in older files, in one for each.
func (y *layer) loadExperts(l *loader, c Config) {
	y.router = l.linear("ffn_gate_inp", c.Width, c.Experts)
	y.routerBias = l.vector("exp_probs_b.bias", c.Experts)
	if y.routerNorm.gain = l.vector(arch.RouterScale, c.Width); y.routerNorm.gain != nil {
		tensor.Scale(y.routerNorm.gain, float32(1/math.Sqrt(float64(c.Width))))
		y.expertNorm, y.densePost, y.expertPost = l.norm("pre_ffw_norm_2", c.Width, c.Style()), l.norm("post_ffw_norm_1", c.Width, c.Style()), l.norm("post_ffw_norm_2", c.Width, c.Style())
		y.expertScales = l.vector(arch.ExpertScales, c.Experts)
	}
	y.experts = make([]feed, c.Experts)
	gates, ups := l.vector("ffn_gate_exps.bias", c.Experts*c.ExpertHidden), l.vector("ffn_up_exps.bias", c.Experts*c.ExpertHidden)
	downs := l.vector("ffn_down_exps.bias", c.Experts*c.Width)
	y.loadShared(l, c)
	for e := range y.experts {
		if l.expects("ffn_gate.0.weight") {
			name := func(part string) string { return fmt.Sprintf("%s.%d", part, e) }
			y.experts[e] = feed{
				gate: l.linear(name("ffn_gate"), c.Width, c.ExpertHidden),
				up:   l.linear(name("ffn_up"), c.Width, c.ExpertHidden),
				down: l.linear(name("ffn_down"), c.ExpertHidden, c.Width),
			}
			continue
		}
		if !c.Style().Gated {
			y.experts[e] = feed{up: l.slice("ffn_up_exps", ups, e, c.Experts, c.Width, c.ExpertHidden), down: l.slice("ffn_down_exps", downs, e, c.Experts, c.ExpertHidden, c.Width)}
			continue
		}
		if l.expects(arch.GateUpExperts) {
			y.experts[e] = feed{
				gate: l.slice("ffn_gate_up_exps", nil, 2*e, 2*c.Experts, c.Width, c.ExpertHidden),
				up:   l.slice("ffn_gate_up_exps", nil, 2*e+1, 2*c.Experts, c.Width, c.ExpertHidden),
				down: l.slice("ffn_down_exps", nil, e, c.Experts, c.ExpertHidden, c.Width),
			}
			y.experts[e].gate.expert, y.experts[e].up.expert = e, e
			continue
		}
		y.experts[e] = feed{
			gate: l.slice("ffn_gate_exps", gates, e, c.Experts, c.Width, c.ExpertHidden),
			up:   l.slice("ffn_up_exps", ups, e, c.Experts, c.Width, c.ExpertHidden),
			down: l.slice("ffn_down_exps", downs, e, c.Experts, c.ExpertHidden, c.Width),
		}
	}
}

// loadShared loads the expert that every position passes, if the model has one.
func (y *layer) loadShared(l *loader, c Config) {
	if c.SharedHidden == 0 {
		return
	}
	y.sharedGate = l.vector("ffn_gate_inp_shexp.weight", c.Width)
	y.feed = feed{up: l.linear("ffn_up_shexp", c.Width, c.SharedHidden), down: l.linear("ffn_down_shexp", c.SharedHidden, c.Width)}
	if c.Style().Gated {
		y.feed.gate = l.linear("ffn_gate_shexp", c.Width, c.SharedHidden)
	}
}

// loader reads tensors and keeps the first error. Names are relative to the
// part being loaded.
type loader struct {
	tensors Tensors
	threads *pool.Pool
	arena   panel.Arena
	prefix  string
	want    map[string]arch.Tensor

	adapters []adapter.Adapter
	merge    bool
	err      error
}

func (l *loader) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// begin selects the part of the model whose tensors follow.
func (l *loader) begin(prefix string, want []arch.Tensor) {
	l.prefix, l.want = prefix, make(map[string]arch.Tensor, len(want))
	for _, t := range want {
		l.want[t.Name] = t
	}
}

// expects reports whether the part has a tensor of that name.
func (l *loader) expects(name string) bool {
	_, ok := l.want[l.prefix+name]
	return ok
}

// there reports whether a tensor exists, by its full name.
func (l *loader) there(name string) bool {
	_, ok := l.tensors.Tensor(name)
	return ok
}

// find returns a tensor of the part with the expected dimensions, or false if
// it is absent and optional, and after an error.
func (l *loader) find(name string) (gguf.Tensor, bool) {
	want, ok := l.want[l.prefix+name]
	if !ok || l.err != nil {
		return gguf.Tensor{}, false
	}
	t, ok := l.tensors.Tensor(want.Name)
	if !ok {
		if !want.Optional {
			l.fail(fmt.Errorf("missing tensor %s", want.Name))
		}
		return gguf.Tensor{}, false
	}
	if err := want.Fits(t.Dims); err != nil {
		l.fail(err)
		return gguf.Tensor{}, false
	}
	t.Dims = want.Dims
	return t, true
}

// embedding loads a vector of each token.
func (l *loader) embedding(name string, width, vocab int) *embedding {
	e, ok := l.find(name)
	switch {
	case !ok:
	case !quant.CanDequantize(e.Type):
		l.fail(fmt.Errorf("tensor %s: unsupported type %v", e.Name, e.Type))
	case width%e.Type.BlockSize() != 0 || len(e.Data) != vocab*e.Type.RowBytes(width):
		l.fail(fmt.Errorf("tensor %s: got %d bytes of data", e.Name, len(e.Data)))
	}
	return &embedding{typ: e.Type, data: e.Data, release: l.arena.Release}
}

// linear loads a matrix, its bias, if any, and its changes.
func (l *loader) linear(name string, in, out int) linear { return l.linears(name, in, out)[0] }

// linears loads matrices with the same input that are stacked in one tensor.
func (l *loader) linears(name string, in int, outs ...int) []linear {
	parts := make([]linear, len(outs))
	rows := 0
	for _, out := range outs {
		rows += out
	}
	bias := l.vector(name+".bias", rows)
	t, ok := l.find(name + ".weight")
	if !ok {
		return parts
	}
	changes, err := l.changes(t.Name, t)
	if err != nil {
		l.fail(err)
		return parts
	}
	if l.merge && len(changes) > 0 {
		t, changes = mergeChanges(t, changes), nil
	}
	lo := 0
	for i, out := range outs {
		parts[i] = linear{weight: l.pack(t, in, rows, lo, lo+out), changes: part(changes, lo, lo+out), name: t.Name}
		if bias != nil {
			parts[i].bias = bias[lo : lo+out]
		}
		lo += out
	}
	return parts
}

// slice loads expert e's matrix from a tensor of n, and its part of the biases of
// all, which may be nil.
func (l *loader) slice(name string, biases []float32, e, n, in, out int) linear {
	t, ok := l.find(name + ".weight")
	if !ok {
		return linear{}
	}
	y := linear{weight: l.pack(t, in, n*out, e*out, (e+1)*out), name: t.Name, expert: e}
	if biases != nil {
		y.bias = biases[e*out : (e+1)*out]
	}
	return y
}

// pack packs the rows lo to hi of a tensor.
func (l *loader) pack(t gguf.Tensor, in, rows, lo, hi int) *panel.Matrix {
	if !panel.Supported(t.Type) {
		l.fail(fmt.Errorf("tensor %s: unsupported weight type %v", t.Name, t.Type))
		return nil
	}
	if in%t.Type.BlockSize() != 0 || len(t.Data) != rows*t.Type.RowBytes(in) {
		l.fail(fmt.Errorf("tensor %s: %d × %d weights of type %v: got %d bytes", t.Name, rows, in, t.Type, len(t.Data)))
		return nil
	}
	size := t.Type.RowBytes(in)
	w, err := panel.New(t.Type, hi-lo, in, t.Data[lo*size:hi*size], l.threads, &l.arena)
	if err != nil {
		l.fail(fmt.Errorf("tensor %s: %w", t.Name, err))
	}
	return w
}

// vector loads n numbers as float32, or nil if the tensor is absent and
// optional.
func (l *loader) vector(name string, n int) []float32 {
	t, ok := l.find(name)
	if !ok {
		return nil
	}
	if t.Type.BlockSize() == 0 || n%t.Type.BlockSize() != 0 || !quant.CanDequantize(t.Type) || len(t.Data) != t.Type.RowBytes(n) {
		l.fail(fmt.Errorf("tensor %s: got type %v, want plain numbers", t.Name, t.Type))
		return nil
	}
	v := make([]float32, n)
	quant.Dequantize(v, t.Data, t.Type)
	return v
}

// norm loads the gains of a norm and its bias, if any.
func (l *loader) norm(name string, n int, y arch.Style) norm {
	return norm{gain: l.vector(name+".weight", n), bias: l.vector(name+".bias", n), mean: y.LayerNorm}
}

// headNorm loads the gains for queries or keys.
func (l *loader) headNorm(name string, heads, dim int, y arch.Style) headNorm {
	h := headNorm{norm: norm{mean: y.LayerNorm}, kind: y.HeadNorm, last: y.Turned}
	switch y.HeadNorm {
	case arch.SharedNorm:
		h.gain = l.vector(name, dim)
	case arch.SeparateNorm, arch.WholeHeadNorm:
		h.gain = l.vector(name, heads*dim)
	}
	return h
}

// divisors loads the divisors of RoPE's frequencies.
func (l *loader) divisors(name string, n int) []float32 {
	v := l.vector(name, n)
	for i, x := range v {
		if !(x > 0) || math.IsInf(float64(x), 0) {
			l.fail(fmt.Errorf("tensor %s: got divisor %v at %d, want a positive number", name, x, i))
			return nil
		}
	}
	return v
}
