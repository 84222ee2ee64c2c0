package testfiles

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// Transformer writes a model folder as Hugging Face transformers does: a random llama with
// one layer in model.safetensors, determined by seed, and a tokenizer of single bytes.
func Transformer(dir string, seed uint64) error {
	const width, hidden, vocab = 32, 48, 256
	config := map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 4,
		"num_key_value_heads": 2, "intermediate_size": hidden, "vocab_size": vocab, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
		"hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": true, "torch_dtype": "float32",
	}
	letters := map[string]int{}
	for i, r := range alphabet() {
		letters[string(r)] = i
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	tokenizer := map[string]any{
		"version": "1.0", "added_tokens": []any{}, "normalizer": nil, "pre_tokenizer": level, "decoder": level,
		"model": map[string]any{"type": "BPE", "vocab": letters, "merges": []any{}},
	}
	layer := "model.layers.0."
	weights := tensors(rand.New(rand.NewPCG(seed, 1)), map[string][]int{
		"model.embed_tokens.weight": {vocab, width}, "model.norm.weight": {width},
		layer + "input_layernorm.weight": {width}, layer + "post_attention_layernorm.weight": {width},
		layer + "self_attn.q_proj.weight": {width, width}, layer + "self_attn.k_proj.weight": {width / 2, width},
		layer + "self_attn.v_proj.weight": {width / 2, width}, layer + "self_attn.o_proj.weight": {width, width},
		layer + "mlp.gate_proj.weight": {hidden, width}, layer + "mlp.up_proj.weight": {hidden, width}, layer + "mlp.down_proj.weight": {width, hidden},
	})
	err := os.MkdirAll(dir, 0o755)
	for name, v := range map[string]any{"config.json": config, "tokenizer.json": tokenizer} {
		data, bad := json.Marshal(v)
		err = errors.Join(err, bad, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "model.safetensors"), weights, 0o644))
}

// alphabet returns the characters of bytes in a byte-level vocabulary: the byte itself if
// printable, otherwise one above 255.
func alphabet() []rune {
	out := make([]rune, 256)
	next := rune(256)
	for b := range out {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			out[b] = rune(b)
			continue
		}
		out[b] = next
		next++
	}
	return out
}

// tensors encodes float32 tensors as safetensors.
func tensors(rng *rand.Rand, shapes map[string][]int) []byte {
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header := map[string]entry{}
	var data []byte
	var names []string
	for name := range shapes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		n := 1
		for _, d := range shapes[name] {
			n *= d
		}
		from := len(data)
		for range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(rng.NormFloat64())))
		}
		header[name] = entry{"F32", shapes[name], [2]int{from, len(data)}}
	}
	text, _ := json.Marshal(header) // strings and numbers
	text = append(text, bytes.Repeat([]byte(" "), (8-len(text)%8)%8)...)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data)
}
