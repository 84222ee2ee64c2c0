// Package compile compiles float ONNX models to contexts for Qualcomm's NPUs and
// measures their deviation.
//
// [Compile] fixes the model's shapes to those of the calibration inputs
// and quantizes it if requested (onnx/qdq), and compiles the result with
// Qualcomm's libraries (runtimes/qnn). The context is then run in
// emulation on the same inputs and compared with the results of mm's own engine on
// the original model. The [Record] describes all of this. If the context does not
// run or deviates too much, nothing is written.
//
// Emulation is not evidence about a device; every record is marked as simulated.
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

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/qdq"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// Engine compiles models and runs contexts; runtimes/qnn implements it.
type Engine interface {
	Compile(ctx context.Context, c qnn.Compilation) (qnn.Compiled, error)
	Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error)
}

// Precision is the precision of an NPU computation.
type Precision string

// The precisions: 16-bit floats; 8-bit weights with 8-bit or 16-bit activations.
const (
	FP16  Precision = "fp16"
	W8A8  Precision = "w8a8"
	W8A16 Precision = "w8a16"
)

// Precisions lists the precisions.
func Precisions() []string { return []string{string(FP16), string(W8A8), string(W8A16)} }

// Check refuses an unknown precision.
func (p Precision) Check() error {
	_, err := p.bits()
	return err
}

// The default minimum cosines of an output.
const (
	leastFine   = 0.99 // 16-bit floats or activations
	leastCoarse = 0.98 // 8-bit activations
)

// MinCosine returns the default minimum cosine of an output.
func (p Precision) MinCosine() float64 {
	if p == W8A8 {
		return leastCoarse
	}
	return leastFine
}

// bits returns the size of activations; 0 for floats.
func (p Precision) bits() (int, error) {
	switch p {
	case FP16, "":
		return 0, nil
	case W8A8:
		return 8, nil
	case W8A16:
		return 16, nil
	}
	return 0, fmt.Errorf("unknown precision %q, want one of %s", string(p), strings.Join(Precisions(), ", "))
}

// Options configures Compile.
type Options struct {
	Model     string // path of the ONNX file
	Chip      htp.Chip
	Precision Precision // if empty, FP16
	// Inputs are the calibration inputs, at least one set ([Samples] reads them).
	// They determine the shapes of the model.
	Inputs []map[string]engine.Tensor
	Keep   []string // nodes that are not quantized
	// MinCosine is the minimum cosine of any output with mm's own engine; 0
	// disables the limit.
	MinCosine float64
	Out       string    // the context binary to write; OUT_ctx.onnx is written next to it, without .bin
	Force     bool      // replace existing files
	Chips     htp.Chips // the table of chips; if nil, the built-in one
	Quantized string    // file for the quantized ONNX model; may be empty
	// Begin is called at the start of each stage, in order; may be nil.
	Begin func(Stage)
}

// Stage is a stage of [Compile].
type Stage string

// The stages.
const (
	StageOpen    Stage = "open"    // reading and checking the model
	StagePrepare Stage = "prepare" // fixing shapes, quantizing
	StageCompile Stage = "compile"
	StageRun     Stage = "run" // in emulation, and with mm's own engine
	StageCompare Stage = "compare"
)

func (o Options) begin(s Stage) {
	if o.Begin != nil {
		o.Begin(s)
	}
}

// MostEmulated is the maximum number of input sets for the slow emulation.
const MostEmulated = 4

// Result describes the written files.
type Result struct {
	Context string `json:"context"`
	Wrapper string `json:"wrapper"` // the ONNX model around the context
	Record  Record `json:"record"`
}

// suits refuses a chip without an NPU, or one that is not known to support floats;
// the fault is a diag.List.
func suits(chip htp.Chip, model string, floats bool) error {
	why, hint := chip.Lacks(floats)
	if why == "" {
		return nil
	}
	var list diag.List
	list.Add(diag.QNNChip, diag.Pos{File: model}, why, hint)
	return list.Err()
}

// Compile compiles a context. Unsupported operators and excessive deviations are a
// diag.List in the error; the former also a *qnn.Left. The record in the result of
// an error is partial.
func Compile(ctx context.Context, e Engine, opt Options) (result Result, err error) {
	bits, err := opt.Precision.bits()
	if err != nil {
		return result, fmt.Errorf("compiling: %w", err)
	}
	if err := suits(opt.Chip, opt.Model, bits == 0); err != nil {
		return result, err
	}
	if err := opt.free(); err != nil {
		return result, err
	}
	opt.begin(StageOpen)
	m, err := onnx.Admit(opt.Model, onnx.AdmitOptions{CheckOptions: engine.Checks()})
	if err != nil {
		return result, fmt.Errorf("compiling: %w", err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	called(&m.Graph)
	inputs, err := Fit(m, opt.Inputs)
	if err != nil {
		return result, fmt.Errorf("compiling %s: %w", opt.Model, err)
	}
	result.Record, err = opt.record(m, inputs)
	if err != nil {
		return result, err
	}
	r := &result.Record
	opt.begin(StagePrepare)
	p, err := prepare(ctx, m, inputs, bits, opt, r)
	if err != nil {
		return result, fmt.Errorf("compiling %s: %w", opt.Model, unlike(opt.Model, err))
	}
	stage, err := fsx.MkdirTemp("mm-compile-")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, fsx.RemoveAll(stage)) }()
	opt.begin(StageCompile)
	got, err := compiled(ctx, e, p, stage, opt)
	if left := (*qnn.Left)(nil); errors.As(err, &left) {
		err = &refused{opt.faults(m, left).Err(), left}
	}
	if err != nil {
		return result, err
	}
	r.of(got)
	inputs = inputs[:min(len(inputs), MostEmulated)]
	opt.begin(StageRun)
	if r.Outputs, err = emulated(ctx, e, got.Context, m, inputs); err != nil {
		return result, fmt.Errorf("running the context of %s: %w", opt.Model, renamed(unlike(opt.Model, err), got.Context, opt.Model))
	}
	opt.begin(StageCompare)
	if err := r.judge(opt); err != nil {
		return result, err
	}
	if _, err := r.JSON(); err != nil { // before files are written
		return result, fmt.Errorf("writing the record: %w", err)
	}
	result.Context, result.Wrapper, err = opt.publish(got.Context, p)
	return result, err
}

// prepare fixes the model's shapes and quantizes it.
func prepare(ctx context.Context, m *onnx.Model, inputs []map[string]engine.Tensor, bits int, opt Options, r *Record) (*onnx.Model, error) {
	f, err := qdq.Freeze(ctx, m, inputs, qdq.FreezeOptions{})
	if err != nil {
		return nil, err
	}
	r.Nodes, r.Folded = len(f.Model.Graph.Nodes), f.Folded
	if err := turn(f); err != nil {
		return nil, err
	}
	if bits == 0 {
		if len(opt.Keep) > 0 {
			return nil, errors.New("nodes to keep in floats, but nothing is quantized")
		}
		return f.Model, nil
	}
	q, err := qdq.Insert(f.Model, f.Ranges, qdq.Options{Values: bits, Keep: opt.Keep})
	if err != nil {
		return nil, err
	}
	r.Integers, r.Kept = q.Quantized, q.Kept
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

// mixed refuses nodes in floats if the chip is not known to support them.
func (o Options) mixed(kept []qdq.Kept) error {
	why, _ := o.Chip.Lacks(true)
	var list diag.List
	for _, k := range kept {
		if why != "" && k.Floats() {
			list.Add(diag.QNNChip, diag.Pos{File: o.Model}, fmt.Sprintf("%s; %d nodes of %s stay in floats: %s", why, len(k.Nodes), k.Op, k.Why), "compile a part without them (mm onnx cut)")
		}
	}
	return list.Err()
}

// compiled compiles the model in the folder stage.
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
		return got, fmt.Errorf("wrong chip of the context: got %d, want %s (%d)", got.SoC, opt.Chip.Name, opt.Chip.Model)
	}
	return got, nil
}

// usualVTCM is the size of VTCM in bytes that Qualcomm's compiler assumes by
// default.
const usualVTCM = 4 << 20

// memory returns the compiler option for a chip with less VTCM.
func memory(chip htp.Chip) map[string]string {
	if chip.VTCM == 0 || chip.VTCM >= usualVTCM {
		return nil
	}
	return map[string]string{"vtcm_mb": strconv.Itoa(int(chip.VTCM >> 20))}
}

// called names unnamed nodes after their outputs, to distinguish them.
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

// refused reports the operators that the compiler left, in terms of the original
// model.
type refused struct {
	error
	left *qnn.Left
}

// Unwrap returns both errors.
func (r *refused) Unwrap() []error { return []error{r.error, r.left} }

// faults reports the unsupported operators of the original model, with a hint:
// where to cut it, or another precision if nothing is supported. Nodes added by
// quantization are not reported.
func (o Options) faults(m *onnx.Model, left *qnn.Left) (list diag.List) {
	if len(left.Nodes) == 0 {
		detail := left.Error()
		if left.Why != "" {
			detail += ": " + left.Why
		}
		list.Add(diag.QNNRefused, diag.Pos{File: o.Model}, detail, diag.QNNRefused.Fix())
		return list
	}
	nodes := slices.DeleteFunc(slices.Clone(left.Nodes), func(n ask.Node) bool {
		return !slices.ContainsFunc(m.Graph.Nodes, func(o onnx.Node) bool { return o.Name == n.Name && o.Op == n.Op })
	})
	if len(nodes) == 0 {
		nodes = left.Nodes
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	hint := cut(o.Model, m, names)
	if bits, err := o.Precision.bits(); err == nil && bits == 0 && len(left.Nodes) >= left.All {
		hint = fmt.Sprintf("none of it is supported in floats; try integers on %s: --precision w8a8 with --calibrate", o.Chip.Name)
	}
	for _, n := range nodes {
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

// InputsDigest returns the digest of sets of inputs, sha256:…: names, types,
// shapes, numbers.
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
