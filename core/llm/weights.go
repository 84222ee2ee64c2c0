package llm

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// Tensor is one named weight and its gradient.
type Tensor[F tensor.Float] struct {
	Name  string
	Shape []int // outermost first: [outputs, inputs] for a matrix
	Layer int   // its block, -1 outside the blocks
	Data  []F
	Grad  []F // nil when frozen

	// spread marks what is no matrix: it is applied element by element, its
	// gradient is summed over sequences apart, and no decay belongs on it.
	spread bool
	at     int // offset of a spread tensor in a sequence's gradient

	offset     int // in Model.data, for stacked matrices
	gradOffset int // in Model.grads, when Grad is set
}

// Matrix reports whether t multiplies: weight decay and Muon apply to these.
func (t *Tensor[F]) Matrix() bool { return !t.spread }

// spec is a tensor before it has memory.
type spec struct {
	name   string
	layer  int
	vector bool
	shape  []int
}

func (s spec) size() int {
	n := 1
	for _, d := range s.shape {
		n *= d
	}
	return n
}

// specs lists the tensors of a model in the order of its memory. Matrices that
// multiply the same input lie beside each other, so that one product serves
// them: query, key, value; gate, up. The names are those of GGUF.
func (c Config) specs() []spec {
	all := []spec{{"token_embd.weight", -1, false, []int{c.Vocab, c.Dim}}}
	if c.EmbedNorm {
		all = append(all, spec{"token_embd_norm.weight", -1, true, []int{c.Dim}})
	}
	for l := range c.Layers {
		all = append(all, c.blockSpecs(l)...)
	}
	all = append(all, spec{"output_norm.weight", -1, true, []int{c.Dim}})
	if !c.Tied {
		all = append(all, spec{"output.weight", -1, false, []int{c.Vocab, c.Dim}})
	}
	return all
}

func (c Config) blockSpecs(l int) []spec {
	var all []spec
	add := func(name string, vector bool, shape ...int) {
		all = append(all, spec{fmt.Sprintf("blk.%d.%s.weight", l, name), l, vector, shape})
	}
	wide, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	add("attn_norm", true, c.Dim)
	if c.Mixer == RWKV {
		for _, n := range []string{"lerp_r", "lerp_k", "lerp_v"} {
			add("time_mix_"+n, true, c.Dim)
		}
		add("time_mix_receptance", false, wide, c.Dim)
		add("time_mix_key", false, wide, c.Dim)
		add("time_mix_value", false, wide, c.Dim)
		add("time_mix_decay", true, c.Heads, c.HeadDim)
		add("time_mix_first", true, c.Heads, c.HeadDim)
		add("time_mix_ln", true, wide)
		add("time_mix_output", false, c.Dim, wide)
	} else {
		add("attn_q", false, wide, c.Dim)
		add("attn_k", false, kv, c.Dim)
		add("attn_v", false, kv, c.Dim)
		if c.QKNorm {
			add("attn_q_norm", true, c.HeadDim)
			add("attn_k_norm", true, c.HeadDim)
		}
		add("attn_output", false, c.Dim, wide)
	}
	add("ffn_norm", true, c.Dim)
	if c.Activation == SwiGLU {
		add("ffn_gate", false, c.Hidden, c.Dim)
	}
	add("ffn_up", false, c.Hidden, c.Dim)
	add("ffn_down", false, c.Dim, c.Hidden)
	return all
}

// Model is the weights of a GPT.
type Model[F tensor.Float] struct {
	Config Config // defaults filled in

	tensors   []*Tensor[F]
	adapters  []*Tensor[F] // LoRA matrices, if any
	embed     *Tensor[F]
	embedNorm *Tensor[F] // nil without Config.EmbedNorm
	blocks    []block[F]
	norm      *Tensor[F]
	head      *linear[F]
	spreads   int // elements of all spread tensors
	data      []F // the weights in order
	grads     []F // the gradients of what trains, in the same order
	fresh     bool
}

// block is the weights of one layer.
type block[F tensor.Float] struct {
	norm1, norm2 *Tensor[F]
	qkv, out     *linear[F] // attention
	qNorm, kNorm *Tensor[F] // with Config.QKNorm
	mix          *timeMix[F]
	up, down     *linear[F] // up is gate and up stacked with SwiGLU
}

// New allocates a model with all weights zero and nothing frozen; see Init.
func New[F tensor.Float](c Config) (*Model[F], error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("model configuration: %w", err)
	}
	c = c.WithDefaults()
	m := &Model[F]{Config: c}
	m.data = make([]F, c.Parameters())
	end := 0
	for _, s := range c.specs() {
		t := &Tensor[F]{Name: s.name, Shape: s.shape, Layer: s.layer, spread: s.vector, offset: end}
		end += s.size()
		t.Data = m.data[t.offset:end:end]
		if t.spread {
			t.at = m.spreads
			m.spreads += len(t.Data)
		}
		m.tensors = append(m.tensors, t)
	}
	m.wire()
	m.Freeze(func(string) bool { return false })
	return m, nil
}

// wire points the layers at their tensors.
func (m *Model[F]) wire() {
	c := m.Config
	m.embed, m.norm = m.Tensor("token_embd.weight"), m.Tensor("output_norm.weight")
	m.embedNorm = m.Tensor("token_embd_norm.weight")
	m.head = m.linear(m.Tensor("output.weight"))
	if c.Tied {
		m.head = m.linear(m.embed)
	}
	for l := range c.Layers {
		at := func(name string) *Tensor[F] { return m.Tensor(fmt.Sprintf("blk.%d.%s.weight", l, name)) }
		b := block[F]{norm1: at("attn_norm"), norm2: at("ffn_norm"), qNorm: at("attn_q_norm"), kNorm: at("attn_k_norm")}
		if c.Mixer == RWKV {
			b.mix = m.timeMix(at)
			b.out = m.linear(at("time_mix_output"))
		} else {
			b.qkv = m.linear(at("attn_q"), at("attn_k"), at("attn_v"))
			b.out = m.linear(at("attn_output"))
		}
		b.up = m.linear(at("ffn_up"))
		if c.Activation == SwiGLU {
			b.up = m.linear(at("ffn_gate"), at("ffn_up"))
		}
		b.down = m.linear(at("ffn_down"))
		m.blocks = append(m.blocks, b)
	}
}

// Tensors lists the weights in the order of memory, then the LoRA matrices.
func (m *Model[F]) Tensors() []*Tensor[F] {
	return append(append([]*Tensor[F](nil), m.tensors...), m.adapters...)
}

// Tensor finds a weight by name; nil when there is none.
func (m *Model[F]) Tensor(name string) *Tensor[F] {
	for _, t := range m.Tensors() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Freeze decides anew which tensors train. A frozen tensor has no gradient and
// costs no gradient product; where everything below a layer is frozen the
// backward pass ends there. Passes made before Freeze are invalid after it.
func (m *Model[F]) Freeze(frozen func(name string) bool) {
	n := 0
	all := m.Tensors()
	for _, t := range all {
		t.Grad = nil
		if !frozen(t.Name) {
			n += len(t.Data)
		}
	}
	// One block of memory, in the order of the weights: gradients of stacked
	// matrices lie beside each other as the matrices do.
	m.grads = make([]F, n)
	end := 0
	for _, t := range all {
		if !frozen(t.Name) {
			t.gradOffset = end
			end += len(t.Data)
			t.Grad = m.grads[t.gradOffset:end:end]
		}
	}
}

// Untie is m with a head of its own, which starts as a copy of the embedding,
// so that one can train while the other is frozen; m itself where it has one.
func (m *Model[F]) Untie() (*Model[F], error) {
	if !m.Config.Tied {
		return m, nil
	}
	if len(m.adapters) > 0 {
		return nil, errors.New("untying a head beside adapters: merge them first")
	}
	c := m.Config
	c.Tied = false
	u, err := New[F](c)
	if err != nil {
		return nil, err
	}
	for _, t := range u.tensors {
		from := m.Tensor(t.Name)
		if from == nil { // the head
			from = m.embed
		}
		copy(t.Data, from.Data)
	}
	return u, nil
}

// linears lists every matrix product of the model once.
func (m *Model[F]) linears() []*linear[F] {
	all := []*linear[F]{m.head}
	for i := range m.blocks {
		b := &m.blocks[i]
		if b.mix != nil {
			all = append(all, b.mix.r, b.mix.k, b.mix.v)
		} else {
			all = append(all, b.qkv)
		}
		all = append(all, b.out, b.up, b.down)
	}
	return all
}

// Refresh packs weights for the matrix products: all of them the first time,
// later those that train. It must be called after weights change and before
// the next pass; p may be nil for one thread.
func (m *Model[F]) Refresh(p *pool.Pool) {
	all, everything := m.linears(), !m.fresh
	m.fresh = true
	each(p, len(all), func(_, lo, hi int) {
		for _, l := range all[lo:hi] {
			l.pack(everything)
		}
	})
}

// Stale makes the next Refresh pack every weight, frozen ones included: after
// weights were loaded.
func (m *Model[F]) Stale() { m.fresh = false }

// each does n pieces of work on the pool, or in order without one.
func each(p *pool.Pool, n int, f pool.Func) {
	if p == nil {
		f(0, 0, n)
		return
	}
	p.For(n, 1, f)
}
