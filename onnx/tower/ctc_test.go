package tower

import (
	"fmt"
	"strings"
	"testing"
)

// The sizes of models that score letters are bounded, and unsupported ones are refused.
func TestCTCLimits(t *testing.T) {
	config := func(more string) string {
		return `{"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"]` + more + `}`
	}
	convs := func(n, size, kernel int) string {
		list := func(v int) string { return "[" + strings.TrimSuffix(strings.Repeat(fmt.Sprint(v, ","), n), ",") + "]" }
		return fmt.Sprintf(`, "conv_dim": %s, "conv_stride": %s, "conv_kernel": %s`, list(size), list(1), list(kernel))
	}
	for data, ok := range map[string]bool{
		config(""): true,
		`{"model_type": "hubert", "architectures": ["HubertForCTC"]}`:       true,
		`{"model_type": "hubert", "architectures": ["HubertModel"]}`:        false,
		`{"model_type": "wavlm", "architectures": ["Wav2Vec2ForCTC"]}`:      false,
		config(convs(maxConvs, 8, maxKernel)):                               true,
		config(convs(maxConvs+1, 8, 3)):                                     false,
		config(convs(2, 8, maxKernel+1)):                                    false,
		config(`, "conv_dim": [8]`):                                         false,
		config(`, "add_adapter": true`):                                     false,
		config(`, "adapter_attn_dim": 16`):                                  false,
		config(`, "conv_pos_batch_norm": true`):                             false,
		config(`, "feat_extract_norm": "batch"`):                            false,
		config(`, "hidden_act": "tanh"`):                                    false,
		config(`, "num_attention_heads": 7`):                                false,
		config(`, "num_conv_pos_embedding_groups": 7`):                      false,
		config(fmt.Sprintf(`, "num_conv_pos_embeddings": %d`, maxKernel)):   true,
		config(fmt.Sprintf(`, "num_conv_pos_embeddings": %d`, maxKernel+1)): false,
	} {
		if _, err := ReadCTC([]byte(data)); (err == nil) != ok {
			t.Errorf("%s: %v", data, err)
		}
	}
}
