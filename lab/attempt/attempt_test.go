package attempt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

const coreLLM = "../../catalog/core-llm/core-llm.gguf"

// compiler replaces Qualcomm's libraries and fails with err.
type compiler struct {
	runtimes.Engine
	err   error
	calls int
}

func (c *compiler) Compile(context.Context, qnn.Compilation) (qnn.Compiled, error) {
	c.calls++
	return qnn.Compiled{}, c.err
}

// absent is an engine that is not available.
type absent struct{ runtimes.Engine }

func (absent) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{}, &runtimes.Unavailable{What: "backend onnxruntime", Why: "it is not installed"}
}

// doubled is mm's own engine under another name, with wrong results.
type doubled struct{ engines.ONNX }

func (doubled) Name() string { return "doubled" }

func (d doubled) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	m, err := d.ONNX.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return turned{m.(runtimes.Function)}, nil
}

type turned struct{ runtimes.Function }

func (f turned) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	out, err := f.Function.Run(ctx, in)
	for _, t := range out {
		for i := 3; i < len(t.Data)/2; i += 4 {
			t.Data[i] ^= 0x80 // the signs of one half
		}
	}
	return out, err
}

// small writes an ONNX file with y = x + x and returns its path.
func small(t *testing.T, dir string) string {
	t.Helper()
	m := onnx.New("small", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 64)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 64)}
	m.Graph.Add("Add", []string{"x", "x"}, "y")
	path := filepath.Join(dir, "small.onnx")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = onnx.Write(f, m)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// read writes a matrix and reads it.
func read(t *testing.T, m Matrix) (Matrix, error) {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "matrix.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return Read(path, htp.KnownChips())
}

func options(t *testing.T, npu *compiler) Options {
	now := time.Time{}
	return Options{
		Records: filepath.Join(t.TempDir(), "records.jsonl"), ONNX: engines.ONNX{}, ORT: absent{}, NPU: npu, Chips: htp.KnownChips(),
		Now:     func() time.Time { now = now.Add(time.Second); return now },
		Command: func(cell string) string { return "try " + cell },
	}
}

// results returns stage and result of each row of a table, by scope, target and backend.
func results(t *testing.T, m Matrix, path string) map[string]string {
	t.Helper()
	list, err := records.Read[judge.Record](path)
	if err != nil {
		t.Fatal(err)
	}
	table, err := m.Table(list)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range table.Rows {
		got[r.Scope+" "+r.Target+" "+r.Backend] = r.Stage + " " + r.Result
	}
	return got
}

// A matrix is filled cell by cell: cells without an attempt are not run, cells without an
// engine are skipped, and cells that the compiler refuses list its operators. None of these
// is ok. The next call tries only the rest.
func TestFill(t *testing.T) {
	m, err := read(t, Matrix{Model: "m", Targets: []string{Core, ONNX, ORT, "SM8650/fp16", "SM8650/w8a8"}, Scopes: []Scope{
		{Name: "small", ONNX: small(t, t.TempDir())}, {Name: "all", GGUF: coreLLM, Positions: 8}, {Name: "one", GGUF: coreLLM, Layers: &[2]int{1, 2}, Positions: 4},
	}})
	if err != nil {
		t.Fatal(err)
	}
	npu := &compiler{err: &qnn.Left{Nodes: []ask.Node{{Name: "n", Op: "TopK"}, {Name: "o", Op: "TopK"}}, All: 8, Why: "no"}}
	opt := options(t, npu)
	opt.Only = []string{"small", "all/core", "one/onnx"}
	if n, err := m.Fill(t.Context(), opt); err != nil || n != 7 {
		t.Fatalf("%d, %v", n, err)
	}
	want := map[string]string{
		"small host core": "measured unsupported", "small host onnx": "measured ok", "small host onnxruntime": "not-measured skipped",
		"small SM8650/fp16 qnn (emulated)": "simulated unsupported", "small SM8650/w8a8 qnn (emulated)": "not-measured skipped",
		"all host core": "measured ok", "all host onnx": "none not run", "all host onnxruntime": "none not run",
		"all SM8650/fp16 qnn (emulated)": "none not run", "all SM8650/w8a8 qnn (emulated)": "none not run",
		"one host core": "none not run", "one host onnx": "measured ok", "one host onnxruntime": "none not run",
		"one SM8650/fp16 qnn (emulated)": "none not run", "one SM8650/w8a8 qnn (emulated)": "none not run",
	}
	if diff := cmp.Diff(want, results(t, m, opt.Records)); diff != "" {
		t.Error(diff)
	}
	list, err := records.Read[judge.Record](opt.Records)
	if err != nil {
		t.Fatal(err)
	}
	refused := list[3]
	if refused.Reached != "compile" || *refused.Delegate != 0.75 || len(refused.Unsupported) != 1 || refused.Unsupported[0] != "TopK" || !strings.Contains(refused.Failure, "MM1103") && !strings.Contains(refused.Failure, "TopK") {
		t.Errorf("%+v", refused)
	}
	if core := list[5]; core.Scope != "all" || *core.Cosine < 0.99 || *core.Cosine >= 1 || core.Weights == "" || core.Layers[1] != core.ModelLayers || core.Command != "try all/core" || core.Seconds != 1 {
		t.Errorf("%+v", core)
	}
	if one := list[6]; *one.Layers != [2]int{1, 2} || one.ModelLayers != 4 {
		t.Errorf("%+v", one)
	}
	// Again: only what was skipped, and the rest of the selection.
	if n, err := m.Fill(t.Context(), opt); err != nil || n != 2 || npu.calls != 1 {
		t.Errorf("%d cells, %d compilations, %v", n, npu.calls, err)
	}
	opt.Again, opt.Only = true, []string{"small/SM8650/fp16"}
	if n, err := m.Fill(t.Context(), opt); err != nil || n != 1 || npu.calls != 2 {
		t.Errorf("%d cells, %d compilations, %v", n, npu.calls, err)
	}
	opt.Only = []string{"small/SM8550/fp16"}
	if _, err := m.Fill(t.Context(), opt); err == nil || !strings.Contains(err.Error(), `unknown cell "small/SM8550/fp16"`) {
		t.Error(err)
	}
}

// A stopped call leaves no record of its present cell, and the next call tries it.
func TestStopped(t *testing.T) {
	m, err := read(t, Matrix{Model: "m", Targets: []string{ONNX, Core}, Scopes: []Scope{{Name: "small", ONNX: small(t, t.TempDir())}}})
	if err != nil {
		t.Fatal(err)
	}
	opt := options(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	opt.Begin = func(cell, stage string) {
		if cell == "small/core" {
			cancel()
		}
	}
	if n, err := m.Fill(ctx, opt); !errors.Is(err, context.Canceled) || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if got := results(t, m, opt.Records); got["small host core"] != "none not run" || got["small host onnx"] != "measured ok" {
		t.Errorf("%v", got)
	}
	if n, err := m.Fill(t.Context(), opt); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
}

// A record does not count for changed files or scopes.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	path := small(t, dir)
	scopes := []Scope{{Name: "small", ONNX: path}}
	m, err := read(t, Matrix{Model: "m", Targets: []string{ONNX}, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	opt := options(t, nil)
	if _, err := m.Fill(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	if got := results(t, m, opt.Records); got["small host onnx"] != "measured ok" {
		t.Fatal(got)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, 0x40, 1), 0o644); err != nil { // an unknown field
		t.Fatal(err)
	}
	if got := results(t, m, opt.Records); got["small host onnx"] != "none not run" {
		t.Errorf("changed file: %v", got)
	}
}

// An engine with different numbers is not ok.
func TestUnlike(t *testing.T) {
	m, err := read(t, Matrix{Model: "m", Targets: []string{ORT}, Scopes: []Scope{{Name: "small", ONNX: small(t, t.TempDir())}}})
	if err != nil {
		t.Fatal(err)
	}
	opt := options(t, nil)
	opt.ORT = doubled{}
	if _, err := m.Fill(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	list, err := records.Read[judge.Record](opt.Records)
	if err != nil || len(list) != 1 || list[0].Result != judge.Failed || list[0].Reached != "compare" || !strings.Contains(list[0].Failure, "want at least 0.999") || *list[0].Cosine > 0.9 {
		t.Errorf("%+v, %v", list, err)
	}
}

// mm's own engine is compared with the golden outputs beside the inputs, also if the folder
// holds more inputs.
func TestGolden(t *testing.T) {
	dir := "../../catalog/vision-proj"
	for _, inputs := range []string{dir + "/golden", withArchive(t, dir+"/golden")} {
		m, err := read(t, Matrix{Model: "m", Targets: []string{ONNX}, Scopes: []Scope{{Name: "proj", ONNX: dir + "/vision_proj.onnx", Inputs: []string{inputs}}}})
		if err != nil {
			t.Fatal(err)
		}
		opt := options(t, nil)
		if _, err := m.Fill(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		list, err := records.Read[judge.Record](opt.Records)
		if err != nil || len(list) != 1 || list[0].Reference != "golden" || list[0].Result != judge.OK || *list[0].Cosine < 0.9999 {
			t.Errorf("%s: %+v, %v", inputs, list, err)
		}
	}
}

// withArchive copies a golden folder and adds an archive of other inputs.
func withArchive(t *testing.T, golden string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(golden)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "patch_tokens.npy"))
	if err != nil {
		t.Fatal(err)
	}
	x, err := npy.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := 3; i < len(x.Data); i += 4 {
		x.Data[i] ^= 0x80 // the sign
	}
	if b, err = npy.EncodeArchive(map[string]*npy.Array{"patch_tokens": x}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other.npz"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A recorded error has at most maxFailure bytes, and a golden file of more than maxGolden bytes is not read.
func TestLimits(t *testing.T) {
	for n, want := range map[int]int{maxFailure: maxFailure, maxFailure + 1: maxFailure} {
		if got := brief(errors.New(strings.Repeat("x", n))); len(got) != want {
			t.Errorf("maxFailure: %d bytes become %d", n, len(got))
		}
	}
	dir := t.TempDir()
	x, err := npy.Encode(&npy.Array{Type: "f4", Shape: []int{1, 64}, Data: make([]byte, 256)})
	if err != nil {
		t.Fatal(err)
	}
	s := Scope{Name: "small", ONNX: small(t, dir), Inputs: []string{filepath.Join(dir, "golden")}}
	for name, size := range map[string]int64{"x.npy": int64(len(x)), "y.npy": maxGolden + 1} {
		path := filepath.Join(s.Inputs[0], name)
		if err := errors.Join(os.MkdirAll(s.Inputs[0], 0o700), os.WriteFile(path, x, 0o600), os.Truncate(path, size)); err != nil { // sparse
			t.Fatal(err)
		}
	}
	for _, golden := range []bool{false, true} {
		sub, err := open(t.Context(), s)
		if err != nil || (sub.golden != nil) != golden {
			t.Fatalf("maxGolden: %+v, %v", sub, err)
		}
		if err := errors.Join(sub.close(), os.Truncate(filepath.Join(s.Inputs[0], "y.npy"), int64(len(x)))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMatrixFaults(t *testing.T) {
	good := func() Matrix {
		return Matrix{Model: "m", Targets: []string{ONNX}, Scopes: []Scope{{Name: "a", ONNX: "a.onnx"}}}
	}
	for want, change := range map[string]func(*Matrix){
		"missing model":         func(m *Matrix) { m.Model = "" },
		"duplicate scope a":     func(m *Matrix) { m.Scopes = append(m.Scopes, m.Scopes[0]) },
		"name must not":         func(m *Matrix) { m.Scopes[0].Name = "a/b" },
		"either onnx or gguf":   func(m *Matrix) { m.Scopes[0].GGUF = "x" },
		"require gguf":          func(m *Matrix) { m.Scopes[0].Layers = &[2]int{0, 1} },
		"duplicate target onnx": func(m *Matrix) { m.Targets = []string{ONNX, ONNX} },
		`unknown target "tpu"`:  func(m *Matrix) { m.Targets[0] = "tpu" },
		`unknown chip "SM1"`:    func(m *Matrix) { m.Targets[0] = "SM1/fp16" },
		"missing precision":     func(m *Matrix) { m.Targets[0] = "SM8650/" },
		"unknown precision":     func(m *Matrix) { m.Targets[0] = "SM8650/w4" },
	} {
		m := good()
		change(&m)
		if _, err := read(t, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := read(t, good()); err != nil {
		t.Error(err)
	}
}

// seeded writes a core of random weights and returns its path.
func seeded(t *testing.T, shape arch.Shape) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "core")
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core", Shape: &shape}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "core.gguf")
}

func shapeOf(name string) arch.Shape {
	s := arch.Shape{
		Arch: name, Context: 128, Layers: 3, Width: 64, Heads: 4, KVHeads: 2, HeadDim: 16, Hidden: 96, Epsilon: 1e-5,
		Rope: arch.Rope{Dims: 16, Base: 10000, OriginalContext: 128, ExtFactor: -1},
	}
	s.Rope.Halves = s.Style().Halves
	return s
}

// A scope whose layers cannot be written gets a record in each cell, and the others are
// tried.
func TestUnsupportedScope(t *testing.T) {
	moe := shapeOf("qwen3moe")
	moe.Experts, moe.ExpertsUsed, moe.ExpertHidden = 4, 2, 32
	foreign := onnx.New("foreign", 17)
	foreign.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2)}
	foreign.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 2)}
	foreign.Graph.Add("StringNormalizer", []string{"x"}, "y")
	strange := filepath.Join(t.TempDir(), "foreign.onnx")
	f, err := os.Create(strange)
	if err == nil {
		_, err = onnx.Write(f, foreign)
		err = errors.Join(err, f.Close())
	}
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	if err := errors.Join(err, os.WriteFile(broken, []byte("GGUF"), 0o600)); err != nil {
		t.Fatal(err)
	}
	m, err := read(t, Matrix{Model: "m", Targets: []string{ONNX, Core, "SM8750/fp16"}, Scopes: []Scope{
		{Name: "experts", GGUF: seeded(t, moe), Layers: &[2]int{0, 1}}, {Name: "strange", ONNX: strange}, {Name: "broken", GGUF: broken},
		{Name: "beyond", GGUF: coreLLM, Layers: &[2]int{3, 9}}, {Name: "small", ONNX: small(t, t.TempDir())},
	}})
	if err != nil {
		t.Fatal(err)
	}
	opt := options(t, &compiler{err: &qnn.Left{Why: "no"}})
	if n, err := m.Fill(t.Context(), opt); err != nil || n != 15 {
		t.Fatalf("%d, %v", n, err)
	}
	got := results(t, m, opt.Records)
	for cell, want := range map[string]string{
		"experts host onnx": "measured unsupported", "experts host core": "measured unsupported", "experts SM8750/fp16 qnn (emulated)": "simulated unsupported",
		"strange host onnx": "measured unsupported", "broken host onnx": "measured failed", "beyond host core": "measured failed", "small host onnx": "measured ok",
	} {
		if got[cell] != want {
			t.Errorf("%s: %s, want %s", cell, got[cell], want)
		}
	}
	list, err := records.Read[judge.Record](opt.Records)
	if err != nil || list[0].Reached != "open" || !strings.Contains(list[0].Failure, "4 experts") || list[0].Command != "try experts/onnx" {
		t.Errorf("%+v, %v", list[0], err)
	}
}

// Layers after the first are fed the states that the model has there, of a text if there
// is one, and the backend core is compared on its states after them.
func TestOwnStates(t *testing.T) {
	path, text := seeded(t, shapeOf("qwen2")), filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("a text of bytes. ", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	sub, err := open(t.Context(), Scope{Name: "middle", GGUF: path, Layers: &[2]int{1, 2}, Positions: 8, Text: text})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.close()
	m, err := infer.Load(path, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		t.Fatal(err)
	}
	tokens := tok.Encode(strings.Repeat("a text of bytes. ", 4), tokenizer.Options{Add: true})
	for set := range sets {
		want, err := m.Streams(t.Context(), tokens[8*set:8*set+8], 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		if in := sub.inputs[set]["hidden"]; !bytes.Equal(in.Data, rowsOf(want[0], 8).Data) || !bytes.Equal(sub.states[set].Data, rowsOf(want[1], 8).Data) {
			t.Errorf("input %d is not the state of the model", set)
		}
	}
	if sub.noise {
		t.Error("states count as noise")
	}
	if _, err := open(t.Context(), Scope{Name: "short", GGUF: path, Positions: 40, Text: text}); err == nil || !strings.Contains(err.Error(), "want 160 for 4 inputs") {
		t.Errorf("a short text: %v", err)
	}
	mat, err := read(t, Matrix{Model: "m", Targets: []string{Core}, Scopes: []Scope{{Name: "middle", GGUF: path, Layers: &[2]int{1, 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	opt := options(t, nil)
	if n, err := mat.Fill(t.Context(), opt); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if got := results(t, mat, opt.Records)["middle host core"]; got != "measured ok" {
		t.Error(got)
	}
}

// A text of more than maxText bytes is refused before it is read.
func TestText(t *testing.T) {
	for size, want := range map[int64]string{maxText: "want 128", maxText + 1: "text"} {
		path := filepath.Join(t.TempDir(), "text")
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		_, err := open(t.Context(), Scope{Name: "x", GGUF: coreLLM, Layers: &[2]int{0, 1}, Text: path})
		if tooLarge := err != nil && !strings.Contains(err.Error(), "want 128"); size > maxText != tooLarge {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}
