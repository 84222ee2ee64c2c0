package seed

import (
	"fmt"
	"io"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

// opset is the operator version of seeded models; every supported runtime has it.
const opset = 17

// named returns a symbolic dimension, fixed one with a size.
func named(name string) abi.Dim { return abi.Dim{Name: name} }
func fixed(n int) abi.Dim       { return abi.Dim{Size: int64(n)} }

// net builds a model. Weights are drawn from the seed, each from the stream of its
// name.
type net struct {
	*onnx.Model
	seed uint64
}

func newNet(opt Options) *net { return &net{onnx.New(opt.Name, opset), opt.Seed} }

func (n *net) in(v onnx.Value)  { n.Graph.Inputs = append(n.Graph.Inputs, v) }
func (n *net) out(v onnx.Value) { n.Graph.Outputs = append(n.Graph.Outputs, v) }

// add appends a node with one output.
func (n *net) add(op, output string, inputs []string, attributes ...onnx.Attribute) string {
	return n.Graph.Add(op, inputs, output, attributes...)
}

// weight adds a float32 tensor of seeded normal numbers; fanIn and fanOut set their
// deviation.
func (n *net) weight(name string, fanIn, fanOut int, dims ...int64) string {
	size := 1
	for _, d := range dims {
		size *= int(d)
	}
	return n.Graph.Constant(onnx.Floats(name, dims, normal(n.seed, name, size, glorot(fanIn, fanOut))))
}

func (n *net) ints(name string, values ...int64) string {
	return n.Graph.Constant(onnx.Ints(name, []int64{int64(len(values))}, values))
}

func (n *net) scalar(name string, v float32) string {
	return n.Graph.Constant(onnx.Floats(name, nil, []float32{v}))
}

// dense multiplies [N, T, in] by a matrix [in, out].
func (n *net) dense(name, x string, in, out int) string {
	return n.add("MatMul", name, []string{x, n.weight(name+".weight", in, out, int64(in), int64(out))})
}

// norm is layer normalization over the last dimension (Ba et al. 2016).
func (n *net) norm(name, x string, width int) string {
	ones := make([]float32, width)
	for i := range ones {
		ones[i] = 1
	}
	gain := n.Graph.Constant(onnx.Floats(name+".gain", []int64{int64(width)}, ones))
	bias := n.Graph.Constant(onnx.Floats(name+".bias", []int64{int64(width)}, make([]float32, width)))
	return n.add("LayerNormalization", name, []string{x, gain, bias}, onnx.Int("axis", -1))
}

// pool reduces tokens [N, T, width] to count tokens by attention with learned
// queries.
func (n *net) pool(name, x string, width, count int) string {
	queries := n.weight(name+".queries", width, count, int64(count), int64(width))
	keys := n.add("Transpose", name+".keys", []string{n.dense(name+".key", x, width, width)}, onnx.IntList("perm", 0, 2, 1))
	scores := n.add("MatMul", name+".scores", []string{queries, keys})
	shares := n.add("Softmax", name+".shares", []string{scores}, onnx.Int("axis", -1))
	return n.add("MatMul", name, []string{shares, n.dense(name+".value", x, width, width)})
}

func (n *net) cast(output, x string, to onnx.DType) string {
	return n.add("Cast", output, []string{x}, onnx.Int("to", int64(to)))
}

func (n *net) file(path string) file {
	return file{path, func(w io.Writer) error {
		_, err := onnx.Write(w, n.Model)
		return err
	}}
}

// describe sets the properties that encoders, projectors and decoders share.
func describe(m *modules.Manifest, opt Options, path string) {
	m.Modality = opt.Modality
	m.Export = map[abi.Format]modules.Export{abi.ONNX: {Path: path}}
	if m.Type == abi.Encoder {
		m.Quant = &modules.Quant{Supported: []string{string(abi.FP32)}}
	}
}

// The tokens of an encoder, and the sizes of its parts.
const (
	patch       = 16  // pixels per side
	frame       = 400 // samples per frame: 25 ms at 16 kHz
	hop         = 160 // samples between frames: 10 ms
	sampleRate  = 16000
	imageSide   = 64 // pixels of a decoder before upscaling
	imageTokens = 64 // an 8 × 8 grid
	codecHop    = 320
)

// encoder converts pixels or samples to tokens [T_enc, D_enc].
func encoder(m *modules.Manifest, opt Options) []file {
	path := fileName(opt.Name, "onnx")
	describe(m, opt, path)
	m.Caps = modules.Figures{"D_enc": opt.DEnc}
	name := "patch_tokens"
	n := newNet(opt)
	switch opt.Modality {
	case abi.Audio:
		name = "frame_tokens"
		m.Inputs = []abi.Port{{Name: "pcm", Shape: abi.Shape{named("S")}, DType: abi.FP32}}
		m.Caps["sample_rate"] = sampleRate
		n.in(onnx.TensorValue("pcm", onnx.FLOAT, "N", "S"))
		x := n.add("Unsqueeze", "wave", []string{"pcm", n.ints("wave.axes", 1)})
		x = n.add("Conv", "frames", []string{x, n.weight("frames.weight", frame, 64, 64, 1, frame)}, onnx.IntList("strides", hop))
		x = n.add("Relu", "frames.relu", []string{x})
		x = n.add("Conv", "pairs", []string{x, n.weight("pairs.weight", 3*64, opt.DEnc, int64(opt.DEnc), 64, 3)}, onnx.IntList("strides", 2), onnx.IntList("pads", 1, 1))
		n.tokens(x, name, opt.DEnc)
	case abi.Video:
		m.Inputs = []abi.Port{{Name: "video", Shape: abi.Shape{named("F"), named("H"), named("W"), fixed(3)}, DType: abi.UInt8}}
		m.Caps["patch_stride"] = patch
		n.in(onnx.TensorValue("video", onnx.UINT8, "F", "H", "W", 3))
		x := n.patches("video", opt.DEnc)
		x = n.add("Transpose", "video.last", []string{x}, onnx.IntList("perm", 0, 2, 3, 1))
		x = n.add("Reshape", "video.flat", []string{x, n.ints("video.shape", 1, -1, int64(opt.DEnc))})
		n.finish(x, name, opt.DEnc)
	default:
		m.Inputs = []abi.Port{{Name: "image", Shape: abi.Shape{named("H"), named("W"), fixed(3)}, DType: abi.UInt8}}
		m.Caps["patch_stride"] = patch
		n.in(onnx.TensorValue("image", onnx.UINT8, "N", "H", "W", 3))
		n.tokens(n.add("Reshape", "patches.flat", []string{n.patches("image", opt.DEnc), n.ints("patches.shape", 0, int64(opt.DEnc), -1)}), name, opt.DEnc)
	}
	m.Outputs = []abi.Port{{Name: name, Shape: abi.Shape{named("T_enc"), named("D_enc")}, DType: abi.FP16}}
	n.out(onnx.TensorValue(name, onnx.FLOAT16, "N", "T_enc", opt.DEnc))
	return []file{n.file(path)}
}

// patches splits [N, H, W, 3] bytes into squares and embeds each: [N, width, h, w].
func (n *net) patches(x string, width int) string {
	x = n.cast(x+".float", x, onnx.FLOAT)
	x = n.add("Mul", "unit", []string{x, n.scalar("unit.scale", 1.0/255)})
	x = n.add("Transpose", "planes", []string{x}, onnx.IntList("perm", 0, 3, 1, 2))
	return n.add("Conv", "patches", []string{x, n.weight("patches.weight", 3*patch*patch, width, int64(width), 3, patch, patch)}, onnx.IntList("strides", patch, patch))
}

// tokens transposes [N, width, T] to the output [N, T, width].
func (n *net) tokens(x, output string, width int) {
	n.finish(n.add("Transpose", "tokens", []string{x}, onnx.IntList("perm", 0, 2, 1)), output, width)
}

// finish applies a residual layer to [N, T, width] and casts to the output.
func (n *net) finish(x, output string, width int) {
	h := n.dense("up", n.norm("norm", x, width), width, 2*width)
	h = n.dense("down", n.add("Relu", "up.relu", []string{h}), 2*width, width)
	n.cast(output, n.add("Add", "sum", []string{x, h}), onnx.FLOAT16)
}

// projector converts tokens [T_enc, D_enc] to T_cap vectors of d_model.
func projector(m *modules.Manifest, opt Options) []file {
	path := fileName(opt.Name, "onnx")
	describe(m, opt, path)
	in := "patch_tokens"
	if opt.Modality == abi.Audio {
		in = "frame_tokens"
	}
	m.Inputs = []abi.Port{{Name: in, Shape: abi.Shape{named("T_enc"), named("D_enc")}, DType: abi.FP16}}
	m.Outputs = []abi.Port{{Name: "llm_tokens", Shape: abi.Shape{named("T_cap"), named("d_model")}, DType: abi.FP16}}
	m.Params = modules.Figures{"T_cap": opt.TCap, "d_model": opt.DModel, "D_enc": opt.DEnc}
	n := newNet(opt)
	n.in(onnx.TensorValue(in, onnx.FLOAT16, "N", "T_enc", opt.DEnc))
	n.out(onnx.TensorValue("llm_tokens", onnx.FLOAT16, "N", opt.TCap, opt.DModel))
	x := n.norm("norm", n.cast("tokens", in, onnx.FLOAT), opt.DEnc)
	x = n.pool("pool", x, opt.DEnc, opt.TCap)
	n.cast("llm_tokens", n.dense("project", x, opt.DEnc, opt.DModel), onnx.FLOAT16)
	return []file{n.file(path)}
}

// decoder converts vectors [T_dec, d_model] to an image or samples.
func decoder(m *modules.Manifest, opt Options) []file {
	path := fileName(opt.Name, "onnx")
	describe(m, opt, path)
	m.Inputs = []abi.Port{{Name: "latent_tokens", Shape: abi.Shape{named("T_dec"), named("d_model")}, DType: abi.FP16}}
	n := newNet(opt)
	n.in(onnx.TensorValue("latent_tokens", onnx.FLOAT16, "N", "T_dec", opt.DModel))
	x := n.norm("norm", n.cast("latents", "latent_tokens", onnx.FLOAT), opt.DModel)
	if opt.Modality == abi.Audio {
		m.Params = modules.Figures{"codec": "encodec-16khz"}
		m.Outputs = []abi.Port{{Name: "pcm", Shape: abi.Shape{named("S")}, DType: abi.FP32}}
		n.out(onnx.TensorValue("pcm", onnx.FLOAT, "N", "S"))
		x = n.add("Tanh", "wave", []string{n.dense("samples", x, opt.DModel, codecHop)})
		n.add("Reshape", "pcm", []string{x, n.ints("pcm.shape", 0, -1)})
		return []file{n.file(path)}
	}
	const size, side, square = 256, 8, imageSide / 8
	m.Params = modules.Figures{"size": size, "steps": 6}
	m.Outputs = []abi.Port{{Name: "image", Shape: abi.Shape{fixed(size), fixed(size), fixed(3)}, DType: abi.UInt8}}
	n.out(onnx.TensorValue("image", onnx.UINT8, "N", size, size, 3))
	x = n.dense("draw", n.pool("pool", x, opt.DModel, imageTokens), opt.DModel, 3*square*square)
	// [N, 8·8, 3·8·8] → [N, 3, 8, 8, 8, 8] → [N, 3, 64, 64]
	x = n.add("Reshape", "grid", []string{x, n.ints("grid.shape", 0, side, side, 3, square, square)})
	x = n.add("Transpose", "grid.planes", []string{x}, onnx.IntList("perm", 0, 3, 1, 4, 2, 5))
	x = n.add("Reshape", "canvas", []string{x, n.ints("canvas.shape", 0, 3, imageSide, imageSide)})
	scales := n.Graph.Constant(onnx.Floats("enlarge.scales", []int64{4}, []float32{1, 1, size / imageSide, size / imageSide}))
	x = n.add("Resize", "enlarge", []string{x, "", scales}, onnx.String("mode", "linear"))
	x = n.add("Sigmoid", "light", []string{x})
	x = n.add("Mul", "bytes", []string{x, n.scalar("bytes.scale", 255)})
	x = n.add("Transpose", "pixels", []string{x}, onnx.IntList("perm", 0, 2, 3, 1))
	n.cast("image", x, onnx.UINT8)
	return []file{n.file(path)}
}

// fileName returns a file name in the style of the playbook: vision_enc.onnx.
func fileName(name, format string) string {
	b := []byte(name)
	for i, c := range b {
		if c == '-' || c == '.' {
			b[i] = '_'
		}
	}
	return fmt.Sprintf("%s.%s", b, format)
}
