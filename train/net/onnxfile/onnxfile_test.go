package onnxfile_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/nettest"
	"mm-abi.org/mm/train/net/onnxfile"
	"mm-abi.org/mm/train/nn"
)

// drawn returns a network with random weights, none of which start at zero.
func drawn(t *testing.T, cfg net.Config) *net.Net[float32] {
	t.Helper()
	n, err := net.New[float32](cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := nn.NewRandom(3)
	for _, w := range n.Params().Tensors() {
		nn.FillNormal(w.Data, r, 0.4)
	}
	n.Pack(true)
	return n
}

// run returns the network's inputs and outputs for random samples, row by row.
func run(n *net.Net[float32], samples int) (in, out map[string][]float32) {
	r, pass := nn.NewRandom(4), n.NewPass(nil, samples)
	in, out = map[string][]float32{}, map[string][]float32{}
	for _, p := range n.Config().Inputs {
		x := pass.In(p.Name)
		for t := range x.Rows {
			nn.FillNormal(x.Row(t), r, 1)
			if p.Name == "ids" {
				x.Row(t)[0] = float32(int(4 * r.Uniform()))
			}
		}
		in[p.Name] = flat(x)
	}
	pass.Forward(samples)
	for _, name := range n.Config().Outputs {
		out[name] = flat(pass.Out(name))
	}
	return in, out
}

func flat(m nn.Matrix[float32]) []float32 {
	var all []float32
	for t := range m.Rows {
		all = append(all, m.Row(t)...)
	}
	return all
}

// written returns m as read back from its file, which must pass onnx's checks.
func written(t *testing.T, m *onnx.Model) *onnx.Model {
	t.Helper()
	var b bytes.Buffer
	if _, err := onnx.Write(&b, m); err != nil {
		t.Fatal(err)
	}
	read, err := onnx.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range read.Check(engine.Checks()) {
		t.Errorf("onnx: %v", p)
	}
	return read
}

// near compares two results and fails if they are too far apart.
func near(t *testing.T, name string, got engine.Tensor, want []float32) {
	t.Helper()
	if len(got.Data) != 4*len(want) {
		t.Fatalf("%s: %d bytes for %d numbers", name, len(got.Data), len(want))
	}
	var dot, a, b, worst float64
	for i, w := range want {
		g := float64(math.Float32frombits(binary.LittleEndian.Uint32(got.Data[4*i:])))
		dot, a, b = dot+g*float64(w), a+g*g, b+float64(w)*float64(w)
		worst = max(worst, math.Abs(g-float64(w)))
	}
	cosine := dot / math.Sqrt(a*b)
	t.Logf("%s: cosine 1 - %.1e, greatest error %.1e of %.1e", name, 1-cosine, worst, math.Sqrt(b/float64(len(want))))
	if !(cosine >= 0.999999) || !(worst < 1e-4*max(1, math.Sqrt(b/float64(len(want))))) {
		t.Errorf("%s: results differ: cosine %v, greatest error %v", name, cosine, worst)
	}
}

func compare(t *testing.T, e runner, batch int) {
	for name, cfg := range nettest.Networks() {
		t.Run(name, func(t *testing.T) {
			n := drawn(t, cfg)
			m, err := onnxfile.Model(n, onnxfile.Options{Batch: batch})
			if err != nil {
				t.Fatal(err)
			}
			samples := batch
			if batch == 0 {
				samples = 2
			}
			in, want := run(n, samples)
			var tensors []engine.Tensor
			for _, p := range cfg.Inputs {
				tensors = append(tensors, floats([]int{samples, p.Rows, p.Cols}, in[p.Name]))
			}
			for i, got := range e.run(t, written(t, m), tensors) {
				near(t, cfg.Outputs[i], got, want[cfg.Outputs[i]])
			}
		})
	}
}

func TestGraph(t *testing.T) {
	t.Run("one sample", func(t *testing.T) { compare(t, local{}, 1) })
	t.Run("any number", func(t *testing.T) { compare(t, local{}, 0) })
}

func TestRuntime(t *testing.T) {
	r := newRuntime(t)
	t.Run("one sample", func(t *testing.T) { compare(t, r, 1) })
	t.Run("any number", func(t *testing.T) { compare(t, r, 0) })
}

func bytesOf(shape []int, x []uint8) engine.Tensor {
	return engine.Tensor{Type: onnx.UINT8, Shape: shape, Data: x}
}

// pictures is a network from an image to a smaller one and to a vector.
func pictures() net.Config {
	return net.Config{
		Inputs: []net.Port{{Name: "image", Rows: 4 * 6, Cols: 3, Height: 4}},
		Layers: []net.Layer{{Name: "small", Kind: "conv2d", Out: 2, Kernel: net.Sizes{2}, Stride: net.Sizes{2}},
			{Kind: "gelu"}, {Name: "vector", Kind: "mean"}},
		Outputs: []string{"small", "vector"},
	}
}

// engines runs a test on every available engine.
func engines(t *testing.T, test func(t *testing.T, e runner)) {
	t.Run("graph", func(t *testing.T) { test(t, local{}) })
	t.Run("runtime", func(t *testing.T) { test(t, newRuntime(t)) })
}

// Bytes and half precision in every layout, as input and output.
func TestEnds(t *testing.T) {
	n := drawn(t, pictures())
	pass, image := n.NewPass(nil, 1), make([]uint8, 4*6*3)
	for i := range image {
		image[i] = uint8(37 * i)
		pass.In("image").Data[i] = float32(image[i])/64 - 1
	}
	pass.Forward(1)
	small, vector := flat(pass.Out("small")), flat(pass.Out("vector"))
	planes := make([]uint8, len(image)) // of the same image
	for i, v := range image {
		planes[i%3*24+i/3] = v
	}
	var scaled []float64
	for _, v := range small {
		scaled = append(scaled, min(max(float64(v)*40+100, 0), 255))
	}
	engines(t, func(t *testing.T, e runner) {
		for _, c := range []struct {
			in    onnxfile.Layout
			shape []int
			data  []uint8
		}{{onnxfile.Pixels, []int{1, 4, 6, 3}, image}, {onnxfile.Planes, []int{1, 3, 4, 6}, planes}, {onnxfile.Flat, []int{1, 72}, image}, {onnxfile.Rows, []int{1, 24, 3}, image}} {
			m, err := onnxfile.Model(n, onnxfile.Options{
				Batch:  1,
				Inputs: map[string]onnxfile.Input{"image": {Name: "pixels", Type: onnx.UINT8, Layout: c.in, Scale: 1. / 64, Offset: -1}},
				Outputs: map[string]onnxfile.Output{
					"small":  {Name: "drawn", Type: onnx.UINT8, Layout: onnxfile.Pixels, Scale: 40, Offset: 100},
					"vector": {Type: onnx.FLOAT16, Layout: onnxfile.Flat},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Graph.Inputs[0].Name; got != "pixels" {
				t.Errorf("input %q", got)
			}
			out := e.run(t, written(t, m), []engine.Tensor{bytesOf(c.shape, c.data)})
			if diff := cmp.Diff([]int{1, 2, 3, 2}, out[0].Shape); diff != "" {
				t.Errorf("%s: image shape: %s", c.in, diff)
			}
			for i, b := range out[0].Data {
				if math.Abs(float64(b)-scaled[i]) > 0.501 { // rounding may differ at one half
					t.Errorf("%s: byte %d is %d of %v", c.in, i, b, scaled[i])
				}
			}
			for i, v := range vector {
				if got := half(out[1].Data[2*i:]); math.Abs(got-float64(v)) > 2e-3 {
					t.Errorf("%s: vector[%d] is %v, want %v", c.in, i, got, v)
				}
			}
		}
	})
}

// half decodes a half-precision number.
func half(b []byte) float64 {
	v := binary.LittleEndian.Uint16(b)
	f := float64(v&0x3ff) / 1024
	e := int(v >> 10 & 31)
	if e == 0 {
		e++
	} else {
		f++
	}
	return math.Ldexp(f, e-15) * (1 - 2*float64(v>>15))
}

// flow is a network that predicts velocities from a vector.
func flow() net.Config {
	return net.Config{
		Inputs: []net.Port{{Name: "x", Rows: 6, Cols: 4}, {Name: "t", Rows: 1, Cols: 1}, {Name: "text", Rows: 3, Cols: 5}},
		Layers: []net.Layer{{Name: "words", Kind: "conv1d", Inputs: []string{"text"}, Out: 5, Kernel: net.Sizes{3}, Pad: net.Sizes{1}}, {Name: "c", Kind: "time", Inputs: []string{"t"}, Out: 8}, {Name: "in", Kind: "linear", Inputs: []string{"x"}, Out: 8},
			{Kind: "block", Heads: 2, Hidden: 9, Condition: "c", Memory: "words"}, {Name: "v", Kind: "linear", Out: 4}},
		Outputs: []string{"v"},
	}
}

// Unrolled steps equal the network run step by step.
func TestFlow(t *testing.T) {
	n := drawn(t, flow())
	pass := n.NewPass(nil, 1)
	r, noise, text := nn.NewRandom(8), make([]float32, 24), make([]float32, 15)
	nn.FillNormal(noise, r, 1)
	nn.FillNormal(text, r, 1)
	copy(pass.In("text").Data, text)
	x := pass.In("x")
	copy(x.Data, noise)
	net.Euler(x, 6, func(at float32) nn.Matrix[float32] {
		pass.In("t").Data[0] = at
		pass.Forward(1)
		return pass.Out("v")
	})
	want := flat(x)
	engines(t, func(t *testing.T, e runner) {
		f := onnxfile.Flow{State: "x", Time: "t", Velocity: "v", Steps: 6}
		out := map[string]onnxfile.Output{"v": {Name: "sample"}}
		m, err := onnxfile.Model(n, onnxfile.Options{Batch: 1, Outputs: out, Flow: &f})
		if err != nil {
			t.Fatal(err)
		}
		inputs := []engine.Tensor{floats([]int{1, 6, 4}, noise), floats([]int{1, 3, 5}, text)}
		near(t, "noise from outside", e.run(t, written(t, m), inputs)[0], want)
		f.Noise = noise
		if m, err = onnxfile.Model(n, onnxfile.Options{Batch: 1, Outputs: out, Flow: &f}); err != nil {
			t.Fatal(err)
		}
		near(t, "built-in noise", e.run(t, written(t, m), inputs[1:])[0], want)
		if n := count(m, "Conv"); n != 1 {
			t.Errorf("common layers computed %d times", n)
		}
	})
}

// count returns the number of nodes of an operator in a model.
func count(m *onnx.Model, op string) (n int) {
	for _, one := range m.Graph.Nodes {
		if one.Op == op {
			n++
		}
	}
	return n
}

// A network that predicts samples, unrolled.
func TestFlowOfSamples(t *testing.T) {
	n := drawn(t, flow())
	pass := n.NewPass(nil, 1)
	r, noise, text := nn.NewRandom(8), make([]float32, 24), make([]float32, 15)
	nn.FillNormal(noise, r, 1)
	nn.FillNormal(text, r, 1)
	copy(pass.In("text").Data, text)
	x, v := pass.In("x"), nn.NewMatrix[float32](6, 4)
	copy(x.Data, noise)
	net.Euler(x, 3, func(at float32) nn.Matrix[float32] {
		pass.In("t").Data[0] = at
		pass.Forward(1)
		for t := range v.Rows {
			for i, y := range pass.Out("v").Row(t) {
				v.Row(t)[i] = (y - x.Row(t)[i]) / (1 - at)
			}
		}
		return v
	})
	want := flat(x)
	engines(t, func(t *testing.T, e runner) {
		m, err := onnxfile.Model(n, onnxfile.Options{Batch: 1, Flow: &onnxfile.Flow{State: "x", Time: "t", Velocity: "v", Steps: 3, Sample: true}})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "sample", e.run(t, written(t, m), []engine.Tensor{floats([]int{1, 6, 4}, noise), floats([]int{1, 3, 5}, text)})[0], want)
	})
}

// Half-precision matrices halve the file and hardly change the result.
func TestHalf(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: networks on two engines")
	}
	cfg := net.Config{Inputs: []net.Port{{Name: "x", Rows: 3, Cols: 64}}, Layers: []net.Layer{{Kind: "mlp", Hidden: 128, Name: "y"}}, Outputs: []string{"y"}}
	n := drawn(t, cfg)
	for _, w := range n.Params().Tensors() {
		for i, v := range w.Data { // numbers exact in half precision
			w.Data[i] = float32(math.Round(float64(v)*64) / 64)
		}
	}
	n.Pack(true)
	in, want := run(n, 1)
	engines(t, func(t *testing.T, e runner) {
		sizes := map[bool]int64{}
		for _, half := range []bool{false, true} {
			m, err := onnxfile.Model(n, onnxfile.Options{Batch: 1, Half: half})
			if err != nil {
				t.Fatal(err)
			}
			if sizes[half], err = onnx.Write(&bytes.Buffer{}, m); err != nil {
				t.Fatal(err)
			}
			near(t, "y", e.run(t, written(t, m), []engine.Tensor{floats([]int{1, 3, 64}, in["x"])})[0], want["y"])
		}
		if sizes[true] > sizes[false]*6/10 {
			t.Errorf("%d bytes, in half precision %d", sizes[false], sizes[true])
		}
	})
}

func TestFaults(t *testing.T) {
	image, v := drawn(t, pictures()), drawn(t, flow())
	for _, c := range []struct {
		net  *net.Net[float32]
		opt  onnxfile.Options
		want string
	}{
		{image, onnxfile.Options{Batch: -1}, "batch -1"},
		{image, onnxfile.Options{Inputs: map[string]onnxfile.Input{"picture": {}}}, `unknown input "picture"`},
		{image, onnxfile.Options{Outputs: map[string]onnxfile.Output{"big": {}}}, `unknown output "big"`},
		{image, onnxfile.Options{Outputs: map[string]onnxfile.Output{"vector": {Layout: onnxfile.Pixels}}}, "unknown image height"},
		{image, onnxfile.Options{Outputs: map[string]onnxfile.Output{"vector": {Layout: "rings"}}}, `output vector: unknown layout "rings"`},
		{image, onnxfile.Options{Outputs: map[string]onnxfile.Output{"vector": {Name: "small"}}}, `name "small": duplicate`},
		{image, onnxfile.Options{Inputs: map[string]onnxfile.Input{"image": {Type: onnx.BOOL}}}, "unsupported type"},
		{image, onnxfile.Options{Flow: &onnxfile.Flow{State: "x"}}, "flow: want inputs"},
		{v, onnxfile.Options{Flow: &onnxfile.Flow{State: "text", Time: "t", Velocity: "v", Steps: 1}}, "state [3, 5], velocity [6, 4]"},
		{v, onnxfile.Options{Flow: &onnxfile.Flow{State: "x", Time: "t", Velocity: "v"}}, "flow: 0 steps"},
		{v, onnxfile.Options{Flow: &onnxfile.Flow{State: "x", Time: "t", Velocity: "v", Steps: 1, Noise: make([]float32, 24)}}, "noise requires batches of one"},
		{v, onnxfile.Options{Batch: 1, Flow: &onnxfile.Flow{State: "x", Time: "t", Velocity: "v", Steps: 1, Noise: make([]float32, 3)}}, "3 numbers of noise, want [6, 4]"},
	} {
		if _, err := onnxfile.Model(c.net, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
