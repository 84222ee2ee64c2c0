package hf

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
)

func bigCodeNames() names {
	n := gpt2Names()
	n.columns = nil
	return n
}

func hunyuanNames(experts map[string]string) names {
	n := llamaNames(experts)
	maps.Copy(n.of, map[string]string{
		"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm", "ffn_gate_inp": "mlp.gate.wg",
		"ffn_gate_shexp": "mlp.shared_mlp.gate_proj", "ffn_up_shexp": "mlp.shared_mlp.up_proj", "ffn_down_shexp": "mlp.shared_mlp.down_proj",
	})
	return n
}

func glm4MoeNames(experts map[string]string) names {
	n := deepseekNames(experts)
	n.of["post_attention_norm"] = "post_attention_layernorm"
	return n
}

func ernieMoeNames(experts map[string]string) names {
	n := deepseekNames(experts)
	n.of["exp_probs_b.bias"] = "mlp.moe_statics.e_score_correction_bias"
	return n
}

func minimaxNames(experts map[string]string) names {
	n := llamaNames(experts)
	n.of["exp_probs_b.bias"] = "block_sparse_moe.e_score_correction_bias"
	return n
}

func graniteSharedNames() names {
	n := graniteNames()
	sharedHalves(n)
	return n
}

// sharedHalves adds the shared expert of Granite, whose first matrices are one.
func sharedHalves(n names) {
	maps.Copy(n.of, map[string]string{
		"ffn_gate_shexp": "shared_mlp.input_linear", "ffn_up_shexp": "shared_mlp.input_linear", "ffn_down_shexp": "shared_mlp.output_linear",
	})
	n.halves["ffn_gate_shexp"], n.halves["ffn_up_shexp"] = half{}, half{second: true}
}

func (r *shapeReader) graniteShared() {
	r.granitemoe()
	r.s.SharedHidden = r.countOr("shared_intermediate_size", 0)
}

func (r *shapeReader) seedOss() {
	r.llama()
	r.bias("attention_out_bias", "attn_output")
}

// olmo3 reads OLMo 3, whose layers with a window rotate without scaling.
func (r *shapeReader) olmo3() {
	r.olmo2()
	r.window(func(i int) bool { return (i+1)%4 != 0 })
	if r.s.Window == 0 {
		r.s.Local = nil
	}
}

func (r *shapeReader) arcee() {
	r.sizes()
	r.act("relu2", "hidden_act")
	r.bias("attention_bias", "attn_q")
	r.bias("mlp_bias", "ffn_up")
	r.rope()
}

// apertus reads Apertus, whose activation has learned numbers in each layer.
func (r *shapeReader) apertus() {
	r.sizes()
	r.must("hidden_act", "xielu")
	r.bias("attention_bias", "attn_q")
	r.rope()
	c := &arch.Curves{}
	r.s.Curves = c
	for i := range r.s.Layers {
		at := fmt.Sprintf(r.family.names.layer, i) + "mlp.act_fn."
		c.Above, c.Below = append(c.Above, r.number(at+"alpha_p")), append(c.Below, r.number(at+"alpha_n"))
		c.Slope, c.Least = append(c.Slope, r.number(at+"beta")), append(c.Least, r.number(at+"eps"))
	}
}

// number reads a tensor of one number, which becomes a key of the GGUF file.
func (r *shapeReader) number(name string) float32 {
	t, ok := r.weights.find(name)
	typ, typed := t.DType.Type()
	if !ok || !typed || !quant.CanDequantize(typ) || len(t.Data) != typ.BlockBytes() {
		r.fail("tensor %s: got %q of shape %v, want one number", name, t.DType, t.Shape)
		return 0
	}
	var x [1]float32
	quant.Dequantize(x[:], t.Data, typ)
	if !r.weights.used[t.Name] {
		r.weights.used[t.Name], r.weights.settings = true, append(r.weights.settings, t)
	}
	return x[0]
}

func (r *shapeReader) nemotron() {
	r.arcee()
	r.s.Epsilon = float32(r.float("norm_eps", 1e-5))
}

// bigCode reads GPTBigCode: one key head for all queries, or one for each.
func (r *shapeReader) bigCode() {
	r.gpt2()
	r.has("multi_query")
	r.act("gelu_pytorch_tanh", "activation_function")
	for _, key := range []string{"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"} {
		r.has(key)
	}
	if r.flag("multi_query", true) {
		r.s.KVHeads = 1
	} else {
		r.family.names.mixed = set("attn_qkv")
	}
	r.must("num_key_value_heads", r.s.KVHeads)
}

// hunyuan reads Hunyuan's rotation, whose base a factor raises (NTK).
func (r *shapeReader) hunyuan() {
	r.llama()
	r.has("eod_token_id")
	r.must("use_qk_norm", true)
	r.must("use_cla", false)
}

func (r *shapeReader) hunyuanMoe() {
	r.hunyuan()
	s := &r.s
	s.Experts, s.ExpertsUsed = r.count("num_experts"), r.same("moe_topk", 1)
	s.ExpertHidden, s.SharedHidden = s.Hidden, s.Hidden
	r.has("num_experts_per_tok") // moe_topk
	for _, key := range []string{"moe_intermediate_size", "num_shared_expert"} {
		want := map[string]int{"moe_intermediate_size": s.Hidden, "num_shared_expert": 1}[key]
		if r.has(key) && r.same(key, want) != want {
			r.fail("key %s: got %s, want %d", key, brief(r.raw[key]), want)
		}
	}
	r.must("use_mixed_mlp_moe", true)
	r.must("norm_topk_prob", true)
}

func flexOlmoNames(experts, post map[string]string) names {
	n := llamaNames(experts)
	maps.Copy(n.of, post)
	return n
}

// flexOlmo reads experts of OLMo, whose norms follow attention and experts.
func (r *shapeReader) flexOlmo() {
	r.llama()
	s := &r.s
	s.Experts, s.ExpertsUsed = r.count("num_experts"), r.count("num_experts_per_tok")
	s.ExpertHidden, s.ExpertSum = s.Hidden, !r.flag("norm_topk_prob", false)
}

// same reads a count that is given once or for each layer, and the same in all.
func (r *shapeReader) same(key string, absent int) int {
	var all []int
	if !r.has(key) || r.raw[key][0] != '[' {
		return r.countOr(key, absent)
	}
	if !r.get(key, &all) || len(all) != r.s.Layers {
		r.fail("key %s: got %d entries, want %d", key, len(all), r.s.Layers)
		return absent
	}
	for _, n := range all {
		if n != all[0] || n < 0 {
			r.fail("key %s: got %s, want one count for all layers", key, brief(r.raw[key]))
			return absent
		}
	}
	return all[0]
}

// countedExperts reads experts of which shared ones are as wide as some, without
// the scores.
func (r *shapeReader) countedExperts(shared, lead int) {
	s := &r.s
	s.Experts, s.ExpertsUsed = r.count("n_routed_experts"), r.countOr("num_experts_per_tok", 8)
	s.ExpertHidden = r.count("moe_intermediate_size")
	n := r.countOr("n_shared_experts", shared)
	if n > maxShared {
		r.fail("key n_shared_experts: got %d, want at most %d", n, maxShared)
	}
	s.SharedHidden = min(n, maxShared) * s.ExpertHidden
	s.DenseLead = r.countOr("first_k_dense_replace", lead)
	s.ExpertScale = r.expertScale(1)
	r.must("moe_layer_freq", 1)
	for _, key := range []string{"ep_size", "seq_aux", "num_nextn_predict_layers", "num_mtp_layers"} { // of training, and of layers that are not read
		r.has(key)
	}
}

// scored reads experts that are scored by σ with a bias.
func (r *shapeReader) scored(normalized bool) {
	r.s.ExpertSigmoid, r.s.ExpertSum = true, !r.flag("norm_topk_prob", normalized)
	r.expertGroups(r.countOr("n_group", 1), r.countOr("topk_group", 1))
	r.must("scoring_func", "sigmoid")
	r.must("topk_method", "noaux_tc")
}

func (r *shapeReader) glm4moe() {
	r.llama()
	r.countedExperts(1, 1)
	r.scored(true)
	name := fmt.Sprintf(r.family.names.layer, 0) + r.family.names.of["attn_q_norm"] + ".weight"
	if _, there := r.weights.find(name); there != r.flag("use_qk_norm", false) {
		r.fail("key use_qk_norm is %v, but presence of tensor %s is %v", !there, name, there)
	}
}

// solarOpen reads Solar Open, all of whose layers have experts.
func (r *shapeReader) solarOpen() {
	if r.raw["partial_rotary_factor"] == nil {
		r.raw["partial_rotary_factor"] = json.RawMessage("1.0")
	}
	if v, ok := r.raw["moe_intermediate_size"]; ok { // no layer has another width
		r.raw["intermediate_size"] = v
	}
	r.llama()
	delete(r.raw, "first_k_dense_replace") // which transformers ignores
	r.countedExperts(1, 0)
	r.scored(true)
}

func (r *shapeReader) dots1() {
	r.llama()
	r.countedExperts(0, 0)
	r.scored(false)
	r.has("sliding_window")
	r.has("max_window_layers")
}

// deepseek1 reads the first DeepSeek with experts, of which transformers has no class.
func (r *shapeReader) deepseek1() {
	r.llama()
	r.countedExperts(0, 0)
	r.must("scoring_func", "softmax")
	r.s.ExpertSum = !r.flag("norm_topk_prob", false)
}

func (r *shapeReader) ernieMoe() {
	r.ernie()
	s := &r.s
	s.Experts, s.ExpertsUsed = r.count("moe_num_experts"), r.countOr("moe_k", 6)
	s.ExpertHidden = r.count("moe_intermediate_size")
	n := r.countOr("moe_num_shared_experts", 2)
	if n > maxShared {
		r.fail("key moe_num_shared_experts: got %d, want at most %d", n, maxShared)
	}
	s.SharedHidden, s.DenseLead = min(n, maxShared)*s.ExpertHidden, r.countOr("moe_layer_start_index", 1)
	r.must("moe_layer_interval", 1)
	if end := r.float("moe_layer_end_index", -1); end != -1 && int(end) != s.Layers-1 {
		r.fail("key moe_layer_end_index: got %v, want %d or -1", end, s.Layers-1)
	}
	if v := r.float("moe_norm_min", 1e-12); v > 1e-6 {
		r.fail("key moe_norm_min: got %v, want at most 1e-6", v)
	}
	name := fmt.Sprintf(r.family.names.layer, s.DenseLead) + "mlp.gate.moe_statics.e_score_correction_bias"
	if _, there := r.weights.find(name); there {
		r.family.names.of["exp_probs_b.bias"] = "mlp.gate.moe_statics.e_score_correction_bias"
	}
}

func (r *shapeReader) minimax() {
	r.llama()
	s := &r.s
	s.Experts, s.ExpertsUsed = r.count("num_local_experts"), r.countOr("num_experts_per_tok", 8)
	s.ExpertHidden, s.ExpertSigmoid = s.Hidden, true
	r.must("scoring_func", "sigmoid")
	r.must("use_qk_norm", true)
	r.must("qk_norm_type", "per_layer")
	r.must("use_routing_bias", true)
	if n := r.countOr("shared_intermediate_size", 0); n != 0 {
		r.fail("key shared_intermediate_size: got %d, want 0", n)
	}
	for _, key := range []string{"use_mtp", "num_mtp_modules", "mtp_transformer_layers"} {
		r.has(key)
	}
}

// ntk raises the base of the rotation by a factor, as Hunyuan does.
func (r *shapeReader) ntk(o *config) bool {
	alpha := o.float("alpha", 0)
	if !(alpha > 0) || r.s.HeadDim < 4 || r.s.Arch != "hunyuan-dense" && r.s.Arch != "hunyuan-moe" {
		return false
	}
	dim := float64(r.s.HeadDim)
	r.s.Rope.Base = float32(float64(r.s.Rope.Base) * math.Pow(alpha, dim/(dim-2)))
	for _, key := range []string{"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"} {
		o.has(key)
	}
	return true
}
