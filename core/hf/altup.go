package hf

import (
	"maps"
	"math"

	"mm-abi.org/mm/core/gguf/arch"
)

// perLayer is the part of the embedding whose rows may be fewer than tokens.
const perLayer = "per_layer_token_embd"

func gemma3nNames(other map[string]string) names {
	n := llamaNames(other)
	maps.Copy(n.of, map[string]string{
		"altup_proj": "model.altup_projections.%d", "altup_unembd_proj": "model.altup_unembed_projections.%d", perLayer: "model.embed_tokens_per_layer",
		"per_layer_model_proj": "model.per_layer_model_projection", "per_layer_proj_norm": "model.per_layer_projection_norm",
		"inp_gate": "per_layer_input_gate", "proj": "per_layer_projection", "post_norm": "post_per_layer_input_norm",
		"altup_correct_coef": "altup.correction_coefs", "altup_correct_scale.weight": "altup.correct_output_scale", "altup_predict_coef": "altup.prediction_coefs",
		"altup_router": "altup.modality_router", "altup_router_norm": "altup.router_norm",
		"laurel_l": "laurel.linear_left", "laurel_r": "laurel.linear_right", "laurel_post_norm": "laurel.post_laurel_norm",
	})
	return n
}

// gemma3n reads Gemma 3n, whose layers update several residual streams.
func (r *shapeReader) gemma3n() {
	r.gemma()
	s := &r.s
	s.LogitCap = r.positive("final_logit_softcapping")
	r.window(func(i int) bool { return (i+1)%5 != 0 })
	if r.s.Window == 0 {
		r.fail("missing key sliding_window")
	}
	a := &arch.Altup{
		Streams: r.countOr("altup_num_inputs", 4), Rank: r.countOr("laurel_rank", 64),
		PerLayer: r.countOr("hidden_size_per_layer_input", 256), Shared: r.countOr("num_kv_shared_layers", 15),
	}
	s.Altup = a
	r.sparsity()
	r.must("altup_active_idx", 0)
	r.must("altup_correct_scale", true)
	r.has("altup_coef_clip") // of training
	rows := r.countOr("vocab_size_per_layer_input", 262144)
	if t, ok := r.weights.find(r.family.names.of[perLayer] + ".weight"); rows > s.Vocab || ok && (len(t.Shape) != 2 || t.Shape[0] != rows) {
		r.fail("key vocab_size_per_layer_input: got %d, want at most %d and the rows of tensor %s, of shape %v", rows, s.Vocab, t.Name, t.Shape)
	}
}

// sparsity reads the shares of gates that are zero in each layer.
func (r *shapeReader) sparsity() {
	shares := make([]float64, r.s.Layers)
	if !r.get("activation_sparsity_pattern", &shares) && r.s.Layers > 10 {
		for i := range 10 {
			shares[i] = 0.95
		}
	}
	if len(shares) != r.s.Layers {
		r.fail("key activation_sparsity_pattern: got %d entries, want %d", len(shares), r.s.Layers)
		return
	}
	cutoffs, sparse := make([]float32, len(shares)), false
	for i, p := range shares {
		if !(p >= 0 && p < 1) {
			r.fail("key activation_sparsity_pattern: got %v, want shares from 0 to 1", p)
			return
		}
		cutoffs[i] = arch.Dense
		if p > 0 { // by the quantiles of the normal distribution
			cutoffs[i], sparse = float32(math.Sqrt2*math.Erfinv(2*float64(float32(p))-1)), true
		}
	}
	if sparse {
		r.s.Altup.Cutoffs = cutoffs
	}
}

// few sets the rows of tokens without numbers to those of token 0.
func (s *source) few(want []int) {
	if n := s.parts[0].Shape; len(n) == 2 && n[0] < want[0] {
		rows := n[0]
		want[0] = rows
		s.order = func(i int) int {
			if i < rows {
				return i
			}
			return 0
		}
	}
}
