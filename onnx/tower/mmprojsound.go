package tower

import (
	"fmt"
	"strings"
)

// half is the half of an mmproj file that is read: its keys, the start of the names of
// its tensors, and the place of the settings in config.json.
type half struct {
	key, stem, config, tower string
}

func visionHalf() half { return half{"clip.vision.", "v", "vision_config", "vision_tower."} }

func audioHalf() half { return half{"clip.audio.", "a", "audio_config", "audio_tower."} }

// soundMergers are the projectors of sounds.
func soundMergers() map[string]merger {
	return map[string]merger{
		"qwen2a": {"qwen2_audio", map[string]string{"mm.a.fc": "multi_modal_projector.linear"}, "mm.a.fc.weight", (*projReader).whisper},
		"voxtral": {"voxtral", map[string]string{
			"mm.a.mlp.1": "multi_modal_projector.linear_1", "mm.a.mlp.2": "multi_modal_projector.linear_2",
		}, "mm.a.mlp.2.weight", (*projReader).whisper},
	}
}

// whisper sets what Whisper's encoders have in common.
func (r *projReader) whisper() {
	r.vision["num_mel_bins"] = r.count("clip.audio.num_mel_bins", 128)
	if t, ok := r.f.Tensor("a.position_embd.weight"); ok && len(t.Dims) == 2 {
		r.vision["max_source_positions"] = t.Dims[1]
		r.processor["chunk_length"] = t.Dims[1] / 50
	}
	if n := r.count("clip.audio.projector.stack_factor", 0); n != 0 {
		if width, _ := r.vision["hidden_size"].(int); n*width != r.vision["intermediate_size"] {
			r.errs = append(r.errs, fmt.Errorf("unsupported clip.audio.projector.stack_factor %d of width %d", n, width))
		}
	}
}

// renamedSound returns the name of a tensor outside of the layers of an encoder of
// sounds, or "".
func renamedSound(stem, suffix string) string {
	to := map[string]string{"a.conv1d.1": "conv1", "a.conv1d.2": "conv2", "a.position_embd": "embed_positions", "a.post_ln": "layer_norm"}[stem]
	if to == "" {
		return ""
	}
	return "audio_tower." + to + suffix
}

// convolved reports whether a tensor is a bias of a convolution, which llama.cpp
// stores as a column.
func convolved(name string) bool {
	return strings.HasPrefix(name, "a.conv1d.") && strings.HasSuffix(name, ".bias")
}
