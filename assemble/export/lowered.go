package export

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/lower"
	"mm-abi.org/mm/registry/artifact"
)

// Form is a format of files for other runtimes, which are written from lowered
// graphs.
type Form interface {
	// Format returns the key in graphs.
	Format() abi.Format
	// Precisions returns the precisions of weights, the default first.
	Precisions() []string
	// Files writes a graph. The problems are the nodes that cannot be written.
	Files(g *lower.Graph, name, precision string) (files []Output, problems []lower.Problem, err error)
}

// Output is a file of a form.
type Output struct {
	Path  string
	Write func(w io.Writer) error
}

// Lowered exports functions in a form, and language models in a [Composer]. The golden inputs of a module fix the
// shapes. The weights in the precision of the export are first run by the in-tree
// engine; an output whose cosine with the original is too small is refused.
type Lowered struct{ Form Form }

// generation is part of every cache key. It changes when the output for an input
// changes.
const generation = 4

// Tolerance returns the minimum cosine of an output with the weights in a
// precision.
func Tolerance(precision string) float64 {
	switch precision {
	case "fp16":
		return 0.9999
	case "int8":
		return 0.98
	case "int4":
		return 0.95
	}
	return 0.99999
}

// Format implements assemble.Exporter.
func (x Lowered) Format() abi.Format { return x.Form.Format() }

// ready reports whether the module has files of the format, which are exported
// unchanged.
func (x Lowered) ready(m *modules.Manifest, e builds.Export) bool {
	return m.Entry(x.Format()) != "" && e.Precision == ""
}

// Check implements assemble.Exporter.
func (x Lowered) Check(m *modules.Manifest, e builds.Export) (list diag.List) {
	if x.ready(m, e) {
		return NewVerbatim(x.Format()).Check(m, e)
	}
	if m.Type == abi.Core || m.Type == abi.DraftCore || m.Type == abi.Adapter {
		return x.checkLanguage(m, e)
	}
	if m.Entry(abi.ONNX) == "" {
		list.Add(diag.NotExported, diag.Pos{}, fmt.Sprintf("%s exports no onnx, from which %s is written", m.ID(), x.Format()), "add export.onnx to its manifest")
		return list
	}
	if e.Options != nil {
		list.Add(diag.BadExport, diag.Pos{}, fmt.Sprintf("%s takes no options", x.Format()), "remove them")
	}
	if precisions := x.Form.Precisions(); e.Precision != "" && !slices.Contains(precisions, e.Precision) {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s as %s: unsupported precision, want one of %s", m.ID(), e.Precision, strings.Join(precisions, ", ")), "")
	}
	if n := len(m.Export[abi.ONNX].With); n > 0 {
		list.Add(diag.ExportFailed, diag.Pos{}, fmt.Sprintf("%s is split into %d files, but %s is written from one", m.ID(), n+1, x.Format()), "")
	}
	for _, in := range m.Inputs {
		if path := golden(in.Name); !slices.Contains(m.Paths(), path) {
			list.Add(diag.ExportFailed, diag.Pos{}, fmt.Sprintf("%s lacks %s, which fixes its shapes", m.ID(), path), "add the file to the module, and its files")
		}
	}
	return list
}

func golden(input string) string { return "golden/" + input + ".npy" }

// Export implements assemble.Exporter.
func (x Lowered) Export(ctx context.Context, m *resolve.Module, e builds.Export, out Sink) ([]artifact.Layer, []string, error) {
	if x.ready(m.Manifest, e) {
		return NewVerbatim(x.Format()).Export(ctx, m, e, out)
	}
	precision := cmp.Or(e.Precision, x.Form.Precisions()[0])
	if m.Manifest.Type == abi.Core || m.Manifest.Type == abi.DraftCore {
		return x.exportLanguage(ctx, m, e, precision, out)
	}
	from, err := out.Layer(m, m.Manifest.Entry(abi.ONNX))
	if err != nil {
		return nil, nil, err
	}
	sample, digests, err := samples(ctx, m, out)
	if err != nil {
		return nil, nil, err
	}
	key := fmt.Sprintf("%s %d %s %s %s %s", x.Format(), generation, from.Descriptor.Digest, precision, m.Manifest.Name, digests)
	layers, notes, ok := out.Recall(ctx, key)
	if !ok {
		if layers, notes, err = x.export(ctx, out.Store.BlobPath(from.Descriptor), m, precision, sample, out); err != nil {
			return nil, nil, err
		}
		out.Remember(key, layers, notes)
	}
	for i := range layers {
		layers[i].Annotations = map[string]string{abi.AnnotationQuant: precision, abi.AnnotationSource: from.Descriptor.Digest.String()}
	}
	return layers, notes, nil
}

// samples reads the golden inputs.
func samples(ctx context.Context, m *resolve.Module, out Sink) (map[string]engine.Tensor, string, error) {
	sample, digests := map[string]engine.Tensor{}, ""
	for _, in := range m.Manifest.Inputs {
		f, l, err := out.Open(ctx, m, golden(in.Name))
		if err != nil {
			return nil, "", err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxGraphFile))
		if err = errors.Join(err, f.Close()); err == nil {
			sample[in.Name], err = drift.Read(data)
		}
		if err != nil {
			return nil, "", fmt.Errorf("golden input %q: %w", in.Name, err)
		}
		digests += " " + l.Descriptor.Digest.String()
	}
	return sample, digests, nil
}

func (x Lowered) export(ctx context.Context, path string, m *resolve.Module, precision string, sample map[string]engine.Tensor, out Sink) (layers []artifact.Layer, notes []string, err error) {
	model, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: engine.Checks()})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	files, cosine, err := x.Write(ctx, model, m.Manifest.Name, precision, sample)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		l, err := out.Write(ctx, f.Path, f.Write)
		if err != nil {
			return nil, nil, err
		}
		layers = append(layers, l)
	}
	return layers, []string{fmt.Sprintf("%s in %s: cosine %s of its weights with the original, by mm's own engine", files[0].Path, precision, strconv.FormatFloat(cosine, 'f', 6, 64))}, nil
}

// Write returns the files of a model and the smallest cosine of an output with its
// weights in the precision. Nodes that the form does not have are a diag.List in the
// error.
func (x Lowered) Write(ctx context.Context, model *onnx.Model, name, precision string, sample map[string]engine.Tensor) (files []Output, cosine float64, err error) {
	if sample, err = fit(model, sample); err != nil {
		return nil, 0, err
	}
	g, problems, err := lower.Lower(ctx, model, sample)
	if err != nil {
		return nil, 0, err
	}
	if len(problems) == 0 {
		if cosine, err = measure(ctx, g, precision, sample); err != nil {
			return nil, 0, err
		}
		files, problems, err = x.Form.Files(g, name, precision)
	}
	return files, cosine, x.judged(name, precision, cosine, problems, err)
}

// judged returns the error of an export: nodes that cannot be written, and weights
// that deviate too much.
func (x Lowered) judged(name, precision string, cosine float64, problems []lower.Problem, err error) error {
	var list diag.List
	for _, p := range problems {
		list.Add(diag.NotLowered, diag.Pos{}, fmt.Sprintf("%s as %s: %s", name, x.Format(), p), "export the module as onnx, or a part without the node (mm onnx cut)")
	}
	if len(problems) == 0 && err == nil && !(cosine >= Tolerance(precision)) { // also without a number
		list.Add(diag.ExportDrift, diag.Pos{}, fmt.Sprintf("%s as %s in %s: got cosine %.6f, want at least %v", name, x.Format(), precision, cosine, Tolerance(precision)), "use a higher precision")
	}
	return errors.Join(err, list.Err())
}

// fit reshapes samples to the shapes of the model's inputs: an open dimension is 1.
func fit(m *onnx.Model, sample map[string]engine.Tensor) (map[string]engine.Tensor, error) {
	out := map[string]engine.Tensor{}
	for _, v := range m.Inputs() {
		t, ok := sample[v.Name]
		if !ok {
			return nil, fmt.Errorf("missing sample of the input %q", v.Name)
		}
		if t.Type != v.Type.DType {
			return nil, fmt.Errorf("sample of the input %q: got %s, want %s", v.Name, t.Type, v.Type.DType)
		}
		want, fixed := make([]int, len(v.Type.Dims)), 1
		for i, d := range v.Type.Dims {
			want[i] = 1
			if d.Value >= 0 {
				want[i] = int(d.Value)
			}
			fixed *= want[i]
		}
		n := 1
		for _, d := range t.Shape {
			n *= d
		}
		if n == fixed && len(want) > 0 {
			t.Shape = want
		}
		out[v.Name] = t
	}
	return out, nil
}

// measure runs a graph with its weights in a precision and returns the smallest
// cosine of an output.
func measure(ctx context.Context, g *lower.Graph, precision string, sample map[string]engine.Tensor) (float64, error) {
	if precision == "fp32" {
		return 1, nil
	}
	wide := map[string]engine.Tensor{}
	for _, v := range g.Inputs {
		wide[v.Name] = widened(sample[v.Name], v)
	}
	before := g.Model()
	restore := round(g, precision)
	defer restore()
	outputs, err := drift.Measure(ctx, before, g.Model(), []map[string]engine.Tensor{wide}, drift.Options{})
	if err != nil {
		return 0, err
	}
	return 1 - drift.Drift(outputs), nil
}

// widened returns a sample in the element type of a lowered input.
func widened(t engine.Tensor, v *lower.Value) engine.Tensor {
	switch {
	case t.Type == onnx.FLOAT16 && v.Type == lower.Float32:
		out := make([]byte, 0, 2*len(t.Data))
		for i := 0; i+1 < len(t.Data); i += 2 {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(half(binary.LittleEndian.Uint16(t.Data[i:]))))
		}
		return engine.Tensor{Type: onnx.FLOAT, Shape: t.Shape, Data: out}
	case t.Type == onnx.UINT8 && v.Type == lower.Int32:
		var out []byte
		for _, b := range t.Data {
			out = binary.LittleEndian.AppendUint32(out, uint32(b))
		}
		return engine.Tensor{Type: onnx.INT32, Shape: t.Shape, Data: out}
	}
	return t
}

// round narrows the weights of a graph and returns a function that restores them.
func round(g *lower.Graph, precision string) (restore func()) {
	old := map[*lower.Value]*lower.Const{}
	for _, n := range g.Nodes {
		v, axis := weightOf(n)
		if v == nil || v.Const == nil || len(v.Const.Floats) < MinWeights || old[v] != nil {
			continue
		}
		old[v] = v.Const
		narrow := rounded(v.Const.Floats, v.Shape, axis, precision)
		if q, ok := Int4s(n); ok && precision == "int4" {
			narrow = q.floats(v, axis)
		}
		v.Const = &lower.Const{Floats: narrow}
	}
	return func() {
		for v, c := range old {
			v.Const = c
		}
	}
}

// weightOf returns the weights of a node and the axis of their scales.
func weightOf(n *lower.Node) (*lower.Value, int) {
	switch {
	case n.Op == lower.Conv:
		return n.In[1], 0
	case n.Op == lower.ConvTranspose:
		return n.In[1], 1
	case n.Op == lower.MatMul && len(n.In[1].Shape) == 2 && n.TransposeB:
		return n.In[1], 0
	case n.Op == lower.MatMul && len(n.In[1].Shape) == 2:
		return n.In[1], 1
	case n.Op == lower.Gather && n.Axis == 0 && len(n.In[0].Shape) == 2 && n.In[0].Type == lower.Float32:
		return n.In[0], 0
	}
	return nil, 0
}

func rounded(x []float32, shape []int, axis int, precision string) []float32 {
	out := make([]float32, len(x))
	if precision == "fp16" {
		data, _ := Float16s(x)
		for i := range out {
			out[i] = half(binary.LittleEndian.Uint16(data[2*i:]))
		}
		return out
	}
	data, scales := Int8s(x, shape, axis)
	inner := 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	for i := range out {
		out[i] = float32(int8(data[i])) * scales[i/inner%len(scales)]
	}
	return out
}
