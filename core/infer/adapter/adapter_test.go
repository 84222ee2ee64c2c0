package adapter

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// file returns a GGUF adapter of the given tensors.
func file(t testing.TB, kvs []gguf.KV, tensors map[string][]int) []byte {
	t.Helper()
	var sources []gguf.Source
	for _, name := range []string{"a.weight.lora_a", "a.weight.lora_b", "a.weight.lora_magnitude", "a.weight", "b.weight.lora_a"} {
		dims, ok := tensors[name]
		if !ok {
			continue
		}
		n := 1
		for _, d := range dims {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i + 1)
		}
		b := make([]byte, 4*n)
		quant.Quantize(b, x, tensor.F32)
		sources = append(sources, gguf.Source{Name: name, Type: tensor.F32, Dims: dims, Data: gguf.Bytes(b)})
	}
	var out bytes.Buffer
	if _, err := gguf.Write(&out, kvs, sources); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func head(alpha float32) []gguf.KV {
	return []gguf.KV{
		{Key: "general.type", Value: "adapter"}, {Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: alpha},
	}
}

func parse(b []byte) (Adapter, error) {
	f, err := gguf.Parse(b)
	if err != nil {
		return nil, err
	}
	return FromGGUF(f, Model{Arch: "llama"})
}

func TestFromGGUF(t *testing.T) {
	a, err := parse(file(t, head(6), map[string][]int{"a.weight.lora_a": {4, 2}, "a.weight.lora_b": {2, 3}}))
	if err != nil {
		t.Fatal(err)
	}
	c := a["a.weight"]
	if c.Rank != 2 || c.In != 4 || c.Out != 3 || c.Scale != 3 || c.Magnitude != nil {
		t.Fatalf("%+v", c)
	}
	// W = 0: row n becomes 3·Σ_r B[n][r]·A[r], with A = 1…8 and B = 1…6.
	w := make([]float32, 12)
	c.Merge(w)
	for n := range 3 {
		for k := range 4 {
			want := 3 * (float32(2*n+1)*float32(k+1) + float32(2*n+2)*float32(k+5))
			if w[4*n+k] != want {
				t.Errorf("W[%d][%d] = %v, want %v", n, k, w[4*n+k], want)
			}
		}
	}
}

// TestDoRA: the rows of the merged matrix have the adapter's magnitudes; a zero
// row stays zero.
func TestDoRA(t *testing.T) {
	a, err := parse(file(t, head(0), map[string][]int{"a.weight.lora_a": {4, 2}, "a.weight.lora_b": {2, 3}, "a.weight.lora_magnitude": {3}}))
	if err != nil {
		t.Fatal(err)
	}
	c := a["a.weight"]
	if c.Scale != 1 {
		t.Errorf("without alpha the scale is %v", c.Scale)
	}
	c.B[4], c.B[5] = 0, 0
	w := make([]float32, 12)
	c.Merge(w)
	for n, want := range []float64{1, 2, 0} {
		var sum float64
		for _, v := range w[4*n : 4*n+4] {
			sum += float64(v) * float64(v)
		}
		if math.Abs(math.Sqrt(sum)-want) > 1e-6 {
			t.Errorf("row %d has the length %v, want %v", n, math.Sqrt(sum), want)
		}
	}
	if _, err := c.Scaled(0.5); err == nil {
		t.Error("half of a DoRA adapter is accepted")
	}
}

func TestRefused(t *testing.T) {
	a, b := []int{4, 2}, []int{2, 3}
	for name, c := range map[string]struct {
		kvs     []gguf.KV
		tensors map[string][]int
		want    string
	}{
		"no type":      {nil, nil, "general.type"},
		"a model":      {[]gguf.KV{{Key: "general.type", Value: "model"}}, nil, `bad general.type: got "model"`},
		"no alpha":     {head(1)[:2], nil, "alpha"},
		"nothing":      {head(1), nil, "adapter is empty"},
		"foreign":      {head(1), map[string][]int{"a.weight": {4}}, "a.weight is not part"},
		"no b":         {head(1), map[string][]int{"a.weight.lora_a": a}, "missing A or B"},
		"other's b":    {head(1), map[string][]int{"b.weight.lora_a": a, "a.weight.lora_b": b}, "missing A or B"},
		"ranks":        {head(1), map[string][]int{"a.weight.lora_a": a, "a.weight.lora_b": {3, 3}}, "shape mismatch"},
		"one row":      {head(1), map[string][]int{"a.weight.lora_a": {8}, "a.weight.lora_b": b}, "shape mismatch"},
		"rank":         {head(1), map[string][]int{"a.weight.lora_a": {1, 5000}, "a.weight.lora_b": {5000, 1}}, "5000"},
		"magnitudes":   {head(1), map[string][]int{"a.weight.lora_a": a, "a.weight.lora_b": b, "a.weight.lora_magnitude": {4}}, "magnitude count mismatch: got 4, want 3"},
		"infinite":     {head(float32(math.Inf(1))), map[string][]int{"a.weight.lora_a": a, "a.weight.lora_b": b}, "bad scale +Inf"},
		"not a number": {head(float32(math.NaN())), map[string][]int{"a.weight.lora_a": a, "a.weight.lora_b": b}, "bad scale NaN"},
	} {
		if _, err := parse(file(t, c.kvs, c.tensors)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

// peft writes a PEFT folder with one adapted matrix.
func peft(t testing.TB, config, module string, in, rank, out int) string {
	t.Helper()
	dir := t.TempDir()
	var sources []safetensors.Source
	for name, shape := range map[string][]int{".lora_A.weight": {rank, in}, ".lora_B.weight": {out, rank}} {
		x := make([]float32, shape[0]*shape[1])
		for i := range x {
			x[i] = float32(i)
		}
		b := make([]byte, 4*len(x))
		quant.Quantize(b, x, tensor.F32)
		sources = append(sources, safetensors.Source{Name: module + name, DType: safetensors.F32, Shape: shape, Data: safetensors.Bytes(b)})
	}
	f, err := os.Create(filepath.Join(dir, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := safetensors.Write(f, nil, sources); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPEFT(t *testing.T) {
	m := Model{Heads: 2, KVHeads: 1, HeadDim: 4, Interleaved: true}
	a, err := Open(peft(t, `{"peft_type": "LORA", "lora_alpha": 8, "use_rslora": true, "unknown": [1]}`,
		"base_model.model.model.layers.12.self_attn.q_proj", 3, 4, 8), m)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := a["blk.12.attn_q.weight"]
	if !ok || c.Scale != 4 {
		t.Fatalf("%+v", a)
	}
	// Rows 0 1 2 3 of a head of 4 are 0 2 1 3 in GGUF's order.
	for row, from := range []int{0, 2, 1, 3, 4, 6, 5, 7} {
		if c.B[row*4] != float32(from*4) {
			t.Errorf("row %d begins with %v, want row %d", row, c.B[row*4], from)
		}
	}
	if a, err = Open(peft(t, `{"peft_type": "LORA", "lora_alpha": 8}`, "base_model.model.lm_head", 3, 4, 8), m); err != nil || a["output.weight"].Scale != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	for name, c := range map[string]struct{ config, module, want string }{
		"no JSON":  {`{`, "base_model.model.lm_head", "adapter_config.json"},
		"no alpha": {`{"peft_type": "LORA"}`, "base_model.model.lm_head", "bad lora_alpha 0"},
		"pattern":  {`{"peft_type": "LORA", "lora_alpha": 8, "alpha_pattern": {"q_proj": -4}}`, "base_model.model.lm_head", "bad alpha -4 of \"q_proj\""},
		"module":   {`{"peft_type": "LORA", "lora_alpha": 8}`, "base_model.model.model.embed_tokens", "is not adaptable"},
		"layer":    {`{"peft_type": "LORA", "lora_alpha": 8}`, "base_model.model.model.layers.-1.mlp.up_proj", "is not adaptable"},
		"heads":    {`{"peft_type": "LORA", "lora_alpha": 8}`, "base_model.model.model.layers.0.self_attn.k_proj", "1 heads of 4"},
	} {
		if _, err := Open(peft(t, c.config, c.module, 3, 4, 8), m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
	if _, err := Open(t.TempDir(), m); err == nil {
		t.Error("an empty folder is an adapter")
	}
}

// FuzzFromGGUF reads any file that the GGUF reader accepts.
func FuzzFromGGUF(f *testing.F) {
	f.Add(file(f, head(6), map[string][]int{"a.weight.lora_a": {4, 2}, "a.weight.lora_b": {2, 3}, "a.weight.lora_magnitude": {3}}))
	f.Add(file(f, head(0), map[string][]int{"b.weight.lora_a": {4, 2}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parse(b)
		if err != nil {
			return
		}
		for name, c := range a {
			if err := c.check(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c.Merge(make([]float32, c.In*c.Out))
		}
	})
}

// FuzzPEFT reads any configuration and any safetensors file.
func FuzzPEFT(f *testing.F) {
	dir := peft(f, `{"peft_type": "LORA", "lora_alpha": 8}`, "base_model.model.model.layers.1.self_attn.q_proj", 3, 2, 8)
	weights, err := os.ReadFile(weightsPath(dir))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"peft_type": "LORA", "lora_alpha": 8}`), weights)
	f.Fuzz(func(t *testing.T, config, weights []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(configPath(dir), config, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(weightsPath(dir), weights, 0o644); err != nil {
			t.Fatal(err)
		}
		a, err := Open(dir, Model{Heads: 2, KVHeads: 1, HeadDim: 4, Interleaved: true})
		if err != nil {
			return
		}
		for name, c := range a {
			if err := c.check(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}

func ExampleChange_Merge() {
	// W of two rows and columns, changed by one column times one row.
	c := Change{Rank: 1, In: 2, Out: 2, A: []float32{1, 10}, B: []float32{1, 2}, Scale: 0.5}
	w := []float32{0, 0, 1, 1}
	c.Merge(w)
	fmt.Println(w)
	// Output: [0.5 5 2 11]
}

// A strength that overflows the scale is an error.
func TestScaledOutOfRange(t *testing.T) {
	c := Change{Rank: 1, In: 2, Out: 1, A: []float32{1, 0}, B: []float32{1}, Scale: 1}
	if _, err := c.Scaled(float32(math.Inf(1))); err == nil {
		t.Error("an infinite scale")
	}
}
