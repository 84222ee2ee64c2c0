package hf

import (
	"encoding/json"
	"maps"

	"mm-abi.org/mm/core/gguf/arch"
)

func optNames() names {
	return names{
		layer: "model.decoder.layers.%d.", base: "model.",
		of: map[string]string{
			arch.TokenEmbedding: "model.decoder.embed_tokens.weight", arch.Positions: "model.decoder.embed_positions.weight",
			arch.OutputNorm: "model.decoder.final_layer_norm", arch.Output: "lm_head.weight",
			"attn_norm": "self_attn_layer_norm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.out_proj",
			"ffn_norm": "final_layer_norm", "ffn_up": "fc1", "ffn_down": "fc2",
		},
		lead: map[string]int{arch.Positions: 2}, // of padding
	}
}

// jNames names what follows GPT-2 with other parts.
func jNames(other map[string]string) names {
	n := gpt2Names()
	n.columns = nil
	delete(n.of, "attn_qkv")
	maps.Copy(n.of, other)
	return n
}

func gptjNames() names {
	return jNames(map[string]string{
		arch.OutputBias: "lm_head.bias", "attn_q": "attn.q_proj", "attn_k": "attn.k_proj", "attn_v": "attn.v_proj", "attn_output": "attn.out_proj",
		"ffn_up": "mlp.fc_in", "ffn_down": "mlp.fc_out",
	})
}

func codegenNames() names {
	n := gptjNames()
	maps.Copy(n.of, map[string]string{"attn_q": "attn.qkv_proj", "attn_k": "attn.qkv_proj", "attn_v": "attn.qkv_proj"})
	n.quarters = map[string]int{"attn_q": 0, "attn_v": 1, "attn_k": 2}
	return n
}

func gptNeoNames() names {
	return jNames(map[string]string{
		"attn_q": "attn.attention.q_proj", "attn_k": "attn.attention.k_proj", "attn_v": "attn.attention.v_proj", "attn_output": "attn.attention.out_proj",
	})
}

func bloomNames() names {
	n := falconNames()
	maps.Copy(n.of, map[string]string{arch.EmbeddingNorm: "transformer.word_embeddings_layernorm", "ffn_norm": "post_attention_layernorm"})
	return n
}

func mptNames() names {
	return names{
		layer: "transformer.blocks.%d.", base: "transformer.",
		of: map[string]string{
			arch.TokenEmbedding: "transformer.wte.weight", arch.OutputNorm: "transformer.norm_f", arch.Output: "lm_head.weight",
			"attn_norm": "norm_1", "attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj", "ffn_norm": "norm_2", "ffn_up": "ffn.up_proj", "ffn_down": "ffn.down_proj",
		},
	}
}

func (r *shapeReader) opt() {
	s := &r.s
	s.Context, s.Layers, s.Width, s.Heads = r.countOr("max_position_embeddings", 2048), r.layers("num_hidden_layers"), r.count("hidden_size"), r.count("num_attention_heads")
	s.Hidden, s.Vocab, s.Epsilon = r.count("ffn_dim"), r.count("vocab_size"), 1e-5
	r.evenHeads()
	r.act("relu", "activation_function")
	r.must("word_embed_proj_dim", s.Width)
	r.must("do_layer_norm_before", true)
	r.must("_remove_final_layer_norm", false)
	r.must("layer_norm_elementwise_affine", true)
	r.bias("enable_bias", "attn_q")
}

// evenHeads divides the width among heads that share no keys.
func (r *shapeReader) evenHeads() {
	if r.s.KVHeads = r.s.Heads; r.s.Heads > 0 {
		r.s.HeadDim = r.s.Width / r.s.Heads
	}
}

// gptj reads GPT-J, and CodeGen, whose matrices are fused.
func (r *shapeReader) gptj() {
	r.gpt2()
	s := &r.s
	s.Rope = arch.Rope{Dims: r.countOr("rotary_dim", 64), Base: 10000, OriginalContext: s.Context, ExtFactor: -1}
	if string(r.raw["rotary_dim"]) == "null" {
		r.fail("key rotary_dim: got null, want a number")
	}
	s.Parallel = true
	if r.family.names.quarters != nil && s.Heads%4 != 0 {
		r.fail("key n_head: got %d, want a multiple of 4", s.Heads)
	}
}

func (r *shapeReader) gptNeo() {
	s := &r.s
	s.Context, s.Layers, s.Width, s.Heads = r.countOr("max_position_embeddings", 2048), r.layers("num_layers"), r.count("hidden_size"), r.count("num_heads")
	s.Vocab, s.Hidden, s.Epsilon = r.count("vocab_size"), r.countOr("intermediate_size", 4*s.Width), float32(r.float("layer_norm_epsilon", 1e-5))
	r.evenHeads()
	r.act("gelu_new", "activation_function")
	var kinds []string
	var groups [][2]json.RawMessage
	if !r.get("attention_types", &groups) {
		groups = [][2]json.RawMessage{{json.RawMessage(`["global","local"]`), json.RawMessage("12")}}
	}
	if r.get("attention_layers", &kinds) { // what attention_types lists
		groups = nil
	}
	for _, g := range groups {
		var of []string
		var times int
		if json.Unmarshal(g[0], &of) != nil || json.Unmarshal(g[1], &times) != nil || times < 0 || times > s.Layers || len(of) > s.Layers {
			r.fail("key attention_types: bad value %s", brief(r.raw["attention_types"]))
			return
		}
		for range times {
			kinds = append(kinds, of...)
		}
	}
	if len(kinds) != s.Layers {
		r.fail("key attention_types: got %d layers, want %d", len(kinds), s.Layers)
		return
	}
	if s.Window = r.countOr("window_size", 256); s.Window >= s.Context {
		s.Window = 0
		return
	}
	for _, k := range kinds {
		if k != "global" && k != "local" {
			r.fail("key attention_types: unsupported %.20q, want global or local", k)
		}
		s.Windowed = append(s.Windowed, k == "local")
	}
}

func (r *shapeReader) bloom() {
	s := &r.s
	width, heads := "hidden_size", "n_head"
	if !r.has(width) {
		width = "n_embed"
	}
	if !r.has(heads) {
		heads = "num_attention_heads"
	}
	s.Context, s.Layers, s.Width, s.Heads = r.countOr("seq_length", 2048), r.layers("n_layer"), r.count(width), r.count(heads)
	s.Vocab, s.Hidden, s.Epsilon = r.count("vocab_size"), 4*s.Width, float32(r.float("layer_norm_epsilon", 1e-5))
	r.evenHeads()
	r.must("n_embed", s.Width)
	r.must("num_attention_heads", s.Heads)
	r.must("apply_residual_connection_post_layernorm", false)
	for _, key := range []string{"slow_but_exact", "attention_softmax_in_fp32", "masked_softmax_fusion", "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv", "offset_alibi", "unk_token_id"} { // of other programs, and of the same numbers
		r.has(key)
	}
}

func (r *shapeReader) mpt() {
	s := &r.s
	s.Context, s.Layers, s.Width, s.Heads = r.count("max_seq_len"), r.layers("n_layers"), r.count("d_model"), r.count("n_heads")
	s.Vocab, s.Hidden, s.Epsilon = r.count("vocab_size"), 4*s.Width, float32(r.float("layer_norm_epsilon", 1e-5))
	r.evenHeads()
	r.must("no_bias", true)
	r.must("norm_type", "low_precision_layernorm")
	r.must("logit_scale", nil)
	r.must("learned_pos_emb", true) // a wrong default, which nothing reads
	for _, key := range []string{"expansion_ratio", "emb_pdrop", "init_device", "embedding_fraction", "verbose", "use_norm_in_mlp", "init_config"} {
		r.has(key)
	}
	if o := r.object("attn_config"); o != nil {
		o.must("alibi", true)
		o.must("alibi_bias_max", 8)
		o.must("clip_qkv", nil)
		o.must("qk_ln", false)
		o.must("prefix_lm", false)
		o.must("attn_type", "multihead_attention")
		if v := o.float("softmax_scale", 0); v != 0 {
			s.AttentionScale = float32(v)
		}
		for _, key := range []string{"attn_pdrop", "attn_impl", "attn_uses_sequence_id"} {
			o.has(key)
		}
		r.take(o, "attn_config.")
	}
}
