package hf

import (
	"encoding/json"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/safetensors"
)

// Keys that are absent have the defaults of the class, as in transformers; others stay.
func TestDefaults(t *testing.T) {
	for class := range defaults() {
		c := &config{raw: map[string]json.RawMessage{}}
		if err := c.assume(class); err != nil || len(c.raw) == 0 {
			t.Errorf("%s: %v, %d keys", class, err, len(c.raw))
		}
		if _, ok := families()[class]; !ok {
			t.Errorf("%s is not a class that is read", class)
		}
	}
	for _, c := range []struct {
		class, config, key, want string
	}{
		{"GptOssForCausalLM", `{}`, "rope_parameters", "yarn"},
		{"GptOssForCausalLM", `{"rope_theta":1e4}`, "rope_parameters", ""},
		{"MixtralForCausalLM", `{}`, "rope_theta", "1000000.0"},
		{"MixtralForCausalLM", `{"rms_norm_eps":1e-6}`, "rms_norm_eps", "1e-6"},
		{"MistralForCausalLM", `{"sliding_window":null}`, "sliding_window", "null"},
		{"Gemma2ForCausalLM", `{}`, "attn_logit_softcapping", "50"},
	} {
		read, err := parseConfig([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		if err := read.assume(c.class); err != nil || !strings.Contains(string(read.raw[c.key]), c.want) || c.want == "" && read.raw[c.key] != nil {
			t.Errorf("%s %s: key %s is %s, %v, want %s", c.class, c.config, c.key, read.raw[c.key], err, c.want)
		}
	}
}

// Values that transformers computes with in another way are refused, and null is false.
func TestValuesRefused(t *testing.T) {
	for _, c := range []struct {
		class, key string
		value      any
		want       string
		read       func(arch.Shape) bool
	}{
		{"MistralForCausalLM", "max_position_embeddings", 1 << 15, "", func(s arch.Shape) bool { return s.Window == 4096 }},
		{"MistralForCausalLM", "sliding_window", 0, "key sliding_window: got 0, want null or a number", nil},
		{"HeliumForCausalLM", "model_type", "helium", "", func(s arch.Shape) bool { return s.Rope.Base == 1e5 }},
		{"GraniteForCausalLM", "residual_multiplier", 0, "key residual_multiplier: got 0, want a positive number", nil},
		{"GraniteForCausalLM", "attention_multiplier", 0, "key attention_multiplier: got 0, want a positive number", nil},
		{"LlamaForCausalLM", "is_causal", nil, "key is_causal: got null, want true", nil},
	} {
		config := llama()
		delete(config, "rms_norm_eps")
		delete(config, "rope_theta")
		config["architectures"], config["head_dim"], config[c.key] = []string{c.class}, 4, c.value
		m, err := Open(folder(t, config, tensors(), safetensors.F32), Options{})
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s with %s %v: %v, want %q in it", c.class, c.key, c.value, err, c.want)
		case c.want == "" && (err != nil || !c.read(m.Shape)):
			t.Errorf("%s with %s %v: %v", c.class, c.key, c.value, err)
		}
		if m != nil {
			m.Close()
		}
	}
}

// Numbers that Python writes and JSON lacks are texts, so that a key that is not a
// limit reports them.
func TestNonFinite(t *testing.T) {
	c, err := parseConfig([]byte(`{"a": NaN, "b": [0.0, Infinity], "c": -Infinity, "d": "NaN \" Infinity", "e\\": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"a": `"NaN"`, "b": `[0.0, "Infinity"]`, "c": `"-Infinity"`, "d": `"NaN \" Infinity"`, `e\`: "1"} {
		if got := string(c.raw[key]); got != want {
			t.Errorf("key %s: got %s, want %s", key, got, want)
		}
	}
	if c.float("a", 1); len(c.errs) != 1 || !strings.Contains(c.errs[0].Error(), `key a: bad value "NaN"`) {
		t.Errorf("got %v", c.errs)
	}
	r := shapeReader{config: &config{raw: map[string]json.RawMessage{"time_step_limit": c.raw["b"]}, heeded: map[string]bool{}}}
	if r.steps(); len(r.errs) > 0 {
		t.Errorf("no limit of steps: %v", r.errs)
	}
}
