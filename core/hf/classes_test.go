package hf

import (
	"maps"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/safetensors"
)

// A config of OLMo 3 without a window and a base has those of the class, and its layers
// with a window rotate without the scaling of the others.
func TestOlmo3Defaults(t *testing.T) {
	shapes := tensors()
	for _, l := range []string{"model.layers.0.", "model.layers.1."} {
		delete(shapes, l+"input_layernorm.weight")
		maps.Copy(shapes, map[string][]int{l + "post_feedforward_layernorm.weight": {16}, l + "self_attn.q_norm.weight": {16}, l + "self_attn.k_norm.weight": {8}})
	}
	config := llama()
	config["architectures"], config["model_type"] = []string{"Olmo3ForCausalLM"}, "olmo3"
	config["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": 4.0}
	delete(config, "rope_theta")
	m, err := Open(folder(t, config, shapes, safetensors.F32), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	want := arch.Rope{Dims: 4, Base: 5e5, Halves: true, OriginalContext: 64, ExtFactor: -1}
	if s := m.Shape; s.WindowOf(0) != 4096 || s.Rope.Base != 5e5 || s.Local == nil || *s.Local != want || s.Rope == want {
		t.Errorf("read as %+v, local rotation %+v, want %+v", s, s.Local, want)
	}
}
