package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// config is a JSON object whose used keys are recorded.
type config struct {
	raw    map[string]json.RawMessage
	heeded map[string]bool
	errs   []error
	notes  []string

	template string // of a folder without a chat template
}

func parseConfig(b []byte) (*config, error) {
	c := &config{heeded: map[string]bool{}}
	if err := json.Unmarshal(quoteNonFinite(b), &c.raw); err != nil {
		return nil, err
	}
	if c.raw == nil {
		return nil, errors.New("not a JSON object")
	}
	return c, nil
}

// quoteNonFinite puts NaN, Infinity and -Infinity into quotes. Python writes them
// into JSON, which has no such numbers.
func quoteNonFinite(b []byte) []byte {
	words := regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)
	return words.ReplaceAllFunc(b, func(word []byte) []byte {
		if word[0] == '"' {
			return word
		}
		return strconv.AppendQuote(nil, string(word))
	})
}

const maxFaults = 16

func (c *config) fail(format string, args ...any) {
	if len(c.errs) < maxFaults {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

func (c *config) note(format string, args ...any) {
	if len(c.notes) < maxFaults {
		c.notes = append(c.notes, fmt.Sprintf(format, args...))
	}
}

// has reports whether a key has a value, and marks it as used.
func (c *config) has(key string) bool {
	c.heeded[key] = true
	v, ok := c.raw[key]
	return ok && string(v) != "null"
}

// get decodes a key into v.
func (c *config) get(key string, v any) bool {
	if !c.has(key) {
		return false
	}
	if err := json.Unmarshal(c.raw[key], v); err != nil {
		c.fail("key %s: bad value %s: %w", key, brief(c.raw[key]), err)
		return false
	}
	return true
}

// count reads a required integer.
func (c *config) count(key string) int {
	if !c.has(key) {
		c.fail("missing key %s", key)
		return 0
	}
	return c.countOr(key, 0)
}

// countOr reads an integer from 0 to 2^31-1, or absent if the key is missing.
func (c *config) countOr(key string, absent int) int {
	var f float64
	if !c.get(key, &f) {
		return absent
	}
	if f != math.Trunc(f) || f < 0 || f > math.MaxInt32 {
		c.fail("key %s: bad count %s", key, brief(c.raw[key]))
		return absent
	}
	return int(f)
}

// float reads a number, which YAML tools write as a string if it is 1e-06.
func (c *config) float(key string, absent float64) float64 {
	f := absent
	var text string
	if c.has(key) && json.Unmarshal(c.raw[key], &text) == nil {
		var err error
		if f, err = strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
	c.get(key, &f)
	return f
}

func (c *config) flag(key string, absent bool) bool {
	v := absent && string(c.raw[key]) != "null" // which is false in Python
	c.get(key, &v)
	return v
}

func (c *config) text(key, absent string) string {
	v := absent
	c.get(key, &v)
	return v
}

// object opens a nested object, or returns nil.
func (c *config) object(key string) *config {
	inner := &config{heeded: map[string]bool{}}
	if !c.get(key, &inner.raw) || inner.raw == nil {
		return nil
	}
	return inner
}

// must refuses any value of a key except the supported one.
func (c *config) must(key string, want any) {
	if !c.has(key) && (want != true || c.raw[key] == nil) {
		return
	}
	text, err := json.Marshal(want)
	if err != nil || string(text) != strings.Join(strings.Fields(string(c.raw[key])), "") {
		c.fail("key %s: got %s, want %s", key, brief(c.raw[key]), text)
	}
}

// UnknownKeyError reports a key of config.json that is not supported and may
// change the result. [Options].Ignore skips it.
type UnknownKeyError struct{ Key, Value string }

// Error implements error.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("unknown key %s with value %s may change the result", e.Key, e.Value)
}

// rest refuses unused keys, unless they are empty or cannot change the numbers.
// what names the path of the object.
func (c *config) rest(what string, ignore []string) {
	for _, key := range slices.Sorted(maps.Keys(c.raw)) {
		switch {
		case c.heeded[key] || harmless[key] || empty(c.raw[key]):
		case strings.HasPrefix(key, "_") || noted[key] || slices.Contains(ignore, what+key) || slices.Contains(ignore, key):
			c.note("key %s%s of config.json is ignored", what, key)
		case len(c.errs) < maxFaults:
			c.errs = append(c.errs, &UnknownKeyError{what + key, brief(c.raw[key])})
		}
	}
}

// empty reports whether a value has no effect.
func empty(v json.RawMessage) bool {
	switch string(v) {
	case "null", "false", "0", "0.0", `""`, "[]", "{}":
		return true
	}
	return false
}

func brief(v json.RawMessage) string {
	s := strings.Join(strings.Fields(string(v)), " ")
	if len(s) > 64 {
		return s[:61] + "..."
	}
	return s
}

func (c *config) err() error { return errors.Join(c.errs...) }

// harmless lists keys of config.json for training, other tools or memory.
var harmless = set(
	"architectures", "model_type", "dtype", "torch_dtype", "transformers_version", "_name_or_path", "_commit_hash", "name_or_path",
	"use_cache", "cache_implementation", "gradient_checkpointing", "initializer_range", "initializer_factor", "init_std", "init_method",
	"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "residual_dropout", "embedding_dropout", "classifier_dropout", "dropout",
	"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "decoder_start_token_id",
	"pretraining_tp", "router_aux_loss_coef", "router_z_loss_coef", "router_jitter_noise", "output_router_logits", "aux_loss_alpha",
	"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout", "task_specific_params",
	"id2label", "label2id", "problem_type", "num_labels", "auto_map", "_attn_implementation", "attn_implementation", "attn_implementation_autoset",
	"_attn_implementation_autoset", "_flash_attn_2_enabled", "use_flash_attention_2", "is_llama_config", "transformers.js_config",
	"unsloth_fixed", "unsloth_version", "rescale_prefix", "n_ctx", "n_special", "predict_special_tokens", "reorder_and_upcast_attn",
	"output_attentions", "output_hidden_states", "return_dict", "upcast_attention", "max_window_layers", "is_decoder",
	"chunk_size_feed_forward", "max_length", "min_length", "num_beams", "temperature", "top_k", "top_p", "repetition_penalty", "length_penalty",
	"do_sample", "early_stopping", "num_return_sequences", "typical_p", "diversity_penalty", "num_beam_groups", "encoder_no_repeat_ngram_size",
)

// noted lists further keys that cannot change the numbers, of training programs,
// data, servers and tokenizers. They are ignored with a note.
var noted = set(
	"max_sequence_length", "max_seq_length", "max_seq_len", "model_max_length", "tokenizer_model_max_length", "seq_length", "seq_len", "sequence_length",
	"max_new_tokens", "padding_side", "tokenizer_padding_side", "neftune_noise_alpha", "finetuned", "finetuning_task", "training_args",
	"use_flash_attn", "use_flash_attention", "flash_attention", "flash_attn", "attn_impl", "fused_norm", "use_fused_rms_norm", "use_fused_rope", "fuse_cross_entropy",
	"fused_swiglu", "fuse_norm", "bf16", "fp16", "fp32", "use_bfloat16", "torchscript", "low_cpu_mem_usage", "num_params", "comment", "description",
	"tie_encoder_decoder", "bad_words_ids", "begin_suppress_tokens", "suppress_tokens", "forced_bos_token_id", "forced_eos_token_id", "prefix", "remove_invalid_values",
	"exponential_decay_length_penalty", "no_repeat_ngram_size", "output_scores", "return_dict_in_generate", "use_return_dict", "tf_legacy_loss", "cross_attention_hidden_size",
	"image_token_id", "deepspeed", "ddp", "gradient_checkpointing_kwargs", "loss_type", "label_smoothing", "z_loss", "aux_loss_coef", "mlp_dropout", "emb_dropout", "emb_pdrop",
	"hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout_prob", "ffn_dropout", "layerdrop", "license", "language", "author", "base_model", "tags", "date", "version", "max_batch_size",
)

func set(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}
