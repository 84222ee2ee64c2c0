package window_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/window"
)

// growth runs growing models on texts that end together: the shorter begin with
// places that nothing sees.
type growth struct {
	s      arch.Shape
	places *window.Places
	starts []int // of each text
	caches map[string]engine.Tensor
	past   int
}

// floats returns a tensor of numbers by index.
func floats(shape []int, value func(i int) float32) engine.Tensor {
	t, n := engine.Tensor{Type: onnx.FLOAT, Shape: shape}, 1
	for _, d := range shape {
		n *= d
	}
	for i := range n {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(value(i)))
	}
	return t
}

// side returns the side input of n positions.
func (g *growth) side(name string, n int) engine.Tensor {
	if name == window.Masks || name == window.LocalMasks {
		all := g.past + n
		return floats([]int{len(g.starts), 1, n, all}, func(i int) float32 {
			text, at, seen := i/(n*all), g.past+i/all%n, i%all
			if seen > at || seen < g.starts[text] || name == window.LocalMasks && seen <= at-g.s.Window {
				return window.Masked
			}
			return 0
		})
	}
	theta, scale := g.places.Rotation(name == window.LocalCos || name == window.LocalSin)
	return floats([]int{len(g.starts), 1, n, len(theta)}, func(i int) float32 {
		text, at, pair := i/(n*len(theta)), g.past+i/len(theta)%n, i%len(theta)
		angle := float64(max(0, at-g.starts[text])) * theta[pair]
		if name == window.Sin || name == window.LocalSin {
			return float32(math.Sin(angle) * scale)
		}
		return float32(math.Cos(angle) * scale)
	})
}

// TestGrowingLikeCore reads two texts of different lengths together, in three passes,
// and compares the logits with the backend core, for every architecture.
func TestGrowingLikeCore(t *testing.T) {
	const length = 24
	for name, shape := range variants() {
		t.Run(name, func(t *testing.T) {
			s := shape()
			f := file(t, s, name == "llama 3 (frequencies)", 5)
			places, err := window.NewPlaces(f, length)
			if err != nil {
				t.Skip(err)
			}
			g := &growth{s: s, places: places, starts: []int{1, 6}, past: 1, caches: map[string]engine.Tensor{}}
			for i := range s.Layers {
				for _, name := range []string{window.PastKey(i), window.PastValue(i)} {
					g.caches[name] = floats([]int{2, s.KVHeads, 1, s.HeadDim}, func(int) float32 { return 0 })
				}
			}
			var texts [2][]int32
			got := [2][]float32{}
			for _, n := range []int{9, 1, 7} {
				m, err := window.Growing(f, window.GrowingOptions{Texts: 2, Positions: n, Past: g.past})
				if errors.Is(err, window.ErrUnsupported) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				rows := g.pass(t, m, n, &texts)
				for k := range rows {
					got[k] = append(got[k], rows[k]...)
				}
			}
			for k, text := range texts {
				if d := farthest(got[k], logits(t, engineOf(t, f), length, text)); d > 2e-5 {
					t.Errorf("text %d of %d tokens: farthest logit %v", k, len(text), d)
				}
			}
		})
	}
}

// pass reads n positions and returns the logits of the tokens of each text.
func (g *growth) pass(t *testing.T, m *onnx.Model, n int, texts *[2][]int32) (out [2][]float32) {
	t.Helper()
	in := map[string]engine.Tensor{}
	for name, c := range g.caches {
		in[name] = c
	}
	for _, side := range window.GrowingSides(g.s) {
		in[side] = g.side(side, n)
	}
	ids := engine.Tensor{Type: onnx.INT64, Shape: []int{2, n}}
	for k, start := range g.starts {
		for i := range n {
			id := int32((i*7 + g.past*3 + k + 3) % g.s.Vocab)
			ids.Data = binary.LittleEndian.AppendUint64(ids.Data, uint64(id))
			if g.past+i >= start {
				texts[k] = append(texts[k], id)
			}
		}
	}
	in[window.Tokens] = ids
	p, err := engine.Compile(t.Context(), m, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.s.Layers {
		g.caches[window.PastKey(i)], g.caches[window.PastValue(i)] = all[window.Key(i)], all[window.Value(i)]
	}
	data := all[window.Logits].Data
	for k, start := range g.starts {
		for i := range n {
			if g.past+i < start {
				continue
			}
			for v := range g.s.Vocab {
				out[k] = append(out[k], math.Float32frombits(binary.LittleEndian.Uint32(data[4*((k*n+i)*g.s.Vocab+v):])))
			}
		}
	}
	g.past += n
	return out
}

// Sizes below 1 are refused.
func TestGrowingRefused(t *testing.T) {
	f := file(t, small("llama"), false, 5)
	for _, opt := range []window.GrowingOptions{{Positions: 1, Past: 1}, {Texts: 1, Past: 1}, {Texts: 1, Positions: 1}} {
		if _, err := window.Growing(f, opt); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
	if _, err := window.Growing(f, window.GrowingOptions{Texts: 1, Positions: 1, Past: 1}); err != nil {
		t.Error(err)
	}
}
