package infer

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
)

// TestMetadata: a shape survives writing to a file and reading.
func TestMetadata(t *testing.T) {
	c := tiny("qwen2", 12)
	c.Rope.Scaling, c.Rope.Factor, c.Rope.OriginalContext = "yarn", 4, 16
	c.Rope.AttentionFactor, c.Rope.ExtFactor, c.Rope.BetaFast, c.Rope.BetaSlow = 1.5, 0.5, 16, 2
	plain := tiny("llama", 12)
	plain.Rope.ExtFactor = -1
	for _, want := range []Config{c, plain} {
		path := write(t, want, random(want, 1), matrices(tensor.F32))
		m, err := Load(path, Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, m.Config()); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEveryShapeIsChecked: for any tensor that is missing, of another shape, or
// of an unsupported type, the error names it and both shapes.
func TestEveryShapeIsChecked(t *testing.T) {
	cfg := tiny("qwen2", 12)
	weights := random(cfg, 1)
	refused := func(w Tensors, want ...string) {
		t.Helper()
		m, err := New(cfg, w, Options{Threads: 1})
		if err == nil {
			m.Close()
			t.Errorf("no error with %v", want)
			return
		}
		for _, s := range want {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("error %q, want %q in it", err, s)
			}
		}
	}
	for name, a := range weights {
		without := maps.Clone(weights)
		delete(without, name)
		if !strings.HasSuffix(name, ".bias") {
			refused(without, "tensor "+name+" is missing")
		}
		grown := slices.Clone(a.Dims)
		grown[0] += 32
		n := 1
		for _, d := range grown {
			n *= d
		}
		other := maps.Clone(weights)
		other[name] = Array{grown, make([]float32, n)}
		refused(other, "tensor "+name, str(grown), str(a.Dims))
		if len(a.Dims) == 2 && a.Dims[0] != a.Dims[1] {
			other[name] = Array{[]int{a.Dims[1], a.Dims[0]}, a.Data}
			refused(other, "tensor "+name, str(a.Dims))
		}
		refused(retyped{weights, name, tensor.I8}, "tensor "+name, "I8")
	}
}

// retyped claims another type for one tensor.
type retyped struct {
	Memory
	name string
	typ  tensor.Type
}

func (r retyped) Tensor(name string) (gguf.Tensor, bool) {
	t, ok := r.Memory.Tensor(name)
	if name == r.name {
		t.Type, t.Data = r.typ, make([]byte, r.typ.RowBytes(t.Elements()))
	}
	return t, ok
}

func str(dims []int) string { return fmt.Sprint(dims) }

// TestConfigRefused: impossible shapes are refused with the reason before any
// allocation.
func TestConfigRefused(t *testing.T) {
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"architecture":    {func(c *Config) { c.Arch = "mamba" }, `unsupported architecture "mamba"`},
		"no layers":       {func(c *Config) { c.Layers = 0 }, "bad number of layers: got 0, want 1 to 512"},
		"many layers":     {func(c *Config) { c.Layers = 513 }, "bad number of layers: got 513, want 1 to 512"},
		"no width":        {func(c *Config) { c.Width = 0 }, "bad embedding length: got 0, want 1 to 65536"},
		"huge width":      {func(c *Config) { c.Width = math.MaxInt }, "embedding length"},
		"heads":           {func(c *Config) { c.KVHeads = 3 }, "4 heads cannot share 3"},
		"negative heads":  {func(c *Config) { c.Heads = -4 }, "number of heads: got -4"},
		"vocabulary":      {func(c *Config) { c.Vocab = 1 << 30 }, "vocabulary size"},
		"context":         {func(c *Config) { c.Context = 1 << 40 }, "context length"},
		"epsilon":         {func(c *Config) { c.Epsilon = nan }, "bad epsilon of norms: NaN"},
		"odd rotation":    {func(c *Config) { c.Rope.Dims = 7 }, "bad rotary dimensions 7 of a head of 16"},
		"wide rotation":   {func(c *Config) { c.Rope.Dims = 18 }, "bad rotary dimensions 18 of a head of 16"},
		"base":            {func(c *Config) { c.Rope.Base = -1 }, "bad base of rotary embedding: -1"},
		"factor":          {func(c *Config) { c.Rope.Factor = nan }, "bad scaling factor of rotary embedding: NaN"},
		"scaling":         {func(c *Config) { c.Rope.Scaling = "su" }, `scaling "su"`},
		"two at one time": {func(c *Config) { c.Hidden, c.HeadDim = 0, 5000 }, "head size: got 5000"},
	} {
		cfg := tiny("llama", 12)
		c.change(&cfg)
		_, err := New(cfg, random(tiny("llama", 12), 1), Options{Threads: 1})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

// TestReadConfigRefused does the same for metadata.
func TestReadConfigRefused(t *testing.T) {
	cfg := tiny("llama", 12)
	for name, c := range map[string]struct {
		key   string
		value any // nil omits the key
		want  string
	}{
		"no architecture":   {"general.architecture", nil, "general.architecture"},
		"architecture":      {"general.architecture", "bert", `unsupported architecture "bert", want one of apertus, arcee, bloom, chatglm, cohere2, command-r, `},
		"no layers":         {"llama.block_count", nil, "llama.block_count"},
		"layers as text":    {"llama.block_count", "2", "type str"},
		"huge layers":       {"llama.block_count", uint32(1 << 31), "number of layers"},
		"no epsilon":        {"llama.attention.layer_norm_rms_epsilon", nil, "layer_norm_rms_epsilon"},
		"heads per layer":   {"llama.attention.head_count", []uint32{4, 2}, "layers of different shape"},
		"heads of too many": {"llama.attention.head_count", []uint32{4, 4, 4}, "key llama.attention.head_count: got 3 entries, want 2"},
		"negative heads":    {"llama.attention.head_count_kv", []int32{-1, -1}, "key llama.attention.head_count_kv: bad count -1 in layer 0"},
		"no heads":          {"llama.attention.head_count", uint32(0), "number of heads: got 0"},
		"values":            {"llama.attention.value_length", uint32(8), "keys of 16 and values of 8"},
		"rotation":          {"llama.rope.dimension_count", uint32(64), "bad rotary dimensions 64 of a head of 16"},
	} {
		var kvs []gguf.KV
		for _, kv := range cfg.Metadata() {
			switch {
			case kv.Key != c.key:
				kvs = append(kvs, kv)
			case c.value != nil:
				kvs = append(kvs, gguf.KV{Key: c.key, Value: c.value})
			}
		}
		var b bytes.Buffer
		if _, err := gguf.Write(&b, kvs, nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.gguf"), Options{}); err == nil {
		t.Error("a missing file is loaded")
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(path, []byte("GGUF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, Options{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v does not name the file", err)
	}
}

// TestClosed: a session of a closed model returns an error.
func TestClosed(t *testing.T) {
	cfg := tiny("llama", 12)
	m, err := New(cfg, random(cfg, 1), Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSession(SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), []int32{1}); err == nil {
		t.Error("a closed model computes")
	}
}
