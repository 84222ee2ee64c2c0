package quantize

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/score"
	"mm-abi.org/mm/core/quant/calibrated"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/testfiles"
)

// held is what the methods are held against; they learn from other stories.
const held = `One morning a small cat went to the lake to find some fish. A bird sat on a branch and sang a song. The cat looked up and wanted to climb the tree, but it was too tall. "Please come down," said the cat, "I only want to be your friend." The bird did not believe it and flew away. The cat was sad and walked back to its house, where a warm bowl of milk was waiting.`

// core opens a language model with its words.
func core(t *testing.T, path string) (*infer.Model, *tokenizer.Tokenizer) {
	t.Helper()
	m, err := infer.Load(path, infer.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		t.Fatal(err)
	}
	return m, tok
}

// probabilities are the natural logarithms of those of all tokens, behind each
// token of the held text.
func probabilities(t *testing.T, path string) (all []float32) {
	t.Helper()
	m, tok := core(t, path)
	s, err := m.NewSession(infer.SessionOptions{KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(held, tokenizer.Options{})
	err = s.Predict(t.Context(), ids[:min(len(ids), s.Context())], func(_ int, logits []float32) {
		most, sum := tensor.Max(logits), 0.0
		for _, v := range logits {
			sum += math.Exp(float64(v - most))
		}
		for _, v := range logits {
			all = append(all, v-most-float32(math.Log(sum)))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMethods: the calibration makes a model of four bits closer
// to the one that was quantised, on a text that it has not seen; and factors
// change nothing but the rounding.
func TestConvertMethods(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	path := filepath.Join("..", "..", "catalog", "core-llm", "core-llm.gguf")
	m, tok := core(t, path)
	stories, err := os.ReadFile(testfiles.Shared(t, "tinystories", "tinystories_sample.txt"))
	if err != nil {
		t.Fatal(err)
	}
	learnt, reading := string(stories), score.Reading{Separator: "<|endoftext|>", Limit: 12}
	importance, err := score.Importance(t.Context(), m, tok, learnt, reading)
	if err != nil {
		t.Fatal(err)
	}
	hessian := func(budget int64) func(context.Context, string) ([]float32, error) {
		h, err := score.NewHessians(m, tok, learnt, m.File().Names(), budget, reading)
		if err != nil {
			t.Fatal(err)
		}
		return h.Of
	}
	in, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var full []float32
	convert := func(precision string, opt ConvertOptions) []byte {
		t.Helper()
		if opt.Recipe, err = Recipe(precision); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := Convert(t.Context(), bytes.NewReader(in), int64(len(in)), opt, &b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	// divergence is KL of the file's probabilities, in nats a token.
	divergence := func(file []byte) float64 {
		t.Helper()
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		var sum float64
		for i, q := range probabilities(t, path) {
			p := float64(full[i])
			sum += math.Exp(p) * (p - float64(q))
		}
		return sum * float64(m.Config().Vocab) / float64(len(full))
	}
	floats := filepath.Join(t.TempDir(), "f32.gguf")
	if err := os.WriteFile(floats, convert("F32", ConvertOptions{}), 0o644); err != nil {
		t.Fatal(err)
	}
	full = probabilities(t, floats)
	nearest := divergence(convert("Q4_0", ConvertOptions{}))
	for name, c := range map[string]struct {
		opt  ConvertOptions
		most float64 // of what rounding to the nearest costs
	}{
		"imatrix": {ConvertOptions{Importance: importance}, 0.97},
		"awq":     {ConvertOptions{Importance: importance, Scale: true}, 1.1}, // the inputs of this model are even
		"gptq":    {ConvertOptions{Hessian: hessian(0)}, 0.75},
	} {
		file := convert("Q4_0", c.opt)
		got := divergence(file)
		t.Logf("%s: %.5f nats, nearest %.5f", name, got, nearest)
		if !(got < c.most*nearest) {
			t.Errorf("%s: %.5f nats, to the nearest %.5f", name, got, nearest)
		}
		if name != "gptq" {
			continue
		}
		opt := ConvertOptions{Threads: 3, Hessian: hessian(8 << 20)}
		if !bytes.Equal(file, convert("Q4_0", opt)) {
			t.Errorf("%s: three threads, or less memory, give other bytes", name)
		}
	}
	// Factors that are kept in floats change nothing.
	parsed, err := gguf.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := Recipe("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	c := newConversion(parsed, ConvertOptions{Recipe: recipe, Importance: importance, Scale: true})
	defer c.close()
	if err := c.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Recipe, err = Recipe("F32"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	norms, rows := 0, 0
	for name, f := range c.factors {
		if strings.HasSuffix(name, "norm.weight") {
			norms++
		}
		if f.Rows != nil {
			rows++
		}
	}
	if norms == 0 || rows == 0 {
		t.Errorf("%d norms and the rows of %d matrices have factors", norms, rows)
	}
	if got := divergence(b.Bytes()); got > 1e-6 {
		t.Errorf("factors change the model by %v nats", got)
	}
	if _, err := Convert(t.Context(), bytes.NewReader(in), int64(len(in)), ConvertOptions{Scale: true}, &bytes.Buffer{}); err == nil {
		t.Error("factors of nothing")
	}
	other := &calibrated.Imatrix{Entries: map[string]calibrated.Entry{"blk.0.attn_q.weight": {Sums: []float32{1, 2}, Counts: []float32{1}}}}
	if _, err := Convert(t.Context(), bytes.NewReader(in), int64(len(in)), ConvertOptions{Recipe: recipe, Importance: other}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "importance matrix") {
		t.Errorf("another model's importance matrix: %v", err)
	}
}

// TestExportImatrix: an importance matrix among the module's files changes what
// is written, and its digest is on the layer, cached or not.
func TestExportImatrix(t *testing.T) {
	var b bytes.Buffer
	sums := make([]float32, 64)
	for i := range sums {
		sums[i] = float32(1 + i*i)
	}
	matrix := &calibrated.Imatrix{Entries: map[string]calibrated.Entry{"blk.0.attn_q.weight": {Sums: sums, Counts: []float32{9}}}}
	if err := matrix.Write(&b); err != nil {
		t.Fatal(err)
	}
	m, out := packedWith(t, map[string][]byte{"core.imatrix.gguf": b.Bytes(), "broken": []byte("\x01\x00\x00\x00")}, nil)
	at, _ := m.Layer("core.imatrix.gguf")
	with := builds.Export{Precision: "Q4_0", Options: []byte(`{"imatrix": "core.imatrix.gguf"}`)}
	if list := (Exporter{}).Check(m.Manifest, with); len(list) > 0 {
		t.Fatal(list)
	}
	plain, _, err := Exporter{}.Export(t.Context(), m, builds.Export{Precision: "Q4_0"}, out)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, _, err := Exporter{}.Export(t.Context(), m, with, out)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Descriptor.Digest == plain[0].Descriptor.Digest || got[0].Annotations[abi.AnnotationImatrix] != at.Descriptor.Digest.String() {
			t.Errorf("%+v", got[0])
		}
	}
	if plain[0].Annotations != nil {
		t.Errorf("%+v", plain[0])
	}
	if _, _, err := (Exporter{}).Export(t.Context(), m, builds.Export{Precision: "Q4_0", Options: []byte(`{"imatrix": "broken"}`)}, out); err == nil || !strings.Contains(err.Error(), "broken: imatrix") {
		t.Error(err)
	}
}
