package loose_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/qdq"
	"mm-abi.org/mm/workspace/loose"
)

// ort is ONNX Runtime in a Python process.
type ort struct {
	in  io.Writer
	out *bufio.Reader
}

func startORT(t *testing.T) *ort {
	t.Helper()
	cmd := exec.Command(testfiles.Python(t, "onnxruntime", "numpy"), filepath.Join("testdata", "ort.py"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &ort{in, bufio.NewReader(out)}
}

func (o *ort) ask(t *testing.T, into any, words ...string) {
	t.Helper()
	fmt.Fprintln(o.in, strings.Join(words, " "))
	line, err := o.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, into)
	}
	if err != nil {
		t.Fatalf("ONNX Runtime: %v: %s", err, line)
	}
}

// models are the available real models.
func models(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{
		filepath.Join(testfiles.Root(t), "catalog", "*", "*.onnx"),
		filepath.Join(filepath.Dir(testfiles.Root(t)), "shared", "data", "onnx", "*.onnx"),
		filepath.Join(os.Getenv("MM_MODELS_DIR"), "*", "*.onnx"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// The inputs and outputs of real models are those that ONNX Runtime reports.
func TestPorts(t *testing.T) {
	o := startORT(t)
	count := 0
	for _, path := range models(t) {
		v, err := loose.Inspect(t.Context(), path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var want [2][][3]any
		o.ask(t, &want, "ports", path)
		for i, mine := range [][]loose.Port{v.ONNX.Inputs, v.ONNX.Outputs} {
			if len(mine) != len(want[i]) {
				t.Errorf("%s: %d ports, ONNX Runtime says %d", path, len(mine), len(want[i]))
				continue
			}
			for k, p := range mine {
				if theirs := want[i][k]; !same(p, theirs) {
					t.Errorf("%s: %+v, ONNX Runtime says %v", path, p, theirs)
				}
				count++
			}
		}
	}
	t.Logf("%d ports of %d models", count, len(models(t)))
}

// types are ONNX Runtime's names.
var types = map[string]string{"float32": "tensor(float)", "float16": "tensor(float16)", "int64": "tensor(int64)", "uint8": "tensor(uint8)", "string": "tensor(string)"}

func same(p loose.Port, theirs [3]any) bool {
	if p.Name != theirs[0] {
		return false
	}
	if p.Kind != "tensor" {
		return p.Kind == "sequence" && strings.HasPrefix(theirs[1].(string), "seq(")
	}
	if types[p.DType] != theirs[1] {
		return false
	}
	dims, _ := theirs[2].([]any)
	if len(dims) != len(p.Shape) {
		return false
	}
	for i, d := range dims {
		if mine := p.Shape[i]; d == nil && mine != "?" || d != nil && fmt.Sprint(d) != mine {
			return false
		}
	}
	return true
}

// npy is NumPy's file of a tensor of float32.
func npy(t engine.Tensor) []byte {
	dims := ""
	for _, d := range t.Shape {
		dims += fmt.Sprintf("%d,", d)
	}
	descr := map[onnx.DType]string{onnx.FLOAT: "<f4", onnx.INT64: "<i8"}[t.Type]
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, dims)
	out := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(head)))...)
	return append(append(out, head...), t.Data...)
}

// run is ONNX Runtime's result for one output.
func (o *ort) run(t *testing.T, model, output string, names []onnx.Value, in map[string]engine.Tensor) []byte {
	t.Helper()
	dir := t.TempDir()
	for i, v := range names {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("in%d.npy", i)), npy(in[v.Name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var ok any
	o.ask(t, &ok, "run", model, dir, output)
	if ok != "ok" {
		t.Fatalf("%s: %v", model, ok)
	}
	data, err := os.ReadFile(filepath.Join(dir, "out.npy"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// shared is a model of ../shared/data/onnx.
func shared(t *testing.T, name string) string { return testfiles.Shared(t, "onnx", name) }

// A part cut out of a model computes the value of the complete model, in
// our engine and in ONNX Runtime.
func TestCutRuns(t *testing.T) {
	o := startORT(t)
	for name, c := range map[string]struct {
		path, to string
		shapes   map[string][]int
		cosine   float64
	}{
		"SqueezeNet": {shared(t, "squeezenet_tensor_input.onnx"), "fire9_concat", nil, 0.99999},
		"PP-OCR rec": {testfiles.Models(t, "ocr", "ch_PP-OCRv4_rec_infer.onnx"), "transpose_51.tmp_0", map[string][]int{"x": {1, 3, 48, 320}}, 0.99999},
	} {
		full, err := loose.Open(c.path, loose.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		cut, err := full.Cut(c.to)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		part := filepath.Join(dir, "part.onnx")
		if _, err := loose.Write(part, cut, false); err != nil {
			t.Fatal(err)
		}
		if list, err := loose.Check(t.Context(), part, loose.Options{Core: true}); err != nil || len(list) > 0 {
			t.Fatalf("%s: %v, %v", name, list, err)
		}
		in, err := drift.Noise(cut, c.shapes, 7)
		if err != nil {
			t.Fatal(err)
		}
		shared := full.Share() // with the value as an output
		shared.Graph.Outputs = append(slices.Clone(shared.Graph.Outputs), onnx.Value{Name: c.to})
		path := filepath.Join(dir, "whole.onnx")
		if _, err := loose.Write(path, shared, false); err != nil {
			t.Fatal(err)
		}
		want := o.run(t, path, c.to, cut.Inputs(), in)
		if !bytes.Equal(want, o.run(t, part, c.to, cut.Inputs(), in)) {
			t.Errorf("%s: ONNX Runtime gives the part other values than the whole", name)
		}
		p, err := engine.Compile(t.Context(), cut, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		mine, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := drift.Read(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := mine[c.to]; !slices.Equal(got.Shape, ref.Shape) || cosine(got, ref) < c.cosine {
			t.Errorf("%s: %v here, %v there, cosine %v", name, got.Shape, ref.Shape, cosine(got, ref))
		} else {
			t.Logf("%s: %v, cosine %.7f with ONNX Runtime's value in the whole", name, got.Shape, cosine(got, ref))
		}
	}
}

// The weights of real models become a quarter, the results stay near, and ONNX
// Runtime returns the results of mm's engine.
func TestQuantise(t *testing.T) {
	o := startORT(t)
	rec := testfiles.Models(t, "ocr", "ch_PP-OCRv4_rec_infer.onnx")
	for _, c := range []struct {
		path   string
		shapes map[string][]int
		most   int64   // bytes
		drift  float64 // 1 less the cosine
		agree  float64
	}{
		{rec, map[string][]int{"x": {1, 3, 48, 320}}, 2_900_000, 0.01, 0.99},
		{testfiles.Models(t, "oww", "embedding_model.onnx"), nil, 360_000, 0.0005, 0.9},
		{testfiles.Models(t, "vad", "silero_vad_v5.onnx"), map[string][]int{"input": {1, 576}, "state": {2, 1, 128}}, 1_500_000, 0.01, 0.4}, // weights in branches
		{testfiles.Models(t, "ocr", "ch_PP-OCRv4_det_infer.onnx"), map[string][]int{"x": {1, 3, 320, 320}}, 1_330_000, 0.2, 0.5},
	} {
		m, err := loose.Open(c.path, loose.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		golden := loose.Golden{Samples: 2, Shapes: c.shapes}
		vad := strings.Contains(c.path, "silero")
		if vad { // noise is not a valid sampling rate
			golden.Inputs = files(t, m, c.shapes)
		}
		small, q, err := loose.Quantize(t.Context(), c.path, m, loose.QuantOptions{Golden: golden})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := onnx.Write(&b, small); err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		twice, _, err := qdq.QuantizeWeights(m, qdq.WeightOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := onnx.Write(&again, twice); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Errorf("%s: quantised again it is another file (%v)", c.path, err)
		}
		for _, o := range q.Outputs {
			t.Logf("%s: %d -> %d bytes, cosine %.6f, %d of %d agree", filepath.Base(c.path), m.Size(), b.Len(), o.Cosine, o.Agree, o.Rows)
			if 1-o.Cosine > c.drift || float64(o.Agree) < c.agree*float64(o.Rows) {
				t.Errorf("too far")
			}
		}
		if int64(b.Len()) > c.most {
			t.Errorf("%s: %d bytes, not %d", c.path, b.Len(), c.most)
		}
		path := place(t, b.Bytes())
		if list, err := loose.Check(t.Context(), path, loose.Options{Core: true}); err != nil || len(list) > 0 {
			t.Errorf("%s: %v, %v", c.path, list, err)
		}
		against(t, o, path, small, c.shapes)
		v, err := loose.Inspect(t.Context(), path)
		if err != nil || !vad && v.Quant != "int8" || !vad && fmt.Sprint(v.ONNX.Quantization) != "{[weights] [int8] [] true}" {
			t.Errorf("%s: %s, %+v, %v", c.path, v.Quant, v.ONNX.Quantization, err)
		}
	}
}

// against runs a model here and on ONNX Runtime.
func against(t *testing.T, o *ort, path string, m *onnx.Model, shapes map[string][]int) {
	t.Helper()
	in := noise(t, m, shapes)
	p, err := engine.Compile(t.Context(), m, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	mine, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	name := p.Outputs()[0]
	ref, err := drift.Read(o.run(t, path, name, m.Inputs(), in))
	if err != nil {
		t.Fatal(err)
	}
	if c := cosine(mine[name], ref); c < 0.9999 {
		t.Errorf("%s: cosine %v with ONNX Runtime", name, c)
	}
}

// noise is noise, at a sampling rate that there is.
func noise(t *testing.T, m *onnx.Model, shapes map[string][]int) map[string]engine.Tensor {
	t.Helper()
	in, err := drift.Noise(m, shapes, 5)
	if err != nil {
		t.Fatal(err)
	}
	if sr, ok := in["sr"]; ok {
		binary.LittleEndian.PutUint64(sr.Data, 16000)
	}
	return in
}

// files are .npy files of it.
func files(t *testing.T, m *onnx.Model, shapes map[string][]int) map[string]string {
	t.Helper()
	dir, out := t.TempDir(), make(map[string]string)
	for name, v := range noise(t, m, shapes) {
		out[name] = filepath.Join(dir, name+".npy")
		if err := os.WriteFile(out[name], npy(v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// cosine returns the cosine of two tensors of float32; 0 if they cannot be
// compared.
func cosine(a, b engine.Tensor) float64 {
	var ab, aa, bb float64
	if a.Type != onnx.FLOAT || b.Type != onnx.FLOAT || len(a.Data) != len(b.Data) {
		return 0
	}
	for i := 0; i < len(a.Data); i += 4 {
		x := float64(math.Float32frombits(binary.LittleEndian.Uint32(a.Data[i:])))
		y := float64(math.Float32frombits(binary.LittleEndian.Uint32(b.Data[i:])))
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}
