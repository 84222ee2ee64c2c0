package hf_test

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/hf"
)

// TestResidualStreams: keys of Gemma 3n are read as transformers reads them, or
// refused by name.
func TestResidualStreams(t *testing.T) {
	layers := func(s arch.Shape) []float32 { return s.Altup.Cutoffs }
	for _, c := range []struct {
		key, value, refused string
		heeded              func(arch.Shape) bool
	}{
		{"altup_coef_clip", "3", "", func(s arch.Shape) bool { return s.Altup.Streams == 4 && s.Altup.Shared == 4 }},
		{"altup_active_idx", "1", "key altup_active_idx: got 1, want 0", nil},
		{"altup_correct_scale", "false", "key altup_correct_scale: got false, want true", nil},
		{"altup_num_inputs", "3", "tensor model.layers.0.altup", nil},
		{"vocab_size_per_layer_input", "481", "key vocab_size_per_layer_input: got 481", nil},
		{"vocab_size_per_layer_input", "513", "key vocab_size_per_layer_input: got 513, want at most 512", nil},
		{"activation_sparsity_pattern", "[0.5]", "key activation_sparsity_pattern: got 1 entries, want 10", nil},
		{"activation_sparsity_pattern", "[0,0,0,0,0,0,0,0,0,1]", "key activation_sparsity_pattern: got 1, want shares from 0 to 1", nil},
		{"activation_sparsity_pattern", "[0,0,0,0,0,0,0,0,0,-1]", "key activation_sparsity_pattern: got -1", nil},
		{"activation_sparsity_pattern", "[0,0.95,0.5,0,0,0,0,0,0,0]", "", func(s arch.Shape) bool {
			return layers(s)[0] == arch.Dense && math.Abs(float64(layers(s)[1])-1.6448533) < 1e-6 && layers(s)[2] == 0
		}},
		{"activation_sparsity_pattern", "null", "", func(s arch.Shape) bool { return s.Altup.Cutoffs == nil }}, // of ten layers
		{"intermediate_size", "96", "", func(s arch.Shape) bool { return s.Hidden == 96 }},
		{"intermediate_size", "[96,96,96,96,96,96,96,96,96,64]", "key intermediate_size: got [96,96", nil},
		{"final_logit_softcapping", "null", "", func(s arch.Shape) bool { return s.LogitCap == 0 }},
		{"num_kv_shared_layers", "9", "layer 4 shares keys and values, but no earlier layer has the same window", nil},
	} {
		g := readGolden(t, filepath.Join("testdata", "golden", "gemma3n.json"))
		g.Config[c.key] = json.RawMessage(c.value)
		m, err := hf.Open(g.folder(t), hf.Options{})
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s %s: %v", c.key, c.value, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s %s: got %v, want %q in it", c.key, c.value, err, c.refused)
		case c.refused == "" && !c.heeded(m.Shape):
			t.Errorf("%s %s: read as %+v", c.key, c.value, m.Shape.Altup)
		}
		if err == nil {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
