package infer

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/tools/libllama"
)

// smollm returns SmolLM2-135M-Instruct as Q4_1, a real model.
func smollm(t testing.TB) string {
	return testfiles.Native(t, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
}

// chatML formats one question for SmolLM2.
func chatML(question string) string {
	return "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" +
		"<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n"
}

// answer generates an answer of at most n tokens.
func answer(t *testing.T, s *Session, tok *tokenizer.Tokenizer, question string, n int) ([]int32, string) {
	t.Helper()
	if _, err := s.Prompt(t.Context(), tok.Encode(chatML(question), tokenizer.Options{Special: true})); err != nil {
		t.Fatal(err)
	}
	d := tok.Decoder(tokenizer.DecodeOptions{Continued: true})
	ids, text, _ := collect(t, s, GenerateOptions{
		MaxTokens: n, Decode: d.Next, StopTokens: []int32{tok.ID("<|im_end|>")},
	})
	return ids, text
}

func TestSmolLM(t *testing.T) {
	m, err := Load(smollm(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSession(SessionOptions{Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"What is the capital of France? Answer in one word.": "Paris",
		"What is 2 + 2?":               "4",
		"What is the opposite of hot?": "cold",
		"How many days are in a week?": "7 days",
		"What colour is the sky?":      "blue",
	} {
		if cpu.Use() == cpu.Plain && want != "Paris" {
			continue // one is enough where each takes half a minute
		}
		_, text := answer(t, s, tok, question, 60)
		t.Logf("%s %s", question, text)
		if !strings.Contains(text, want) {
			t.Errorf("%q is answered with %q, without %s", question, text, want)
		}
	}
}

// TestParitySmolLM compares our greedy answer with llama.cpp, logits by logits.
func TestParitySmolLM(t *testing.T) {
	c := native(t)
	follow(t, c, smollm(t), 128)
}

// TestParityCore does the same with the core in the repository.
func TestParityCore(t *testing.T) {
	c := native(t)
	follow(t, c, filepath.Join("..", "..", "catalog", "core-llm", "core-llm.gguf"), 128)
}

// TestParitySmolLMTypes does the same with the model's weights in other types.
// MM_TEST_TYPES names them; F32 needs 1.5 GB of memory and of disk.
func TestParitySmolLMTypes(t *testing.T) {
	names := os.Getenv("MM_TEST_TYPES")
	if names == "" {
		t.Skip("skipped: MM_TEST_TYPES is not set, such as F32,F16,Q8_0,Q4_0,Q4_K_M")
	}
	c := native(t)
	for name := range strings.SplitSeq(names, ",") {
		follow(t, c, convert(t, smollm(t), name), 128)
	}
}

// follow answers a question greedily and feeds the same tokens to llama.cpp.
//
// With float weights the logits must agree at every step. With quantized
// weights both engines round activations to 8 bits, and a change in the last
// bit of a float can flip such a rounding; a third session, whose input is
// perturbed by a relative 3e-7, measures the effect. The engines must not
// differ by more than the engine differs from itself.
func follow(t *testing.T, c *libllama.Client, path string, n int) {
	t.Helper()
	m, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSession(SessionOptions{Context: 512, KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	nudged, err := m.NewSession(SessionOptions{Context: 512, KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(libllama.Request{Op: "load", Path: path, Threads: 1, Context: 512, KV: uint32(tensor.F32)}); err != nil {
		t.Fatal(err)
	}
	if cpu.Use() == cpu.Plain {
		n /= 8 // two sessions at a few tokens a second
	}
	tokens := tok.Encode(chatML("Tell me about the sea, in a few sentences."), tokenizer.Options{Special: true})
	begin := len(tokens)
	var toTheirs, toNudged []float64
	same, differs := 0, -1
	vector := make([]float32, m.cfg.Width)
	for i := 0; i < begin+n-1; i++ {
		m.embedding.row(vector, tokens[i])
		for j := range vector {
			vector[j] *= 1 + 3e-7*float32(math.Sin(float64(1000*i+j)))
		}
		if err := errors.Join(s.Feed(t.Context(), tokens[i:i+1]), nudged.FeedVectors(t.Context(), vector)); err != nil {
			t.Fatal(err)
		}
		theirs, err := c.Do(libllama.Request{Op: "feed", Tokens: tokens[i : i+1]})
		if err != nil {
			t.Fatal(err)
		}
		toTheirs = append(toTheirs, cosine(s.Logits(), theirs.Logits[0]))
		toNudged = append(toNudged, cosine(s.Logits(), nudged.Logits()))
		if i < begin-1 {
			continue
		}
		next := argmax(s.Logits())
		if next == argmax(theirs.Logits[0]) {
			same++
		} else if differs < 0 {
			differs = i - begin + 1
		}
		tokens = append(tokens, next)
	}
	least, median, mean := spread(toTheirs)
	leastSelf, medianSelf, meanSelf := spread(toNudged)
	t.Logf("%s: cosine to llama.cpp ≥ %.6f, median %.6f, mean %.6f; to itself, nudged, ≥ %.6f, median %.6f, mean %.6f",
		filepath.Base(path), least, median, mean, leastSelf, medianSelf, meanSelf)
	t.Logf("likeliest token the same in %d of %d steps, first difference at %d", same, n, differs)
	t.Logf("%q", tok.Decode(tokens[begin:], tokenizer.DecodeOptions{Continued: true}))
	if m.layers[0].feed.gate.weight.Quantized() {
		if median < 0.999 || 1-mean > 2*(1-meanSelf)+1e-4 {
			t.Errorf("cosine: median %.6f, mean %.6f", median, mean)
		}
	} else if least < 0.9999 || same != n {
		t.Errorf("cosine %.6f; %d of %d tokens are the same", least, same, n)
	}
}

func spread(v []float64) (least, median, mean float64) {
	v = slices.Sorted(slices.Values(v))
	for _, x := range v {
		mean += x / float64(len(v))
	}
	return v[0], v[len(v)/2], mean
}

// convert writes a model's weights as another type, or by a recipe.
func convert(t *testing.T, path, name string) string {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recipe, err := quant.ParseRecipe(name)
	if err != nil {
		t.Fatal(err)
	}
	weights := make(map[string]gguf.Tensor)
	for _, w := range f.Tensors {
		weights[w.Name] = w
	}
	var sources []gguf.Source
	for _, key := range slices.Sorted(maps.Keys(weights)) {
		w := weights[key]
		typ := recipe.Type(w.Name, w.Dims, quant.Model{Layers: 30, Tied: true})
		x := make([]float32, w.Elements())
		quant.Dequantize(x, w.Data, w.Type)
		b := make([]byte, typ.RowBytes(len(x)))
		quant.Quantize(b, x, typ)
		sources = append(sources, gguf.Source{Name: key, Type: typ, Dims: w.Dims, Data: gguf.Bytes(b)})
	}
	out := filepath.Join(t.TempDir(), "SmolLM2-"+name+".gguf")
	w, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.Write(w, f.KVs, sources); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}
