package main

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train/dataset/sound"
)

const modules = "../../catalog"

// decoder returns the shipped speech decoder.
func decoder(t *testing.T) func(states []byte) []float32 {
	t.Helper()
	model, err := onnx.Open(filepath.Join(modules, "tts-dec", "tts_dec.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	p, err := engine.Compile(t.Context(), model, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return func(states []byte) []float32 {
		out, err := p.Run(t.Context(), map[string]engine.Tensor{"latent_tokens": {Type: onnx.FLOAT16, Shape: []int{1, 24, 256}, Data: states}})
		if err != nil {
			t.Fatal(err)
		}
		return floats(out["pcm"].Data)
	}
}

func floats(data []byte) []float32 {
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

func array(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(modules, "tts-dec", "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	a, err := npy.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return a.Data
}

// The shipped decoder turns the golden states into the golden audio.
func TestGolden(t *testing.T) {
	got, want := decoder(t)(array(t, "latent_tokens.npy")), floats(array(t, "pcm.npy"))
	var dot, a, b float64
	for i := range want {
		dot, a, b = dot+float64(got[i])*float64(want[i]), a+float64(got[i])*float64(got[i]), b+float64(want[i])*float64(want[i])
	}
	if cos := dot / math.Sqrt(a*b); !(cos > 0.9999) || len(got) != len(want) {
		t.Errorf("cosine %v", cos)
	}
}

// Each word is in its interval, the number of words is right, and a digit sounds the same
// in any position.
func TestStretches(t *testing.T) {
	m, err := infer.Load(filepath.Join(modules, "core-llm", "core-llm.gguf"), infer.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		t.Fatal(err)
	}
	words, err := talk.New(tok, talk.Options{Template: tok.Rules().Template})
	if err != nil {
		t.Fatal(err)
	}
	speak := decoder(t)
	say := func(prompt string) [][]float32 {
		s, err := m.NewSession(infer.SessionOptions{Hidden: true})
		if err != nil {
			t.Fatal(err)
		}
		ids := words.Plain(prompt).Pieces[0].Tokens
		if err := s.Feed(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		x, err := s.Hidden(0, len(ids))
		if err != nil {
			t.Fatal(err)
		}
		states := make([]byte, 2*24*256)
		tensor.ToF16(states[2*(24*256-len(x)):], x)
		pcm := speak(states)
		var parts [][]float32
		for i := range sound.Stretches {
			parts = append(parts, pcm[i*sound.StretchSamples:(i+1)*sound.StretchSamples])
		}
		return parts
	}
	for prompt, n := range map[string]int{"say 7": 1, "say 7 2": 2, "say 2 7 7": 3, "say 7 2 7 2": 4} {
		for i, part := range say(prompt) {
			if p := power(part); (p > 0.002) != (i < n) {
				t.Errorf("%q: power of interval %d: %.5f", prompt, i, p)
			}
		}
	}
	a, b, other := say("say 7")[0], say("say 2 7")[1], say("say 2 7")[0]
	if same, differs := like(a, b), like(a, other); same < 0.95 || differs > 0.8 {
		t.Errorf("similarity of seven to seven %.2f, to two %.2f", same, differs)
	}
}

func power(v []float32) float64 { return dot(v, v) / float64(len(v)) }

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// like returns the cosine of two signals.
func like(a, b []float32) float64 { return dot(a, b) / math.Sqrt(dot(a, a)*dot(b, b)) }
