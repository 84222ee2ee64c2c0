package compile_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// fake is an engine that refuses some nodes, or computes something else.
type fake struct {
	left []ask.Node
	soc  uint32
	run  runtimes.Function // nil: zeros

	asked *qnn.Compilation // receives the request, unless nil
	unfit bool             // the compiled context does not open
}

func (f fake) Compile(_ context.Context, c qnn.Compilation) (qnn.Compiled, error) {
	if f.asked != nil {
		*f.asked = c
	}
	if len(f.left) > 0 {
		return qnn.Compiled{}, &qnn.Left{Nodes: f.left, All: 5}
	}
	out := qnn.Compiled{Context: filepath.Join(filepath.Dir(c.Out), "c.bin"), SoC: f.soc}
	return out, os.WriteFile(out.Context, []byte("context"), 0o644)
}

func (f fake) Open(_ context.Context, b runtimes.Bundle, _ runtimes.Limits) (runtimes.Model, error) {
	if f.unfit {
		path, err := b.Entry(abi.QNN)
		var list diag.List
		list.Add(diag.TargetMemory, diag.Pos{File: path}, "too large", "")
		return nil, errors.Join(err, fmt.Errorf("opening: %w", list.Err()))
	}
	if f.run != nil {
		return f.run, nil
	}
	return zeros{}, nil
}

// zeros returns a function that returns zeros.
type zeros struct{}

func (zeros) Close() error { return nil }

func (zeros) Run(_ context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	x := in["x"]
	return map[string]runtimes.Tensor{"y": {Type: x.Type, Shape: x.Shape, Data: make([]byte, len(x.Data))}}, nil
}

// chain is x → a → b → c → d → y, x [N, 4].
func chain(t *testing.T, dir string) string {
	t.Helper()
	m := onnx.New("chain", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", 4)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, "N", 4)}
	from := "x"
	for _, name := range []string{"a", "b", "c", "d", "y"} {
		from = m.Graph.Add("Tanh", []string{from}, name)
	}
	path := filepath.Join(dir, "chain.onnx")
	write(t, path, m)
	return path
}

func write(t *testing.T, path string, m *onnx.Model) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = onnx.Write(f, m)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func options(t *testing.T) compile.Options {
	t.Helper()
	chip, ok := htp.KnownChips().Named("SM8750")
	if !ok {
		t.Fatal("no SM8750")
	}
	dir := t.TempDir()
	model := chain(t, dir)
	m, err := onnx.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, err := drift.Noise(m, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	return compile.Options{Model: model, Chip: chip, Out: filepath.Join(dir, "out.bin"), Inputs: []map[string]engine.Tensor{in}}
}

// A failed compilation leaves no files and has an error code.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		engine fake
		change func(*compile.Options)
		code   diag.Code
		want   []string
	}{
		"refused in the middle":   {fake{left: []ask.Node{{Op: "Tanh", Name: "c"}}}, nil, diag.QNNRefused, []string{`node "c" (Tanh)`, "mm onnx cut", "--to b --out"}},
		"refused at first":        {fake{left: []ask.Node{{Op: "Tanh", Name: "a"}}}, nil, diag.QNNRefused, []string{"after them", "--from a --to y"}},
		"refused throughout":      {fake{left: []ask.Node{{Op: "Tanh", Name: "other"}}}, nil, diag.QNNRefused, []string{"remove them"}},
		"nothing taken in floats": {fake{left: slices.Repeat([]ask.Node{{Op: "Tanh", Name: "a"}}, 5)}, nil, diag.QNNRefused, []string{"--precision w8a8"}},
		"integers around it": {fake{left: []ask.Node{{Op: "QuantizeLinear", Name: "b_quantised"}, {Op: "Tanh", Name: "c"}, {Op: "DequantizeLinear", Name: "c"}}},
			func(o *compile.Options) { o.Precision = compile.W8A8 }, diag.QNNRefused, []string{`node "c" (Tanh)`, "--to b --out"}},
		"another result":        {fake{soc: 69}, func(o *compile.Options) { o.MinCosine = 0.5 }, diag.QNNDrift, []string{`output "y"`, "at least 0.5"}},
		"another chip":          {fake{soc: 57}, nil, "", []string{"got 57, want SM8750"}},
		"bits":                  {fake{}, func(o *compile.Options) { o.Precision = "w4a4" }, "", []string{"w4a4"}},
		"no inputs":             {fake{}, func(o *compile.Options) { o.Inputs = nil }, "", []string{"missing calibration inputs"}},
		"kept floats of floats": {fake{}, func(o *compile.Options) { o.Keep = []string{"a"} }, "", []string{"nothing is quantized"}},
	} {
		opt := options(t)
		if c.change != nil {
			c.change(&opt)
		}
		_, err := compile.Compile(t.Context(), c.engine, opt)
		if err == nil {
			t.Errorf("%s: it compiled", name)
			continue
		}
		text := err.Error()
		if list, ok := diag.From(err); ok {
			text = list[0].Detail + list[0].Hint
			if list[0].Code != c.code {
				t.Errorf("%s: code %s", name, list[0].Code)
			}
		} else if c.code != "" {
			t.Errorf("%s: no diagnostic: %v", name, err)
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %s lacks %q", name, text, w)
			}
		}
		if left, _ := os.ReadDir(filepath.Dir(opt.Out)); len(left) != 1 {
			t.Errorf("%s left %v", name, left)
		}
	}
}

// logs is y = Tanh(x), l = Log(Relu(x)), on x of -1 and 1: l is -Inf and 0.
func logs(t *testing.T) compile.Options {
	t.Helper()
	opt := options(t)
	m := onnx.New("logs", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 2), onnx.TensorValue("l", onnx.FLOAT, 2)}
	m.Graph.Add("Tanh", []string{"x"}, "y")
	m.Graph.Add("Log", []string{m.Graph.Add("Relu", []string{"x"}, "r")}, "l")
	write(t, opt.Model, m)
	opt.Inputs = []map[string]engine.Tensor{{"x": tensor([]float32{-1, 1}, 2)}}
	return opt
}

// given returns a function that returns separate numbers for y and l.
type given struct{ y, l []float32 }

func (given) Close() error { return nil }

func (g given) Run(context.Context, map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	out := map[string]runtimes.Tensor{}
	for name, v := range map[string][]float32{"y": g.y, "l": g.l} {
		out[name] = runtimes.Tensor{Type: runtimes.ElemOf(onnx.FLOAT), Shape: []int64{2}, Data: tensor(v, 2).Data}
	}
	return out, nil
}

// What is infinite or no number in one output only is told of that output, even
// where any cosine would do, and nothing is written.
func TestInfinite(t *testing.T) {
	y, inf := []float32{-0.7615942, 0.7615942}, float32(math.Inf(1))
	for want, l := range map[string][]float32{
		`output "l": element 0: -Inf before, NaN after`:    {float32(math.NaN()), 0},
		`output "l": element 0: -Inf before, -65504 after`: {-65504, 0},
		`output "l": element 0: -Inf before, +Inf after`:   {inf, 0},
	} {
		opt := logs(t)
		_, err := compile.Compile(t.Context(), fake{soc: 69, run: given{y, l}}, opt)
		list, ok := diag.From(err)
		if !ok || list[0].Code != diag.QNNDrift || list[0].Detail != want {
			t.Errorf("%v, want %s", err, want)
		}
		if left, _ := os.ReadDir(filepath.Dir(opt.Out)); len(left) != 1 {
			t.Errorf("%s: left %v", want, left)
		}
	}
	opt := logs(t)
	opt.MinCosine = 0.999
	made, err := compile.Compile(t.Context(), fake{soc: 69, run: given{y, []float32{-inf, 0}}}, opt)
	if list, ok := diag.From(err); ok && list[0].Code == diag.QNNDrift || made.Record.Cosine != 1 {
		t.Errorf("equal infinities: %v, cosine %v", err, made.Record.Cosine)
	}
}

// A job of a build has a minimum cosine; the default depends on its precision.
func TestLeast(t *testing.T) {
	for _, c := range []struct {
		job  compile.Job
		want float64
	}{
		{compile.Job{}, 0.99}, {compile.Job{Precision: "fp16"}, 0.99}, {compile.Job{Precision: "w8a16"}, 0.99}, {compile.Job{Precision: "w8a8"}, 0.98},
		{compile.Job{Language: true}, 0.9}, {compile.Job{Precision: "w8a8", MinCosine: new(0.0)}, 0}, {compile.Job{Language: true, MinCosine: new(0.999)}, 0.999},
	} {
		if got := compile.Least(c.job); got != c.want {
			t.Errorf("%+v: %v, want %v", c.job, got, c.want)
		}
	}
}

// The worst output counts, at any position, and a NaN cosine
// is worse than any.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		cosines []float64
		least   float64
		fits    bool
	}{
		{[]float64{1, 0.98}, 0.99, false},
		{[]float64{1, 0.98}, 0.98, true},
		{[]float64{1, -0.5}, 0, true},
		{[]float64{1, math.NaN()}, 0.99, false},
		{[]float64{1, math.NaN(), 0.999}, 0.99, false},
		{[]float64{1, math.NaN()}, 0, false},
	} {
		r := compile.Record{}
		for i, v := range c.cosines {
			r.Outputs = append(r.Outputs, compile.Output{Name: string(rune('a' + i)), Cosine: v})
		}
		err := compile.Judge(&r, compile.Options{MinCosine: c.least})
		if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), `output "b"`) {
			t.Errorf("%v, at least %v: %v", c.cosines, c.least, err)
		}
	}
}

// Nothing is started for a chip without an NPU, nor for one whose NPU is not known
// to compute in floats, where any are left.
func TestChip(t *testing.T) {
	for _, c := range []struct {
		chip      string
		precision compile.Precision
		keep      []string
		want      string // "": it is compiled
	}{
		{"SM8250", compile.W8A8, nil, "SM8250 (v66) has a DSP and no HTP"},
		{"SM8250", compile.FP16, nil, "SM8250 (v66) has a DSP and no HTP"},
		{"SM8350", compile.FP16, nil, "16-bit floats are unproven on the HTP of SM8350 (v68)"},
		{"SM8350", "", nil, "16-bit floats are unproven on the HTP of SM8350 (v68)"},
		{"SM8350", compile.W8A8, []string{"first"}, "1 nodes of Relu stay in floats"},
		{"SM8350", compile.W8A8, nil, ""},
		{"SM8450", compile.FP16, nil, ""},
	} {
		opt := product(t)
		opt.Chip, _ = htp.KnownChips().Named(c.chip)
		opt.Precision, opt.Keep = c.precision, c.keep
		started := false
		opt.Begin = func(s compile.Stage) { started = started || s == compile.StageCompile }
		_, err := compile.Compile(t.Context(), fake{soc: opt.Chip.Model}, opt)
		list, ok := diag.From(err)
		refused := ok && list[0].Code == diag.QNNChip
		if started != (c.want == "") || refused == (c.want == "") || refused && (!strings.Contains(list[0].Detail, c.want) || list[0].Hint == "") {
			t.Errorf("%s, %s: started %v, %v", c.chip, c.precision, started, err)
		}
	}
	chip, _ := htp.KnownChips().Named("SM8350")
	_, err := compile.Language(t.Context(), fake{}, compile.LanguageOptions{Model: "none.gguf", Chip: chip, Out: "none.bin"})
	if list, ok := diag.From(err); !ok || list[0].Code != diag.QNNChip {
		t.Errorf("a language model: %v", err)
	}
}

// A chip with less memory than the compiler lays graphs out for is compiled for
// with what it has.
func TestMemory(t *testing.T) {
	for name, want := range map[string]map[string]string{"SSG2115P": {"vtcm_mb": "2"}, "SM8350": nil, "SM8750": nil, "SM8635": nil} {
		opt, asked := product(t), qnn.Compilation{}
		opt.Precision = compile.W8A8
		opt.Chip, _ = htp.KnownChips().Named(name)
		_, err := compile.Compile(t.Context(), fake{soc: opt.Chip.Model, asked: &asked}, opt)
		if d := cmp.Diff(want, asked.Options, cmpopts.EquateEmpty()); asked.SoC != int(opt.Chip.Model) || d != "" {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
}

// A context that does not open is gone when that is read: the model is named.
func TestUnfit(t *testing.T) {
	opt := options(t)
	_, err := compile.Compile(t.Context(), fake{soc: 69, unfit: true}, opt)
	if list, ok := diag.From(err); !ok || len(list) != 1 || list[0].Code != diag.TargetMemory || list[0].Pos.File != opt.Model {
		t.Errorf("%v", err)
	}
}

// product is y = Relu(x)·w, the nodes called first and second.
func product(t *testing.T) compile.Options {
	t.Helper()
	opt := options(t)
	m := onnx.New("product", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2, 2)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 2, 2)}
	m.Graph.Add("MatMul", []string{m.Graph.Add("Relu", []string{"x"}, "r"), m.Graph.Constant(onnx.Floats("w", []int64{2, 2}, []float32{1, 2, -1, 1}))}, "y")
	m.Graph.Nodes[0].Name, m.Graph.Nodes[1].Name = "first", "second"
	write(t, opt.Model, m)
	opt.Inputs = []map[string]engine.Tensor{{"x": tensor([]float32{-1, 1, 2, 3}, 2, 2)}}
	return opt
}

// A name that the model around the context cannot hold is refused before anything is
// compiled or generated.
func TestColon(t *testing.T) {
	opt := options(t)
	opt.Out = filepath.Join(t.TempDir(), "a:b.bin")
	opt.Begin = func(s compile.Stage) { t.Errorf("stage %s began", s) }
	if _, err := compile.Compile(t.Context(), fake{soc: 69}, opt); err == nil || !strings.Contains(err.Error(), "holds a colon") {
		t.Error(err)
	}
	if _, err := compile.Language(t.Context(), fake{}, compile.LanguageOptions{Model: "none.gguf", Chip: opt.Chip, Out: opt.Out}); err == nil || !strings.Contains(err.Error(), "holds a colon") {
		t.Errorf("a language model: %v", err)
	}
}

func TestExists(t *testing.T) {
	opt := options(t)
	if err := os.WriteFile(opt.Out, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := compile.Compile(t.Context(), fake{soc: 69}, opt); !errors.Is(err, compile.ErrExists) {
		t.Errorf("%v", err)
	}
	if got, err := fsx.ReadFile(opt.Out, 10); string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
}

// A golden array that is flat is taken in the shape of the model, in a folder
// and in an archive; what does not fit is named.
func TestSamples(t *testing.T) {
	model := filepath.FromSlash("../../catalog/vision-enc/vision_enc.onnx")
	sets, err := compile.Samples(model, []string{filepath.FromSlash("../../catalog/vision-enc/golden")})
	if err != nil || len(sets) != 5 {
		t.Fatalf("%d sets, %v", len(sets), err)
	}
	for i, set := range sets { // one of noise, four of pictures
		if len(set["image"].Data) != 4*128*128*3 {
			t.Errorf("set %d has %d bytes", i, len(set["image"].Data))
		}
	}
	if _, err := compile.Samples(model, []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "image") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := compile.Samples(model, []string{model}); err == nil || !strings.Contains(err.Error(), ".npz") {
		t.Errorf("no archive: %v", err)
	}
}

// Numbers in another order of the axes are refused, not taken for those of the
// model: images whose channels are last.
func TestFit(t *testing.T) {
	m := onnx.New("m", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", 3, 4, 8)}
	for _, c := range []struct {
		given, want []int
		refusal     string
	}{
		{[]int{1, 3, 4, 8}, []int{1, 3, 4, 8}, ""},
		{[]int{2, 3, 4, 8}, []int{2, 3, 4, 8}, ""},
		{[]int{3, 4, 8}, []int{1, 3, 4, 8}, ""},
		{[]int{1, 3, 1, 4, 8, 1}, []int{1, 3, 4, 8}, ""},
		{[]int{96}, []int{1, 3, 4, 8}, ""},
		{[]int{1, 12, 8}, []int{1, 3, 4, 8}, ""},
		{[]int{3, 32}, []int{1, 3, 4, 8}, ""},
		{[]int{1, 4, 8, 3}, nil, "got [1 4 8 3], want [N 3 4 8] (equal size, but other axes)"},
		{[]int{32, 3}, nil, "other axes"},
		{[]int{1, 8, 3, 4}, nil, "other axes"},
		{[]int{3, 2, 2, 8}, nil, "other axes"},
		{[]int{1, 3, 4, 4}, nil, "got [1 3 4 4], want [N 3 4 8]"},
	} {
		n := 1
		for _, d := range c.given {
			n *= d
		}
		out, err := compile.Fit(m, []map[string]engine.Tensor{{"x": tensor(make([]float32, n), c.given...)}})
		switch {
		case c.refusal != "":
			if err == nil || !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("%v: %v, want %q", c.given, err, c.refusal)
			}
		case err != nil || !slices.Equal(out[0]["x"].Shape, c.want):
			t.Errorf("%v: %v, %v", c.given, out, err)
		}
	}
}
