package tower

import (
	"fmt"
	"testing"
)

// The sizes of Whisper's decoder are bounded.
func TestWhisperLimits(t *testing.T) {
	for config, ok := range map[string]bool{
		fmt.Sprintf(`{"model_type": "whisper", "vocab_size": %d, "max_target_positions": %d}`, maxVocab, maxPositions): true,
		fmt.Sprintf(`{"model_type": "whisper", "vocab_size": %d}`, maxVocab+1):                                         false,
		fmt.Sprintf(`{"model_type": "whisper", "max_target_positions": %d}`, maxPositions+1):                           false,
		`{"model_type": "whisper", "decoder_attention_heads": 5}`:                                                      false,
		`{"model_type": "whisper", "tie_word_embeddings": false}`:                                                      false,
		`{"model_type": "bert"}`: false,
	} {
		if _, err := ReadWhisper([]byte(config)); (err == nil) != ok {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// The sizes of T5 are bounded, and unsupported ones are refused.
func TestT5Limits(t *testing.T) {
	for config, ok := range map[string]bool{
		fmt.Sprintf(`{"model_type": "t5", "relative_attention_num_buckets": %d, "relative_attention_max_distance": %d}`, maxBuckets, maxDistance): true,
		fmt.Sprintf(`{"model_type": "t5", "relative_attention_num_buckets": %d, "relative_attention_max_distance": 4096}`, maxBuckets+4):          false,
		fmt.Sprintf(`{"model_type": "mt5", "relative_attention_max_distance": %d}`, maxDistance+1):                                                false,
		`{"model_type": "t5", "relative_attention_num_buckets": 30}`:                                                                              false,
		`{"model_type": "t5", "relative_attention_max_distance": 16}`:                                                                             false,
		`{"model_type": "t5", "feed_forward_proj": "gated-swish"}`:                                                                                false,
		`{"model_type": "t5", "layer_norm_epsilon": 0}`:                                                                                           false,
		`{"model_type": "umt5"}`: true,
		`{"model_type": "bart"}`: false,
	} {
		if _, err := ReadT5([]byte(config)); (err == nil) != ok {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// The buckets of distances are those of transformers.
func TestT5Buckets(t *testing.T) {
	v := T5{buckets: 32, distance: 128}
	for distance, want := range map[int][2]int{ // of an encoder, of a decoder
		0: {0, 0}, 1: {17, 0}, -1: {1, 1}, 7: {23, 0}, 8: {24, 0}, -8: {8, 8}, -16: {10, 16}, -20: {10, 17}, 64: {30, 0}, -91: {15, 29}, -127: {15, 31}, 128: {31, 0}, -500: {15, 31},
	} {
		if got := [2]int{v.bucket(distance, false), v.bucket(distance, true)}; got != want {
			t.Errorf("%d: got %v, want %v", distance, got, want)
		}
	}
}

// The sizes of Moonshine are bounded, and unsupported ones are refused.
func TestMoonshineLimits(t *testing.T) {
	for config, ok := range map[string]bool{
		`{"model_type": "moonshine"}`:                                                             true,
		`{"model_type": "moonshine", "encoder_num_key_value_heads": 4}`:                           false,
		`{"model_type": "moonshine", "rope_parameters": {"rope_type": "yarn"}}`:                   false,
		`{"model_type": "moonshine", "rope_scaling": {"rope_type": "linear"}}`:                    false,
		`{"model_type": "moonshine", "partial_rotary_factor": 1.5}`:                               false,
		`{"model_type": "moonshine", "encoder_num_attention_heads": 16}`:                          false,
		`{"model_type": "moonshine", "hidden_size": 290}`:                                         false,
		`{"model_type": "moonshine", "decoder_hidden_act": "tanh"}`:                               false,
		fmt.Sprintf(`{"model_type": "moonshine", "max_position_embeddings": %d}`, maxPositions+1): false,
	} {
		if _, err := ReadMoonshine([]byte(config)); (err == nil) != ok {
			t.Errorf("%s: %v", config, err)
		}
	}
}
