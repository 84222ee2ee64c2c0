package train

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/optim"
)

// quantizedBase writes the same model in the type typ, and its float32 values as
// read back from it.
func quantizedBase(t *testing.T, dir string, typ tensor.Type) (quantized, float string) {
	t.Helper()
	docs := func(yield func(string) bool) {
		for _, s := range []string{"a cat sat on a mat", "a dog ran to the mat", "the cat ran"} {
			if !yield(s) {
				return
			}
		}
	}
	v, err := tokenizer.Train(docs, tokenizer.TrainOptions{VocabSize: 270, Control: []string{"<eos>"}, EOS: "<eos>"})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	c := llm.Config{Vocab: tok.Size(), Dim: 256, Layers: 2, Heads: 4, KVHeads: 2, Hidden: 256, Context: 64, Rope: llm.RopePairs, Tied: true}
	m, err := llm.New[float32](c)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Init(llm.Init{Seed: 3}); err != nil {
		t.Fatal(err)
	}
	write := func(name string, typ tensor.Type) string {
		var b bytes.Buffer
		if err := ExportGGUF(&b, m, tok, nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		var sources []gguf.Source
		for _, s := range f.Tensors {
			data, to := s.Data, s.Type
			if len(s.Dims) == 2 && typ != tensor.F32 {
				x := make([]float32, s.Elements())
				quant.Dequantize(x, s.Data, s.Type)
				data, to = make([]byte, s.Dims[1]*typ.RowBytes(s.Dims[0])), typ
				quant.Quantize(data, x, typ)
			}
			sources = append(sources, gguf.Source{Name: s.Name, Type: to, Dims: s.Dims, Data: gguf.Bytes(data)})
		}
		path := filepath.Join(dir, name)
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gguf.Write(out, f.KVs, sources); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	quantized = write("quantized.gguf", typ)
	if m, err = ImportGGUF(quantized); err != nil {
		t.Fatal(err)
	}
	return quantized, write("float.gguf", tensor.F32)
}

// Adapters above quantized weights learn as above the float32 values of the same
// weights, resume exactly, and become the same adapter; the checkpoint does not
// hold the base.
func TestQuantizedBase(t *testing.T) {
	for _, typ := range []tensor.Type{tensor.Q4_K, tensor.Q8_0} {
		dir := t.TempDir()
		quantized, float := quantizedBase(t, dir, typ)
		text := filepath.Join(dir, "text.txt")
		if err := os.WriteFile(text, []byte(strings.Repeat("a cat sat on a mat\nthe dog ran to the cat\n", 60)), 0o644); err != nil {
			t.Fatal(err)
		}
		shape, err := ImportGGUF(float)
		if err != nil {
			t.Fatal(err)
		}
		run := func(base, name string, steps int, resume, packed bool) *LMTrainer {
			t.Helper()
			cfg := Config{
				Seed: 4, Model: shape.Config, Base: base, Data: Data{Files: []string{text}, Separator: "\n", Held: 0.1}, Tokenizer: Tokenizer{File: base},
				LoRA: &llm.LoRA{Rank: 4, Alpha: 8, Quantized: packed}, BatchSize: 2, SeqLen: 24, Optimizer: Optimizer{Name: "adamw", Rate: 5e-3}, Schedule: optim.Schedule{Kind: "constant"}, Stop: Stop{Steps: steps},
			}
			corpus, err := Prepare(cfg, dir)
			if err != nil {
				t.Fatal(err)
			}
			defer corpus.Close()
			tr, err := RunFolder(context.Background(), cfg, corpus, resume, Options{Dir: filepath.Join(dir, name), From: dir})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tr.Close() })
			return tr
		}
		want, got := run(float, "float", 12, false, false), run(quantized, "quantized", 12, false, true)
		run(quantized, "part", 5, false, true)
		part := run(quantized, "part", 12, true, true)
		var off, norm float64
		for i, a := range want.Model().Adapters() {
			b, c := got.Model().Adapters()[i], part.Model().Adapters()[i]
			for k, v := range a.Data {
				off += float64(v-b.Data[k]) * float64(v-b.Data[k])
				norm += float64(v) * float64(v)
				if b.Data[k] != c.Data[k] {
					t.Fatalf("%v: %s differs after an interruption", typ, b.Name)
				}
			}
		}
		if math.Sqrt(off/norm) > 1e-3 {
			t.Errorf("%v: adapters differ by %v of their norm", typ, math.Sqrt(off/norm))
		}
		one, err := want.task.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		two, err := got.task.Evaluate()
		if err != nil || math.Abs(one.Loss-two.Loss) > 1e-4 || one.Loss > 5 {
			t.Errorf("%v: held-out loss %v, want %v, %v", typ, two.Loss, one.Loss, err)
		}
		checkQuantizedCheckpoint(t, filepath.Join(dir, "quantized", LastFile), float, quantized)
	}
}

// checkQuantizedCheckpoint checks the checkpoint of adapters above a quantized
// base.
func checkQuantizedCheckpoint(t *testing.T, path, float, base string) {
	t.Helper()
	ck, err := OpenLM(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	if _, ok := ck.file.Tensor("blk.0.attn_q.weight"); ok {
		t.Error("the checkpoint holds the base")
	}
	m, err := ck.Model()
	if err != nil || !m.IsStored() || len(m.Adapters()) == 0 {
		t.Fatalf("model of the checkpoint: %v", err)
	}
	if err := ExportAdapter(&bytes.Buffer{}, m, *ck.LM.Config.LoRA, nil); err != nil {
		t.Error(err)
	}
	if _, err := ck.ExportGGUF(&bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), "base is quantized") {
		t.Errorf("export as a core: %v", err)
	}
	if _, _, err := OpenBase(path); err == nil || !strings.Contains(err.Error(), "base is quantized") {
		t.Errorf("as the base of a run: %v", err)
	}
	// Another base of the same shape is refused.
	b, err := os.ReadFile(float)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(base, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ck.Model(); err == nil || !strings.Contains(err.Error(), "the base is another file") {
		t.Errorf("another base: %v", err)
	}
}

// lora.quantized requires a GGUF file as the base.
func TestQuantizedRefused(t *testing.T) {
	c := Config{Model: llm.Config{Vocab: 8, Dim: 4, Layers: 1, Heads: 1, Context: 8}, Data: Data{Files: []string{"x"}}, LoRA: &llm.LoRA{Rank: 1, Quantized: true}, Stop: Stop{Steps: 1}}
	if f := Faults(c.Validate()); len(f) != 1 || f[0].Path != "/lora/quantized" {
		t.Errorf("without a base: %+v", f)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenQuantized(path); err == nil || !strings.Contains(err.Error(), "requires a GGUF file") {
		t.Errorf("a checkpoint: %v", err)
	}
}
