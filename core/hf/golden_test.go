package hf_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/safetensors"
)

// golden is a file of testdata/models.py --golden.
type golden struct {
	Config  map[string]json.RawMessage
	Tensors map[string]struct {
		Shape         []int
		Offset, Scale float64
	}
	Tokens []int32
	Logits map[string][]float64
}

func readGolden(t *testing.T, file string) golden {
	t.Helper()
	var g golden
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// folder writes the model as a folder of transformers.
func (g golden) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var tensors []safetensors.Source
	for _, name := range slices.Sorted(maps.Keys(g.Tensors)) {
		f := g.Tensors[name]
		tensors = append(tensors, safetensors.Source{Name: name, DType: safetensors.F32, Shape: f.Shape, Data: formula(name, f.Shape, f.Offset, f.Scale)})
	}
	var weights bytes.Buffer
	if _, err := safetensors.Write(&weights, nil, tensors); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(g.Config)
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644),
		os.WriteFile(filepath.Join(dir, "model.safetensors"), weights.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestGolden compares logits of models whose weights are formulas with those that
// transformers computed (testdata/models.py --golden).
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			want := readGolden(t, file)
			dir := want.folder(t)
			path := filepath.Join(dir, "model.gguf")
			if _, err := hf.Convert(t.Context(), dir, path, hf.Options{}); err != nil {
				t.Fatal(err)
			}
			m, err := infer.Load(path, infer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			s, err := m.NewSession(infer.SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			for i, token := range want.Tokens {
				if err := s.Feed(t.Context(), []int32{token}); err != nil {
					t.Fatal(err)
				}
				for k, v := range want.Logits[strconv.Itoa(i)] {
					if got := float64(s.Logits()[k]); math.Abs(got-v) > 2e-3*(1+math.Abs(v)) {
						t.Fatalf("position %d, logit %d: got %v, want %v", i, k, got, v)
					}
				}
			}
		})
	}
}

// keep converts a folder and returns the GGUF file and the kept files.
func keep(t *testing.T, dir string) (*gguf.File, map[string][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if _, err := hf.Convert(t.Context(), dir, path, hf.Options{}); err != nil {
		t.Fatal(err)
	}
	m, err := hf.Open(dir, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	kept, err := m.Keep(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, kept
}

// TestGoldenRestored writes the folder of each golden model again, with the same bytes.
func TestGoldenRestored(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: writes every family back")
	}
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			dir, out := readGolden(t, file).folder(t), t.TempDir()
			f, kept := keep(t, dir)
			if notes, err := hf.Restore(t.Context(), out, kept, f); err != nil || len(notes) != 0 {
				t.Fatal(err, notes)
			}
			if err := hf.CompareFolders(dir, out); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRestoreLogarithms writes the decays of another state space as logarithms, and refuses
// growth, which has none.
func TestRestoreLogarithms(t *testing.T) {
	f, kept := keep(t, readGolden(t, filepath.Join("testdata", "golden", "mamba2.json")).folder(t))
	decay, ok := f.Tensor("blk.0.ssm_a")
	if !ok {
		t.Fatal("no decays")
	}
	for i := range f.Tensors {
		if f.Tensors[i].Name == decay.Name {
			f.Tensors[i].Data = bytes.Repeat([]byte{0, 0, 0, 0xC0}, len(decay.Data)/4) // -2
		}
	}
	out := t.TempDir()
	if _, err := hf.Restore(t.Context(), out, kept, f); err != nil {
		t.Fatal(err)
	}
	m, err := hf.Open(out, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got := binary.LittleEndian.Uint32(m.Tensors()["backbone.layers.0.mixer.A_log"].Data); math.Float32frombits(got) != math.Ln2 {
		t.Errorf("got %v, want ln 2", math.Float32frombits(got))
	}
	for i := range f.Tensors {
		if f.Tensors[i].Name == decay.Name {
			f.Tensors[i].Data = bytes.Repeat([]byte{0, 0, 0, 0x40}, len(decay.Data)/4) // 2
		}
	}
	if _, err := hf.Restore(t.Context(), t.TempDir(), kept, f); err == nil || !strings.Contains(err.Error(), decay.Name) {
		t.Errorf("growth: %v", err)
	}
}

// TestGoldenRefused changes a key of a golden configuration: each is refused by
// name.
func TestGoldenRefused(t *testing.T) {
	for _, c := range []struct {
		model, key, value, want string
	}{
		{"deepseek3", "num_attention_heads", "0", "key num_key_value_heads: got 4, want num_attention_heads 0"},
		{"deepseek3", "kv_lora_rank", "1000000", "bad rank of keys and values: got 1000000, want 1 to 1024"},
		{"deepseek3", "kv_lora_rank", "16", "shape mismatch for tensor model.layers.0.self_attn.kv_a_proj_with_mqa.weight"},
		{"deepseek3", "v_head_dim", "16", "shape mismatch for tensor model.layers.0.self_attn.kv_b_proj.weight: got [160 32], want [128 32]"},
		{"deepseek3", "q_lora_rank", "null", "missing tensor model.layers.0.self_attn.q_proj.weight"},
		{"deepseek3", "qk_rope_head_dim", "7", "key qk_head_dim: got 24, want 23"},
		{"deepseek3", "rope_interleave", "false", "key rope_interleave: got false, want true"},
		{"deepseek3", "n_group", "3", "8 experts cannot form 3 groups"},
		{"deepseek3", "num_key_value_heads", "2", "key num_key_value_heads: got 2, want num_attention_heads 4"},
		{"deepseek3", "n_shared_experts", "1025", "key n_shared_experts: got 1025, want at most 1024"}, // maxShared
		{"deepseek3", "n_shared_experts", "1024", "shape mismatch for tensor model.layers.2.mlp.shared_experts"},
		{"deepseek3", "topk_method", `"greedy"`, `key topk_method: got "greedy", want "noaux_tc"`},
		{"deepseek3", "scoring_func", `"softmax"`, `key scoring_func: got "softmax", want "sigmoid"`},
		{"deepseek2", "norm_topk_prob", "true", "key norm_topk_prob: got true, want false"},
		{"deepseek2", "topk_method", `"best"`, `key topk_method: got "best", want greedy or group_limited_greedy`},
		{"lfm2", "layer_types", `["conv"]`, "key layer_types: got 1 entries, want 4"},
		{"lfm2", "layer_types", `["conv", "conv", "recall", "conv"]`, `key layer_types: unsupported "recall", want full_attention or conv`},
		{"lfm2", "layer_types", `["conv", "conv", "conv", "conv"]`, "missing tensor model.layers.1.conv.conv.weight"},
		{"lfm2", "conv_L_cache", "0", "bad kernel of the convolution: got 0"},
		{"lfm2", "conv_L_cache", "4", "shape mismatch for tensor model.layers.0.conv.conv.weight"},
		{"lfm2", "conv_bias", "true", "key conv_bias: got true, want false"},
		{"lfm2", "block_multiple_of", "0", "key block_multiple_of: got 0"},
		{"lfm2", "block_ffn_dim_multiplier", "1e300", "key block_ffn_dim_multiplier: got 1e+300"},
		{"mamba2", "time_step_limit", "[0.0, 0.1]", "key time_step_limit: got [0.0,0.1], want no limit"},
		{"mamba2", "time_step_limit", "[]", "key time_step_limit: got [], want no limit"},
		{"mamba2", "num_heads", "0", "keys num_heads and head_dim: got 0 and 16, want a product of 128"},
		{"mamba2", "n_groups", "3", "8 heads in 3 groups cannot share"},
		{"mamba2", "state_size", "1000000", "bad numbers of a state: got 1000000, want 1 to 4096"},
		{"mamba2", "hidden_size", "0", "want a product of 0"},
		{"mamba2", "num_hidden_layers", "0", "bad number of layers: got 0"},
		{"mamba2", "use_bias", "true", "key use_bias: got true, want false"},
		{"granitehybrid", "mamba_n_heads", "0", "bad number of heads of the state space: got 0"},
		{"granitehybrid", "mamba_d_head", "8", "key mamba_d_head: got 8, want 16"},
		{"granitehybrid", "position_embedding_type", `"alibi"`, `key position_embedding_type: got "alibi", want rope or none`},
		{"granitehybrid", "num_local_experts", "1025", "bad number of experts: got 1025"},
		{"qwen3next", "linear_num_key_heads", "3", "4 heads in 3 groups cannot share"},
		{"qwen3next", "linear_num_key_heads", "0", "bad number of groups of the state space: got 0"},
		{"qwen3next", "linear_key_head_dim", "8", "shape mismatch for tensor model.layers.0.linear_attn.in_proj_qkvz.weight"},
		{"qwen3next", "layer_types", `["linear_attention", "recall", "linear_attention", "full_attention"]`, `key layer_types: unsupported "recall", want full_attention or linear_attention`},
		{"qwen3next", "mlp_only_layers", "[1]", "key mlp_only_layers: got [1], want []"},
		{"qwen3next", "decoder_sparse_step", "2", "key decoder_sparse_step: got 2, want 1"},
		{"qwen3next", "attention_bias", "true", "key attention_bias: got true, want false"},
		{"qwen35", "attn_output_gate", "false", "key attn_output_gate: got false, want true"},
		{"qwen35", "linear_value_head_dim", "48", "shape mismatch for tensor model.layers.0.linear_attn.in_proj_qkv.weight"},
		{"qwen35moe", "shared_expert_intermediate_size", "0", "bad shared expert feed forward length: got 0"},
		{"glm4moe", "use_qk_norm", "false", "key use_qk_norm is false, but presence of tensor model.layers.0.self_attn.q_norm.weight is true"},
		{"glm4moe", "scoring_func", `"softmax"`, `key scoring_func: got "softmax", want "sigmoid"`},
		{"glm4moe", "n_shared_experts", "1025", "key n_shared_experts: got 1025, want at most 1024"}, // maxShared
		{"glm4moe", "n_shared_experts", "1024", "shape mismatch for tensor model.layers.1.mlp.shared_experts"},
		{"glm4moe", "topk_group", "5", "bad number of groups used: got 5"},
		{"dots1", "moe_layer_freq", "2", "key moe_layer_freq: got 2, want 1"},
		{"erniemoe", "moe_num_shared_experts", "1025", "key moe_num_shared_experts: got 1025, want at most 1024"}, // maxShared
		{"erniemoe", "moe_num_shared_experts", "1024", "shape mismatch for tensor model.layers.1.mlp.shared_experts"},
		{"erniemoe", "moe_layer_interval", "2", "key moe_layer_interval: got 2, want 1"},
		{"erniemoe", "moe_layer_end_index", "2", "key moe_layer_end_index: got 2, want 3 or -1"},
		{"erniemoe", "moe_norm_min", "0.5", "key moe_norm_min: got 0.5, want at most 1e-6"},
		{"hunyuan-ntk", "use_cla", "true", "key use_cla: got true, want false"},
		{"hunyuan-ntk", "rope_parameters", `{"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}`, `key rope_type: unsupported "dynamic"`},
		{"minimax", "shared_intermediate_size", "64", "key shared_intermediate_size: got 64, want 0"},
		{"minimax", "qk_norm_type", `"per_head"`, `key qk_norm_type: got "per_head", want "per_layer"`},
		{"gemma4-moe", "num_experts", "5", "got [8 64], want [5 64]"},
		{"gemma4-moe", "top_k_experts", "9", "bad number of experts used: got 9, want 1 to 8"},
		{"apertus", "hidden_act", `"silu"`, `key hidden_act: got "silu", want "xielu"`},
		{"solaropen", "num_experts_per_tok", "9", "bad number of experts used: got 9, want 1 to 8"},
		{"solaropen", "norm_topk_prob", "3", "key norm_topk_prob: bad value 3"},
		{"bamba", "attn_layer_indices", "[1, 9]", "key attn_layer_indices: got 9 of 4 layers"},
		{"bamba", "mamba_conv_bias", "false", "key mamba_conv_bias is false"},
		{"glm4moelite", "mlp_layer_types", `["dense", "sparse", "dense"]`, "key mlp_layer_types: got"},
		{"glm4moelite", "mlp_layer_types", `["dense", "sparse"]`, "key mlp_layer_types: got 2 entries, want 3"},
		{"glm4moelite", "topk_group", "0", "key topk_group: got 0, want at least 1"},
		{"nemotronh", "layers_block_type", `["mamba", "moe", "full_attention", "mlp", "mamba", "mlp"]`, "layers of mlp and of moe in one model"},
		{"nemotronh", "layers_block_type", `["mamba", "conv"]`, `key layers_block_type: unsupported "conv"`},
		{"nemotronh-moe", "moe_latent_size", "16", "key moe_latent_size: got 16"},
		{"nemotronh-moe", "sliding_window", "16", "key sliding_window: got 16"},
		{"deepseek2", "first_k_dense_replace", "9", "bad number of layers without experts: got 9"},
	} {
		g := readGolden(t, filepath.Join("testdata", "golden", c.model+".json"))
		g.Config[c.key] = json.RawMessage(c.value)
		_, err := hf.Open(g.folder(t), hf.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s %s: %v, want %q in it", c.model, c.key, c.value, err, c.want)
		}
	}
}

// TestGoldenHostile changes each key of each golden configuration: nothing may panic.
func TestGoldenHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: three values of every key of every family")
	}
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		g := readGolden(t, file)
		dir := g.folder(t)
		for key := range g.Config {
			for _, value := range []string{"0", "4294967295", "[]"} {
				config := maps.Clone(g.Config)
				config[key] = json.RawMessage(value)
				data, err := json.Marshal(config)
				if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644)); err != nil {
					t.Fatal(err)
				}
				if m, err := hf.Open(dir, hf.Options{}); err == nil {
					m.Close()
				}
			}
		}
	}
}

// formula returns the numbers of testdata/models.py's function.
func formula(name string, shape []int, offset, scale float64) safetensors.Bytes {
	n := 1
	for _, d := range shape {
		n *= d
	}
	state := crc32.ChecksumIEEE([]byte(name))
	var out []byte
	for range n {
		state = state*1664525 + 1013904223
		x := float32(offset + scale*(float64(state>>8)/(1<<24)-0.5))
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// TestExpertsTogether: experts in one tensor, under the names of the half of a multimodal
// model, become the same file as experts with a tensor each in a model without vision.
func TestExpertsTogether(t *testing.T) {
	g := readGolden(t, filepath.Join("testdata", "golden", "qwen35moe.json"))
	dir := g.folder(t)
	f, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []safetensors.Source
	together := map[string][]safetensors.Tensor{}
	add := func(name string, shape []int, parts ...safetensors.Tensor) {
		var data []byte
		for _, p := range parts {
			data = append(data, p.Data...)
		}
		tensors = append(tensors, safetensors.Source{Name: name, DType: safetensors.F32, Shape: shape, Data: safetensors.Bytes(data)})
	}
	experts := 0
	for _, x := range f.Tensors {
		name := strings.Replace(x.Name, "model.", "model.language_model.", 1)
		if layer, _, ok := strings.Cut(name, ".mlp.experts."); ok {
			together[layer] = nil
			experts++
		} else {
			add(name, x.Shape, x)
		}
	}
	experts /= 3 * len(together)
	for _, layer := range slices.Sorted(maps.Keys(together)) {
		var up, down []safetensors.Tensor
		for e := range experts {
			for _, part := range []string{"gate_proj", "up_proj", "down_proj"} {
				x, ok := f.Tensor(fmt.Sprintf("%s.mlp.experts.%d.%s.weight", strings.Replace(layer, "model.language_model.", "model.", 1), e, part))
				switch {
				case !ok:
					t.Fatalf("no %s of expert %d in %s", part, e, layer)
				case part == "down_proj":
					down = append(down, x)
				default:
					up = append(up, x)
				}
			}
		}
		hidden, width := up[0].Shape[0], up[0].Shape[1]
		add(layer+".mlp.experts.gate_up_proj", []int{experts, 2 * hidden, width}, up...)
		add(layer+".mlp.experts.down_proj", []int{experts, width, hidden}, down...)
	}
	slices.SortFunc(tensors, func(a, b safetensors.Source) int { return strings.Compare(a.Name, b.Name) })
	var weights bytes.Buffer
	if _, err := safetensors.Write(&weights, nil, tensors); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	other := t.TempDir()
	if err := errors.Join(err, os.WriteFile(filepath.Join(other, "config.json"), config, 0o644),
		os.WriteFile(filepath.Join(other, "model.safetensors"), weights.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	var files [2][]byte
	for i, folder := range []string{dir, other} {
		path := filepath.Join(t.TempDir(), "model.gguf")
		if _, err := hf.Convert(t.Context(), folder, path, hf.Options{Name: "model"}); err != nil {
			t.Fatal(err)
		}
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the files differ")
	}
}
