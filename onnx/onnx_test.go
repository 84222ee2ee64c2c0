package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mm-abi.org/mm/internal/testfiles"
)

// ramp returns n small distinct values.
func ramp(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(math.Sin(float64(i)*0.7)) * 0.1
	}
	return out
}

// visionEncoder returns a small vision encoder: image to tokens, with the
// operators of the reference modules.
func visionEncoder() *Model {
	m := New("encoder", 17)
	g := &m.Graph
	g.Inputs = []Value{TensorValue("pixels", UINT8, 1, 3, "H", 32)}
	x := g.Add("Cast", []string{"pixels"}, "floats", Int("to", int64(FLOAT)))
	x = g.Add("Conv", []string{x, g.Constant(Floats("conv.w", []int64{8, 3, 4, 4}, ramp(384))), g.Constant(Floats("conv.b", []int64{8}, ramp(8)))},
		"patches", IntList("strides", 4, 4), IntList("kernel_shape", 4, 4))
	x = g.Add("Relu", []string{x}, "active")
	x = g.Add("AveragePool", []string{x}, "pooled", IntList("kernel_shape", 2, 2), IntList("strides", 2, 2))
	x = g.Add("Reshape", []string{x, g.Constant(Ints("shape", []int64{3}, []int64{0, 8, -1}))}, "flat")
	x = g.Add("Transpose", []string{x}, "rows", IntList("perm", 0, 2, 1))
	w := g.Add("DequantizeLinear", []string{g.Constant(Int8s("w8", []int64{8, 12}, int8s(96))), g.Constant(Floats("scale", []int64{12}, positive(12)))},
		"weights", Int("axis", 1))
	x = g.Add("MatMul", []string{x, w}, "projected")
	x = g.Add("Add", []string{x, g.Constant(Floats("bias", []int64{12}, ramp(12)))}, "shifted")
	x = g.Add("Softmax", []string{x}, "tokens", Int("axis", -1))
	g.Outputs = []Value{TensorValue(x, FLOAT, 1, "T", 12)}
	m.Metadata = []Entry{{"license", "Apache-2.0"}}
	return m
}

// imageDecoder returns a small image decoder: tokens to an image.
func imageDecoder() *Model {
	m := New("decoder", 17)
	g := &m.Graph
	g.Inputs = []Value{TensorValue("vector", FLOAT, 1, 6)}
	x := g.Add("Gemm", []string{"vector", g.Constant(Floats("w", []int64{48, 6}, ramp(288))), g.Constant(Floats("b", []int64{48}, ramp(48)))},
		"grid", Int("transB", 1), Float("alpha", 0.5))
	x = g.Add("Reshape", []string{x, g.Constant(Ints("shape", []int64{4}, []int64{1, 3, 4, 4}))}, "small")
	x = g.Add("Resize", []string{x, "", g.Constant(Floats("scales", []int64{4}, []float32{1, 1, 2, 2}))}, "image", String("mode", "nearest"))
	g.Outputs = []Value{TensorValue(x, FLOAT, 1, 3, 8, 8)}
	return m
}

func int8s(n int) []int8 {
	out := make([]int8, n)
	for i := range out {
		out[i] = int8(i*37%255 - 127)
	}
	return out
}

func positive(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = 0.01 + float32(i)/1000
	}
	return out
}

func written(t testing.TB, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := Write(&b, m)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(b.Len()) {
		t.Errorf("Write: returned %d, wrote %d bytes", n, b.Len())
	}
	return b.Bytes()
}

// same compares models regardless of the fields that hold their weights.
func same(a, b *Model) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Model{}), cmp.Comparer(func(a, b Tensor) bool {
		return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Dims, b.Dims) && a.Doc == b.Doc && bytes.Equal(a.Raw, b.Raw) &&
			slices.EqualFunc(a.Strings, b.Strings, bytes.Equal) && cmp.Equal(a.External, b.External) &&
			a.field == b.field && bytes.Equal(bytes.Join(a.typed, nil), bytes.Join(b.typed, nil))
	}), cmpopts.EquateNaNs())
}

func TestRoundTrip(t *testing.T) {
	for _, m := range []*Model{visionEncoder(), imageDecoder()} {
		file := written(t, m)
		back, err := Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := same(m, back); diff != "" {
			t.Errorf("(- written, + read):\n%s", diff)
		}
		if again := written(t, back); !bytes.Equal(again, file) {
			t.Error("output differs from the input")
		}
		if problems := back.Check(CheckOptions{}); len(problems) > 0 {
			t.Errorf("%s: %v", m.Graph.Name, problems)
		}
	}
}

// onnx.checker and ONNX Runtime accept and run the output.
func TestReference(t *testing.T) {
	python := reference(t, "onnx", "onnxruntime")
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "encoder.onnx"), filepath.Join(dir, "decoder.onnx"), filepath.Join(dir, "cut.onnx")}
	cut, err := visionEncoder().Cut("pooled")
	if err != nil {
		t.Fatal(err)
	}
	cut.Graph.Outputs[0] = TensorValue("pooled", FLOAT, 1, 8, "h", 4)
	for i, m := range []*Model{visionEncoder(), imageDecoder(), cut} {
		if err := os.WriteFile(paths[i], written(t, m), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := python("check", paths...)
	// Compute the first values of the decoder's output: 0.5·(w·1) + b.
	w, b := ramp(288), ramp(48)
	grid := func(i int) float64 {
		sum := 0.0
		for j := range 6 {
			sum += float64(w[6*i+j])
		}
		return 0.5*sum + float64(b[i])
	}
	wants := []string{
		"tokens [1, 16, 12]",
		fmt.Sprintf("image [1, 3, 8, 8] %.5f %.5f %.5f %.5f\n", grid(0), grid(0), grid(1), grid(1)),
		"pooled [1, 8, 4, 4]",
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("missing %q in\n%s", want, out)
		}
	}
}

// reference runs testdata/reference.py, or skips the test.
func reference(t *testing.T, packages ...string) func(mode string, args ...string) string {
	t.Helper()
	python := testfiles.Python(t, packages...)
	return func(mode string, args ...string) string {
		t.Helper()
		out, err := exec.Command(python, append([]string{filepath.Join("testdata", "reference.py"), mode}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
}

// The models of the backend tests in the package onnx survive reading and
// writing: 1,905 of every kind in version 1.22.0, fewer in later ones.
func TestBackendTests(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: every case of the ONNX project")
	}
	dir := strings.TrimSpace(reference(t, "onnx")("nodes"))
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "model.onnx"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d models in %s: %v", len(files), dir, err)
	}
	found := make(map[Rule]int)
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(b)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		back, err := Parse(written(t, m))
		if err != nil {
			t.Errorf("%s: reading the output: %v", path, err)
			continue
		}
		if diff := same(m, back); diff != "" {
			t.Errorf("%s (- read, + written and read):\n%s", path, diff)
		}
		for _, p := range m.Check(CheckOptions{MinOpset: 1, MaxOpset: 28}) {
			found[p.Rule]++
			if p.Rule != RuleDomain && !p.Warning {
				t.Errorf("%s: %v", filepath.Base(filepath.Dir(path)), p)
			}
		}
	}
	t.Logf("%d models, problems %v", len(files), found)
}

// Real models can be read.
func TestSharedModels(t *testing.T) {
	mnist, err := Open(testfiles.Shared(t, "onnx", "mnist.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	defer mnist.Close()
	if in := mnist.Inputs(); len(in) != 1 || in[0].Name != "Input3" || fmt.Sprint(in[0].Type.Dims) != "[1 1 28 28]" || in[0].Type.DType != FLOAT {
		t.Errorf("mnist inputs: %+v", in)
	}
	if out := mnist.Graph.Outputs; len(out) != 1 || fmt.Sprint(out[0].Type.Dims) != "[1 10]" {
		t.Errorf("mnist outputs: %+v", out)
	}
	if problems := mnist.Check(CheckOptions{}); len(problems) > 0 {
		t.Errorf("mnist: %v", problems)
	}
	if n := mnist.Operators()[[2]string{"", "Conv"}]; n != 2 || mnist.Parameters() < 5000 {
		t.Errorf("mnist: %d convolutions, %d parameters", n, mnist.Parameters())
	}
	for i := range mnist.Graph.Initializers {
		w := &mnist.Graph.Initializers[i]
		b, err := w.Bytes()
		if err != nil || int64(len(b)) != w.Elements()*int64(dtypes[w.DType].bits/8) {
			t.Errorf("%s: %d bytes for %v, %v", w.Name, len(b), w.Dims, err)
		}
	}

	squeeze, err := Open(testfiles.Shared(t, "onnx", "squeezenet_tensor_input.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	defer squeeze.Close()
	kinds := make(map[Kind]bool)
	for _, v := range squeeze.Graph.Outputs {
		kinds[v.Type.Kind] = true
	}
	if !kinds[TensorKind] || !kinds[SequenceKind] {
		t.Errorf("squeezenet outputs: %+v", squeeze.Graph.Outputs)
	}
	for _, p := range squeeze.Check(CheckOptions{}) {
		t.Errorf("squeezenet: %v", p)
	}
	cut, err := squeeze.Cut("fire9_concat")
	if err != nil {
		t.Fatal(err)
	}
	if len(cut.Graph.Nodes) >= len(squeeze.Graph.Nodes) || len(cut.Graph.Initializers) >= len(squeeze.Graph.Initializers) {
		t.Error("cut model is not smaller")
	}
	if problems := cut.Check(CheckOptions{}); len(problems) > 0 {
		t.Errorf("cut: %v", problems)
	}
}

func TestBytes(t *testing.T) {
	typed := func(d DType, dims []int64, field int, chunks ...[]byte) Tensor {
		return Tensor{Name: "t", DType: d, Dims: dims, field: field, fields: 1, typed: chunks}
	}
	for _, c := range []struct {
		t    Tensor
		want []byte
	}{
		{Floats("t", []int64{1}, []float32{1}), []byte{0, 0, 128, 63}},
		{typed(FLOAT, []int64{2}, floatData, []byte{0, 0, 128, 63}, []byte{0, 0, 0, 64}), []byte{0, 0, 128, 63, 0, 0, 0, 64}},
		{typed(INT8, []int64{2}, int32Data, appendVarint([]byte{5}, 1<<64-3)), []byte{5, 0xfd}},
		{typed(FLOAT16, []int64{1}, int32Data, appendVarint(nil, 0x3c00)), []byte{0, 0x3c}},
		{typed(INT4, []int64{3}, int32Data, []byte{0x21, 0x03}), []byte{0x21, 0x03}},
		{typed(INT64, []int64{1}, int64Data, appendVarint(nil, 1<<64-1)), []byte{255, 255, 255, 255, 255, 255, 255, 255}},
		{typed(UINT32, []int64{1}, uint64Data, []byte{7}), []byte{7, 0, 0, 0}},
		{typed(DOUBLE, []int64{1}, doubleData, []byte{1, 2, 3, 4, 5, 6, 7, 8}), []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{typed(COMPLEX64, []int64{1}, floatData, []byte{1, 2, 3, 4, 5, 6, 7, 8}), []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{Tensor{DType: FLOAT, Dims: []int64{0, 4}}, []byte{}},
	} {
		got, err := c.t.Bytes()
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%v %v: %v, %v; want %v", c.t.DType, c.t.Dims, got, err, c.want)
		}
	}
}

func TestCut(t *testing.T) {
	m := visionEncoder()
	cut, err := m.Cut("pooled")
	if err != nil {
		t.Fatal(err)
	}
	var ops, weights []string
	for _, n := range cut.Graph.Nodes {
		ops = append(ops, n.Op)
	}
	for _, w := range cut.Graph.Initializers {
		weights = append(weights, w.Name)
	}
	if diff := cmp.Diff([]string{"Cast", "Conv", "Relu", "AveragePool"}, ops); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"conv.w", "conv.b"}, weights); diff != "" {
		t.Error(diff)
	}
	if problems := cut.Check(CheckOptions{}); len(problems) > 0 {
		t.Error(problems)
	}
	if _, err := m.Cut("absent"); err == nil {
		t.Error("unknown result accepted")
	}
	// Values that a branch reads from the enclosing graph are needed.
	branch := func(from string) *Graph {
		return &Graph{Nodes: []Node{{Op: "Neg", Inputs: []string{from}, Outputs: []string{from + "_n"}}}, Outputs: []Value{{Name: from + "_n"}}}
	}
	m = New("g", 17)
	m.Graph = Graph{
		Inputs: []Value{TensorValue("c", BOOL), TensorValue("x", FLOAT), TensorValue("unused", FLOAT)},
		Nodes: []Node{
			{Op: "Abs", Inputs: []string{"x"}, Outputs: []string{"a"}},
			{Op: "Abs", Inputs: []string{"unused"}, Outputs: []string{"b"}},
			{Op: "If", Inputs: []string{"c"}, Outputs: []string{"y"}, Attributes: []Attribute{
				{Name: "then_branch", Type: AttrGraph, Graph: branch("a")}, {Name: "else_branch", Type: AttrGraph, Graph: branch("x")}}},
		},
	}
	cut, err = m.Cut("y")
	if err != nil || len(cut.Graph.Nodes) != 2 || len(cut.Graph.Inputs) != 2 {
		t.Errorf("%+v, %v", cut, err)
	}
}

type failing struct{ n int }

var errFull = errors.New("disk full")

func (w *failing) Write(p []byte) (int, error) {
	if len(p) > w.n {
		return w.n, errFull
	}
	w.n -= len(p)
	return len(p), nil
}

func TestWriteError(t *testing.T) {
	size := len(written(t, visionEncoder()))
	for n := 0; n < size; n += 101 {
		if _, err := Write(&failing{n}, visionEncoder()); !errors.Is(err, errFull) {
			t.Fatalf("disk of %d bytes: got %v", n, err)
		}
	}
}

func Example() {
	m := New("projector", 17)
	g := &m.Graph
	g.Inputs = []Value{TensorValue("features", FLOAT, 1, "T", 2)}
	w := g.Constant(Floats("w", []int64{2, 3}, []float32{1, 0, 1, 0, 1, 1}))
	g.Add("MatMul", []string{"features", w}, "embeddings")
	g.Outputs = []Value{TensorValue("embeddings", FLOAT, 1, "T", 3)}

	var file bytes.Buffer
	if _, err := Write(&file, m); err != nil {
		fmt.Println(err)
		return
	}
	read, err := Parse(file.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(read.Inputs()[0].Type.Dims, read.Operators(), read.Parameters(), read.Check(CheckOptions{}))
	// Output: [1 T 2] map[[ MatMul]:1] 6 []
}
