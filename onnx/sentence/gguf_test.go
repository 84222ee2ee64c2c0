package sentence

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx/tower"
)

// ggufOf writes an example as llama.cpp's converter does.
func ggufOf(t testing.TB, w tower.Weights, kvs map[string]any) []byte {
	t.Helper()
	names := strings.NewReplacer(
		"bert.", "", "embeddings.LayerNorm.", "token_embd_norm.", "embeddings.word_embeddings.", "token_embd.", "embeddings.position_embeddings.", "position_embd.", "embeddings.token_type_embeddings.", "token_types.",
		"encoder.layer.", "blk.", "attention.self.query.", "attn_q.", "attention.self.key.", "attn_k.", "attention.self.value.", "attn_v.", "attention.output.LayerNorm.", "attn_output_norm.",
		"attention.output.dense.", "attn_output.", "intermediate.dense.", "ffn_up.", "output.dense.", "ffn_down.", "output.LayerNorm.", "layer_output_norm.", "pooler.dense.", "cls.", "classifier.", "cls.output.",
		"emb_ln.", "token_embd_norm.", "encoder.layers.", "blk.", "attn.Wqkv.", "attn_qkv.", "attn.out_proj.", "attn_output.", "norm1.", "attn_output_norm.", "norm2.", "layer_output_norm.",
		"mlp.fc11.", "ffn_up.", "mlp.fc12.", "ffn_gate.", "mlp.fc2.", "ffn_down.")
	arch := "bert"
	if w.Has("emb_ln.weight") {
		arch = "nomic-bert"
	}
	all := []gguf.KV{{Key: gguf.KeyArchitecture, Value: arch}}
	for _, key := range []string{"rope.freq_base", "rope.scaling.type", "context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count", "attention.layer_norm_epsilon", "pooling_type", "attention.causal"} {
		if v, ok := kvs[key]; ok {
			all = append(all, gguf.KV{Key: arch + "." + key, Value: v})
		}
	}
	var sources []gguf.Source
	for name, x := range w {
		dims := slices.Clone(x.Shape)
		slices.Reverse(dims)
		long := make([]int, len(dims))
		copy(long, dims)
		sources = append(sources, gguf.Source{Name: names.Replace(name), Type: tensor.F32, Dims: long, Data: gguf.Bytes(x.Data)})
	}
	slices.SortFunc(sources, func(a, b gguf.Source) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	if _, err := gguf.Write(&b, all, sources); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func bertKeys(pooling uint32) map[string]any {
	return map[string]any{
		"context_length": uint32(24), "embedding_length": uint32(8), "block_count": uint32(2), "feed_forward_length": uint32(12), "attention.head_count": uint32(2),
		"attention.layer_norm_epsilon": float32(1e-12), "pooling_type": pooling,
	}
}

// TestGGUF compares models in llama.cpp's form with transformers.
func TestGGUF(t *testing.T) {
	all := examples(t)
	for name, pooling := range map[string]uint32{"bert": 2, "rank-bert": 4, "nomic": 2} {
		e, keys := all[name], bertKeys(pooling)
		if name == "nomic" {
			keys["rope.freq_base"] = float32(1000)
		}
		f, err := gguf.Parse(ggufOf(t, e.weights, keys))
		if err != nil {
			t.Fatal(err)
		}
		if !IsGGUF(f) {
			t.Error("not seen as an encoder")
		}
		c, w, p, err := ReadGGUF(f)
		if err != nil {
			t.Fatal(err)
		}
		if pooling != 4 && !p.Normalize {
			t.Error("vectors have any length")
		}
		p.Normalize = false
		c.Sigmoid = c.Labels > 0 // the example's
		m, err := c.Model(w, p)
		if err != nil {
			t.Fatal(err)
		}
		want := e.Pooled["cls"]
		if c.Labels > 0 {
			want = e.Scores
		}
		near(t, name, want, e.run(t, m))
	}
	for want, change := range map[string]func(map[string]any){
		"pooling_type 9":         func(m map[string]any) { m["pooling_type"] = uint32(9) },
		"attention.causal true":  func(m map[string]any) { m["attention.causal"] = true },
		"no such key":            func(m map[string]any) { delete(m, "block_count") },
		"num_hidden_layers":      func(m map[string]any) { m["block_count"] = uint32(1 << 20) },
		"got type str, want u32": func(m map[string]any) { m["embedding_length"] = "8" },
		"is not a multiple":      func(m map[string]any) { m["attention.head_count"] = uint32(3) },
	} {
		keys := bertKeys(1)
		change(keys)
		f, err := gguf.Parse(ggufOf(t, all["bert"].weights, keys))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := ReadGGUF(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestGGUFRotations refuses scaled rotations, which would change the vectors.
func TestGGUFRotations(t *testing.T) {
	for want, keys := range map[string]map[string]any{"rope.scaling.type \"yarn\"": {"rope.scaling.type": "yarn"}, "rope_theta": {"rope.freq_base": float32(0.5)}, "ForSequenceClassification": {"pooling_type": uint32(4)}} {
		all := bertKeys(1)
		maps.Copy(all, keys)
		f, err := gguf.Parse(ggufOf(t, examples(t)["nomic"].weights, all))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := ReadGGUF(f); err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "pooling_type") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// FuzzGGUF reads any GGUF file and writes its model.
func FuzzGGUF(f *testing.F) {
	f.Add(ggufOf(f, examples(f)["bert"].weights, bertKeys(1)))
	f.Add(ggufOf(f, examples(f)["nomic"].weights, bertKeys(1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := gguf.Parse(b)
		if err != nil {
			return
		}
		if c, w, p, err := ReadGGUF(file); err == nil {
			c.Model(w, p) // the result is any, without a panic
		}
	})
}
