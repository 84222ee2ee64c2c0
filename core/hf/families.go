package hf

import (
	"math"

	"mm-abi.org/mm/core/gguf/arch"
)

// sharedNames adds the names of the expert that every position passes.
func sharedNames(experts map[string]string) map[string]string {
	out := map[string]string{
		"ffn_gate_inp_shexp": "mlp.shared_expert_gate", "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
		"ffn_up_shexp": "mlp.shared_expert.up_proj", "ffn_down_shexp": "mlp.shared_expert.down_proj",
	}
	for k, v := range experts {
		out[k] = v
	}
	return out
}

func graniteNames() names {
	n := llamaNames(map[string]string{
		"ffn_gate_inp": "block_sparse_moe.router.layer", "ffn_gate_exps": "block_sparse_moe.input_linear",
		"ffn_up_exps": "block_sparse_moe.input_linear", "ffn_down_exps": "block_sparse_moe.output_linear",
	})
	n.halves = map[string]half{"ffn_gate_exps": {}, "ffn_up_exps": {second: true}}
	return n
}

func gptOssNames() names {
	n := llamaNames(map[string]string{
		"post_attention_norm": "post_attention_layernorm", "attn_sinks.weight": "self_attn.sinks", "ffn_gate_inp": "mlp.router",
		"ffn_gate_exps.weight": "mlp.experts.gate_up_proj", "ffn_gate_exps.bias": "mlp.experts.gate_up_proj_bias",
		"ffn_up_exps.weight": "mlp.experts.gate_up_proj", "ffn_up_exps.bias": "mlp.experts.gate_up_proj_bias",
		"ffn_down_exps.weight": "mlp.experts.down_proj", "ffn_down_exps.bias": "mlp.experts.down_proj_bias",
	})
	n.columns = set("ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight")
	n.halves = map[string]half{"ffn_gate_exps": {turns: true}, "ffn_up_exps": {turns: true, second: true}}
	return n
}

func falconNames() names {
	return names{
		layer: "transformer.h.%d.", base: "transformer.",
		of: map[string]string{
			arch.TokenEmbedding: "transformer.word_embeddings.weight", arch.OutputNorm: "transformer.ln_f", arch.Output: "lm_head.weight",
			"attn_norm": "input_layernorm", "attn_qkv": "self_attention.query_key_value", "attn_output": "self_attention.dense",
			"ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
		},
		mixed: set("attn_qkv"),
	}
}

func (r *shapeReader) qwen2moe() {
	r.qwen()
	r.s.Experts, r.s.ExpertsUsed = r.count("num_experts"), r.countOr("num_experts_per_tok", 4)
	r.s.ExpertHidden, r.s.SharedHidden = r.count("moe_intermediate_size"), r.count("shared_expert_intermediate_size")
	r.s.ExpertSum = !r.flag("norm_topk_prob", false)
	r.bias("qkv_bias", "attn_q")
	r.must("decoder_sparse_step", 1)
	r.must("mlp_only_layers", []int{})
}

func (r *shapeReader) olmoe() {
	r.llama()
	r.s.Experts, r.s.ExpertsUsed = r.count("num_experts"), r.countOr("num_experts_per_tok", 8)
	r.s.ExpertHidden = r.s.Hidden
	r.s.ExpertSum = !r.flag("norm_topk_prob", false)
	r.must("clip_qkv", nil)
}

func (r *shapeReader) granitemoe() {
	r.granite()
	r.s.Experts, r.s.ExpertsUsed = r.count("num_local_experts"), r.countOr("num_experts_per_tok", 2)
	r.s.ExpertHidden = r.s.Hidden
}

func (r *shapeReader) gptoss() {
	r.sizes()
	r.must("hidden_act", "silu") // the activation is gpt-oss's own
	if alpha, limit := r.float("swiglu_alpha", 1.702), r.float("swiglu_limit", 7); alpha != 1.702 || limit != 7 {
		r.fail("keys swiglu_alpha and swiglu_limit: got %v and %v, want 1.702 and 7", alpha, limit)
	}
	r.bias("attention_bias", "attn_q")
	r.s.Experts, r.s.ExpertsUsed = r.count("num_local_experts"), r.countOr("num_experts_per_tok", r.countOr("experts_per_token", 4))
	r.has("experts_per_token")
	r.s.ExpertHidden = r.s.Hidden
	r.rope()
	r.window(func(i int) bool { return i%2 == 0 })
}

func (r *shapeReader) glm4() { r.llama() }

func (r *shapeReader) ministral3() {
	r.llama()
	r.window(func(int) bool { return true })
}

func (r *shapeReader) phi() {
	r.sizes()
	r.act("gelu_new", "hidden_act")
	r.rope()
	r.must("qk_layernorm", false)
	r.s.Parallel = true
}

func (r *shapeReader) falcon() {
	s := &r.s
	s.Context = r.countOr("max_position_embeddings", 2048)
	s.Layers, s.Width, s.Heads = r.layers("num_hidden_layers"), r.count("hidden_size"), r.count("num_attention_heads")
	s.Vocab, s.Hidden = r.count("vocab_size"), r.countOr("ffn_hidden_size", 4*s.Width)
	s.Epsilon = float32(r.float("layer_norm_epsilon", 1e-5))
	if s.Heads > 0 {
		s.HeadDim = s.Width / s.Heads
	}
	kv, grouped := r.countOr("num_kv_heads", s.Heads), r.flag("new_decoder_architecture", false)
	switch {
	case grouped:
		s.KVHeads = kv
	case r.flag("multi_query", true):
		s.KVHeads = 1
	default:
		s.KVHeads = s.Heads
	}
	norms := 1
	if grouped {
		norms = r.countOr("num_ln_in_parallel_attn", 2)
	}
	r.has("num_ln_in_parallel_attn")
	if of := r.family.names.of; norms == 2 {
		of["attn_norm"], of["attn_norm_2"] = "ln_mlp", "ln_attn"
	}
	r.has("multi_query")
	r.act("gelu", "activation")
	r.must("alibi", false)
	r.must("parallel_attn", true)
	r.bias("bias", "attn_qkv")
	r.rope()
	s.Parallel = true
}

func (r *shapeReader) cohere() {
	r.sizes()
	r.act("silu", "hidden_act")
	r.bias("attention_bias", "attn_q")
	r.rope()
	name := "model.layers.0.self_attn.q_norm.weight"
	if _, there := r.weights.find(name); there != r.flag("use_qk_norm", false) {
		r.fail("key use_qk_norm is %v, but presence of tensor %s is %v", !there, name, there)
	}
	if scale := r.float("logit_scale", 0.0625); scale != 1 && scale != 0 && !math.IsInf(1/scale, 0) {
		r.s.LogitDivisor = float32(1 / scale)
	} else if scale != 1 {
		r.fail("key logit_scale: bad value %v", scale)
	}
	r.s.Parallel = true
}

func (r *shapeReader) cohere2() {
	r.cohere()
	r.windowOf(func(i int) bool { return (i+1)%4 != 0 }, true)
	r.must("rotary_pct", 1.0)
	r.must("sliding_window_pattern", 4)
	r.must("order_of_interleaved_layers", "local_attn_first")
	r.must("position_embedding_type", "rope_gptj")
	r.must("use_gated_activation", true)
	r.must("use_parallel_block", true)
	r.must("use_parallel_embedding", false)
	r.unwindowed()
}

// unwindowed marks the layers without a window as not rotated, if there is one.
func (r *shapeReader) unwindowed() {
	for _, has := range r.s.Windowed {
		r.s.Unrotated = append(r.s.Unrotated, !has)
	}
}

func (r *shapeReader) starcoder2() {
	r.sizes()
	r.s.Epsilon = float32(r.float("norm_epsilon", 1e-5))
	r.act("gelu_pytorch_tanh", "hidden_act")
	r.bias("use_bias", "attn_q")
	r.must("mlp_type", "default")
	r.must("norm_type", "layer_norm")
	r.rope()
	if n := r.countOr("sliding_window", 0); n != 0 && n < r.s.Context {
		r.fail("key sliding_window: got %d, but architecture %s does not support a sliding window", n, r.s.Arch)
	}
}

func (r *shapeReader) exaone4() {
	r.llama()
	if !r.has("layer_types") && r.has("sliding_window") {
		r.fail("missing key layer_types")
	}
	r.has("sliding_window_pattern") // what layer_types lists
	r.windowOf(func(int) bool { return false }, true)
	r.unwindowed()
}

func (r *shapeReader) ernie() {
	r.sizes()
	r.act("silu", "hidden_act")
	r.bias("use_bias", "attn_q")
	r.rope()
}
