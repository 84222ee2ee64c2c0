package sentence

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/onnx/tower"
)

// jointExample reads a tiny model of scripts/joint.py.
func jointExample(t testing.TB, name string) (config []byte, w tower.Weights, ids [][]int64, vectors [][]float32) {
	t.Helper()
	dir := filepath.Join("testdata", "joint", name)
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "want.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		IDs     [][]int64
		Vectors [][]float32
	}
	if err := json.Unmarshal(data, &want); err != nil || len(want.IDs) < 20 {
		t.Fatal(len(want.IDs), err)
	}
	f, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	all := map[string]safetensors.Tensor{}
	for _, x := range f.Tensors {
		all[x.Name] = x
	}
	return config, tower.Safetensors(all), want.IDs, want.Vectors
}

// withText returns a config.json with a key of text_config replaced.
func withText(t testing.TB, config []byte, key string, v any) []byte {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(config, &all); err != nil {
		t.Fatal(err)
	}
	if text := all["text_config"].(map[string]any); key == "projection_dim" {
		all[key] = v
	} else if text[key] = v; v == nil {
		delete(text, key)
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestJoint compares the vectors of texts of CLIP and SigLIP with transformers, in batches
// with padding.
func TestJoint(t *testing.T) {
	for _, name := range []string{"clip", "siglip"} {
		config, w, ids, vectors := jointExample(t, name)
		compare := func(what string, config []byte) {
			t.Helper()
			c, err := ReadTower(config, 1)
			if err != nil {
				t.Fatal(err)
			}
			m, err := c.Model(w, Pooling{})
			if err != nil {
				t.Fatal(err)
			}
			e := example{}
			longest := 0
			for _, row := range ids {
				longest = max(longest, len(row))
			}
			for _, row := range ids {
				used := make([]int64, longest)
				padded := append(append([]int64{}, row...), make([]int64, longest-len(row))...)
				for i := range row {
					used[i] = 1
				}
				e.IDs, e.Mask = append(e.IDs, padded), append(e.Mask, used)
			}
			near(t, what, vectors, e.run(t, m))
		}
		compare(name, config)
		if name == "clip" { // the end has the greatest id of all
			compare("clip with the end of earlier files", withText(t, config, "eos_token_id", legacyEnd))
		}
	}
}

// TestTowerRefuses reports configurations that are refused.
func TestTowerRefuses(t *testing.T) {
	clip, _, _, _ := jointExample(t, "clip")
	siglip, _, _, _ := jointExample(t, "siglip")
	for _, c := range []struct {
		config []byte
		key    string
		v      any
		pad    int
		want   string
	}{
		{clip, "eos_token_id", []int{1, 2}, 0, "unsupported eos_token_id"},
		{clip, "eos_token_id", -1, 0, "eos_token_id -1"},
		{clip, "hidden_act", "mish", 0, "unsupported hidden_act"},
		{clip, "layer_norm_eps", -1, 0, "layer_norm_eps"},
		{clip, "num_attention_heads", 3, 0, "multiple of num_attention_heads"},
		{siglip, "hidden_size", 8, -1, "no padding token"},
		{siglip, "vocab_size", 100, 100, "padding 100"},
	} {
		if _, err := ReadTower(withText(t, c.config, c.key, c.v), c.pad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %q", c.key, c.v, err, c.want)
		}
	}
	if _, err := ReadTower([]byte(`{"model_type": "siglip2"}`), 0); err == nil || !strings.Contains(err.Error(), "want clip or siglip") {
		t.Errorf("siglip2: %v", err)
	}
}

// TestTowerLimits has each size at its limit and one beyond it.
func TestTowerLimits(t *testing.T) {
	for _, c := range []struct {
		name, key string
		limit     int
	}{
		{"clip", "projection_dim", maxWidth}, {"siglip", "projection_size", maxWidth}, {"siglip", "max_position_embeddings", maxFixed}, {"clip", "max_position_embeddings", maxPositions},
		{"clip", "num_hidden_layers", maxLayers}, {"clip", "vocab_size", maxVocab}, {"clip", "intermediate_size", maxHidden},
	} {
		config, _, _, _ := jointExample(t, c.name)
		for more, ok := range []bool{true, false} {
			if _, err := ReadTower(withText(t, config, c.key, c.limit+more), 0); (err == nil) != ok {
				t.Errorf("%s %s: %v", c.key, fmt.Sprint(c.limit+more), err)
			}
		}
	}
	config, w, _, _ := jointExample(t, "clip")
	c, err := ReadTower(withText(t, withText(t, config, "vocab_size", maxVocab), "num_hidden_layers", maxLayers), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Model(w, Pooling{}); err == nil || !strings.Contains(err.Error(), "token_embedding") {
		t.Errorf("tensors of another size: %v", err)
	}
}
