package arch_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
)

// plain returns a small shape of an architecture.
func plain(name string) arch.Shape {
	s := arch.Shape{
		Arch: name, Context: 64, Layers: 6, Width: 32, Heads: 4, KVHeads: 2, HeadDim: 16, Hidden: 64, Vocab: 12, Epsilon: 1e-5,
		Rope: arch.Rope{Dims: 16, Base: 10000, OriginalContext: 64, ExtFactor: -1},
	}
	y := s.Style()
	s.Rope.Halves = y.Halves
	if y.Learned || y.ALiBi || y.Unplaced {
		s.Rope = arch.Rope{}
	}
	switch name {
	case "qwen3moe", "qwen3vlmoe":
		s.Experts, s.ExpertsUsed, s.ExpertHidden = 4, 2, 32
	case "smollm3":
		s.Unrotated = []bool{false, false, false, true, false, false}
	case "gemma2":
		s.Window, s.Windowed = 8, []bool{true, false, true, false, true, false}
		s.AttentionCap, s.LogitCap = 50, 30
	case "gemma3":
		s.Window, s.Windowed = 8, []bool{true, true, true, true, true, false}
		local := s.Rope
		local.Base = 5000
		s.Local, s.Rope.Base = &local, 1e6
	case "gemma3n":
		s.Window, s.Windowed = 8, []bool{true, true, true, true, false, true}
		local := s.Rope
		local.Base = 5000
		s.Local, s.Rope.Base, s.LogitCap = &local, 1e6, 30
		s.Altup = &arch.Altup{Streams: 3, Rank: 24, PerLayer: 12, Shared: 1, Cutoffs: []float32{1.5, arch.Dense, 0, arch.Dense, -1, 2}}
	case "gemma4":
		s.Window, s.Windowed = 8, []bool{true, true, false, true, true, false}
		local := s.Rope
		local.Base, local.Dims = 5000, 8
		s.Local, s.Rope.Base, s.LogitCap = &local, 1e6, 30
		s.LocalHeadDim, s.LocalKVHeads, s.WideShared = 8, 4, true
		s.Altup = &arch.Altup{Streams: 1, PerLayer: 12, Shared: 2}
	case "qwen2moe":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.ExpertSum = 6, 2, 32, 48, true
	case "olmoe", "flexolmo":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.ExpertSum = 6, 2, 32, true
	case "granitemoe":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.LogitDivisor = 6, 2, 32, 2
	case "gpt-oss":
		s.Experts, s.ExpertsUsed, s.ExpertHidden = 6, 2, 32
		s.Window, s.Windowed, s.Rope.Smooth = 8, []bool{true, false, true, false, true, false}, true
	case "deepseek":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.ExpertSum, s.DenseLead = 6, 2, 32, 64, true, 1
	case "deepseek2":
		s.Latent = &arch.Latent{QueryRank: 24, Rank: 32, Key: 16, Value: 24}
		s.KVHeads, s.Rope.Dims, s.HeadDim = 1, 8, 40
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.DenseLead = 8, 3, 32, 64, 1
		s.ExpertSigmoid, s.ExpertGroups, s.GroupsUsed, s.ExpertScale = true, 4, 2, 2.5
	case "lfm2":
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 3}, []bool{true, false, true, true, false, true}
	case "granitehybrid":
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}, []bool{true, true, false, true, false, true}
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.LogitDivisor = 6, 2, 64, 48, 2
		s.Unrotated = []bool{true, true, true, true, true, true}
	case "lfm2moe":
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 3}, []bool{true, false, true, true, false, true}
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.DenseLead, s.ExpertSigmoid = 6, 2, 32, 1, true
	case "nemotron_h", "nemotron_h_moe":
		s.Rope, s.Mixer = arch.Rope{}, &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}
		s.Recurrent, s.Feeding = []bool{true, false, false, true, false, true}, []bool{false, true, false, false, true, false}
		if name == "nemotron_h_moe" {
			s.Hidden = 48
			s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.ExpertSigmoid, s.ExpertScale = 6, 2, 48, 80, true, 2.5
		}
	case "mamba2":
		s.Rope, s.Heads, s.KVHeads, s.HeadDim, s.Hidden = arch.Rope{}, 0, 0, 0, 0
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}, []bool{true, true, true, true, true, true}
	case "qwen3next":
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2, Delta: true}, []bool{true, true, true, false, true, false}
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden = 6, 2, 32, 48
	case "qwen35", "qwen35moe":
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2, Delta: true, Tiled: true}, []bool{true, true, true, false, true, false}
		s.Rope.Dims, s.Rope.Sections, s.Rope.Interleaved = 16, [3]int{4, 2, 2}, true
		if name == "qwen35moe" {
			s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden = 6, 2, 32, 48
		}
	case "glm4moe", "dots1":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.ExpertSum, s.DenseLead = 8, 3, 32, 64, true, 1
		s.ExpertSigmoid, s.ExpertScale = true, 2.5
	case "ernie4_5-moe":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.DenseLead = 6, 2, 32, 48, 1
	case "hunyuan-moe":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden = 6, 2, 64, 48
	case "minimax-m2":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.ExpertSigmoid = 6, 2, 64, true
	case "olmo2":
		s.Local, s.Window, s.Windowed = &arch.Rope{Dims: 16, Base: s.Rope.Base, Halves: true, OriginalContext: s.Context, ExtFactor: -1}, 8, []bool{true, true, true, false, true, true}
	case "apertus":
		s.Curves = &arch.Curves{Above: []float32{1, 2, 3, 4, 5, 6}, Below: []float32{6, 5, 4, 3, 2, 1}, Slope: []float32{0, 1, 0, 1, 0, 1}, Least: []float32{-1, 0, 0, 0, 0, 0}}
	case "mistral3":
		s.Cooling = 0.5
	case "phi2", "falcon":
		s.Parallel = true
	case "command-r":
		s.Parallel, s.LogitDivisor = true, 4
	case "cohere2":
		s.Parallel, s.LogitDivisor = true, 4
		s.Window, s.Windowed, s.Unrotated = 8, []bool{true, true, true, false, true, true}, []bool{false, false, false, true, false, false}
	case "exaone4":
		s.Window, s.Windowed, s.Unrotated = 8, []bool{true, true, true, false, true, true}, []bool{false, false, false, true, false, false}
	case "gptneo":
		s.Window, s.Windowed = 8, []bool{false, true, false, true, true, false}
	case "gptneox", "stablelm", "gptj":
		s.Parallel = true
	case "granite":
		s.LogitDivisor, s.EmbeddingScale, s.ResidualScale, s.AttentionScale = 4, 12, 0.25, 1
	}
	return s
}

// file returns a file of keys, and tensors of zeros.
func file(t testing.TB, kvs []gguf.KV, tensors []arch.Tensor) *gguf.File {
	t.Helper()
	var sources []gguf.Source
	for _, w := range tensors {
		n := 1
		for _, d := range w.Dims {
			n *= d
		}
		sources = append(sources, gguf.Source{Name: w.Name, Type: tensor.F32, Dims: w.Dims, Data: gguf.Bytes(make([]byte, 4*n))})
	}
	var b bytes.Buffer
	if _, err := gguf.Write(&b, kvs, sources); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// needed lists the tensors that a model must have.
func needed(s arch.Shape) []arch.Tensor {
	all := s.Globals()
	for i := range s.Layers {
		all = append(all, s.Layer(i, nil)...)
	}
	var out []arch.Tensor
	for _, t := range all {
		if !t.Optional {
			out = append(out, t)
		}
	}
	return out
}

// read does the checks of loading before numbers are read.
func read(f *gguf.File) (arch.Shape, error) {
	s, err := arch.Read(f)
	if err == nil {
		err = s.CheckTensors(f.Names())
	}
	return s, err
}

// TestHeeded writes files with an extra key or tensor: each is refused by name,
// or reflected in the shape.
func TestHeeded(t *testing.T) {
	key := func(k string, v any) func(*arch.Shape) ([]gguf.KV, []arch.Tensor) {
		return func(*arch.Shape) ([]gguf.KV, []arch.Tensor) { return []gguf.KV{{Key: k, Value: v}}, nil }
	}
	more := func(name string, dims ...int) func(*arch.Shape) ([]gguf.KV, []arch.Tensor) {
		return func(*arch.Shape) ([]gguf.KV, []arch.Tensor) { return nil, []arch.Tensor{{Name: name, Dims: dims}} }
	}
	same := func(s arch.Shape) bool { return fmt.Sprintf("%+v", s) == fmt.Sprintf("%+v", plain(s.Arch)) }
	for _, c := range []struct {
		name, arch string
		extra      func(*arch.Shape) ([]gguf.KV, []arch.Tensor)
		refused    string
		heeded     func(arch.Shape) bool
	}{
		{"nothing", "llama", key("general.name", "x"), "", same},
		{"attn_sinks", "llama", more("blk.1.attn_sinks.weight", 4), "unexpected tensor blk.1.attn_sinks.weight", nil},
		{"post attention norm", "llama", more("blk.0.post_attention_norm.weight", 32), "blk.0.post_attention_norm.weight", nil},
		{"attn_norm.bias", "llama", more("blk.0.attn_norm.bias", 32), "blk.0.attn_norm.bias", nil},
		{"head norm", "llama", more("blk.0.attn_q_norm.weight", 16), "blk.0.attn_q_norm.weight", nil},
		{"layer too many", "llama", more("blk.6.attn_norm.weight", 32), "blk.6.attn_norm.weight", nil},
		{"bias of queries", "llama", more("blk.0.attn_q.bias", 64), "", same},
		{"attention.scale", "llama", key("llama.attention.scale", float32(0.5)), "", func(s arch.Shape) bool { return s.AttentionScale == 0.5 }},
		{"logit_scale", "llama", key("llama.logit_scale", float32(0.5)), "key llama.logit_scale is 0.5", nil},
		{"logit_scale of nothing", "llama", key("llama.logit_scale", float32(1)), "", same},
		{"sliding_window", "llama", key("llama.attention.sliding_window", uint32(8)), "", func(s arch.Shape) bool { return s.WindowOf(0) == 8 && s.WindowOf(5) == 8 }},
		{"sliding_window of all", "llama", key("llama.attention.sliding_window", uint32(64)), "", same},
		{"sliding_window in qwen2", "qwen2", key("qwen2.attention.sliding_window", uint32(8)), "got 8, but architecture qwen2 does not support a sliding window", nil},
		{"sliding_window in granite", "granite", key("granite.attention.sliding_window", uint32(8)), "got 8, but architecture granite does not support a sliding window", nil},
		{"causal false", "llama", key("llama.attention.causal", false), "key llama.attention.causal is false", nil},
		{"causal true", "llama", key("llama.attention.causal", true), "", same},
		{"residual_scale", "llama", key("llama.residual_scale", float32(0.5)), "", func(s arch.Shape) bool { return s.ResidualScale == 0.5 }},
		{"embedding_scale", "llama", key("llama.embedding_scale", float32(3)), "", func(s arch.Shape) bool { return s.EmbeddingScale == 3 }},
		{"clamp_kqv", "llama", key("llama.attention.clamp_kqv", float32(8)), "key llama.attention.clamp_kqv is 8", nil},
		{"clamp_kqv of nothing", "llama", key("llama.attention.clamp_kqv", float32(0)), "", same},
		{"alibi", "llama", key("llama.attention.max_alibi_bias", float32(8)), "max_alibi_bias", nil},
		{"soft cap", "llama", key("llama.attn_logit_softcapping", float32(50)), "key llama.attn_logit_softcapping is 50", nil},
		{"soft cap in gemma2", "gemma2", key("gemma2.final_logit_softcapping", float32(7)), "", func(s arch.Shape) bool { return s.LogitCap == 7 }},
		{"rope type ntk", "llama", key("llama.rope.scaling.type", "ntk"), "", func(s arch.Shape) bool { return s.Rope.Scaling == "ntk" }},
		{"rope type unknown", "llama", key("llama.rope.scaling.type", "spiral"), `scaling "spiral"`, nil},
		{"partial rope", "llama", key("llama.rope.dimension_count", uint32(8)), "", func(s arch.Shape) bool { return s.Rope.Dims == 8 }},
		{"mrope", "llama", key("llama.rope.dimension_sections", []int32{1, 2, 3, 0}), "key llama.rope.dimension_sections", nil},
		{"yarn log multiplier", "llama", key("llama.rope.scaling.yarn_log_multiplier", float32(0.1)), "yarn_log_multiplier is 0.1", nil},
		{"yarn attention factor", "llama", key("llama.rope.scaling.yarn_attn_factor", float32(0.7)), "", func(s arch.Shape) bool { return s.Rope.YarnAttention == 0.7 }},
		{"yarn betas", "llama", key("llama.rope.scaling.yarn_beta_fast", float32(16)), "", func(s arch.Shape) bool { return s.Rope.BetaFast == 16 }},
		{"experts of none", "llama", key("llama.expert_count", uint32(4)), "mixed layers are not supported", nil},
		{"experts in qwen2", "qwen2", key("qwen2.expert_count", uint32(4)), "got 4, but architecture qwen2 does not support experts", nil},
		{"shared experts", "qwen3moe", key("qwen3moe.expert_shared_count", uint32(1)), "expert_shared_count", nil},
		{"sigmoid of experts", "qwen3moe", key("qwen3moe.expert_gating_func", uint32(2)), "expert_gating_func is 2", nil},
		{"sums of experts", "qwen3moe", key("qwen3moe.expert_weights_norm", false), "", func(s arch.Shape) bool { return s.ExpertSum }},
		{"rotation switched off", "granite", key("granite.rope.scaling.finetuned", false), "finetuned is false", nil},
		{"pattern of rotation", "smollm3", key("smollm3.attention.rope_pattern", []bool{true, true, true, true, true, false}), "", func(s arch.Shape) bool { return s.Rotated(3) && !s.Rotated(5) }},
		{"pattern of rotation in llama", "llama", key("llama.attention.rope_pattern", []bool{true, true, true, true, true, false}), "key llama.attention.rope_pattern", nil},
		{"pattern of windows", "gemma2", key("gemma2.attention.sliding_window_pattern", uint32(3)), "", func(s arch.Shape) bool { return s.WindowOf(1) == 8 && s.WindowOf(2) == 0 }},
		{"older latent attention", "deepseek2", key("deepseek2.attention.key_length_mla", uint32(0)), "key deepseek2.attention.key_length_mla is missing", nil},
		{"rank of latents", "deepseek2", key("deepseek2.attention.kv_lora_rank", uint32(1<<31)), "got 32, want the rank 2147483648", nil},
		{"no rank", "deepseek2", key("deepseek2.attention.kv_lora_rank", uint32(0)), "want the rank 0", nil},
		{"rank of queries", "deepseek2", key("deepseek2.attention.q_lora_rank", uint32(1<<20)), "bad rank of queries: got 1048576, want 0 to 65536", nil},
		{"key without a part that is not rotated", "deepseek2", key("deepseek2.attention.key_length_mla", uint32(8)), "bad size of a key without rotation: got 0", nil},
		{"value of no numbers", "deepseek2", key("deepseek2.attention.value_length_mla", uint32(0)), "bad size of a value: got 0", nil},
		{"heads of latents", "deepseek2", key("deepseek2.attention.head_count_kv", uint32(4)), "bad number of key/value heads: got 4, want 1", nil},
		{"gate of experts", "deepseek2", key("deepseek2.expert_gating_func", uint32(3)), "key deepseek2.expert_gating_func: got 3, want 1 (softmax) or 2 (sigmoid)", nil},
		{"groups of experts", "deepseek2", key("deepseek2.expert_group_count", uint32(3)), "8 experts cannot form 3 groups", nil},
		{"groups that are used", "deepseek2", key("deepseek2.expert_group_used_count", uint32(5)), "bad number of groups used: got 5, want 1 to 4", nil},
		{"groups that are too small", "deepseek2", key("deepseek2.expert_group_used_count", uint32(1)), "got 3, but 1 groups hold 2", nil},
		{"one group", "deepseek2", key("deepseek2.expert_group_count", uint32(1)), "", func(s arch.Shape) bool { return s.ExpertGroups == 0 }},
		{"shared experts without end", "deepseek2", key("deepseek2.expert_shared_count", uint32(1<<30)), "key deepseek2.expert_shared_count: got 1073741824, want 0 to 1024", nil},
		{"layers without experts", "deepseek2", key("deepseek2.leading_dense_block_count", uint32(7)), "bad number of layers without experts: got 7, want 0 to 6", nil},
		{"scale of experts", "deepseek2", key("deepseek2.expert_weights_scale", float32(-1)), "bad scale of experts: -1", nil},
		{"logarithm of yarn", "deepseek2", key("deepseek2.rope.scaling.yarn_log_multiplier", float32(0.0707)), "", func(s arch.Shape) bool { return s.Rope.YarnAttention == 1 && s.Rope.YarnLog > 0.7 }},
		{"keys and values in one matrix", "deepseek2", more("blk.0.attn_kv_b.weight", 32, 160), "unexpected tensor blk.0.attn_kv_b.weight", nil},
		{"taps of a convolution", "lfm2", key("lfm2.shortconv.l_cache", uint32(65)), "bad kernel of the convolution: got 65, want 2 to 64", nil}, // maxKernel
		{"one tap", "lfm2", key("lfm2.shortconv.l_cache", uint32(1)), "bad kernel of the convolution: got 1", nil},
		{"taps at the limit", "lfm2", key("lfm2.shortconv.l_cache", uint32(64)), "", func(s arch.Shape) bool { return s.Mixer.Kernel == 64 }},
		{"key heads of some layers", "lfm2", key("lfm2.attention.head_count_kv", []uint32{0, 2, 0, 0, 4, 0}), "2 in one layer, but 4 in layer 4", nil},
		{"a layer of attention without its tensors", "lfm2", key("lfm2.attention.head_count_kv", []uint32{2, 2, 0, 0, 2, 0}), "tensor blk.0.attn_k.weight is missing", nil},
		{"few layers", "lfm2", key("lfm2.attention.head_count_kv", []uint32{2, 0}), "got 2 entries, want 6", nil},
		{"states without end", "mamba2", key("mamba2.ssm.state_size", uint32(4097)), "bad numbers of a state: got 4097, want 1 to 4096", nil}, // maxState
		{"states at the limit", "mamba2", key("mamba2.ssm.state_size", uint32(4096)), "", func(s arch.Shape) bool { return s.Mixer.State == 4096 }},
		{"no heads of a state space", "mamba2", key("mamba2.ssm.time_step_rank", uint32(0)), "bad number of heads of the state space: got 0", nil},
		{"heads that do not fit", "mamba2", key("mamba2.ssm.time_step_rank", uint32(3)), "3 heads in 2 groups cannot share a state space of width 64", nil},
		{"groups that do not fit", "mamba2", key("mamba2.ssm.group_count", uint32(3)), "4 heads in 3 groups cannot share", nil},
		{"width without end", "mamba2", key("mamba2.ssm.inner_size", uint32(1<<31)), "bad width of the state space: got 2147483648", nil},
		{"memory without end", "mamba2", func(*arch.Shape) ([]gguf.KV, []arch.Tensor) {
			return []gguf.KV{{Key: "mamba2.ssm.inner_size", Value: uint32(1 << 18)}, {Key: "mamba2.ssm.state_size", Value: uint32(4096)}}, nil
		}, "exceeds 1073741824", nil}, // MaxMemory
		{"heads of mamba2", "mamba2", key("mamba2.attention.head_count", uint32(4)), "architecture mamba2 has no heads", nil},
		{"mamba2 without a state", "mamba2", key("mamba2.ssm.norm", true), "key mamba2.ssm.norm is true", nil},
		{"layers of delta rules", "qwen3next", key("qwen3next.attention.recurrent_layers", []bool{true}), "key qwen3next.attention.recurrent_layers: got 1 entries, want 6", nil},
		{"heads of delta rules", "qwen3next", key("qwen3next.ssm.group_count", uint32(3)), "4 heads in 3 groups cannot share", nil},
		{"layers that propose tokens", "qwen35", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Further = 1
			return nil, []arch.Tensor{{Name: "blk.6.nextn.eh_proj.weight", Dims: []int{4, 2}}}
		}, "", func(s arch.Shape) bool { return s.Layers == 6 && s.Further == 1 && len(s.Recurrent) == 6 }},
		{"layers after the proposing ones", "qwen35", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Further = 1
			return nil, []arch.Tensor{{Name: "blk.7.nextn.eh_proj.weight", Dims: []int{4, 2}}}
		}, "unexpected tensor blk.7.nextn.eh_proj.weight", nil},
		{"only layers that propose tokens", "qwen35", key("qwen35.nextn_predict_layers", uint32(6)), "key qwen35.nextn_predict_layers: got 6, want fewer than the 6 layers", nil},
		{"layers that propose tokens of llama", "llama", key("llama.nextn_predict_layers", uint32(1)), "key llama.nextn_predict_layers is 1", nil},
		{"numbers of tokens at the limit", "gemma3n", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Altup.PerLayer = 1 << 18 / 6
			return nil, nil
		}, "", func(s arch.Shape) bool { return s.Altup.PerLayer == 43690 }},
		{"numbers of tokens", "gemma3n", key("gemma3n.embedding_length_per_layer_input", uint32(43691)), "bad numbers of a token for a layer: got 43691, want 1 to 43690", nil},
		{"no numbers of tokens", "gemma3n", key("gemma3n.embedding_length_per_layer_input", uint32(0)), "bad numbers of a token for a layer: got 0", nil},
		{"streams at the limit", "gemma3n", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Altup.Streams = 16
			return nil, nil
		}, "", func(s arch.Shape) bool { return s.Altup.Streams == 16 }}, // maxStreams
		{"streams", "gemma3n", key("gemma3n.altup.num_inputs", uint32(17)), "bad number of residual streams: got 17, want 2 to 16", nil},
		{"one stream", "gemma3n", key("gemma3n.altup.num_inputs", uint32(1)), "bad number of residual streams: got 1", nil},
		{"another active stream", "gemma3n", key("gemma3n.altup.active_idx", uint32(1)), "key gemma3n.altup.active_idx: got 1, want 0", nil},
		{"layers that share keys", "gemma3n", key("gemma3n.attention.shared_kv_layers", uint32(6)), "bad number of layers that share keys and values: got 6, want 0 to 5", nil},
		{"keys of another window", "gemma3n", key("gemma3n.attention.shared_kv_layers", uint32(2)), "layer 4 shares keys and values, but no earlier layer has the same window", nil},
		{"keys of the same window", "gemma3n", key("gemma3n.attention.sliding_window_pattern", []bool{true, true, false, true, true, false}), "", func(s arch.Shape) bool { return s.KeysOf(5) == 2 && s.AttentionLayers() == 5 }},
		{"cutoffs of some layers", "gemma3n", key("gemma3n.activation_sparsity_scale", []float32{1}), "cutoffs of gates: got 1, want one for each of 6 layers", nil},
		{"cutoff without end", "gemma3n", key("gemma3n.activation_sparsity_scale", []float32{1, 1, 1, 1, float32(math.Inf(1)), 1}), "bad cutoff of gates of layer 4", nil},
		{"cutoff of nothing", "gemma3n", key("gemma3n.activation_sparsity_scale", []float32{1, float32(math.Inf(-1)), 1, 1, 1, 1}), "", func(s arch.Shape) bool { return s.Cutoff(1) == arch.Dense && s.Cutoff(0) == 1 }},
		{"unused keys of a layer", "gemma3n", more("blk.5.attn_k.weight", 32, 32), "", func(s arch.Shape) bool { return s.KeysOf(5) == 3 && s.KeysOf(4) == 4 }},
		{"heads of one layer", "gemma4", key("gemma4.attention.head_count_kv", []uint32{4, 4, 2, 4, 2, 2}), "layer 4: got 2 key/value heads and a feed forward length of 128, want 4 and 128", nil},
		{"width of one layer", "gemma4", key("gemma4.feed_forward_length", []uint32{64, 64, 96, 64, 128, 128}), "layer 2: got 2 key/value heads and a feed forward length of 96, want 2 and 64", nil},
		{"the same heads in all layers", "gemma4", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.LocalHeadDim, s.LocalKVHeads, s.Local.Dims = 0, 0, 16
			return nil, nil
		}, "", func(s arch.Shape) bool { return s.LocalHeadDim == 0 && s.KVHeads == 2 && s.HeadDimOf(0) == 16 }},
		{"values of layers with a window", "gemma4", key("gemma4.attention.value_length_swa", uint32(16)), "keys of 8 and values of 16 dimensions in layers with a window", nil},
		{"heads of layers with a window at the limit", "gemma4", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.LocalHeadDim = 1024 // maxDim
			return nil, nil
		}, "", func(s arch.Shape) bool { return s.LocalHeadDim == 1024 }},
		{"heads of layers with a window", "gemma4", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.LocalHeadDim = 1025
			return nil, nil
		}, "bad head size of layers with a window: got 1025, want 1 to 1024", nil},
		{"key heads that do not fit", "gemma4", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.LocalKVHeads = 3
			return nil, nil
		}, "4 heads cannot share 3 key/value heads", nil},
		{"missing experts of gemma4", "gemma4", key("gemma4.expert_count", uint32(4)), "gemma4.expert_used_count", nil},
		{"experts of gemma4", "gemma4", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Experts, s.ExpertsUsed, s.ExpertHidden = 4, 2, 32
			return nil, nil
		}, "", func(s arch.Shape) bool { return s.HasExperts(0) && s.ExpertHidden == 32 && s.HiddenOf(0) == 64 }},
		{"more experts of gemma4 than there are", "gemma4", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Experts, s.ExpertsUsed, s.ExpertHidden = 4, 5, 32
			return nil, nil
		}, "bad number of experts used: got 5, want 1 to 4", nil},
		{"no numbers of gemma4's tokens", "gemma4", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Altup.PerLayer = 0
			return nil, nil
		}, "", func(s arch.Shape) bool { return s.Altup.PerLayer == 0 }},
		{"width of one layer of halves", "nemotron_h", key("nemotron_h.feed_forward_length", []uint32{0, 64, 0, 0, 32, 0}), "64 in one layer, but 32 in layer 4", nil},
		{"layers of halves", "nemotron_h", key("nemotron_h.feed_forward_length", []uint32{0, 64, 64, 0, 64, 0}), "tensor blk.2.ffn_up.weight is missing", nil},
		{"two epsilons", "nemotron_h", key("nemotron_h.attention.layer_norm_epsilon", float32(0.5)), "key nemotron_h.attention.layer_norm_epsilon: got 0.5", nil},
		{"latent experts", "nemotron_h_moe", key("nemotron_h_moe.moe_latent_size", uint32(16)), "moe_latent_size is 16", nil},
		{"scale of plain experts", "nemotron_h_moe", key("nemotron_h_moe.expert_weights_scale", float32(1)), "", func(s arch.Shape) bool { return s.ExpertScale == 0 && s.Feeds(1) && !s.Feeds(0) }},
		{"curves of some layers", "apertus", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Curves.Least = s.Curves.Least[:2]
			return nil, nil
		}, "xielu.eps: got 2 numbers, want one for each of 6 layers", nil},
		{"endless curve", "apertus", func(s *arch.Shape) ([]gguf.KV, []arch.Tensor) {
			s.Curves.Below[3] = float32(math.Inf(1))
			return nil, nil
		}, "xielu.alpha_n: bad number +Inf of layer 3", nil},
		{"an activation without numbers", "llama", key("llama.hidden_activation", "xielu"), "xielu", nil},
		{"cap of logits", "gemma3n", key("gemma3n.final_logit_softcapping", float32(12)), "", func(s arch.Shape) bool { return s.LogitCap == 12 }},
		{"streams of llama", "llama", key("llama.altup.num_inputs", uint32(4)), "key llama.altup.num_inputs is 4", nil},
		{"rotation of granite", "granitehybrid", key("granitehybrid.rope.scaling.finetuned", true), "", func(s arch.Shape) bool { return s.Unrotated == nil }},
		{"short pattern", "gemma2", key("gemma2.attention.sliding_window_pattern", []bool{true}), "key gemma2.attention.sliding_window_pattern: got 1 entries, want 6", nil},
		{"activation", "llama", key("llama.hidden_activation", "gelu"), "", func(s arch.Shape) bool { return s.Act() == arch.GELU }},
		{"unknown activation", "llama", key("llama.hidden_activation", "mish"), `activation "mish"`, nil},
		{"slopes", "bloom", key("bloom.attention.max_alibi_bias", float32(4)), "key bloom.attention.max_alibi_bias: got 4, want 8", nil},
		{"slopes of mpt", "mpt", key("mpt.attention.max_alibi_bias", float32(8)), "", same},
		{"key of tomorrow", "llama", key("llama.attention.wormhole", uint32(3)), "key llama.attention.wormhole is 3", nil},
		{"key of another", "llama", key("qwen2.attention.wormhole", uint32(3)), "", same},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := plain(c.arch)
			kvs, tensors := c.extra(&s)
			meta := s.Metadata()
			for _, kv := range kvs {
				replaced := false
				for i := range meta {
					if meta[i].Key == kv.Key {
						meta[i], replaced = kv, true
					}
				}
				if !replaced {
					meta = append(meta, kv)
				}
			}
			got, err := read(file(t, meta, append(needed(s), tensors...)))
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused == "" && !c.heeded(got):
				t.Errorf("read as %+v", got)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("%v, want %q in it", err, c.refused)
			}
		})
	}
}

// TestReordered: the rows of queries and keys have another order where transformers
// rotates halves and GGUF neighbors; adapters of other architectures keep theirs.
func TestReordered(t *testing.T) {
	var got []string
	for _, name := range arch.Known() {
		s := plain(name)
		if s.Rope.Halves = s.Style().Halves; s.Reordered() {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff([]string{"arcee", "deepseek", "granite", "granitehybrid", "granitemoe", "llama", "mistral3", "smollm3"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRoundTrip: a shape survives conversion to metadata and tensors, and every
// tensor is required.
func TestRoundTrip(t *testing.T) {
	for _, name := range arch.Known() {
		want := plain(name)
		tensors := needed(want)
		got, err := read(file(t, want.Metadata(), tensors))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: came back as another shape:\n%s", name, diff)
		}
		var names []string
		for _, w := range tensors {
			names = append(names, w.Name)
		}
		for i, missing := range names {
			without := append(append([]string{}, names[:i]...), names[i+1:]...)
			if err := got.CheckTensors(without); err == nil || !strings.Contains(err.Error(), "tensor "+missing+" is missing") && !strings.Contains(missing, "attn_qkv") && !strings.Contains(missing, "ffn_gate") {
				t.Errorf("%s without %s: %v", name, missing, err)
			}
		}
	}
}

// TestExpertsAlone: files with experts in all layers may omit the width of others.
func TestExpertsAlone(t *testing.T) {
	for name, want := range map[string]string{"qwen35moe": "", "lfm2moe": "feed_forward_length"} {
		s := plain(name)
		meta := slices.DeleteFunc(s.Metadata(), func(kv gguf.KV) bool { return kv.Key == name+".feed_forward_length" })
		got, err := read(file(t, meta, needed(s)))
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q in it", name, err, want)
		case want == "" && (err != nil || got.Hidden != s.ExpertHidden):
			t.Errorf("%s: width %d, %v", name, got.Hidden, err)
		}
	}
}

// TestPlain: each feature beyond sizes and rotation is detected.
func TestPlain(t *testing.T) {
	for name, want := range map[string]bool{"llama": true, "qwen3": true, "qwen3moe": false, "gemma2": false, "granite": false, "smollm3": false, "gptneox": false} {
		if got := plain(name).Plain(); got != want {
			t.Errorf("%s is plain: %v", name, got)
		}
	}
	for i, change := range []func(*arch.Shape){
		func(s *arch.Shape) { s.AttentionScale = 1 }, func(s *arch.Shape) { s.EmbeddingScale = 2 }, func(s *arch.Shape) { s.ResidualScale = 2 },
		func(s *arch.Shape) { s.Activation = arch.GELU }, func(s *arch.Shape) { s.Window, s.Windowed = 3, make([]bool, 6) },
	} {
		s := plain("llama")
		if change(&s); s.Plain() {
			t.Errorf("change %d is overlooked", i)
		}
	}
}

// TestOtherSpellings: experts in separate tensors, and fused queries, keys and
// values, give the same model.
func TestOtherSpellings(t *testing.T) {
	moe := plain("llama")
	moe.Experts, moe.ExpertsUsed, moe.ExpertHidden = 2, 1, 64
	var split []arch.Tensor
	for _, w := range needed(moe) {
		i := strings.Index(w.Name, "_exps")
		if i < 0 {
			split = append(split, w)
			continue
		}
		for e := range moe.Experts {
			split = append(split, arch.Tensor{Name: fmt.Sprintf("%s.%d.weight", w.Name[:i], e), Dims: w.Dims[:2]})
		}
	}
	if _, err := read(file(t, moe.Metadata(), split)); err != nil {
		t.Errorf("experts in a tensor each: %v", err)
	}
	if _, err := read(file(t, moe.Metadata(), split[:len(split)-2])); err == nil {
		t.Error("a missing expert is not reported")
	}
	fused := plain("llama")
	var one []arch.Tensor
	for _, w := range needed(fused) {
		switch part := w.Part(); part {
		case "attn_q.weight":
			one = append(one, arch.Tensor{Name: strings.Replace(w.Name, "attn_q", "attn_qkv", 1), Dims: []int{32, 64 + 2*32}})
		case "attn_k.weight", "attn_v.weight":
		default:
			one = append(one, w)
		}
	}
	if _, err := read(file(t, fused.Metadata(), one)); err != nil {
		t.Errorf("queries, keys and values in one tensor: %v", err)
	}
}

// FuzzRead reads any file that gguf accepts: an error or a valid shape, never a
// panic.
func FuzzRead(f *testing.F) {
	for _, name := range arch.Known() {
		var b bytes.Buffer
		if _, err := gguf.Write(&b, plain(name).Metadata(), nil); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := gguf.Parse(b)
		if err != nil {
			return
		}
		s, err := arch.Read(file)
		if err != nil {
			return
		}
		_ = s.CheckTensors(file.Names())
		if s.Rope.Dims > 0 {
			s.Rope.Frequencies(nil)
		}
		for i := range s.Layers {
			s.WindowOf(i)
			s.Rotated(i)
		}
		s.Metadata()
	})
}
