package window_test

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/window"
)

const core = "../../catalog/core-llm/core-llm.gguf"

// All layers of the shipped core, written as ONNX, give the engine's states
// after the last norm.
func TestLayers(t *testing.T) {
	path := filepath.FromSlash(core)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := arch.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	const positions = 24
	m, err := window.Layers(f, window.Options{Count: s.Layers, Positions: positions})
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([]int32, positions)
	for i := range tokens {
		tokens[i] = int32(20 + i*i%700)
	}
	p, err := engine.Compile(t.Context(), m, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	out, err := p.Run(t.Context(), map[string]engine.Tensor{"hidden": embedded(t, f, s, tokens)})
	if err != nil {
		t.Fatal(err)
	}
	model, err := infer.Load(path, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	session, err := model.NewSession(infer.SessionOptions{KV: "f32", Hidden: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Feed(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	want, err := session.Hidden(0, positions)
	if err != nil {
		t.Fatal(err)
	}
	gain := make([]float32, s.Width)
	norm, _ := f.Tensor("output_norm.weight")
	quant.Dequantize(gain, norm.Data, norm.Type)
	var ab, aa, bb float64
	for at := range positions {
		row := make([]float64, s.Width)
		mean := 0.0
		for c := range row {
			row[c] = float64(math.Float32frombits(binary.LittleEndian.Uint32(out["hidden_out"].Data[4*(at*s.Width+c):])))
			mean += row[c] * row[c] / float64(s.Width)
		}
		for c := range row {
			a, b := row[c]/math.Sqrt(mean+float64(s.Epsilon))*float64(gain[c]), float64(want[at*s.Width+c])
			ab, aa, bb = ab+a*b, aa+a*a, bb+b*b
		}
	}
	if cosine := ab / math.Sqrt(aa*bb); cosine < 0.9995 { // the engine rounds inputs of products to 8 bits
		t.Errorf("cosine %v", cosine)
	}
}

func embedded(t *testing.T, f *gguf.File, s arch.Shape, tokens []int32) engine.Tensor {
	t.Helper()
	e, ok := f.Tensor(arch.TokenEmbedding)
	if !ok {
		t.Fatal("no embeddings")
	}
	all := make([]float32, e.Elements())
	quant.Dequantize(all, e.Data, e.Type)
	in := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, len(tokens), s.Width}}
	for _, id := range tokens {
		for _, v := range all[int(id)*s.Width : (int(id)+1)*s.Width] {
			in.Data = binary.LittleEndian.AppendUint32(in.Data, math.Float32bits(v))
		}
	}
	return in
}

func TestRefused(t *testing.T) {
	f, err := gguf.Open(filepath.FromSlash(core))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for want, opt := range map[string]window.Options{
		"layers 0 to -1": {Positions: 8}, "layers 3 to 4": {First: 3, Count: 2, Positions: 8}, "0 positions": {Count: 1}, "100000 positions": {Count: 1, Positions: 100000},
		"the norm follows layer 3, not 0": {Count: 1, Positions: 8, Norm: true},
	} {
		if _, err := window.Layers(f, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
}
