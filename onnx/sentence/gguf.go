package sentence

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/onnx/tower"
)

// GGUFArch is the architecture of the tokenizers of modules, and of the GGUF files that
// [ReadGGUF] reads; [nomicArch] is the other one.
const GGUFArch = "bert"

const nomicArch = "nomic-bert"

// ggufNames maps the tensors of llama.cpp's files to those of transformers.
var ggufNames = strings.NewReplacer(
	"token_embd_norm.", "embeddings.LayerNorm.", "token_embd.", "embeddings.word_embeddings.", "position_embd.", "embeddings.position_embeddings.",
	"token_types.", "embeddings.token_type_embeddings.", "blk.", "encoder.layer.",
	"attn_q.", "attention.self.query.", "attn_k.", "attention.self.key.", "attn_v.", "attention.self.value.",
	"attn_output_norm.", "attention.output.LayerNorm.", "attn_output.", "attention.output.dense.",
	"ffn_up.", "intermediate.dense.", "ffn_down.", "output.dense.", "layer_output_norm.", "output.LayerNorm.",
	"cls.output.", "classifier.out_proj.", "cls.", "classifier.dense.",
)

// nomicNames maps the tensors of llama.cpp's files of nomic-bert to published names.
var nomicNames = strings.NewReplacer(
	"token_embd_norm.", "emb_ln.", "token_embd.", "embeddings.word_embeddings.", "token_types.", "embeddings.token_type_embeddings.", "blk.", "encoder.layers.",
	"attn_qkv.", "attn.Wqkv.", "attn_output_norm.", "norm1.", "attn_output.", "attn.out_proj.",
	"ffn_up.", "mlp.fc11.", "ffn_gate.", "mlp.fc12.", "ffn_down.", "mlp.fc2.", "layer_output_norm.", "norm2.",
)

// IsGGUF reports whether a GGUF file is an encoder of text.
func IsGGUF(f *gguf.File) bool {
	a, err := gguf.GetOr(f, gguf.KeyArchitecture, "")
	return err == nil && (a == GGUFArch || a == nomicArch)
}

// ReadGGUF reads an encoder of llama.cpp: its shape, weights and pooling. The weights
// are valid until f is closed. Vectors have length 1, as llama.cpp returns them.
func ReadGGUF(f *gguf.File) (Config, Weights, Pooling, error) {
	arch, err := gguf.GetOr(f, gguf.KeyArchitecture, "")
	if err != nil {
		return Config{}, nil, Pooling{}, err
	}
	c, w, p, err := readGGUF(f, arch)
	if err != nil {
		err = fmt.Errorf("architecture %s: %w", arch, err)
	}
	return c, w, p, err
}

func readGGUF(f *gguf.File, arch string) (Config, Weights, Pooling, error) {
	renames, nomic := ggufNames, arch == nomicArch
	if nomic {
		renames = nomicNames
	}
	p := Pooling{Normalize: true}
	weights := tower.Weights{}
	types := 0
	for _, t := range f.Tensors {
		shape := make([]int, 0, len(t.Dims))
		for i := range t.Dims {
			shape = append(shape, int(t.Dims[len(t.Dims)-1-i]))
		}
		name := renames.Replace(t.Name)
		if t.Name == "token_types.weight" && len(shape) > 0 {
			types = shape[0]
			if len(shape) == 1 { // one type
				types = 1
			}
		}
		weights[name] = tower.Weight{Shape: shape, Type: t.Type, Data: t.Data}
	}
	if types > 1<<10 {
		return Config{}, nil, p, fmt.Errorf("%d token types", types)
	}
	raw := map[string]any{"model_type": "bert", "type_vocab_size": types, "architectures": []string{"BertModel"}}
	var errs []error
	for key, name := range map[string]gguf.ArchKey{
		"max_position_embeddings": gguf.KeyContextLength, "hidden_size": gguf.KeyEmbeddingLength, "num_hidden_layers": gguf.KeyBlockCount,
		"intermediate_size": gguf.KeyFeedForward, "num_attention_heads": gguf.KeyHeadCount,
	} {
		n, err := gguf.Get[uint32](f, name.In(arch))
		errs = append(errs, err)
		raw[key] = n
	}
	if w, ok := weights["embeddings.word_embeddings.weight"]; ok && len(w.Shape) == 2 {
		raw["vocab_size"] = w.Shape[0]
	}
	if w, ok := weights["embeddings.position_embeddings.weight"]; ok && len(w.Shape) == 2 { // fewer than the context of RoBERTa
		if n, ok := raw["max_position_embeddings"].(uint32); ok && int(n) > w.Shape[0] {
			raw["max_position_embeddings"] = w.Shape[0]
		}
		if n, ok := raw["max_position_embeddings"].(uint32); ok && w.Shape[0] > int(n) {
			raw["max_position_embeddings"] = w.Shape[0]
		}
	}
	epsilon, err := gguf.Get[float32](f, gguf.ArchKey("attention.layer_norm_epsilon").In(arch))
	raw["layer_norm_eps"] = epsilon
	if nomic {
		theta, err := gguf.GetOr(f, gguf.KeyRopeBase.In(arch), float32(10000)) // llama.cpp's
		scaling, err2 := gguf.GetOr(f, gguf.ArchKey("rope.scaling.type").In(arch), "none")
		errs = append(errs, err, err2)
		if scaling != "none" {
			errs = append(errs, fmt.Errorf("unsupported rope.scaling.type %.40q", scaling))
		}
		raw["model_type"], raw["rotary_emb_base"] = "nomic_bert", theta
	}
	causal, err2 := gguf.GetOr(f, gguf.ArchKey("attention.causal").In(arch), false)
	kind, err3 := gguf.GetOr(f, gguf.ArchKey("pooling_type").In(arch), uint32(1))
	if err := errors.Join(append(errs, err, err2, err3)...); err != nil {
		return Config{}, nil, p, err
	}
	if causal {
		return Config{}, nil, p, errors.New("unsupported attention.causal true")
	}
	modes := map[uint32]string{0: "mean", 1: "mean", 2: "cls", 3: "last"}
	if kind == 4 && !nomic {
		raw["architectures"], raw["id2label"] = []string{"BertForSequenceClassification"}, map[string]string{"0": "LABEL_0"}
	} else if mode, ok := modes[kind]; ok {
		p.Modes = []string{mode}
	} else {
		return Config{}, nil, p, fmt.Errorf("unsupported pooling_type %d", kind)
	}
	data, err := json.Marshal(raw)
	if err != nil {
		return Config{}, nil, p, err
	}
	c, err := ReadConfig(data)
	if err != nil {
		return c, nil, p, err
	}
	if c.Labels > 0 { // the scores of llama.cpp are not mapped; the layers are RoBERTa's or BERT's
		c.Sigmoid = false
		c.names.head, c.names.label = []string{"classifier.dense"}, "classifier.out_proj"
		c.Family = "roberta"
		if !weights.Has("classifier.dense.weight") {
			c.names.head = nil
		}
	}
	return c, weights, p, nil
}
