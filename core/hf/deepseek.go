package hf

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/safetensors"
)

// maxShared limits the experts that every position passes.
const maxShared = 1 << 10

func deepseekNames(experts map[string]string) names {
	n := llamaNames(experts)
	for part, name := range map[string]string{
		"ffn_gate_shexp": "mlp.shared_experts.gate_proj", "ffn_up_shexp": "mlp.shared_experts.up_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj",
		"exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
		"attn_q_a":         "self_attn.q_a_proj", "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj",
		"attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm",
		"attn_k_b": "self_attn.kv_b_proj", "attn_v_b": "self_attn.kv_b_proj",
	} {
		n.of[part] = name
	}
	n.columns, n.heads = set("attn_k_b"), set("attn_k_b", "attn_v_b")
	return n
}

// heads adds the parts of a matrix whose rows are, for each head, its key and its
// value.
func (s *source) heads(t safetensors.Tensor, shape arch.Shape) error {
	a := shape.Latent
	per := a.Key + a.Value
	if !slices.Equal(t.Shape, []int{shape.Heads * per, a.Rank}) || len(t.Data)%(shape.Heads*per) != 0 {
		return fmt.Errorf("shape mismatch for tensor %s: got %v, want %v", t.Name, t.Shape, []int{shape.Heads * per, a.Rank})
	}
	row, first, rows := len(t.Data)/(shape.Heads*per), 0, a.Key
	if s.part == "attn_v_b" {
		first, rows = a.Key, a.Value
	}
	for h := range shape.Heads {
		part, at := t, (h*per+first)*row
		part.Shape, part.Data, part.Offset = []int{rows, a.Rank}, t.Data[at:at+rows*row], t.Offset+int64(at)
		s.parts = append(s.parts, part)
	}
	return nil
}

// latent reads the sizes of latent attention, after rope.
func (r *shapeReader) latent() {
	s := &r.s
	s.Heads, s.Rope.OriginalContext = r.count("num_attention_heads"), s.Context
	if n := r.countOr("num_key_value_heads", s.Heads); n != s.Heads {
		r.fail("key num_key_value_heads: got %d, want num_attention_heads %d", n, s.Heads)
	}
	l := &arch.Latent{Rank: r.countOr("kv_lora_rank", 512), Key: r.countOr("qk_nope_head_dim", 128), Value: r.countOr("v_head_dim", 128)}
	if l.QueryRank = r.countOr("q_lora_rank", 0); r.raw["q_lora_rank"] == nil {
		l.QueryRank = 1536
	}
	s.HeadDim = r.countOr("qk_rope_head_dim", 64)
	r.must("head_dim", s.HeadDim)
	r.must("qk_head_dim", l.Key+s.HeadDim)
	r.rope()
	s.Latent, s.KVHeads, s.HeadDim = l, 1, l.Rank+s.HeadDim
	plain := 1 / math.Sqrt(float64(l.Key+s.Rope.Dims))
	if m := float64(s.Rope.YarnLog); m != 0 {
		grow := 1 + 0.1*m*math.Log(float64(s.Rope.Factor))
		plain *= grow * grow
	}
	if s.AttentionScale = float32(plain); s.AttentionScale == (arch.Shape{Arch: s.Arch, Rope: s.Rope, Latent: l}).QueryScale() {
		s.AttentionScale = 0 // as files imply
	}
	if s.Epsilon != 1e-6 {
		if s.Epsilon > 1e-5 {
			r.fail("key rms_norm_eps: got %v, want at most 1e-5, because norms of compressed queries, keys and values add 1e-6", s.Epsilon)
		}
		r.note("norms of compressed queries, keys and values add rms_norm_eps %v; transformers adds 1e-6", s.Epsilon)
	}
}

// deepseek reads what versions 2 and 3 share; the arguments are defaults.
func (r *shapeReader) deepseek(shared, lead int, scale float32) {
	r.sizes()
	r.act("silu", "hidden_act")
	r.must("attention_bias", false)
	r.must("mlp_bias", false)
	r.latent()
	s := &r.s
	s.Experts, s.ExpertsUsed = r.count("n_routed_experts"), r.countOr("num_experts_per_tok", 8)
	s.ExpertHidden = r.count("moe_intermediate_size")
	n := r.countOr("n_shared_experts", shared)
	if n > maxShared {
		r.fail("key n_shared_experts: got %d, want at most %d", n, maxShared)
	}
	s.SharedHidden = min(n, maxShared) * s.ExpertHidden
	s.DenseLead = r.countOr("first_k_dense_replace", lead)
	s.ExpertScale = r.expertScale(scale)
	r.must("moe_layer_freq", 1)
	for _, key := range []string{"ep_size", "seq_aux", "num_nextn_predict_layers", "num_mtp_layers"} { // of training, and of layers that are not read
		r.has(key)
	}
}

func (r *shapeReader) deepseek2() {
	r.deepseek(2, 0, 1)
	r.must("scoring_func", "softmax")
	r.must("norm_topk_prob", false)
	r.s.ExpertSum = true
	switch method := r.text("topk_method", "greedy"); method {
	case "greedy":
		r.has("n_group")
		r.has("topk_group")
	case "group_limited_greedy":
		r.expertGroups(r.count("n_group"), r.count("topk_group"))
	default:
		r.fail("key topk_method: got %q, want greedy or group_limited_greedy", method)
	}
}

func (r *shapeReader) deepseek3() {
	r.deepseek(1, 3, 2.5)
	r.must("scoring_func", "sigmoid")
	r.must("topk_method", "noaux_tc")
	r.must("rope_interleave", true)
	r.s.ExpertSigmoid, r.s.ExpertSum = true, !r.flag("norm_topk_prob", true)
	r.expertGroups(r.countOr("n_group", 8), r.countOr("topk_group", 4))
}

// glm4MoeLite reads GLM-4.7-Flash, whose layers are listed as dense or with experts.
func (r *shapeReader) glm4MoeLite() {
	lead, types := 1, []string(nil)
	if r.get("mlp_layer_types", &types); types != nil {
		if lead = slices.Index(types, "sparse"); lead < 0 {
			lead = len(types)
		}
		for i, t := range types {
			if t != "dense" && t != "sparse" || i >= lead && t != "sparse" {
				r.fail("key mlp_layer_types: got %s, want dense layers, then sparse ones", brief(r.raw["mlp_layer_types"]))
				break
			}
		}
		if n := r.layers("num_hidden_layers"); len(types) != n {
			r.fail("key mlp_layer_types: got %d entries, want %d", len(types), n)
		}
	}
	delete(r.raw, "first_k_dense_replace") // which transformers ignores
	r.deepseek(1, lead, 1.8)
	r.must("scoring_func", "sigmoid")
	r.must("topk_method", "noaux_tc")
	r.must("rope_interleave", true)
	r.s.ExpertSigmoid, r.s.ExpertSum = true, !r.flag("norm_topk_prob", true)
	r.expertGroups(r.countOr("n_group", 1), r.countOr("topk_group", 1))
}

// expertScale reads the factor of the weights of experts; 0: 1.
func (r *shapeReader) expertScale(absent float32) float32 {
	v := r.positive("routed_scaling_factor")
	if v == 0 {
		v = absent
	}
	if v == 1 {
		return 0
	}
	return v
}

func (r *shapeReader) expertGroups(n, used int) {
	if n == 1 && used < 1 { // transformers chooses the first experts then
		r.fail("key topk_group: got %d, want at least 1", used)
	}
	if n > 1 {
		r.s.ExpertGroups, r.s.GroupsUsed = n, used
	}
}
