package hf

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"mm-abi.org/mm/core/gguf/arch"
)

func gemma4Names(other map[string]string) names {
	n := llamaNames(other)
	maps.Copy(n.of, map[string]string{
		perLayer: "model.embed_tokens_per_layer", "per_layer_model_proj": "model.per_layer_model_projection", "per_layer_proj_norm": "model.per_layer_projection_norm",
		"inp_gate": "per_layer_input_gate", "proj": "per_layer_projection", "post_norm": "post_per_layer_input_norm",
		"layer_output_scale.weight": "layer_scalar",
		"ffn_gate_inp":              "router.proj", arch.RouterScale: "router.scale", arch.ExpertScales: "router.per_expert_scale",
		arch.GateUpExperts: "experts.gate_up_proj", "ffn_down_exps.weight": "experts.down_proj",
		"pre_ffw_norm_2": "pre_feedforward_layernorm_2", "post_ffw_norm_1": "post_feedforward_layernorm_1", "post_ffw_norm_2": "post_feedforward_layernorm_2",
	})
	return n
}

// gemma4 reads Gemma 4, whose layers with a window have heads of other sizes.
func (r *shapeReader) gemma4() {
	if string(r.raw["use_bidirectional_attention"]) == `"vision"` { // of pictures
		delete(r.raw, "use_bidirectional_attention")
	}
	s, types := &r.s, []string(nil)
	r.layers("num_hidden_layers")
	full := func(i int) bool { return (i+1)%6 == 0 }
	if r.get("layer_types", &types); types != nil {
		full = func(i int) bool { return i < len(types) && types[i] == "full_attention" }
	}
	local, heads := r.count("head_dim"), r.countOr("num_key_value_heads", 4)
	dim, keys := r.globalSizes(full, heads)
	if r.raw["rope_parameters"] == nil {
		r.raw["rope_parameters"] = json.RawMessage(`{"sliding_attention":{"rope_type":"default","rope_theta":10000.0},"full_attention":{"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1000000.0}}`)
	}
	r.gemma() // with the sizes of layers with a window
	s.LogitCap = r.positive("final_logit_softcapping")
	r.window(func(i int) bool { return !full(i) })
	if s.Windowed != nil && s.Windowed[s.Layers-1] {
		r.fail("key layer_types: got sliding_attention for the last layer, want full_attention")
	}
	if s.HeadDim, s.KVHeads = dim, keys; dim != local || keys != heads {
		s.LocalHeadDim, s.LocalKVHeads = local, heads
	}
	s.Rope.Dims = dim
	r.proportional()
	if s.Local != nil {
		s.Local.Dims = local
	}
	s.Altup = &arch.Altup{Streams: 1, PerLayer: r.countOr("hidden_size_per_layer_input", 256), Shared: r.countOr("num_kv_shared_layers", 0)}
	s.WideShared = r.flag("use_double_wide_mlp", false) && s.Altup.Shared > 0
	if r.flag("enable_moe_block", false) {
		s.Experts, s.ExpertsUsed, s.ExpertHidden = r.count("num_experts"), r.count("top_k_experts"), r.count("moe_intermediate_size")
	}
	for _, key := range []string{"num_experts", "top_k_experts", "moe_intermediate_size"} { // of the blocks that are disabled
		r.has(key)
	}
	if rows := r.countOr("vocab_size_per_layer_input", 262144); s.Altup.PerLayer > 0 {
		if t, ok := r.weights.find(r.family.names.of[perLayer] + ".weight"); rows > s.Vocab || ok && (len(t.Shape) != 2 || t.Shape[0] != rows) {
			r.fail("key vocab_size_per_layer_input: got %d, want at most %d and the rows of tensor %s, of shape %v", rows, s.Vocab, t.Name, t.Shape)
		}
	}
}

// globalSizes returns the size and the number of key heads of layers without a
// window: those of the older keys, or of per_layer_config, which lists each layer.
func (r *shapeReader) globalSizes(full func(i int) bool, heads int) (dim, keys int) {
	type sizes struct {
		Dim  int `json:"head_dim"`
		Keys int `json:"num_key_value_heads"`
	}
	dim, keys = r.countOr("global_head_dim", 512), heads
	equal := r.flag("attention_k_eq_v", false)
	if n := r.countOr("num_global_key_value_heads", 0); n > 0 && equal {
		keys = n
	}
	r.keysAreValues(full, equal)
	var all map[string]map[string]int
	if !r.get("per_layer_config", &all) {
		return dim, keys
	}
	first := true
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := sizes{all[name]["head_dim"], heads}
		if n := all[name]["num_key_value_heads"]; n > 0 {
			one.Keys = n
		}
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || !full(i) || one.Dim < 1 || !first && one != (sizes{dim, keys}) || len(all[name]) > 2 {
			r.fail("key per_layer_config: got %s for layer %s, want the same head_dim and num_key_value_heads in all layers of full_attention", brief(r.raw["per_layer_config"]), name)
			return dim, keys
		}
		dim, keys, first = one.Dim, one.Keys, false
	}
	return dim, keys
}

// keysAreValues compares attention_k_eq_v with the tensors of the layers.
func (r *shapeReader) keysAreValues(full func(i int) bool, equal bool) {
	for i := range r.layers("num_hidden_layers") {
		name := "model.layers." + strconv.Itoa(i) + ".self_attn."
		_, value := r.weights.find(name + "v_proj.weight")
		if _, key := r.weights.find(name + "k_proj.weight"); key && full(i) && value == equal {
			r.fail("key attention_k_eq_v is %v, but presence of tensor %sv_proj.weight is %v", equal, name, value)
			return
		}
	}
}

// proportional adds the divisors of a rotation of which only the first pairs turn, as
// llama.cpp's converter has them.
func (r *shapeReader) proportional() {
	var all map[string]struct {
		Type   string   `json:"rope_type"`
		Part   *float64 `json:"partial_rotary_factor"`
		Factor *float64 `json:"factor"`
	}
	if json.Unmarshal(r.raw["rope_parameters"], &all) != nil {
		return
	}
	o := all["full_attention"]
	if o.Type != "proportional" {
		if o.Part != nil && *o.Part != 1 {
			r.fail("key rope_parameters.full_attention.partial_rotary_factor: got %v, want 1 for rope_type %s", *o.Part, o.Type)
		}
		o.Part, o.Factor = nil, nil // llama.cpp does not load files without divisors
	}
	part, factor := 1.0, 1.0
	if o.Part != nil {
		part = *o.Part
	}
	if o.Factor != nil {
		factor = *o.Factor
	}
	if !(part > 0 && part <= 1) || !(factor > 0) {
		r.fail("key rope_parameters.full_attention: bad factors %v and %v", part, factor)
		return
	}
	divisors := make([]float32, min(r.s.HeadDim, 1<<16)/2)
	for i := range divisors {
		if divisors[i] = float32(factor); i >= int(part*float64(r.s.HeadDim))/2 {
			divisors[i] = 1e30
		}
	}
	r.extra = append(r.extra, extra{arch.RopeFreqs, divisors})
}
