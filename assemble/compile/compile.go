// Package compile makes contexts for Qualcomm's NPUs of float ONNX models, and
// says how far they are from them.
//
// [Compile] goes the whole way: the model's shapes are fixed to those of the
// calibration inputs (onnx/engine/freeze), the numbers made integers where that
// is asked for (onnx/qdq), the result compiled by Qualcomm's libraries
// (runtimes/qnn). Then the context is run at once, in emulation, on the same
// inputs, and held against what our own engine computes with the model as it
// was given. The [Record] says all of it; nothing is written of a context
// that does not run or is too far off.
//
// What is emulated is no evidence about a device, and every record says so.
package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/admit"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/engine/freeze"
	"mm-abi.org/mm/onnx/qdq"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// Engine compiles models and runs what it compiled: runtimes/qnn.
type Engine interface {
	Compile(ctx context.Context, c qnn.Compilation) (qnn.Compiled, error)
	Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error)
}

// Precision is what the NPU computes with.
type Precision string

// The precisions: 16-bit floats; 8-bit weights with values of 8 or of 16 bits.
const (
	FP16  Precision = "fp16"
	W8A8  Precision = "w8a8"
	W8A16 Precision = "w8a16"
)

// Precisions lists them.
func Precisions() []string { return []string{string(FP16), string(W8A8), string(W8A16)} }

// Check refuses what is no precision.
func (p Precision) Check() error {
	_, err := p.bits()
	return err
}

// The least cosines of an output that are taken where nobody says another.
const (
	leastFine   = 0.99 // 16-bit floats, values of 16 bits
	leastCoarse = 0.98 // values of 8 bits
)

// MinCosine is the least cosine of an output that is taken where nobody says
// another.
func (p Precision) MinCosine() float64 {
	if p == W8A8 {
		return leastCoarse
	}
	return leastFine
}

// bits of the values; 0: floats.
func (p Precision) bits() (int, error) {
	switch p {
	case FP16, "":
		return 0, nil
	case W8A8:
		return 8, nil
	case W8A16:
		return 16, nil
	}
	return 0, fmt.Errorf("the precision %q is none of %s", string(p), strings.Join(Precisions(), ", "))
}

// Options say what is compiled for which chip.
type Options struct {
	Model     string // path of the ONNX file
	Chip      fit.Chip
	Precision Precision // "": FP16
	// Inputs are those the model is calibrated and compared on, at least one
	// set ([Samples] reads them). Their shapes become the model's.
	Inputs []map[string]engine.Tensor
	Keep   []string // nodes that stay floats
	// MinCosine is the least cosine of any output to our own engine's; 0: any.
	MinCosine float64
	Out       string    // the context binary to write; beside it goes OUT without .bin and with _ctx.onnx
	Force     bool      // replace files that are there
	Chips     fit.Chips // the table of chips; nil: that of this release
	Quantised string    // where the quantised ONNX model goes as well; "": nowhere
	// Begin is told of each stage that begins, in this order; nil: nobody.
	Begin func(Stage)
}

// Stage is a part of the way of [Compile].
type Stage string

// The stages.
const (
	StageOpen    Stage = "open"    // reading and checking the model
	StagePrepare Stage = "prepare" // fixing shapes, quantising
	StageCompile Stage = "compile"
	StageRun     Stage = "run" // in emulation, beside our own engine
	StageCompare Stage = "compare"
)

func (o Options) begin(s Stage) {
	if o.Begin != nil {
		o.Begin(s)
	}
}

// MostEmulated bounds the sets of inputs that the context is run on: the
// emulation is slow.
const MostEmulated = 4

// Made is what was written.
type Made struct {
	Context string `json:"context"`
	Wrapper string `json:"wrapper"` // the ONNX model around it
	Record  Record `json:"record"`
}

// suits refuses a chip that has no NPU, or none that is known to compute in
// floats: the fault is a diag.List.
func suits(chip fit.Chip, model string, floats bool) error {
	why, hint := chip.Lacks(floats)
	if why == "" {
		return nil
	}
	var list diag.List
	list.Add(diag.QNNChip, diag.Pos{File: model}, why, hint)
	return list.Err()
}

// Compile makes a context. Operators that the NPU does not take, and results
// that are too far off, are a diag.List in the error; of the first it is a
// *qnn.Left as well. With an error comes the record as far as it got.
func Compile(ctx context.Context, e Engine, opt Options) (made Made, err error) {
	bits, err := opt.Precision.bits()
	if err != nil {
		return made, fmt.Errorf("compiling: %w", err)
	}
	if err := suits(opt.Chip, opt.Model, bits == 0); err != nil {
		return made, err
	}
	if err := opt.free(); err != nil {
		return made, err
	}
	opt.begin(StageOpen)
	m, err := admit.File(opt.Model, admit.Options{CheckOptions: engine.Checks()})
	if err != nil {
		return made, fmt.Errorf("compiling: %w", err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	called(&m.Graph)
	inputs, err := Fit(m, opt.Inputs)
	if err != nil {
		return made, fmt.Errorf("compiling %s: %w", opt.Model, err)
	}
	made.Record, err = opt.record(m, inputs)
	if err != nil {
		return made, err
	}
	r := &made.Record
	opt.begin(StagePrepare)
	p, err := prepare(ctx, m, inputs, bits, opt, r)
	if err != nil {
		return made, fmt.Errorf("compiling %s: %w", opt.Model, unlike(opt.Model, err))
	}
	stage, err := fsx.MkdirTemp("mm-compile-")
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, fsx.RemoveAll(stage)) }()
	opt.begin(StageCompile)
	got, err := compiled(ctx, e, p, stage, opt)
	if left := (*qnn.Left)(nil); errors.As(err, &left) {
		err = &refused{opt.faults(m, left).Err(), left}
	}
	if err != nil {
		return made, err
	}
	r.of(got)
	inputs = inputs[:min(len(inputs), MostEmulated)]
	opt.begin(StageRun)
	if r.Outputs, err = emulated(ctx, e, got.Context, m, inputs); err != nil {
		return made, fmt.Errorf("running what was compiled of %s: %w", opt.Model, renamed(unlike(opt.Model, err), got.Context, opt.Model))
	}
	opt.begin(StageCompare)
	if err := r.judge(opt); err != nil {
		return made, err
	}
	if _, err := r.JSON(); err != nil { // before a file is there
		return made, fmt.Errorf("writing the record: %w", err)
	}
	made.Context, made.Wrapper, err = opt.publish(got.Context, p)
	return made, err
}

// prepare fixes the model's shapes and quantises it.
func prepare(ctx context.Context, m *onnx.Model, inputs []map[string]engine.Tensor, bits int, opt Options, r *Record) (*onnx.Model, error) {
	f, err := freeze.Freeze(ctx, m, inputs, freeze.Options{})
	if err != nil {
		return nil, err
	}
	r.Nodes, r.Folded = len(f.Model.Graph.Nodes), f.Folded
	if err := turn(f); err != nil {
		return nil, err
	}
	if bits == 0 {
		if len(opt.Keep) > 0 {
			return nil, errors.New("nodes to keep as floats, and nothing is quantised")
		}
		return f.Model, nil
	}
	q, err := qdq.Insert(f.Model, f.Ranges, qdq.Options{Values: bits, Keep: opt.Keep})
	if err != nil {
		return nil, err
	}
	r.Integers, r.Kept = q.Quantised, q.Kept
	if err := opt.mixed(q.Kept); err != nil {
		return nil, err
	}
	out, err := drift.Measure(ctx, m, q.Model, inputs, drift.Options{})
	if err != nil {
		return nil, err
	}
	r.Rounded = rounded(1 - drift.Drift(out))
	return q.Model, nil
}

// mixed refuses nodes that stay floats, where the chip is not known to compute them.
func (o Options) mixed(kept []qdq.Kept) error {
	why, _ := o.Chip.Lacks(true)
	var list diag.List
	for _, k := range kept {
		if why != "" && k.Floats() {
			list.Add(diag.QNNChip, diag.Pos{File: o.Model}, fmt.Sprintf("%s; %d of %s stay floats: %s", why, len(k.Nodes), k.Op, k.Why), "compile a part without them (mm onnx cut)")
		}
	}
	return list.Err()
}

// compiled has the model compiled into the folder stage.
func compiled(ctx context.Context, e Engine, m *onnx.Model, stage string, opt Options) (qnn.Compiled, error) {
	name := stem(opt.Out)
	file := filepath.Join(stage, name+".onnx")
	if err := write(file, m); err != nil {
		return qnn.Compiled{}, err
	}
	got, err := e.Compile(ctx, qnn.Compilation{Model: file, SoC: int(opt.Chip.Model), Out: filepath.Join(stage, name+"_ctx.onnx"), Options: memory(opt.Chip), Chips: opt.Chips})
	if err != nil {
		return got, err
	}
	if got.SoC != opt.Chip.Model {
		return got, fmt.Errorf("the compiler made a context for chip %d, not for %s (%d)", got.SoC, opt.Chip.Name, opt.Chip.Model)
	}
	return got, nil
}

// usualVTCM is how many bytes of the HTP's own memory Qualcomm's compiler lays
// graphs out for where nobody says how many.
const usualVTCM = 4 << 20

// memory tells the compiler of a chip that has less.
func memory(chip fit.Chip) map[string]string {
	if chip.VTCM == 0 || chip.VTCM >= usualVTCM {
		return nil
	}
	return map[string]string{"vtcm_mb": strconv.Itoa(int(chip.VTCM >> 20))}
}

// called calls nodes without a name after what they give, so that they can be told
// apart.
func called(g *onnx.Graph) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for _, out := range n.Outputs {
			if n.Name == "" {
				n.Name = out
			}
		}
	}
}

// refused is what the compiler left, told of the model that was given.
type refused struct {
	error
	left *qnn.Left
}

// Unwrap gives both.
func (r *refused) Unwrap() []error { return []error{r.error, r.left} }

// faults tells which operators of the model that was given the NPU does not take,
// and what to do: where it can be cut, or another precision, where nothing of it
// is taken. What quantising put around them is none of the model's.
func (o Options) faults(m *onnx.Model, left *qnn.Left) (list diag.List) {
	if len(left.Nodes) == 0 {
		detail := left.Error()
		if left.Why != "" {
			detail += ": " + left.Why
		}
		list.Add(diag.QNNRefused, diag.Pos{File: o.Model}, detail, diag.QNNRefused.Fix())
		return list
	}
	own := slices.DeleteFunc(slices.Clone(left.Nodes), func(n ask.Node) bool {
		return !slices.ContainsFunc(m.Graph.Nodes, func(given onnx.Node) bool { return given.Name == n.Name && given.Op == n.Op })
	})
	if len(own) == 0 {
		own = left.Nodes
	}
	var names []string
	for _, n := range own {
		names = append(names, n.Name)
	}
	hint := cut(o.Model, m, names)
	if bits, err := o.Precision.bits(); err == nil && bits == 0 && len(left.Nodes) >= left.All {
		hint = fmt.Sprintf("nothing of it is taken in floats; %s may take integers: --precision w8a8 with --calibrate", o.Chip.Name)
	}
	for _, n := range own {
		list.Add(diag.QNNRefused, diag.Pos{File: o.Model}, fmt.Sprintf("node %q (%s)", n.Name, n.Op), hint)
	}
	return list
}

func write(path string, m *onnx.Model) error {
	return fsx.Replace(path, 0o600, func(to io.Writer) error {
		_, err := onnx.Write(to, m)
		return err
	})
}

func stem(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

// InputsDigest is that of sets of inputs, sha256:…: names, types, shapes, numbers.
func InputsDigest(inputs []map[string]engine.Tensor) string {
	h := sha256.New()
	for i, in := range inputs {
		for _, name := range slices.Sorted(maps.Keys(in)) {
			t := in[name]
			fmt.Fprintf(h, "%d %q %s %v\n", i, name, t.Type, t.Shape)
			h.Write(t.Data)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
