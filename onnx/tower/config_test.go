package tower

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// config returns the config.json of an example with other keys; a point leads
// into an object.
func config(t *testing.T, name string, keys map[string]any) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for key, v := range keys {
		if part, in, ok := strings.Cut(key, "."); ok {
			all[part].(map[string]any)[in] = v
		} else {
			all[key] = v
		}
	}
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRefuses: what changes the result and is not computed is refused by name.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		keys map[string]any
		want string
	}{
		{"llava", map[string]any{"model_type": "llava_onevision_2"}, "model_type"},
		{"llava", map[string]any{"vision_config.model_type": "dinov2"}, "vision_config.model_type"},
		{"llava", map[string]any{"vision_feature_layer": -1}, "vision_feature_layer"},
		{"llava", map[string]any{"vision_feature_layer": []int{-2, -3}}, "vision_feature_layer"},
		{"llava", map[string]any{"vision_feature_select_strategy": "full"}, "vision_feature_select_strategy"},
		{"llava", map[string]any{"vision_config.hidden_act": "relu"}, "activation"},
		{"llava", map[string]any{"vision_config.num_channels": 1}, "num_channels"},
		{"llava", map[string]any{"vision_config.num_attention_heads": 3}, "multiple of 3 heads"},
		{"llava", map[string]any{"vision_config.image_size": []int{16, 32}}, "two equal ones"},
		{"gemma3", map[string]any{"mm_tokens_per_image": 5}, "mm_tokens_per_image"},
		{"gemma3", map[string]any{"mm_tokens_per_image": 9}, "mm_tokens_per_image"},
		{"idefics3", map[string]any{"scale_factor": 3}, "multiple of 3"},
		{"idefics3", map[string]any{"scale_factor": 0}, "scale factor"},
		{"internvl", map[string]any{"downsample_ratio": 0.3}, "downsample_ratio"},
		{"internvl", map[string]any{"vision_feature_layer": -2}, "vision_feature_layer"},
		{"internvl", map[string]any{"vision_config.norm_type": "batch_norm"}, "norm_type"},
		{"internvl", map[string]any{"vision_config.use_absolute_position_embeddings": false}, "absolute positions"},
	} {
		if _, err := ReadConfig(config(t, c.name, c.keys)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %v: %v, want %q", c.name, c.keys, err, c.want)
		}
	}
}

// TestLimits has each size at its limit and one beyond it.
func TestLimits(t *testing.T) {
	for key, limit := range map[string]int{
		"num_hidden_layers": maxLayers, "hidden_size": maxWidth, "intermediate_size": maxHidden, "image_size": maxImage, "patch_size": maxPatch,
	} {
		for more, ok := range []bool{true, false} {
			keys := map[string]any{"vision_config.num_attention_heads": 1, "vision_config.image_size": maxImage, "vision_config.patch_size": 1, "vision_config." + key: limit + more}
			_, err := ReadConfig(config(t, "paligemma", keys))
			if got := fmt.Sprint(err); (err == nil) != ok && !(ok && strings.Contains(got, "multiple")) {
				t.Errorf("%s %d: %v", key, limit+more, err)
			}
		}
	}
}

// TestDeepLimit has the further layers of Qwen3-VL at their limit and one beyond it.
func TestDeepLimit(t *testing.T) {
	for more, ok := range []bool{true, false} {
		deep := make([]int, maxDeep+more)
		for i := range deep {
			deep[i] = i
		}
		_, err := ReadConfig(config(t, "qwen3_vl", map[string]any{"vision_config.depth": maxDeep + 2, "vision_config.deepstack_visual_indexes": deep}))
		if (err == nil) != ok {
			t.Errorf("%d layers: %v", len(deep), err)
		}
	}
}

// TestGridRefuses: configurations of towers for pictures of any size that are
// inconsistent are refused by name.
func TestGridRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		keys map[string]any
		want string
	}{
		{"qwen2_vl", map[string]any{"vision_config.patch_size": 0}, "patch_size"},
		{"qwen2_vl", map[string]any{"vision_config.num_heads": 3}, "3 heads"},
		{"qwen2_vl", map[string]any{"vision_config.hidden_size": 13}, "output width 13"},
		{"qwen2_vl", map[string]any{"vision_config.in_channels": 1}, "channels 1"},
		{"qwen2_5_vl", map[string]any{"vision_config.window_size": 3}, "window_size"},
		{"qwen2_5_vl", map[string]any{"vision_config.hidden_act": "relu"}, "activation"},
		{"qwen3_vl", map[string]any{"vision_config.num_position_embeddings": 26}, "want a square"},
		{"qwen3_vl", map[string]any{"vision_config.deepstack_visual_indexes": []int{2, 1}}, "deepstack_visual_indexes"},
		{"qwen3_vl", map[string]any{"vision_config.deepstack_visual_indexes": []int{4}}, "deepstack_visual_indexes"},
		{"pixtral", map[string]any{"vision_feature_layer": -9}, "vision_feature_layer"},
		{"pixtral", map[string]any{"vision_feature_select_strategy": "default"}, "want full"},
	} {
		if _, err := ReadConfig(config(t, c.name, c.keys)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %v: %v, want %q", c.name, c.keys, err, c.want)
		}
	}
}

// TestSoundLimits has each number of an encoder of sounds and of tiles at its limit and
// beyond it.
func TestSoundLimits(t *testing.T) {
	for _, c := range []struct {
		name, key string
		most      any
		beyond    any
		want      string
	}{
		{"voxtral", "audio_config.num_mel_bins", maxMels, maxMels + 1, "num_mel_bins: got 1025"},
		{"voxtral", "audio_config.max_source_positions", maxSteps, maxSteps + 4, "max_source_positions: got 8196"},
		{"voxtral", "audio_config.max_source_positions", 20, 22, "not a multiple of 4"},
		{"voxtral", "audio_config.num_attention_heads", 16, 3, "3 heads"},
		{"voxtral", "audio_config.intermediate_size", 32, 40, "not a multiple of hidden_size 16"},
		{"voxtral", "audio_config.activation_function", "silu", "relu", "activation"},
		{"llava_onevision", "vision_aspect_ratio", fmt.Sprint("anyres_max_", maxShrink), fmt.Sprint("anyres_max_", maxShrink+1), "anyres_max_257"},
		{"llava_onevision", "vision_aspect_ratio", "anyres_max_1", "square", `"square"`},
		{"llava_onevision", "vision_feature_layer", -1, -2, "vision_feature_layer -2"},
		{"llava_onevision", "vision_feature_select_strategy", "full", "default", "want full"},
	} {
		if _, err := ReadConfig(config(t, c.name, map[string]any{c.key: c.most})); err != nil {
			t.Errorf("%s %s %v: %v", c.name, c.key, c.most, err)
		}
		if _, err := ReadConfig(config(t, c.name, map[string]any{c.key: c.beyond})); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s %v: %v, want %q", c.name, c.key, c.beyond, err, c.want)
		}
	}
}

// TestMelSpec: a feature extractor that does not fit the encoder is refused by name.
func TestMelSpec(t *testing.T) {
	c, err := ReadConfig(config(t, "voxtral", map[string]any{"audio_config.max_source_positions": 100}))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"feature_size":8,"chunk_length":2}`:                      "",
		`{"feature_size":80,"chunk_length":2}`:                     "feature_size 80",
		`{"feature_size":8,"chunk_length":30}`:                     "want 200 frames",
		`{"feature_size":8,"chunk_length":2,"hop_length":0}`:       "hop_length 0",
		`{"feature_size":8,"chunk_length":2,"dither":0.1}`:         "dither",
		`{"feature_size":8,"chunk_length":2,"do_normalize":true}`:  "do_normalize",
		`{"feature_size":8,"chunk_length":2,"n_fft":-1}`:           "window",
		`{"feature_size":8,"chunk_length":2,"padding_value":-1.5}`: "padding_value",
	} {
		s, err := c.Preprocess([]byte(text))
		if want == "" {
			if err != nil || c.Most(s) != c.Count()*maxCalls {
				t.Errorf("%s: %d vectors, %v", text, c.Most(s), err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestDefaults: absent keys are those of transformers.
func TestDefaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"model_type":"llava","text_config":{"hidden_size":8}}`:     "224 32 768 12 11 3072 quick_gelu 1e-05",
		`{"model_type":"paligemma","text_config":{"hidden_size":8}}`: "224 16 768 12 12 3072 gelu_pytorch_tanh 1e-06",
		`{"model_type":"internvl","text_config":{"hidden_size":8}}`:  "448 14 1024 16 24 4096 gelu 1e-06",
	} {
		c, err := ReadConfig([]byte(text))
		if got := strings.TrimSpace(fmt.Sprintln(c.Image, c.Patch, c.Width, c.Heads, c.Layers, c.Hidden, c.Activation, c.Epsilon)); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestBadWeights: missing and misshapen tensors are named, all of them.
func TestBadWeights(t *testing.T) {
	c, w := example(t, "gemma3")
	delete(w, "model.vision_tower.encoder.layers.1.mlp.fc1.weight")
	norm := w["model.vision_tower.post_layernorm.bias"]
	norm.Shape = []int{4, 4}
	w["model.vision_tower.post_layernorm.bias"] = norm
	half := w["model.vision_tower.encoder.layers.0.mlp.fc1.bias"]
	half.Foreign = "I8"
	w["model.vision_tower.encoder.layers.0.mlp.fc1.bias"] = half
	_, err := c.Encoder(w)
	for _, want := range []string{"missing tensor model.vision_tower.encoder.layers.1.mlp.fc1.weight", "post_layernorm.bias: got [4 4], want [16]", "unsupported type I8"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// TestWithoutDeep: Qwen3.5 has the tower of Qwen3-VL without vectors for further layers,
// as its class ignores the key.
func TestWithoutDeep(t *testing.T) {
	for kind, want := range map[string]int{"qwen3_vl": 2, "qwen3_5": 0, "qwen3_5_moe": 0} {
		c, err := ReadConfig(config(t, "qwen3_vl", map[string]any{"model_type": kind, "vision_config.deepstack_visual_indexes": []int{0, 2}}))
		if err != nil || len(c.grid.deep) != want || c.Family != "qwen3_vl" || !c.grid.positions {
			t.Errorf("%s: %d layers, %v, want %d", kind, len(c.grid.deep), err, want)
		}
	}
}

// FuzzReadConfig: no config.json ends the program, and a shape that is read is
// consistent.
func FuzzReadConfig(f *testing.F) {
	for _, name := range []string{"llava", "gemma3", "paligemma", "idefics3", "smolvlm", "internvl", "pixtral", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava_next", "llava_onevision", "mistral3", "qwen2_audio", "voxtral"} {
		data, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadConfig(data)
		if err == nil && c.grid == nil && c.sound == nil && (c.Count() < 1 || c.Patches() < c.Shuffle*c.Shuffle*c.Pool*c.Pool) {
			t.Errorf("%+v has %d vectors", c, c.Count())
		}
	})
}

// TestOddPatches: pictures of LightOnOCR are multiples of a patch or of a block, of which
// only the latter has a vector.
func TestOddPatches(t *testing.T) {
	c, err := ReadConfig(config(t, "mistral3", map[string]any{"model_type": "lighton_ocr", "vision_feature_layer": -2}))
	if err != nil {
		t.Fatal(err)
	}
	most := map[int]int{}
	for _, patch := range []int{c.Patch, c.Multiple()} {
		s, err := c.Preprocess(fmt.Appendf(nil, `{"patch_size": %d, "size": {"longest_edge": %d}}`, patch, 8*c.Multiple()))
		if err != nil || s.Fit.Multiple != patch {
			t.Fatalf("patches of %d: %+v, %v", patch, s.Fit, err)
		}
		most[patch] = c.Most(s)
	}
	if c.ByRow() || most[c.Patch] != most[c.Multiple()] {
		t.Errorf("text between rows: %v; at most %v vectors", c.ByRow(), most)
	}
	if _, err := c.Preprocess(fmt.Appendf(nil, `{"patch_size": %d}`, 3*c.Multiple())); err == nil || !strings.Contains(err.Error(), "patch_size") {
		t.Errorf("patches of no tower: %v", err)
	}
}
