package llm

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Tensor is a named weight and its gradient.
type Tensor[F tensor.Float] = nn.Tensor[F]

// specs lists the tensors of a model in the order of its memory. Matrices with
// the same input are adjacent, so that one product serves them: query, key,
// value; gate, up. The names are those of GGUF.
func (c Config) specs() []nn.Spec {
	all := []nn.Spec{{Name: "token_embd.weight", Layer: -1, Shape: []int{c.Vocab, c.Dim}}}
	if c.EmbedNorm {
		all = append(all, nn.Spec{Name: "token_embd_norm.weight", Layer: -1, Vector: true, Shape: []int{c.Dim}})
	}
	for l := range c.Layers {
		all = append(all, c.blockSpecs(l)...)
	}
	all = append(all, nn.Spec{Name: "output_norm.weight", Layer: -1, Vector: true, Shape: []int{c.Dim}})
	if !c.Tied {
		all = append(all, nn.Spec{Name: "output.weight", Layer: -1, Shape: []int{c.Vocab, c.Dim}})
	}
	return all
}

func (c Config) blockSpecs(l int) []nn.Spec {
	var all []nn.Spec
	add := func(name string, vector bool, shape ...int) {
		all = append(all, nn.Spec{Name: fmt.Sprintf("blk.%d.%s.weight", l, name), Layer: l, Vector: vector, Shape: shape})
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

// Model holds the weights of a GPT.
type Model[F tensor.Float] struct {
	Config Config // defaults filled in
	*nn.Params[F]

	embed     *Tensor[F]
	embedNorm nn.Norm[F] // no gain without Config.EmbedNorm
	blocks    []block[F]
	norm      nn.Norm[F]
	head      *nn.Linear[F]
	fresh     bool
}

// block holds the weights of one layer.
type block[F tensor.Float] struct {
	norm1, norm2 nn.Norm[F]
	attn         *nn.Attention[F] // attn or mix is set
	mix          *timeMix[F]
	out          *nn.Linear[F] // [C, H·D]
	ffn          *nn.FFN[F]
}

// New allocates a model with all weights zero and nothing frozen; see Init.
func New[F tensor.Float](c Config) (*Model[F], error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("model configuration: %w", err)
	}
	c = c.WithDefaults()
	m := &Model[F]{Config: c, Params: nn.NewParams[F](c.specs())}
	m.wire()
	return m, nil
}

// NewStored allocates a model whose matrices are frozen and stored in the form
// that stored returns, such as quantized, without float32 copies. All vectors
// are zero. It is for low-rank adapters: see [Model.Adapt].
func NewStored(c Config, stored func(name string) (nn.Rows, error)) (*Model[float32], error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("model configuration: %w", err)
	}
	c = c.WithDefaults()
	if c.Mixer != Attention {
		return nil, fmt.Errorf("stored weights require mixer %q, got %q", Attention, c.Mixer)
	}
	specs := c.specs()
	for i := range specs {
		if specs[i].Vector {
			continue
		}
		var err error
		if specs[i].Stored, err = stored(specs[i].Name); err != nil {
			return nil, err
		}
	}
	m := &Model[float32]{Config: c, Params: nn.NewParams[float32](specs)}
	m.wire()
	return m, nil
}

// IsStored reports whether the matrices are stored, see [NewStored]. Such a
// model cannot be merged, untied or exported.
func (m *Model[F]) IsStored() bool { return m.embed.Stored != nil }

// wire creates the layers on their tensors.
func (m *Model[F]) wire() {
	c := m.Config
	m.embed, m.embedNorm, m.norm = m.Tensor("token_embd.weight"), m.rms("token_embd_norm.weight"), m.rms("output_norm.weight")
	m.head = m.Linear("output.weight")
	if c.Tied {
		m.head = m.Linear(m.embed.Name)
	}
	for l := range c.Layers {
		at := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", l, name) }
		b := block[F]{norm1: m.rms(at("attn_norm")), norm2: m.rms(at("ffn_norm"))}
		if c.Mixer == RWKV {
			b.mix = m.timeMix(at)
			b.out = m.Linear(at("time_mix_output"))
		} else {
			b.attn = &nn.Attention[F]{
				Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Causal: true,
				QKV:   m.Linear(at("attn_q"), at("attn_k"), at("attn_v")),
				QNorm: m.rms(at("attn_q_norm")), KNorm: m.rms(at("attn_k_norm")),
			}
			b.out = m.Linear(at("attn_output"))
		}
		b.ffn = &nn.FFN[F]{Up: m.Linear(at("ffn_up")), Down: m.Linear(at("ffn_down")), Gated: c.Activation == SwiGLU}
		if b.ffn.Gated {
			b.ffn.Up = m.Linear(at("ffn_gate"), at("ffn_up"))
		}
		m.blocks = append(m.blocks, b)
	}
}

// rms returns the norm with the named gain. Without the tensor, the gain is
// nil.
func (m *Model[F]) rms(gain string) nn.Norm[F] {
	return nn.Norm[F]{Gain: m.Tensor(gain), Eps: F(m.Config.NormEps)}
}

// Untie returns m with a separate head, a copy of the embedding, so that one
// can train while the other is frozen. It returns m itself if the head is not
// tied.
func (m *Model[F]) Untie() (*Model[F], error) {
	if !m.Config.Tied {
		return m, nil
	}
	if m.IsStored() {
		return nil, errors.New("cannot untie the head of a model with quantized weights")
	}
	if len(m.Adapters()) > 0 {
		return nil, errors.New("cannot untie the head of a model with adapters: merge them first")
	}
	c := m.Config
	c.Tied = false
	u, err := New[F](c)
	if err != nil {
		return nil, err
	}
	for _, t := range u.Tensors() {
		from := m.Tensor(t.Name)
		if from == nil { // the head
			from = m.embed
		}
		copy(t.Data, from.Data)
	}
	return u, nil
}

// linears lists every matrix product of the model once.
func (m *Model[F]) linears() []*nn.Linear[F] {
	all := []*nn.Linear[F]{m.head}
	for i := range m.blocks {
		b := &m.blocks[i]
		if b.mix != nil {
			all = append(all, b.mix.r, b.mix.k, b.mix.v)
		} else {
			all = append(all, b.attn.QKV)
		}
		all = append(all, b.out, b.ffn.Up, b.ffn.Down)
	}
	return all
}

// Refresh packs weights for the matrix products: all the first time, later
// those that train. The caller must call it after weights change and before the
// next pass. If p is nil, it uses one thread.
func (m *Model[F]) Refresh(p *pool.Pool) {
	all, everything := m.linears(), !m.fresh
	m.fresh = true
	each(p, len(all), func(_, lo, hi int) {
		for _, l := range all[lo:hi] {
			l.Pack(everything)
		}
	})
}

// Stale makes the next Refresh pack every weight, including frozen ones, after
// weights were loaded.
func (m *Model[F]) Stale() { m.fresh = false }

// each runs n parts on the pool, or in order if p is nil.
func each(p *pool.Pool, n int, f pool.Func) {
	if p == nil {
		f(0, 0, n)
		return
	}
	p.For(n, 1, f)
}
