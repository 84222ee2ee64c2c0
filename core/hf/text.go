package hf

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// textClasses maps the model_type of a text_config to the class of transformers
// that computes it.
func textClasses() map[string]string {
	return map[string]string{
		"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
		"qwen3_moe": "Qwen3MoeForCausalLM", "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM", "gemma3n_text": "Gemma3nForCausalLM", "gemma4_text": "Gemma4ForCausalLM",
		"qwen2_vl_text": "Qwen2VLTextModel", "qwen2_5_vl_text": "Qwen2VLTextModel", "qwen3_vl_text": "Qwen3VLTextModel", "qwen3_vl_moe_text": "Qwen3VLMoeTextModel",
		"qwen3_5_text": "Qwen3_5ForCausalLM", "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
		"phi3": "Phi3ForCausalLM", "smollm3": "SmolLM3ForCausalLM", "granite": "GraniteForCausalLM",
	}
}

// textDefaults are what transformers assumes for keys that a text_config lacks:
// saved ones often hold only the keys that differ.
func textDefaults() map[string]string {
	return map[string]string{
		"llama":             `{"vocab_size":32000,"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,"num_attention_heads":32,"max_position_embeddings":2048}`,
		"mistral":           `{"vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,"sliding_window":4096}`,
		"qwen2":             `{"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,"max_position_embeddings":32768}`,
		"qwen3":             `{"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,"head_dim":128,"max_position_embeddings":32768}`,
		"qwen2_vl_text":     `{"vocab_size":152064,"hidden_size":8192,"intermediate_size":29568,"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"max_position_embeddings":32768,"rms_norm_eps":1e-05}`,
		"qwen2_5_vl_text":   `{"vocab_size":152064,"hidden_size":8192,"intermediate_size":29568,"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"max_position_embeddings":32768,"rms_norm_eps":1e-05}`,
		"qwen3_vl_text":     `{"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,"head_dim":128,"max_position_embeddings":128000}`,
		"qwen3_vl_moe_text": `{"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":16,"max_position_embeddings":128000}`,
		"qwen3_5_text":      `{"vocab_size":248320,"hidden_size":4096,"intermediate_size":12288,"num_hidden_layers":32,"num_attention_heads":16,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":32768}`,
		"qwen3_5_moe_text":  `{"vocab_size":248320,"hidden_size":2048,"num_hidden_layers":40,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"max_position_embeddings":32768}`,
		"gemma":             `{"vocab_size":256000,"hidden_size":3072,"intermediate_size":24576,"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":16,"head_dim":256,"max_position_embeddings":8192}`,
		"gemma2":            `{"vocab_size":256000,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":8192,"sliding_window":4096,"final_logit_softcapping":30.0,"attn_logit_softcapping":50.0}`,
		"gemma3_text":       `{"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":131072,"sliding_window":4096,"rope_theta":1000000.0,"rope_local_base_freq":10000.0}`,
		"gemma4_text":       `{"vocab_size":262144,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":30,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":131072,"sliding_window":512}`,
		"gemma3n_text":      `{"vocab_size":262400,"hidden_size":2048,"intermediate_size":16384,"num_hidden_layers":35,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,"max_position_embeddings":32768,"sliding_window":512,"rope_theta":1000000.0,"rope_local_base_freq":10000.0}`,
	}
}

// textHalf returns the configuration of the language model of a multimodal model,
// or nil if c is that of a language model.
func (c *config) textHalf() (*config, error) {
	inner := c.object("text_config")
	if inner == nil {
		if inner = c.flatHalf(); inner == nil {
			return nil, nil
		}
	}
	kind := inner.text("model_type", "llama")
	class, ok := textClasses()[kind]
	if !ok {
		return nil, fmt.Errorf("key text_config.model_type: unsupported %.40q, want one of %s", kind, strings.Join(slices.Sorted(maps.Keys(textClasses())), ", "))
	}
	all := map[string]json.RawMessage{}
	if text, ok := textDefaults()[kind]; ok {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return nil, err
		}
	}
	if _, ok := inner.raw["rope_parameters"]; ok {
		delete(all, "rope_theta")
		delete(all, "rope_local_base_freq")
	}
	maps.Copy(all, inner.raw)
	for _, key := range []string{"bos_token_id", "eos_token_id"} {
		if _, ok := all[key]; !ok && c.raw[key] != nil {
			all[key] = c.raw[key]
		}
	}
	if kind == "qwen3_vl_text" || kind == "qwen3_vl_moe_text" {
		if vision := c.object("vision_config"); vision != nil && vision.raw[deepLayers] != nil {
			all[deepLayers] = vision.raw[deepLayers]
		} else {
			all[deepLayers] = json.RawMessage("[8,16,24]")
		}
	}
	name, err := json.Marshal([]string{class})
	if err != nil {
		return nil, err
	}
	all["architectures"] = name
	delete(all, "tie_word_embeddings") // decided by the weights
	half := &config{raw: all, heeded: map[string]bool{}}
	if c.text("model_type", "") == "paligemma" {
		delete(all, "use_bidirectional_attention") // of prompts with pictures
		delete(all, "num_image_tokens")
		half.template = paligemmaTemplate
	}
	return half, nil
}

// paligemmaTemplate repeats the processor of PaliGemma, which has no template:
// the pictures, BOS, the words and a line feed.
const paligemmaTemplate = `{% for m in messages %}{% if m['role'] == 'assistant' %}{{ m['content'] }}{% else %}` +
	`{% if m['content'] is string %}{{ bos_token + m['content'] + '\n' }}{% else %}` +
	`{% for c in m['content'] %}{% if c['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}{{ bos_token }}` +
	`{% for c in m['content'] %}{% if c['type'] == 'text' %}{{ c['text'] }}{% endif %}{% endfor %}{{ '\n' }}{% endif %}{% endif %}{% endfor %}`

// deepLayers is the key of the layers of a vision tower whose outputs are added to
// those of the first layers of the language model.
const deepLayers = "deepstack_visual_indexes"

// flatHalf returns the keys of the language model of a file that has them next to
// vision_config, or nil.
func (c *config) flatHalf() *config {
	kind := c.text("model_type", "")
	if kind != "qwen2_vl" && kind != "qwen2_5_vl" || c.raw["vision_config"] == nil {
		return nil
	}
	inner := &config{raw: maps.Clone(c.raw), heeded: map[string]bool{}}
	for _, key := range []string{"architectures", "vision_config", "vision_start_token_id", "vision_end_token_id", "vision_token_id", "image_token_id", "video_token_id"} {
		delete(inner.raw, key)
	}
	inner.raw["model_type"] = json.RawMessage(`"` + kind + `_text"`)
	return inner
}

// text keeps the tensors of the language model of a multimodal model, under the
// names that they have alone, and returns how many others there are.
func (w *weights) text() (left int) {
	for _, name := range slices.Sorted(maps.Keys(w.all)) {
		to := textName(name)
		if to == "" {
			left++
		}
		w.move(w.all[name], to)
	}
	for name := range w.lost {
		if textName(name) == "" {
			delete(w.lost, name)
		}
	}
	return left
}

// textName returns the name of a tensor of the language model alone, or "" for one
// of other parts.
func textName(name string) string {
	for _, p := range []struct{ from, to string }{
		{"language_model.model.", "model."}, {"language_model.lm_head.", "lm_head."}, {"model.language_model.", "model."},
		{"model.text_model.", "model."}, {"lm_head.", "lm_head."},
		{"model.layers.", "model.layers."}, {"model.embed_tokens.", "model.embed_tokens."}, {"model.norm.", "model.norm."},
	} {
		if rest, ok := strings.CutPrefix(name, p.from); ok {
			return p.to + rest
		}
	}
	return ""
}

// tied states whether the output is the embedding, by its presence.
func (c *config) tied(output bool) {
	c.raw["tie_word_embeddings"] = json.RawMessage(fmt.Sprint(!output))
}

// jsonTemplate reads chat_template.json, in which processors save a template.
func jsonTemplate(dir string) (string, error) {
	b, err := readOptional(dir, "chat_template.json", maxTemplate)
	if err != nil || b == nil {
		return "", err
	}
	var file struct {
		Template string `json:"chat_template"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return "", fmt.Errorf("chat_template.json: %w", err)
	}
	return file.Template, nil
}
