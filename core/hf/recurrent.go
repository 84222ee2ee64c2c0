package hf

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"mm-abi.org/mm/core/gguf/arch"
)

func lfm2Names() names {
	return llamaNames(map[string]string{
		"token_embd_norm": "model.embedding_norm", "attn_norm": "operator_norm", "ffn_norm": "ffn_norm", "attn_output": "self_attn.out_proj",
		"attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm",
		"ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2",
		"shortconv.conv": "conv.conv", "shortconv.in_proj": "conv.in_proj", "shortconv.out_proj": "conv.out_proj",
	})
}

func lfm2MoeNames() names {
	n := lfm2Names()
	maps.Copy(n.of, map[string]string{
		"ffn_gate_inp": "feed_forward.gate", "exp_probs_b.bias": "feed_forward.expert_bias",
		"ffn_gate_exps": "feed_forward.experts.%d.w1", "ffn_up_exps": "feed_forward.experts.%d.w3", "ffn_down_exps": "feed_forward.experts.%d.w2",
	})
	return n
}

// scanNames names the parts of a state space within a layer.
func scanNames(of map[string]string, prefix string) {
	maps.Copy(of, map[string]string{
		"ssm_in": prefix + "in_proj", "ssm_conv1d": prefix + "conv1d", "ssm_dt.bias": prefix + "dt_bias", "ssm_a": prefix + "A_log",
		"ssm_d": prefix + "D", "ssm_norm": prefix + "norm", "ssm_out": prefix + "out_proj",
	})
}

func mamba2Names() names {
	n := names{layer: "backbone.layers.%d.", of: map[string]string{
		arch.TokenEmbedding: "backbone.embeddings.weight", arch.OutputNorm: "backbone.norm_f", arch.Output: "lm_head.weight", "attn_norm": "norm",
	}}
	scanNames(n.of, "mixer.")
	return n
}

func graniteHybridNames() names {
	n := graniteNames()
	scanNames(n.of, "mamba.")
	sharedHalves(n)
	return n
}

// lfm2 reads short convolutions between layers of attention.
func (r *shapeReader) lfm2() {
	r.sizes()
	s := &r.s
	s.Epsilon = float32(r.float("norm_eps", 1e-5))
	s.Hidden = r.countOr("block_ff_dim", s.Hidden)
	if r.flag("block_auto_adjust_ff_dim", true) {
		s.Hidden = s.Hidden * 2 / 3
		if m := r.float("block_ffn_dim_multiplier", 1); m > 0 && m <= 16 {
			s.Hidden = int(m * float64(s.Hidden))
		} else {
			r.fail("key block_ffn_dim_multiplier: got %v, want a number up to 16", m)
		}
		if of := r.countOr("block_multiple_of", 256); of > 0 {
			s.Hidden = (s.Hidden + of - 1) / of * of
		} else {
			r.fail("key block_multiple_of: got 0")
		}
	}
	r.convolutions()
	for _, key := range []string{"block_dim", "conv_dim", "conv_dim_out"} {
		r.must(key, s.Width)
	}
	r.must("num_heads", s.Heads)
	r.must("block_use_swiglu", true)
	r.must("use_pos_enc", true)
	for _, key := range []string{"theta", "block_norm_eps", "block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init", "conv_use_xavier_init", "block_ffn_dim_multiplier", "block_multiple_of"} {
		r.has(key)
	}
}

// convolutions reads the keys of models with experts and without.
func (r *shapeReader) convolutions() {
	r.s.Mixer = &arch.Mixer{Kernel: r.countOr("conv_L_cache", 3)}
	r.must("conv_bias", false)
	r.convolved()
	r.rope()
	if v, ok := r.raw["tie_embedding"]; ok { // an older name
		r.raw["tie_word_embeddings"], r.heeded["tie_embedding"] = v, true
	}
}

func (r *shapeReader) lfm2moe() {
	r.sizes()
	s := &r.s
	s.Epsilon = float32(r.float("norm_eps", 1e-5))
	r.convolutions()
	s.Experts, s.ExpertsUsed = r.count("num_experts"), r.countOr("num_experts_per_tok", 4)
	s.ExpertHidden, s.DenseLead = r.count("moe_intermediate_size"), r.countOr("num_dense_layers", 2)
	s.ExpertSigmoid, s.ExpertSum = true, !r.flag("norm_topk_prob", true)
	s.ExpertScale = r.expertScale(1)
	name := "model.layers." + strconv.Itoa(s.DenseLead) + ".feed_forward.expert_bias"
	if _, there := r.weights.find(name); there != r.flag("use_expert_bias", true) {
		r.fail("key use_expert_bias is %v, but presence of tensor %s is %v", !there, name, there)
	}
}

// convolved reads which layers are convolutions.
func (r *shapeReader) convolved() {
	s := &r.s
	var types []string
	if !r.get("layer_types", &types) {
		var attends []int
		listed := r.get("full_attn_idxs", &attends)
		for i := range s.Layers {
			kind := "conv"
			if !listed || slices.Contains(attends, i) {
				kind = "full_attention"
			}
			types = append(types, kind)
		}
	}
	r.has("full_attn_idxs")
	r.recurs(types, "conv")
}

// recurs marks the layers of a type as ones with a state; others have attention.
func (r *shapeReader) recurs(types []string, kinds ...string) {
	if len(types) != r.s.Layers {
		r.fail("key layer_types: got %d entries, want %d", len(types), r.s.Layers)
		return
	}
	for _, t := range types {
		state := slices.Contains(kinds, t)
		if !state && t != "full_attention" && t != "attention" {
			r.fail("key layer_types: unsupported %q, want full_attention or %s", t, kinds[0])
			return
		}
		r.s.Recurrent = append(r.s.Recurrent, state)
	}
}

// smooth refuses activations of a layer with a state other than SiLU.
func (r *shapeReader) smooth() {
	if r.s.Act() != arch.SiLU {
		r.fail("key hidden_act: got %s, want silu for the layers with a state of architecture %s", r.s.Activation, r.s.Arch)
	}
}

// steps refuses limits of Δ, the step of a state space.
func (r *shapeReader) steps() {
	var bounds []any
	if !r.has("time_step_limit") || json.Unmarshal(r.raw["time_step_limit"], &bounds) != nil {
		return
	}
	if len(bounds) == 2 && bounds[0] == 0.0 {
		if most, ok := bounds[1].(float64); !ok || most >= math.MaxFloat32 { // infinity is not a JSON number
			return
		}
	}
	r.fail("key time_step_limit: got %s, want no limit", brief(r.raw["time_step_limit"]))
}

func (r *shapeReader) mamba2() {
	s := &r.s
	s.Context = 1 << 20 // as llama.cpp writes: the length is unlimited
	s.Layers, s.Width, s.Vocab = r.layers("num_hidden_layers"), r.count("hidden_size"), r.count("vocab_size")
	s.Epsilon = float32(r.float("layer_norm_epsilon", 1e-5))
	heads := r.countOr("num_heads", 128)
	s.Mixer = &arch.Mixer{Kernel: r.countOr("conv_kernel", 4), Inner: r.countOr("expand", 2) * s.Width, State: r.countOr("state_size", 128), Heads: heads, Groups: r.countOr("n_groups", 8)}
	if dim := r.countOr("head_dim", 64); dim*heads != s.Mixer.Inner {
		r.fail("keys num_heads and head_dim: got %d and %d, want a product of %d", heads, dim, s.Mixer.Inner)
	}
	s.Recurrent = slices.Repeat([]bool{true}, s.Layers)
	r.act("silu", "hidden_act")
	r.smooth()
	r.must("use_bias", false)
	r.must("rms_norm", true)
	r.must("norm_before_gate", true)
	r.steps()
	r.convBias("use_conv_bias")
	for _, key := range []string{"chunk_size", "residual_in_fp32", "rescale_prenorm_residual", "time_step_rank", "time_step_min", "time_step_max", "time_step_floor", "layer_types"} {
		r.has(key)
	}
}

// convBias compares a key with the presence of the biases of convolutions.
func (r *shapeReader) convBias(key string) {
	i := slices.Index(r.s.Recurrent, true)
	if i < 0 {
		r.has(key)
		return
	}
	name := fmt.Sprintf(r.family.names.layer, i) + r.family.names.of["ssm_conv1d"] + ".bias"
	if _, there := r.weights.find(name); there != r.flag(key, true) {
		r.fail("key %s is %v, but presence of tensor %s is %v", key, !there, name, there)
	}
}

// scans reads state spaces of a width between layers of attention.
func (r *shapeReader) scans(inner int) {
	s, heads := &r.s, r.countOr("mamba_n_heads", 128)
	s.Mixer = &arch.Mixer{Kernel: r.countOr("mamba_d_conv", 4), Inner: inner, State: r.countOr("mamba_d_state", 256), Heads: heads, Groups: r.countOr("mamba_n_groups", 1)}
	if heads > 0 && string(r.raw["mamba_d_head"]) != `"auto"` {
		r.must("mamba_d_head", s.Mixer.Inner/heads)
	}
	r.has("mamba_d_head")
	r.must("mamba_proj_bias", false)
	r.smooth()
	r.steps()
	r.convBias("mamba_conv_bias")
	for _, key := range []string{"mamba_chunk_size", "time_step_min", "time_step_max", "time_step_floor"} {
		r.has(key)
	}
}

func bambaNames() names {
	n := llamaNames(map[string]string{
		arch.OutputNorm: "model.final_layernorm", "ffn_norm": "pre_ff_layernorm",
		"ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj",
	})
	scanNames(n.of, "mamba.")
	return n
}

// bamba reads state spaces between layers of attention that rotates half of a head.
func (r *shapeReader) bamba() {
	if r.raw["partial_rotary_factor"] == nil {
		r.raw["partial_rotary_factor"] = json.RawMessage("0.5")
	}
	r.llama()
	var attends []int
	r.get("attn_layer_indices", &attends)
	for i := range r.s.Layers {
		r.s.Recurrent = append(r.s.Recurrent, !slices.Contains(attends, i))
	}
	for _, i := range attends {
		if i < 0 || i >= r.s.Layers {
			r.fail("key attn_layer_indices: got %d of %d layers", i, r.s.Layers)
		}
	}
	r.scans(r.countOr("mamba_expand", 2) * r.s.Width)
	for _, key := range []string{"num_logits_to_keep", "z_loss_coefficient", "layers_block_type", "layer_types"} {
		r.has(key)
	}
}

func (r *shapeReader) granitehybrid() {
	r.granite()
	s := &r.s
	var types []string
	if !r.get("layer_types", &types) && !r.get("layers_block_type", &types) {
		types = slices.Repeat([]string{"mamba"}, s.Layers)
	}
	r.has("layers_block_type")
	r.recurs(types, "mamba", "linear_attention")
	r.scans(r.countOr("mamba_expand", 2) * s.Width)
	switch kind := r.text("position_embedding_type", ""); kind {
	case "rope":
	case "", "nope":
		s.Unrotated = slices.Repeat([]bool{true}, s.Layers)
	default:
		r.fail("key position_embedding_type: got %q, want rope or none", kind)
	}
	shared := r.countOr("shared_intermediate_size", 1024)
	if s.Experts = r.countOr("num_local_experts", 8); s.Experts > 0 {
		s.ExpertsUsed, s.ExpertHidden, s.SharedHidden = r.countOr("num_experts_per_tok", 2), s.Hidden, shared
		return
	}
	r.has("num_experts_per_tok")
	s.Hidden = shared
	of, halves := r.family.names.of, r.family.names.halves
	of["ffn_gate"], of["ffn_up"], of["ffn_down"] = of["ffn_gate_shexp"], of["ffn_up_shexp"], of["ffn_down_shexp"]
	halves["ffn_gate"], halves["ffn_up"] = halves["ffn_gate_shexp"], halves["ffn_up_shexp"]
}
