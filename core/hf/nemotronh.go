package hf

import (
	"slices"

	"mm-abi.org/mm/core/gguf/arch"
)

func nemotronHNames() names {
	n := mamba2Names()
	for part, name := range map[string]string{
		"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj", "ffn_up": "up_proj", "ffn_down": "down_proj",
		"ffn_gate_inp": "gate", "exp_probs_b.bias": "gate.e_score_correction_bias", "ffn_up_exps": "experts.%d.up_proj", "ffn_down_exps": "experts.%d.down_proj",
		"ffn_up_shexp": "shared_experts.up_proj", "ffn_down_shexp": "shared_experts.down_proj",
	} {
		n.of[part] = "mixer." + name
	}
	return n
}

// nemotronH reads Nemotron-H, each of whose layers is attention, a state space, a
// feed-forward half or experts.
func (r *shapeReader) nemotronH() {
	s, kinds := &r.s, r.kinds()
	s.Context, s.Layers, s.Width, s.Vocab = r.countOr("max_position_embeddings", 4096), len(kinds), r.count("hidden_size"), r.count("vocab_size")
	s.Heads, s.HeadDim = r.countOr("num_attention_heads", 32), r.countOr("head_dim", 128)
	s.KVHeads = r.countOr("num_key_value_heads", s.Heads)
	s.Hidden, s.Epsilon = r.countOr("intermediate_size", 21504), float32(r.float("layer_norm_epsilon", 1e-5))
	heads := r.countOr("mamba_num_heads", 128)
	s.Mixer = &arch.Mixer{Kernel: r.countOr("conv_kernel", 4), Inner: heads * r.countOr("mamba_head_dim", 64), State: r.countOr("ssm_state_size", 128), Heads: heads, Groups: r.countOr("n_groups", 8)}
	for _, kind := range kinds {
		s.Recurrent, s.Feeding = append(s.Recurrent, kind == 'M'), append(s.Feeding, kind == '-' || kind == 'E')
	}
	if slices.Contains(kinds, 'E') {
		r.nemotronExperts(slices.Contains(kinds, '-'))
	}
	r.act("relu2", "mlp_hidden_act")
	r.must("mamba_hidden_act", "silu")
	for _, key := range []string{"use_bias", "mamba_proj_bias", "attention_bias", "mlp_bias"} {
		r.must(key, false)
	}
	r.must("sliding_window", nil)
	r.steps()
	r.convBias("use_conv_bias")
	for _, key := range []string{ // of training, memory and layers that are not read, or what tensors decide
		"num_hidden_layers", "expand", "chunk_size", "time_step_min", "time_step_max", "time_step_floor", "residual_in_fp32", "rescale_prenorm_residual", "mamba_ssm_cache_dtype",
		"use_mamba_kernels", "num_logits_to_keep", "num_nextn_predict_layers", "mtp_layers_block_type", "mtp_hybrid_override_pattern", "n_routed_experts", "n_shared_experts", "moe_intermediate_size",
		"moe_shared_expert_intermediate_size", "moe_shared_expert_overlap", "num_experts_per_tok", "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob", "moe_latent_size", "hidden_dropout",
	} {
		r.has(key)
	}
}

// kinds returns the kind of each layer: M, *, - or E, the letters of
// hybrid_override_pattern.
func (r *shapeReader) kinds() []byte {
	var types []string
	listed := r.get("layers_block_type", &types) || r.get("layer_types", &types)
	pattern := r.text("hybrid_override_pattern", "ME*-") // the default of the class
	r.heeded["layer_types"] = true
	if listed {
		letters := map[string]string{"linear_attention": "M", "mamba": "M", "full_attention": "*", "attention": "*", "mlp": "-", "moe": "E"}
		pattern = ""
		for _, t := range types {
			if letters[t] == "" {
				r.fail("key layers_block_type: unsupported %q, want linear_attention, full_attention, mlp or moe", t)
			}
			pattern += letters[t]
		}
	}
	for _, c := range pattern {
		if c != 'M' && c != '*' && c != '-' && c != 'E' {
			r.fail("key hybrid_override_pattern: unsupported %q, want M, *, - or E", c)
			return nil
		}
	}
	return []byte(pattern)
}

// nemotronExperts reads the experts of layers; mixed is set if others are without.
func (r *shapeReader) nemotronExperts(mixed bool) {
	s := &r.s
	s.Arch = "nemotron_h_moe"
	r.style = s.Style()
	s.Experts, s.ExpertsUsed = r.countOr("n_routed_experts", 8), r.countOr("num_experts_per_tok", 2)
	s.ExpertHidden, s.SharedHidden = r.countOr("moe_intermediate_size", 7688), r.countOr("moe_shared_expert_intermediate_size", 7688)
	s.Hidden, s.ExpertScale = s.ExpertHidden, r.expertScale(1)
	r.scored(true)
	r.must("moe_latent_size", nil)
	if mixed {
		r.fail("key layers_block_type: layers of mlp and of moe in one model are not supported")
	}
}
