package attempt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/runtimes"
)

// reference names what other engines are compared with.
const reference = "core/graph on the file as it is"

// npu compiles for a chip and runs the result in emulation.
func npu(ctx context.Context, s *subject, t target, opt Options, at func(string), r *judge.Record) (err error) {
	least := leastFloats
	if t.precision != compile.FP16 {
		if least = leastIntegers; s.noise {
			return fmt.Errorf("ranges of integers require inputs: %w", errMissing)
		}
	}
	dir, err := fsx.MkdirTemp("mm-attempt-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fsx.RemoveAll(dir)) }()
	compiled, err := compile.Compile(ctx, opt.NPU, compile.Options{
		Model: s.path, Chip: t.chip, Chips: opt.Chips, Precision: t.precision, Inputs: s.inputs, MinCosine: least, Out: filepath.Join(dir, "out.bin"),
		Begin: func(stage compile.Stage) { at(string(stage)) },
	})
	c := compiled.Record
	r.Bytes = c.Bytes
	if r.Artifact = c.Context; c.Context != "" { // compiled completely
		r.Delegate, r.Engine = new(1.0), "QAIRT "+c.SDK+", ONNX Runtime "+c.ORT
	}
	if len(c.Outputs) > 0 { // and ran; Compile has checked the cosines
		if err := compared(r, c.Outputs, reference, -1); err != nil {
			return err
		}
	}
	return err
}

// core compares layers of a language model, as ONNX, with the states of the
// backend core after them.
func core(ctx context.Context, s *subject, at func(string), r *judge.Record) error {
	if s.states == nil {
		return fmt.Errorf("only layers of language models: %w", errUnsupported)
	}
	at("run")
	set := 0
	run := func(context.Context, map[string]engine.Tensor) (map[string]engine.Tensor, error) {
		set++
		return map[string]engine.Tensor{s.model.Graph.Outputs[0].Name: s.states[set-1]}, nil
	}
	figures, err := drift.Against(ctx, s.model, run, s.inputs, drift.Options{})
	if err != nil {
		return err
	}
	r.Artifact, r.Delegate = s.weights, new(1.0)
	at("compare")
	return compared(r, compile.Compared(figures), reference, leastCore)
}

// native runs an ONNX model in an engine and compares it with the reference.
func native(ctx context.Context, s *subject, e runtimes.Engine, at func(string), r *judge.Record) error {
	info, err := e.Probe(ctx)
	if err != nil {
		return err
	}
	r.Engine = e.Name() + " " + info.Version
	at("run")
	figures, err := compile.Against(ctx, e, abi.ONNX, s.path, s.model, s.inputs)
	if err != nil {
		return err
	}
	if r.Artifact, err = fileDigest(s.path); err != nil {
		return err
	}
	r.Delegate = new(1.0)
	at("compare")
	return compared(r, figures, reference, leastHost)
}

// ours runs an ONNX model in mm's own engine, as builds do. It is compared with the golden
// outputs, if any; otherwise it is the reference itself.
func ours(ctx context.Context, s *subject, e runtimes.Engine, at func(string), r *judge.Record) error {
	if err := native(ctx, s, e, at, r); err != nil || s.golden == nil {
		r.Reference = "itself"
		return err
	}
	figures, err := drift.Against(ctx, s.model, func(context.Context, map[string]engine.Tensor) (map[string]engine.Tensor, error) {
		return s.golden, nil
	}, s.inputs[len(s.inputs)-1:], drift.Options{})
	if err != nil {
		return err
	}
	return compared(r, compile.Compared(figures), "golden", leastHost)
}
