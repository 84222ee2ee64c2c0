package hf

import (
	"encoding/json"
	"maps"
	"strings"

	"mm-abi.org/mm/core/gguf/arch"
)

// headOrder is an order of rows or columns by the heads of a delta rule, other than
// that of GGUF.
type headOrder uint8

const (
	// groupedMix: the rows of queries, keys and values are stored with those of gates,
	// by groups.
	groupedMix headOrder = iota + 1
	groupedGates
	// tiledMix: the rows of values follow those of queries and keys, by groups. In GGUF
	// the first heads of all groups precede the second ones.
	tiledMix
	tiledRows
	tiledHeads   // a row for each head
	tiledColumns // the same of columns
)

// deltaNames names the parts of delta rules between layers of attention.
func deltaNames(of map[string]string) names {
	all := map[string]string{
		"post_attention_norm": "post_attention_layernorm", "ssm_conv1d": "linear_attn.conv1d", "ssm_dt.bias": "linear_attn.dt_bias",
		"ssm_a": "linear_attn.A_log", "ssm_norm": "linear_attn.norm", "ssm_out": "linear_attn.out_proj",
	}
	maps.Copy(all, of)
	return llamaNames(all)
}

func qwen3NextNames(moe map[string]string) names {
	n := deltaNames(sharedNames(moe))
	maps.Copy(n.of, map[string]string{"attn_qkv": "linear_attn.in_proj_qkvz", "attn_gate": "linear_attn.in_proj_qkvz", "ssm_ba": "linear_attn.in_proj_ba"})
	n.order = map[string]headOrder{"attn_qkv": groupedMix, "attn_gate": groupedGates}
	return n
}

func qwen35Names(experts map[string]string) names {
	n := deltaNames(experts)
	maps.Copy(n.of, map[string]string{
		"attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z",
		"ssm_beta": "linear_attn.in_proj_b", "ssm_alpha": "linear_attn.in_proj_a",
	})
	n.order = map[string]headOrder{
		"attn_qkv": tiledMix, "ssm_conv1d": tiledMix, "attn_gate": tiledRows, "ssm_beta": tiledHeads, "ssm_alpha": tiledHeads,
		"ssm_dt.bias": tiledHeads, "ssm_a": tiledHeads, "ssm_out": tiledColumns,
	}
	return n
}

// byHeads orders the rows or columns of src by the heads of m, and returns the number
// of rows of its part.
func (s *source) byHeads(o headOrder, m *arch.Mixer, width int) (rows int) {
	per, dim := m.Heads/m.Groups, m.Inner/m.Heads
	tiled := func(first, size int) func(int) int {
		return func(i int) int {
			if i < first {
				return i
			}
			head := (i - first) / size
			return first + (head%m.Groups*per+head/m.Groups)*size + (i-first)%size
		}
	}
	switch o {
	case groupedMix, groupedGates:
		s.order = grouped(m, o == groupedGates)
		return m.Channels(width) + m.Inner
	case tiledMix:
		s.order = tiled(2*m.Groups*m.State, dim)
	case tiledRows:
		s.order = tiled(0, dim)
	case tiledHeads:
		s.order = tiled(0, 1)
	case tiledColumns:
		s.across = tiled(0, dim)
	}
	return s.rows
}

// grouped returns the rows of the queries, keys and values of a delta rule, or of
// its gates, in a matrix that has all of a group in turn.
func grouped(m *arch.Mixer, gates bool) func(int) int {
	keys, values := m.State, m.Inner/m.Groups // of a group
	group, all := 2*keys+2*values, m.Groups*keys
	return func(i int) int {
		switch {
		case gates:
			return i/values*group + 2*keys + values + i%values
		case i < all:
			return i/keys*group + i%keys
		case i < 2*all:
			return (i-all)/keys*group + keys + i%keys
		}
		i -= 2 * all
		return i/values*group + 2*keys + i%values
	}
}

// deltaRules reads delta rules between layers of attention.
func (r *shapeReader) deltaRules() {
	if r.style.SharedGate && r.raw["intermediate_size"] == nil { // no layer is that wide
		r.raw["intermediate_size"] = json.RawMessage("512")
	}
	r.sizes()
	s := &r.s
	s.HeadDim = r.countOr("head_dim", 256)
	r.act("silu", "hidden_act")
	r.smooth()
	r.gateBias()
	r.rope()
	var types []string
	if every := r.countOr("full_attention_interval", 4); !r.get("layer_types", &types) {
		for i := range s.Layers {
			kind := "linear_attention"
			if every > 0 && (i+1)%every == 0 {
				kind = "full_attention"
			}
			types = append(types, kind)
		}
	}
	r.recurs(types, "linear_attention")
	heads := r.countOr("linear_num_value_heads", 32)
	s.Mixer = &arch.Mixer{
		Kernel: r.countOr("linear_conv_kernel_dim", 4), Inner: heads * r.countOr("linear_value_head_dim", 128), State: r.countOr("linear_key_head_dim", 128),
		Heads: heads, Groups: r.countOr("linear_num_key_heads", 16), Delta: true, Tiled: s.Arch != "qwen3next",
	}
	r.must("attn_output_gate", true)
	for _, key := range []string{"mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"} {
		r.has(key)
	}
}

// gateBias compares attention_bias with the tensors of the layers of attention.
func (r *shapeReader) gateBias() {
	r.must("attention_bias", r.stored(".self_attn.q_proj.bias"))
}

// stored reports whether a tensor of a layer is stored.
func (r *shapeReader) stored(suffix string) bool {
	for name := range r.weights.all {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

func (r *shapeReader) qwen3next() {
	r.deltaRules()
	r.manyExperts()
	r.s.ExpertSum = !r.flag("norm_topk_prob", true)
	r.must("decoder_sparse_step", 1)
	r.must("mlp_only_layers", []int{})
}

// manyExperts reads the sizes of experts and of the shared one.
func (r *shapeReader) manyExperts() {
	s := &r.s
	s.Experts, s.ExpertsUsed = r.countOr("num_experts", 512), r.countOr("num_experts_per_tok", 10)
	s.ExpertHidden, s.SharedHidden = r.countOr("moe_intermediate_size", 512), r.countOr("shared_expert_intermediate_size", 512)
}

func (r *shapeReader) qwen35() {
	r.nested()
	r.deltaRules()
}

func (r *shapeReader) qwen35moe() {
	r.qwen35()
	s := &r.s
	s.Experts, s.ExpertsUsed = r.countOr("num_experts", 256), r.countOr("num_experts_per_tok", 8)
	s.ExpertHidden, s.SharedHidden = r.countOr("moe_intermediate_size", 512), r.countOr("shared_expert_intermediate_size", 512)
	if r.stored(".mlp.experts.gate_up_proj") {
		r.family.names.together()
	}
}

// together names experts that are stored in two tensors.
func (n *names) together() {
	for _, part := range []string{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"} {
		delete(n.of, part)
	}
	n.of["ffn_gate_exps.weight"], n.of["ffn_up_exps.weight"], n.of["ffn_down_exps.weight"] = "mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
	n.halves = map[string]half{"ffn_gate_exps": {}, "ffn_up_exps": {second: true}}
}

// nested renames the tensors of a language model that is saved as the half of a
// multimodal one.
func (r *shapeReader) nested() {
	const from, to = "model.", "model.language_model."
	n := &r.family.names
	if _, there := r.weights.find(to + "embed_tokens.weight"); !there {
		return
	}
	n.layer = to + strings.TrimPrefix(n.layer, from)
	for _, part := range []string{arch.TokenEmbedding, arch.OutputNorm} {
		n.of[part] = to + strings.TrimPrefix(n.of[part], from)
	}
}
