package hf

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// llama returns a valid config.json.
func llama() map[string]any {
	return map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
		"num_key_value_heads": 2, "intermediate_size": 24, "vocab_size": 10, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
		"hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "float32", "use_cache": true,
	}
}

// tensors returns the tensors of llama's model, by name: row r, column c of
// tensor k holds 1000k + 10r + c.
func tensors() map[string][]int {
	out := map[string][]int{"model.embed_tokens.weight": {10, 16}, "model.norm.weight": {16}, "lm_head.weight": {10, 16}}
	for _, l := range []string{"model.layers.0.", "model.layers.1."} {
		maps.Copy(out, map[string][]int{
			l + "input_layernorm.weight": {16}, l + "post_attention_layernorm.weight": {16},
			l + "self_attn.q_proj.weight": {16, 16}, l + "self_attn.k_proj.weight": {8, 16}, l + "self_attn.v_proj.weight": {8, 16}, l + "self_attn.o_proj.weight": {16, 16},
			l + "mlp.gate_proj.weight": {24, 16}, l + "mlp.up_proj.weight": {24, 16}, l + "mlp.down_proj.weight": {16, 24},
		})
	}
	return out
}

// folder writes a model.
func folder(t testing.TB, config map[string]any, shapes map[string][]int, dtype safetensors.DType) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "config.json", config)
	shard(t, dir, singleFile, shapes, slices.Sorted(maps.Keys(shapes)), dtype)
	return dir
}

func put(t testing.TB, dir, name string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func shard(t testing.TB, dir, file string, shapes map[string][]int, names []string, dtype safetensors.DType) {
	t.Helper()
	all := slices.Sorted(maps.Keys(shapes))
	var sources []safetensors.Source
	for _, name := range names {
		shape := shapes[name]
		rows, cols := shape[0], 1
		if len(shape) == 2 {
			cols = shape[1]
		}
		var b []byte
		for r := range rows {
			for c := range cols {
				v := float32(1000*slices.Index(all, name) + 10*r + c)
				switch dtype {
				case safetensors.F32:
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
				case safetensors.F16:
					b = binary.LittleEndian.AppendUint16(b, tensor.F32ToF16(v))
				case safetensors.BF16:
					b = binary.LittleEndian.AppendUint16(b, tensor.F32ToBF16(v))
				default:
					b = append(b, 0)
				}
			}
		}
		sources = append(sources, safetensors.Source{Name: name, DType: dtype, Shape: shape, Data: safetensors.Bytes(b)})
	}
	var b bytes.Buffer
	if _, err := safetensors.Write(&b, nil, sources); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// convert converts a folder.
func convert(t testing.TB, dir string) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.gguf")
	if _, err := Convert(t.Context(), dir, path, Options{}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestTypes: tensors keep their type, vectors become F32, and rows of queries
// are ordered so that neighbors are rotated together.
func TestTypes(t *testing.T) {
	for dtype, want := range map[safetensors.DType]tensor.Type{safetensors.F32: tensor.F32, safetensors.F16: tensor.F16, safetensors.BF16: tensor.BF16} {
		f := convert(t, folder(t, llama(), tensors(), dtype))
		q, _ := f.Tensor("blk.1.attn_q.weight")
		n, _ := f.Tensor("blk.1.attn_norm.weight")
		if q.Type != want || n.Type != tensor.F32 {
			t.Errorf("%s: matrices of type %v, vectors of %v", dtype, q.Type, n.Type)
		}
		if kind, err := gguf.Get[uint32](f, gguf.KeyFileType); err != nil || kind != map[tensor.Type]uint32{tensor.F32: 0, tensor.F16: 1, tensor.BF16: 32}[want] {
			t.Errorf("%s: got file type %d, %v", dtype, kind, err)
		}
	}
	f := convert(t, folder(t, llama(), tensors(), safetensors.F32))
	first := func(name string) (rows []float32) {
		x, _ := f.Tensor(name)
		for r := range x.Dims[1] {
			rows = append(rows, math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*r*x.Dims[0]:])))
		}
		return rows
	}
	// Rows 0 1 2 3 of a head of 4 were rotated as pairs 0, 2 and 1, 3.
	if q := first("blk.0.attn_q.weight"); q[1]-q[0] != 20 || q[2]-q[0] != 10 || q[3]-q[0] != 30 || q[4]-q[0] != 40 {
		t.Errorf("rows of queries begin with %v", q)
	}
	if v := first("blk.0.attn_v.weight"); v[1]-v[0] != 10 || v[2]-v[0] != 20 {
		t.Errorf("rows of values begin with %v", v)
	}
}

// TestShards: several files form one model, whichever file holds a tensor.
func TestShards(t *testing.T) {
	single := folder(t, llama(), tensors(), safetensors.F32)
	parts := t.TempDir()
	put(t, parts, "config.json", llama())
	names := slices.Sorted(maps.Keys(tensors()))
	where := map[string]string{}
	for i, n := range names {
		where[n] = []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}[i%2]
	}
	for _, file := range []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
		shard(t, parts, file, tensors(), slices.DeleteFunc(slices.Clone(names), func(n string) bool { return where[n] != file }), safetensors.F32)
	}
	put(t, parts, indexFile, map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": where})
	a, b := convert(t, single), convert(t, parts)
	for i, x := range a.Tensors {
		if y := b.Tensors[i]; x.Name != y.Name || !bytes.Equal(x.Data, y.Data) {
			t.Errorf("tensor %s differs", x.Name)
		}
	}
	for name, c := range map[string]struct {
		file, want string
	}{
		"elsewhere": {"../../etc/passwd", `tensor model.embed_tokens.weight: file "../../etc/passwd" is not in the folder`},
		"missing":   {"model-00003-of-00002.safetensors", "model.safetensors.index.json: missing weight file model-00003-of-00002.safetensors"},
	} {
		bad := maps.Clone(where)
		bad[names[1]] = c.file
		put(t, parts, indexFile, map[string]any{"weight_map": bad})
		if m, err := Open(parts, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, m, err, c.want)
		}
	}
}

// TestRefused: an unsupported setting is refused by name.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		value any // nil removes the key
		want  string
	}{
		"class":              {"architectures", []string{"MambaForCausalLM"}, `unsupported architecture "MambaForCausalLM"`},
		"no class":           {"architectures", nil, "bad architectures []"},
		"two classes":        {"architectures", []string{"LlamaForCausalLM", "GemmaForCausalLM"}, `bad architectures ["LlamaForCausalLM" "GemmaForCausalLM"]`},
		"quantised":          {"quantization_config", map[string]any{"quant_method": "awq"}, "quantization_config"},
		"no width":           {"hidden_size", nil, "missing key hidden_size"},
		"width as text":      {"hidden_size", "16", `key hidden_size: bad value "16": json: cannot unmarshal string into Go value of type float64`},
		"negative":           {"num_hidden_layers", -1, "key num_hidden_layers: bad count -1"},
		"half a layer":       {"num_hidden_layers", 1.5, "key num_hidden_layers: bad count 1.5"},
		"layers without end": {"num_hidden_layers", 2000000000, "bad number of layers: got 2000000000, want 1 to 512"},
		"activation":         {"hidden_act", "mish", `activation "mish"`},
		"attention bias":     {"attention_bias", true, "key attention_bias is true, but presence of tensor model.layers.0.self_attn.q_proj.bias is false"},
		"rope dynamic":       {"rope_scaling", map[string]any{"type": "dynamic", "factor": 2.0}, `key rope_type: unsupported "dynamic", want default, linear, yarn, llama3 or longrope`},
		"rope without end":   {"rope_scaling", map[string]any{"type": "linear"}, "rotary embedding linear: bad factor 0"},
		"rope key":           {"rope_scaling", map[string]any{"type": "linear", "factor": 2.0, "beta_slow": 3.0}, "unknown key rope_parameters.beta_slow with value 3 may change the result"},
		"yarn untruncated":   {"rope_scaling", map[string]any{"type": "yarn", "factor": 2.0, "truncate": false}, "key truncate: got false, want true"},
		"longrope":           {"rope_scaling", map[string]any{"type": "longrope", "short_factor": []float64{1}, "long_factor": []float64{1, 2}}, "key short_factor: got 1 entries, want 2"},
		"partial rope":       {"partial_rotary_factor", 0.5, "key partial_rotary_factor: got 0.5, but architecture llama rotates full heads"},
		"tomorrow's key":     {"attention_wormholes", 3, "unknown key attention_wormholes with value 3 may change the result"},
		"both ways":          {"use_bidirectional_attention", true, "key use_bidirectional_attention: got true, want false"},
		"another vocabulary": {"vocab_size", 11, "shape mismatch for tensor model.embed_tokens.weight: got [10 16], want [11 16]"},
		"a layer more":       {"num_hidden_layers", 3, "missing tensor model.layers.2.input_layernorm.weight"},
		"a layer less":       {"num_hidden_layers", 1, "unexpected tensor model.layers.1.input_layernorm.weight"},
	} {
		config := llama()
		if config[c.key] = c.value; c.value == nil {
			delete(config, c.key)
		}
		m, err := Open(folder(t, config, tensors(), safetensors.F32), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
		if m != nil {
			m.Close()
		}
	}
}

// TestByteOrderMark: files that an editor of Windows has saved are read.
func TestByteOrderMark(t *testing.T) {
	dir := folder(t, llama(), tensors(), safetensors.F32)
	path := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("\ufeff"), b...), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
}

// TestHeeded: the same values in the spellings of several years.
func TestHeeded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   func(arch.Shape) bool
	}{
		"old base": {func(c map[string]any) { c["rope_theta"] = 5e5 }, func(s arch.Shape) bool { return s.Rope.Base == 5e5 }},
		"new base": {func(c map[string]any) {
			c["rope_parameters"] = map[string]any{"rope_theta": 7e5, "rope_type": "default"}
		}, func(s arch.Shape) bool { return s.Rope.Base == 7e5 }},
		"older linear":    {func(c map[string]any) { c["rope_scaling"] = map[string]any{"type": "linear", "factor": 4.0} }, func(s arch.Shape) bool { return s.Rope.Scaling == "linear" && s.Rope.Factor == 4 }},
		"null":            {func(c map[string]any) { c["rope_scaling"], c["sliding_window"], c["head_dim"] = nil, nil, nil }, func(s arch.Shape) bool { return s.HeadDim == 4 }},
		"one head of key": {func(c map[string]any) { c["pretraining_tp"] = 1 }, func(s arch.Shape) bool { return s.KVHeads == 2 }},
		"window":          {func(c map[string]any) { c["architectures"], c["sliding_window"] = []string{"MistralForCausalLM"}, 8 }, func(s arch.Shape) bool { return s.WindowOf(1) == 8 }},
		"window switched off": {func(c map[string]any) {
			c["architectures"], c["sliding_window"], c["use_sliding_window"] = []string{"Qwen2ForCausalLM"}, 8, false
		}, func(s arch.Shape) bool { return s.Windowed == nil }},
		"window of some": {func(c map[string]any) {
			c["architectures"], c["sliding_window"], c["layer_types"] = []string{"MistralForCausalLM"}, 8, []string{"full_attention", "sliding_attention"}
		}, func(s arch.Shape) bool { return s.WindowOf(0) == 0 && s.WindowOf(1) == 8 }},
	} {
		config := llama()
		c.change(config)
		m, err := Open(folder(t, config, tensors(), safetensors.F32), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !c.want(m.Shape) {
			t.Errorf("%s: read as %+v", name, m.Shape)
		}
		m.Close()
	}
}

// TestTensorsRefused: unsupported types and unused tensors are refused.
func TestTensorsRefused(t *testing.T) {
	if _, err := Open(folder(t, llama(), tensors(), safetensors.F8E4M3), Options{}); err == nil || !strings.Contains(err.Error(), "unsupported type F8_E4M3") {
		t.Error(err)
	}
	more := tensors()
	more["model.layers.0.self_attn.sinks"] = []int{4}
	if _, err := Open(folder(t, llama(), more, safetensors.F32), Options{}); err == nil || !strings.Contains(err.Error(), "model.layers.0.self_attn.sinks") {
		t.Error(err)
	}
	less := tensors()
	delete(less, "lm_head.weight")
	if _, err := Open(folder(t, llama(), less, safetensors.F32), Options{}); err == nil || !strings.Contains(err.Error(), "tensor lm_head.weight is missing") {
		t.Error(err)
	}
	config := llama()
	config["attention_wormholes"] = 3
	m, err := Open(folder(t, config, tensors(), safetensors.F32), Options{Ignore: []string{"attention_wormholes"}})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	dir := t.TempDir()
	put(t, dir, "config.json", llama())
	put(t, dir, "pytorch_model.bin", 1)
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "pytorch_model.bin is not read") {
		t.Error(err)
	}
}

// TestWhole: the file at the path is replaced only by a complete one.
func TestWhole(t *testing.T) {
	dir, out := folder(t, llama(), tensors(), safetensors.F32), t.TempDir()
	path := filepath.Join(out, "x.gguf")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Convert(ctx, dir, path, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	entries, err := os.ReadDir(out)
	if b, _ := os.ReadFile(path); err != nil || string(b) != "before" || len(entries) != 1 {
		t.Errorf("%q, %v, %v", b, entries, err)
	}
	for range 2 { // the second time replaces the first
		if _, err := Convert(t.Context(), dir, path, Options{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCard: README.md's front matter names the model.
func TestCard(t *testing.T) {
	dir := folder(t, llama(), tensors(), safetensors.F32)
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("---\nlicense: apache-2.0\nmodel_name: \"Tiny One\"\ntags:\n- license: no\nmodel_creator: Ada\n---\n# x\nlicense: mit\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Card != (Card{Name: "Tiny One", Author: "Ada", License: "apache-2.0"}) {
		t.Errorf("%+v", m.Card)
	}
}

// FuzzConfig reads any bytes as config.json: an error or a valid shape.
func FuzzConfig(f *testing.F) {
	for _, name := range Architectures() {
		c := llama()
		c["architectures"] = []string{name}
		for _, k := range []string{"n_embd", "n_layer", "n_head", "n_positions", "moe_intermediate_size", "num_experts", "num_local_experts"} {
			c[k] = 4
		}
		b, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"architectures":["Gemma3ForCausalLM"],"rope_parameters":{"full_attention":{"rope_type":"linear","factor":8},"sliding_attention":{}},"layer_types":["x"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseConfig(b)
		if err != nil {
			return
		}
		family, err := c.family()
		if err != nil {
			return
		}
		w := &weights{all: map[string]safetensors.Tensor{}, used: map[string]bool{}}
		r := &shapeReader{config: c, weights: w, family: family}
		s, err := r.read(nil)
		if err != nil {
			return
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		_, _ = w.sources(s, r.family, r.extra)
		if _, err := readTokenizer(t.TempDir(), c, s.Vocab); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzIndex reads any bytes as the index of shards.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := parseIndex(b)
		if err != nil {
			return
		}
		for name := range files {
			if name != filepath.Base(name) || name == ".." || name == "." {
				t.Errorf("%q is elsewhere", name)
			}
		}
	})
}
