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
