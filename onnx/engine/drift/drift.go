// Package drift measures how far the results of a changed model, such as a
// quantized one, are from those of the original, by running both on the same
// inputs with onnx/engine.
//
// [Noise] and [Read] return inputs, [Measure] the figures for each output.
package drift

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// Output describes the change of one output over all inputs.
type Output struct {
	Name string
	// Cosine is that of the results as one vector, without equal infinities; 1:
	// the same direction.
	Cosine float64
	MaxAbs float64 // the largest difference of an element
	// Agree is the number of rows along the last axis, of Rows in total, whose
	// largest element is at the same position.
	Agree, Rows int

	ab, aa, bb float64
}

// Drift returns 1 minus the cosine of the worst output.
func Drift(outputs []Output) float64 {
	worst := 0.0
	for _, o := range outputs {
		worst = max(worst, 1-o.Cosine)
	}
	return worst
}

// Options are the options of Measure. The zero value is ready for use.
type Options struct {
	Graph engine.Options
}

// Unlike reports an element that is NaN in either result, or infinite in one
// and different in the other, so that the cosine is undefined.
type Unlike struct {
	Output        string
	Element       int // index in the flat result
	Before, After float64
}

// Error names the element and both values.
func (u *Unlike) Error() string {
	return fmt.Sprintf("element %d: %v before, %v after", u.Element, u.Before, u.After)
}

// Measure runs both models on each of the inputs. Outputs of integer types
// count as numbers. An element that cannot be compared is reported as [Unlike].
func Measure(ctx context.Context, before, after *onnx.Model, inputs []map[string]engine.Tensor, opt Options) ([]Output, error) {
	other, err := engine.Compile(ctx, after, opt.Graph)
	if err != nil {
		return nil, fmt.Errorf("drift: %w", err)
	}
	out, err := Against(ctx, before, other.Run, inputs, opt)
	return out, errors.Join(err, other.Close())
}

// Against runs a model on each of the inputs and compares its results with
// those of run, like [Measure].
func Against(ctx context.Context, m *onnx.Model, run func(context.Context, map[string]engine.Tensor) (map[string]engine.Tensor, error), inputs []map[string]engine.Tensor, opt Options) (out []Output, err error) {
	if len(inputs) == 0 {
		return nil, errors.New("drift: no inputs")
	}
	p, err := engine.Compile(ctx, m, opt.Graph)
	if err != nil {
		return nil, fmt.Errorf("drift: %w", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for _, name := range p.Outputs() {
		out = append(out, Output{Name: name})
	}
	for _, in := range inputs {
		want, err := p.Run(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("drift: %w", err)
		}
		got, err := run(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("drift: %w", err)
		}
		for i := range out {
			if err := out[i].add(want[out[i].Name], got[out[i].Name]); err != nil {
				return nil, fmt.Errorf("drift: output %q: %w", out[i].Name, err)
			}
		}
	}
	for i := range out {
		out[i].close()
	}
	return out, nil
}

// close computes the cosine from the sums.
func (o *Output) close() {
	switch {
	case o.aa == 0 && o.bb == 0:
		o.Cosine = 1
	case o.aa > 0 && o.bb > 0:
		o.Cosine = min(1, o.ab/math.Sqrt(o.aa*o.bb))
	}
	if math.IsNaN(o.Cosine) { // the sum of squares overflowed
		o.Cosine = 0
	}
}

// add adds one pair of results.
func (o *Output) add(a, b engine.Tensor) error {
	x, err := numbers(a)
	if err != nil {
		return err
	}
	y, err := numbers(b)
	if err != nil {
		return err
	}
	if len(x) != len(y) {
		return fmt.Errorf("shape %v before, %v after", a.Shape, b.Shape)
	}
	for i := range x {
		switch {
		case finite(x[i]) && finite(y[i]):
			o.ab, o.aa, o.bb = o.ab+x[i]*y[i], o.aa+x[i]*x[i], o.bb+y[i]*y[i]
			o.MaxAbs = max(o.MaxAbs, min(math.Abs(x[i]-y[i]), math.MaxFloat64))
		case x[i] != y[i]: // or NaN in both, which is no agreement
			return &Unlike{o.Name, i, x[i], y[i]}
		}
	}
	row := 1
	if n := len(a.Shape); n > 0 {
		row = max(1, a.Shape[n-1])
	}
	for at := 0; at+row <= len(x); at += row {
		o.Rows++
		if largest(x[at:at+row]) == largest(y[at:at+row]) {
			o.Agree++
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func largest(v []float64) int {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return best
}

// numbers decodes a tensor's elements.
func numbers(t engine.Tensor) ([]float64, error) {
	size := kernel.Size(t.Type)
	if size == 0 {
		return nil, fmt.Errorf("unsupported element type %s", t.Type)
	}
	out := make([]float64, len(t.Data)/size)
	for i := range out {
		b := t.Data[i*size:]
		switch t.Type {
		case onnx.FLOAT:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case onnx.DOUBLE:
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case onnx.FLOAT16:
			out[i] = float64(tensor.F16ToF32(binary.LittleEndian.Uint16(b)))
		case onnx.BFLOAT16:
			out[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		case onnx.INT64:
			out[i] = float64(int64(binary.LittleEndian.Uint64(b)))
		case onnx.UINT64:
			out[i] = float64(binary.LittleEndian.Uint64(b))
		case onnx.INT32:
			out[i] = float64(int32(binary.LittleEndian.Uint32(b)))
		case onnx.UINT32:
			out[i] = float64(binary.LittleEndian.Uint32(b))
		case onnx.INT16:
			out[i] = float64(int16(binary.LittleEndian.Uint16(b)))
		case onnx.UINT16:
			out[i] = float64(binary.LittleEndian.Uint16(b))
		case onnx.INT8:
			out[i] = float64(int8(b[0]))
		default: // UINT8, BOOL
			out[i] = float64(b[0])
		}
	}
	return out, nil
}

// maxNoise bounds the size in bytes of an input that Noise generates.
const maxNoise = 1 << 30

// Noise generates inputs for a model: normally distributed numbers from the
// seed, integers of 0 and 1. shapes holds the sizes of dimensions that the
// model leaves open, by the name of the input; an open first dimension defaults
// to 1.
func Noise(m *onnx.Model, shapes map[string][]int, seed uint64) (map[string]engine.Tensor, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := make(map[string]engine.Tensor)
	for _, v := range m.Inputs() {
		shape, err := shapeOf(v, shapes[v.Name])
		if err != nil {
			return nil, fmt.Errorf("drift: input %q: %w", v.Name, err)
		}
		n, err := kernel.Count(shape)
		size := kernel.Size(v.Type.DType)
		if err != nil || !generable(n, size) {
			return nil, fmt.Errorf("drift: input %q: cannot generate %s %v", v.Name, v.Type.DType, shape)
		}
		out[v.Name] = noise(rng, v.Type.DType, shape, n)
	}
	for name := range shapes {
		if _, ok := out[name]; !ok {
			return nil, fmt.Errorf("drift: unknown input %q", name)
		}
	}
	return out, nil
}

// generable reports whether Noise generates n elements of the given size.
func generable(n, size int) bool { return size > 0 && n <= maxNoise/size }

func noise(rng *rand.Rand, d onnx.DType, shape []int, n int) engine.Tensor {
	t := engine.Tensor{Type: d, Shape: shape}
	for range n {
		switch d {
		case onnx.FLOAT:
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(rng.NormFloat64())))
		case onnx.DOUBLE:
			t.Data = binary.LittleEndian.AppendUint64(t.Data, math.Float64bits(rng.NormFloat64()))
		case onnx.BFLOAT16:
			t.Data = binary.LittleEndian.AppendUint16(t.Data, uint16(math.Float32bits(float32(rng.NormFloat64()))>>16))
		case onnx.FLOAT16: // from 1/8 to 2, either sign
			t.Data = binary.LittleEndian.AppendUint16(t.Data, uint16(rng.IntN(2)<<15|(12+rng.IntN(4))<<10|rng.IntN(1024)))
		case onnx.UINT8:
			t.Data = append(t.Data, byte(rng.IntN(256)))
		default:
			t.Data = append(t.Data, byte(rng.IntN(2)))
			t.Data = append(t.Data, make([]byte, kernel.Size(d)-1)...)
		}
	}
	return t
}

// shapeOf returns the shape of an input: the requested one, if it matches.
func shapeOf(v onnx.Value, want []int) ([]int, error) {
	if v.Type.Kind != onnx.TensorKind {
		return nil, errors.New("not a tensor")
	}
	if want != nil {
		if v.Type.Ranked && len(want) != len(v.Type.Dims) {
			return nil, fmt.Errorf("got shape %v, want %v", want, v.Type.Dims)
		}
		return want, nil
	}
	shape := make([]int, len(v.Type.Dims))
	for i, d := range v.Type.Dims {
		switch {
		case d.Param == "" && d.Value >= 0 && d.Value <= math.MaxInt32:
			shape[i] = int(d.Value)
		case i == 0:
			shape[i] = 1
		default:
			return nil, fmt.Errorf("open shape %v: set the sizes", v.Type.Dims)
		}
	}
	if !v.Type.Ranked {
		return nil, errors.New("unknown shape: set the sizes")
	}
	return shape, nil
}

// dtypes maps the element types of .npy files.
var dtypes = map[string]onnx.DType{
	"f4": onnx.FLOAT, "f8": onnx.DOUBLE, "f2": onnx.FLOAT16, "i8": onnx.INT64, "i4": onnx.INT32, "i2": onnx.INT16, "i1": onnx.INT8,
	"u8": onnx.UINT64, "u4": onnx.UINT32, "u2": onnx.UINT16, "u1": onnx.UINT8, "b1": onnx.BOOL,
}

// Read decodes a tensor from an .npy file in memory.
func Read(b []byte) (engine.Tensor, error) {
	a, err := npy.Decode(b)
	if err != nil {
		return engine.Tensor{}, err
	}
	return Of(a)
}

// Of converts an array to a tensor that shares its data.
func Of(a *npy.Array) (engine.Tensor, error) {
	d, ok := dtypes[a.Type]
	if !ok {
		return engine.Tensor{}, fmt.Errorf("unsupported element type %s", a.Type)
	}
	return engine.Tensor{Type: d, Shape: a.Shape, Data: a.Data}, nil
}
