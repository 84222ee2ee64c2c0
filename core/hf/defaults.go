package hf

import "encoding/json"

// defaults are the values that classes of transformers assume for keys that config.json
// lacks, if the readers of most classes assume other values.
func defaults() map[string]string {
	return map[string]string{
		"ApertusForCausalLM":        `{"rms_norm_eps":1e-05,"rope_parameters":{"rope_type":"llama3","rope_theta":12000000.0,"factor":8.0,"original_max_position_embeddings":8192,"low_freq_factor":1.0,"high_freq_factor":4.0}}`,
		"ArceeForCausalLM":          `{"rms_norm_eps":1e-05}`,
		"Cohere2ForCausalLM":        `{"sliding_window":4096}`,
		"CohereForCausalLM":         `{"rope_theta":500000.0}`,
		"CwmForCausalLM":            `{"rms_norm_eps":1e-05,"head_dim":128,"num_key_value_heads":8,"sliding_window":8192,"rope_theta":1000000.0}`,
		"Dots1ForCausalLM":          `{"num_key_value_heads":32}`,
		"Ernie4_5ForCausalLM":       `{"rms_norm_eps":1e-05,"head_dim":128,"num_key_value_heads":2,"rope_theta":500000.0}`,
		"Ernie4_5_MoeForCausalLM":   `{"rms_norm_eps":1e-05,"num_key_value_heads":4,"rope_theta":500000.0}`,
		"Exaone4ForCausalLM":        `{"rms_norm_eps":1e-05,"num_key_value_heads":32,"sliding_window":4096}`,
		"Gemma2ForCausalLM":         `{"head_dim":256,"num_key_value_heads":4,"sliding_window":4096,"attn_logit_softcapping":50.0,"final_logit_softcapping":30.0}`,
		"Gemma3ForCausalLM":         `{"head_dim":256,"num_key_value_heads":4,"sliding_window":4096}`,
		"Gemma3nForCausalLM":        `{"head_dim":256,"num_key_value_heads":2,"sliding_window":512,"final_logit_softcapping":30.0}`,
		"Gemma4ForCausalLM":         `{"head_dim":256,"num_key_value_heads":4,"sliding_window":512}`,
		"GemmaForCausalLM":          `{"head_dim":256,"num_key_value_heads":16}`,
		"Glm4ForCausalLM":           `{"rms_norm_eps":1.5625e-07,"head_dim":128,"num_key_value_heads":2}`,
		"FlexOlmoForCausalLM":       `{"num_experts":7,"num_experts_per_tok":5}`,
		"BambaForCausalLM":          `{"rms_norm_eps":1e-05,"num_key_value_heads":8}`,
		"Glm4MoeLiteForCausalLM":    `{"rms_norm_eps":1e-05,"num_key_value_heads":20,"q_lora_rank":768,"qk_nope_head_dim":192,"v_head_dim":256,"num_experts_per_tok":4}`,
		"Glm4MoeForCausalLM":        `{"rms_norm_eps":1e-05,"num_key_value_heads":8}`,
		"GlmForCausalLM":            `{"rms_norm_eps":1.5625e-07,"head_dim":128,"num_key_value_heads":2}`,
		"GptOssForCausalLM":         `{"rms_norm_eps":1e-05,"head_dim":64,"num_key_value_heads":8,"sliding_window":128,"rope_theta":150000.0,"rope_parameters":{"rope_type":"yarn","factor":32,"beta_fast":32,"beta_slow":1,"truncate":false,"original_max_position_embeddings":4096}}`,
		"HeliumForCausalLM":         `{"rms_norm_eps":1e-08,"head_dim":128,"num_key_value_heads":20,"rope_theta":100000.0}`,
		"HunYuanDenseV1ForCausalLM": `{"rms_norm_eps":1e-05}`,
		"HunYuanMoEV1ForCausalLM":   `{"rms_norm_eps":1e-05}`,
		"Lfm2ForCausalLM":           `{"num_key_value_heads":8,"rope_theta":1000000.0}`,
		"Lfm2MoeForCausalLM":        `{"num_key_value_heads":8,"rope_theta":1000000.0}`,
		"MiniMaxM2ForCausalLM":      `{"head_dim":128,"num_key_value_heads":8,"rope_theta":5000000.0}`,
		"Ministral3ForCausalLM":     `{"rope_parameters":{"type":"yarn","rope_theta":1000000,"factor":16,"original_max_position_embeddings":16384,"beta_fast":32,"beta_slow":1,"mscale_all_dim":1,"mscale":1,"llama_4_scaling_beta":0.1},"rms_norm_eps":1e-05,"head_dim":128,"num_key_value_heads":8}`,
		"MinistralForCausalLM":      `{"num_key_value_heads":8,"sliding_window":4096}`,
		"MistralForCausalLM":        `{"num_key_value_heads":8,"sliding_window":4096}`,
		"MixtralForCausalLM":        `{"rms_norm_eps":1e-05,"num_key_value_heads":8,"rope_theta":1000000.0}`,
		"Olmo2ForCausalLM":          `{"rms_norm_eps":1e-05}`,
		"Olmo3ForCausalLM":          `{"rms_norm_eps":1e-05,"sliding_window":4096,"rope_theta":500000.0}`,
		"OlmoeForCausalLM":          `{"rms_norm_eps":1e-05}`,
		"Phi3ForCausalLM":           `{"original_max_position_embeddings":4096,"rms_norm_eps":1e-05}`,
		"Qwen2ForCausalLM":          `{"num_key_value_heads":32}`,
		"Qwen2MoeForCausalLM":       `{"num_key_value_heads":16}`,
		"Qwen2VLTextModel":          `{"rms_norm_eps":1e-05,"num_key_value_heads":8,"rope_theta":1000000.0}`,
		"Qwen3ForCausalLM":          `{"head_dim":128,"num_key_value_heads":32}`,
		"Qwen3MoeForCausalLM":       `{"num_key_value_heads":4}`,
		"Qwen3NextForCausalLM":      `{"head_dim":256,"num_key_value_heads":2}`,
		"Qwen3VLMoeTextModel":       `{"num_key_value_heads":16,"rope_theta":500000.0,"num_experts_per_tok":4,"moe_intermediate_size":1408}`,
		"Qwen3VLTextModel":          `{"head_dim":128,"num_key_value_heads":32,"rope_theta":500000.0}`,
		"Qwen3_5ForCausalLM":        `{"head_dim":256,"num_key_value_heads":4}`,
		"Qwen3_5MoeForCausalLM":     `{"head_dim":256,"num_key_value_heads":2}`,
		"SeedOssForCausalLM":        `{"head_dim":128,"num_key_value_heads":8}`,
		"SmolLM3ForCausalLM":        `{"num_key_value_heads":4,"rope_theta":2000000.0}`,
		"SolarOpenForCausalLM":      `{"rms_norm_eps":1e-05,"head_dim":128,"num_key_value_heads":8,"rope_theta":1000000.0,"moe_intermediate_size":1280}`,
		"StableLmForCausalLM":       `{"num_key_value_heads":32}`,
		"Starcoder2ForCausalLM":     `{"num_key_value_heads":2}`,
	}
}

// assume adds the defaults of the class for keys that are absent.
func (c *config) assume(class string) error {
	text, ok := defaults()[class]
	if !ok {
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return err
	}
	_, turned := c.raw["rope_parameters"]
	for _, older := range []string{"rope_scaling", "rope_theta", "rotary_emb_base"} {
		_, there := c.raw[older]
		turned = turned || there
	}
	if turned {
		delete(all, "rope_parameters")
	}
	for key, v := range all {
		if _, there := c.raw[key]; !there {
			c.raw[key] = v
		}
	}
	return nil
}
