package window_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/window"
)

// small returns a small shape, with the features that its models have.
func small(name string) arch.Shape {
	s := arch.Shape{
		Arch: name, Context: 256, Layers: 4, Width: 32, Heads: 4, KVHeads: 2, HeadDim: 16, Hidden: 48, Vocab: 40, Epsilon: 1e-5,
		Rope: arch.Rope{Dims: 16, Base: 10000, OriginalContext: 256, ExtFactor: -1},
	}
	s.Rope.Halves = s.Style().Halves
	switch name {
	case "gemma2":
		s.Window, s.Windowed = 7, []bool{true, false, true, false}
		s.AttentionCap, s.LogitCap, s.AttentionScale = 5, 3, 0.3
	case "gemma3":
		local := s.Rope
		local.Base = 100
		s.Window, s.Windowed, s.Local, s.Rope.Base = 7, []bool{true, true, false, true}, &local, 1e6
	case "gemma3n":
		local := s.Rope
		s.Window, s.Windowed, s.Local = 7, []bool{true, false, true, false}, &local
		s.Altup = &arch.Altup{Streams: 4, Rank: 16, PerLayer: 12, Shared: 2}
	case "gemma4":
		local := s.Rope
		s.Window, s.Windowed, s.Local = 7, []bool{true, false, true, false}, &local
		s.Altup = &arch.Altup{Streams: 1, PerLayer: 12, Shared: 2}
	case "phi3":
		s.Window, s.Windowed = 9, []bool{true, true, true, true}
		s.Rope.Scaling, s.Rope.OriginalContext, s.Rope.AttentionFactor = arch.LongRope, 16, 1.2
	case "smollm3":
		s.Unrotated = []bool{false, true, false, true}
	case "granite":
		s.EmbeddingScale, s.ResidualScale, s.AttentionScale, s.LogitDivisor = 3, 0.4, 0.2, 2
	case "gpt2":
		s.Rope, s.KVHeads = arch.Rope{}, 4
	case "qwen2moe":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.ExpertSum = 6, 2, 32, 48, true
	case "olmoe", "flexolmo":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.ExpertSum = 6, 2, 32, true
	case "granitemoe":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.LogitDivisor = 6, 2, 32, 2
	case "gpt-oss":
		s.Experts, s.ExpertsUsed, s.ExpertHidden = 6, 2, 32
		s.Window, s.Windowed, s.Rope.Smooth = 7, []bool{true, false, true, false}, true
	case "deepseek":
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.ExpertSum, s.DenseLead = 6, 2, 32, 64, true, 1
	case "deepseek2":
		s.Latent = &arch.Latent{Rank: 32, Key: 16, Value: 24}
		s.KVHeads, s.Rope.Dims, s.HeadDim = 1, 8, 40
	case "lfm2", "lfm2moe", "granitehybrid":
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 3}, []bool{true, false, true, true}
		switch name {
		case "lfm2moe":
			s.Experts, s.ExpertsUsed, s.ExpertHidden, s.ExpertSigmoid = 6, 2, 32, true
		case "granitehybrid":
			s.Mixer = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}
		}
	case "nemotron_h", "nemotron_h_moe":
		s.Rope, s.Mixer = arch.Rope{}, &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}
		s.Recurrent, s.Feeding = []bool{true, false, false, true}, []bool{false, true, false, false}
		if name == "nemotron_h_moe" {
			s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden, s.ExpertSigmoid = 6, 2, 48, 80, true
		}
	case "apertus":
		same := func(v float32) []float32 { return slices.Repeat([]float32{v}, s.Layers) }
		s.Curves = &arch.Curves{Above: same(0.3), Below: same(-0.4), Slope: same(0.6), Least: same(-1e-6)}
	case "mamba2":
		s.Rope, s.Heads, s.KVHeads, s.HeadDim, s.Hidden = arch.Rope{}, 0, 0, 0, 0
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}, []bool{true, true, true, true}
	case "qwen3next":
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2, Delta: true}, []bool{true, true, false, true}
		s.Experts, s.ExpertsUsed, s.ExpertHidden, s.SharedHidden = 6, 2, 32, 48
	case "qwen35", "qwen35moe":
		s.Mixer, s.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2, Delta: true, Tiled: true}, []bool{true, true, false, true}
		s.Rope.Dims, s.Rope.Sections, s.Rope.Interleaved = 12, [3]int{2, 2, 2}, true
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
		s.Local, s.Window, s.Windowed = &arch.Rope{Dims: 16, Base: s.Rope.Base, Halves: true, OriginalContext: s.Context, ExtFactor: -1}, 7, []bool{true, true, true, false}
	case "starcoder":
		s.Rope, s.KVHeads = arch.Rope{}, 1
	case "nemotron":
		s.Rope.Dims = 8
	case "mistral3":
		s.Cooling = 0.5
	case "phi2", "falcon":
		s.Parallel, s.Rope.Dims = true, 8
	case "command-r":
		s.Parallel, s.LogitDivisor = true, 4
	case "cohere2":
		s.Parallel, s.LogitDivisor = true, 4
		s.Window, s.Windowed, s.Unrotated = 7, []bool{true, true, true, false}, []bool{false, false, false, true}
	case "exaone4":
		s.Window, s.Windowed, s.Unrotated = 7, []bool{true, true, true, false}, []bool{false, false, false, true}
	case "opt", "bloom", "mpt":
		s.Rope, s.KVHeads = arch.Rope{}, 4
	case "gptneo":
		s.Rope, s.KVHeads, s.Window, s.Windowed = arch.Rope{}, 4, 7, []bool{false, true, false, true}
	case "gptj":
		s.Parallel, s.Rope.Dims, s.KVHeads = true, 8, 4
	case "gptneox", "stablelm":
		s.Parallel, s.Rope.Dims, s.KVHeads = true, 8, 4
	case "qwen3moe", "qwen3vlmoe":
		s.Experts, s.ExpertsUsed, s.ExpertHidden = 6, 2, 32
	}
	return s
}

// variants are models with features that their architecture does not imply, and
// one of each architecture.
func variants() map[string]func() arch.Shape {
	out := map[string]func() arch.Shape{
		"llama 3 (frequencies)": func() arch.Shape { return small("llama") },
		"mistral (window)": func() arch.Shape {
			s := small("llama")
			s.Window, s.Windowed = 9, []bool{true, true, true, true}
			return s
		},
		"yarn": func() arch.Shape {
			s := small("qwen3")
			s.Rope.Scaling, s.Rope.Factor, s.Rope.OriginalContext = "yarn", 4, 64
			return s
		},
		"phi3 (short)": func() arch.Shape {
			s := small("phi3")
			s.Rope.OriginalContext = 200
			return s
		},
		"stablelm (in sequence)": func() arch.Shape {
			s := small("stablelm")
			s.Parallel = false
			return s
		},
		"llama (a part rotated, gelu)": func() arch.Shape {
			s := small("llama")
			s.Rope.Dims, s.Activation = 8, arch.GELU
			return s
		},
	}
	for _, name := range arch.Known() {
		out[name] = func() arch.Shape { return small(name) }
	}
	return out
}

// file returns a model of random weights, optional ones included. Frequencies
// are divided if divided is set; large adds an input of thousands.
func file(t testing.TB, s arch.Shape, divided bool, seed uint64) *gguf.File {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	all := s.Globals()
	for i := range s.Layers {
		all = append(all, s.Layer(i, nil)...)
	}
	var sources []gguf.Source
	for _, w := range all {
		if w.Name == arch.RopeFreqs && !divided {
			continue
		}
		n := 1
		for _, d := range w.Dims {
			n *= d
		}
		b := make([]byte, 0, 4*n)
		for range n {
			x := r.NormFloat64()
			switch {
			case strings.HasPrefix(w.Name, "rope_"):
				x = 1 + x*x
			case strings.Contains(w.Name, "norm") && strings.HasSuffix(w.Name, ".weight"):
				x = 1 + 0.2*x
			case strings.HasSuffix(w.Name, ".bias"):
				x *= 0.2
			case w.Name != arch.TokenEmbedding:
				x /= math.Sqrt(float64(w.Dims[0]))
			}
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		}
		sources = append(sources, gguf.Source{Name: w.Name, Type: tensor.F32, Dims: w.Dims, Data: gguf.Bytes(b)})
	}
	var b bytes.Buffer
	if _, err := gguf.Write(&b, s.Metadata(), sources); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// engineOf returns the model of the backend core.
func engineOf(t testing.TB, f *gguf.File) *infer.Model {
	t.Helper()
	s, err := arch.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := infer.New(s, f, infer.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// run runs an ONNX model on its input hidden.
func run(t testing.TB, m *onnx.Model, hidden []float32, positions int) []float32 {
	t.Helper()
	p, err := engine.Compile(t.Context(), m, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, positions, len(hidden) / positions}}
	for _, v := range hidden {
		in.Data = binary.LittleEndian.AppendUint32(in.Data, math.Float32bits(v))
	}
	out, err := p.Run(t.Context(), map[string]engine.Tensor{window.Hidden: in})
	if err != nil {
		t.Fatal(err)
	}
	data := out[m.Graph.Outputs[0].Name].Data
	x := make([]float32, len(data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

// farthest returns the largest difference in units of the largest number of b.
func farthest(a, b []float32) (d float64) {
	most := 0.0
	for i := range b {
		d, most = max(d, math.Abs(float64(a[i]-b[i]))), max(most, math.Abs(float64(b[i])))
	}
	if len(a) != len(b) || math.IsNaN(d) {
		return math.Inf(1)
	}
	return d / most
}

// TestEveryArchitecture compares each layer, and all layers with the last norm,
// with the backend core on the model's own states.
func TestEveryArchitecture(t *testing.T) {
	for name, shape := range variants() {
		t.Run(name, func(t *testing.T) {
			s := shape()
			f := file(t, s, strings.Contains(name, "frequencies"), 3)
			const positions = 24
			if s.Experts > 0 && s.Mixer == nil {
				if _, err := window.Layers(f, window.Options{Count: 1, Positions: positions}); !errors.Is(err, window.ErrUnsupported) || !strings.Contains(err.Error(), fmt.Sprintf("%d experts", s.Experts)) {
					t.Errorf("experts: %v", err)
				}
				return
			}
			refused := map[string]string{"mistral3": "grow with their position", "falcon": "two norms", "deepseek2": "latent attention", "arcee": "squares", "nemotron": "squares", "apertus": "activation xielu", "gemma3n": "layers of 4 residual streams", "gemma4": "layers of 1 residual streams", "bloom": "bias of their distance", "mpt": "bias of their distance", "gptneo": "without a scale"}[name]
			if s.Mixer != nil {
				refused = "layers with a state"
			}
			if refused != "" {
				if _, err := window.Layers(f, window.Options{Count: 1, Positions: positions}); !errors.Is(err, window.ErrUnsupported) || !strings.Contains(err.Error(), refused) {
					t.Errorf("got %v, want %q in it", err, refused)
				}
				return
			}
			m := engineOf(t, f)
			tokens := make([]int32, positions)
			for i := range tokens {
				tokens[i] = int32((7 + i*i) % s.Vocab)
			}
			want, err := m.Streams(t.Context(), tokens, rows(s.Layers+1)...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.Layers {
				one, err := window.Layers(f, window.Options{First: i, Count: 1, Positions: positions})
				if err != nil {
					t.Fatal(err)
				}
				if d := farthest(run(t, one, want[i], positions), want[i+1]); d > 2e-6 {
					t.Errorf("layer %d: differs by %.3g of the largest number", i, d)
				}
			}
			all, err := window.Layers(f, window.Options{Count: s.Layers, Positions: positions, Norm: true})
			if err != nil {
				t.Fatal(err)
			}
			session, err := m.NewSession(infer.SessionOptions{Context: positions, KV: "f32", Hidden: true})
			if err == nil {
				err = session.Feed(t.Context(), tokens)
			}
			if err != nil {
				t.Fatal(err)
			}
			states, err := session.Hidden(0, positions)
			if err != nil {
				t.Fatal(err)
			}
			if d := farthest(run(t, all, want[0], positions), states); d > 1e-5 {
				t.Errorf("all layers: differ by %.3g of the largest number", d)
			}
		})
	}
}

func rows(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// TestUnread: a tensor that no rule writes is refused, not left out.
func TestUnread(t *testing.T) {
	s := small("qwen3")
	f := file(t, s, false, 1)
	f.Tensors = append(f.Tensors, gguf.Tensor{Name: "blk.2.attn_sinks.weight", Dims: []int{4}})
	if _, err := window.Layers(f, window.Options{Count: 1, Positions: 4}); err == nil || !strings.Contains(err.Error(), "attn_sinks") {
		t.Error(err)
	}
}

// halved returns a model that computes as an NPU does: it rounds every number,
// weights, inputs and results of each node, to 16-bit floats, of which those below
// 2⁻¹⁴ are 0, and divides by multiplying by the reciprocal.
func halved(m *onnx.Model) *onnx.Model {
	out := onnx.New("halved", 17)
	g := &out.Graph
	g.Inputs, g.Outputs, g.Initializers = m.Graph.Inputs, m.Graph.Outputs, m.Graph.Initializers
	half, float := onnx.Int("to", int64(onnx.FLOAT16)), onnx.Int("to", int64(onnx.FLOAT))
	g.Constant(onnx.Floats("smallest", nil, []float32{1.0 / (1 << 14)}))
	g.Constant(onnx.Floats("none", nil, []float32{0}))
	name := map[string]string{}
	round := func(from, to string) {
		y := g.Add("Cast", []string{g.Add("Cast", []string{from}, to+".16bits", half)}, to+".back", float)
		small := g.Add("Less", []string{g.Add("Abs", []string{y}, to+".distance"), "smallest"}, to+".flushed")
		name[to] = g.Add("Where", []string{small, "none", y}, to+".rounded")
	}
	for _, v := range m.Graph.Inputs {
		round(v.Name, v.Name)
	}
	for _, c := range m.Graph.Initializers {
		if c.DType == onnx.FLOAT {
			round(c.Name, c.Name)
		}
	}
	for _, n := range m.Graph.Nodes {
		n.Inputs = slices.Clone(n.Inputs)
		for i := range n.Inputs {
			if to, ok := name[n.Inputs[i]]; ok {
				n.Inputs[i] = to
			}
		}
		if n.Op == "Div" {
			round(g.Add("Reciprocal", n.Inputs[1:], n.Name+".reciprocal"), n.Name+".reciprocal")
			n.Op, n.Inputs = "Mul", []string{n.Inputs[0], name[n.Name+".reciprocal"]}
		}
		g.Nodes = append(g.Nodes, n)
		round(n.Outputs[0], n.Outputs[0])
	}
	return out
}

// TestHalf: with every number rounded to 16 bits, a layer computes the same, on rows
// of tens of thousands (SmolLM2 has 24,800), of thousandths, and of zeros. OLMo 2 does
// not normalize the input of products, whose results are then out of range.
func TestHalf(t *testing.T) {
	for name, scales := range map[string][]float64{
		"llama": {30000, 700, 40, 1, 1.0 / 256, 0}, "qwen3": {30000, 700, 40, 1, 1.0 / 256, 0}, "gemma3": {30000, 700, 40, 1, 1.0 / 256, 0},
		"granite": {30000, 700, 40, 1, 1.0 / 256, 0}, "stablelm": {30000, 700, 40, 1, 1.0 / 256, 0}, "gpt2": {30000, 700, 40, 1, 1.0 / 256, 0}, "olmo2": {40, 4, 1, 0.25, 1.0 / 16, 0},
	} {
		s := small(name)
		m, err := window.Layers(file(t, s, false, 5), window.Options{Count: 1, Positions: len(scales)})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(2, 9))
		var hidden []float32
		for _, scale := range scales {
			for range s.Width {
				hidden = append(hidden, float32(max(-2, min(2, r.NormFloat64()))*scale))
			}
		}
		want, got := run(t, m, hidden, len(scales)), run(t, halved(m), hidden, len(scales))
		for i := range scales {
			if cosine := cosine(got[i*s.Width:(i+1)*s.Width], want[i*s.Width:(i+1)*s.Width]); !(cosine >= 0.99999) {
				t.Errorf("%s: a row of %g: cosine %.6f", name, scales[i], cosine)
			}
		}
	}
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// TestGates: a gate whose sides are in the hundreds is finite in 16 bits.
func TestGates(t *testing.T) {
	s := small("llama")
	f := file(t, s, false, 5)
	for name, by := range map[string]float32{"blk.0.ffn_gate.weight": 150, "blk.0.ffn_up.weight": 150, "blk.0.ffn_down.weight": 0.01} {
		w, _ := f.Tensor(name)
		for i := 0; i < len(w.Data); i += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(w.Data[i:]))
			binary.LittleEndian.PutUint32(w.Data[i:], math.Float32bits(by*v))
		}
	}
	m, err := window.Layers(f, window.Options{Count: 1, Positions: 3})
	if err != nil {
		t.Fatal(err)
	}
	hidden := make([]float32, 3*s.Width)
	for i := range hidden {
		hidden[i] = float32(i%7) - 3
	}
	want, got := run(t, m, hidden, 3), run(t, halved(m), hidden, 3)
	if c := cosine(got, want); !(c >= 0.9999) {
		t.Errorf("cosine %.6f", c)
	}
}
