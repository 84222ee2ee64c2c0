// Package reference computes on this machine's processor what a device is to
// compute: the ONNX model that a context was compiled from, by onnx/engine, in
// 32-bit floats. Inputs and outputs are lists in the model's order, as a runner
// has them.
package samples

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/admit"
	"mm-abi.org/mm/onnx/engine"
)

// Engine names what computes.
const ReferenceEngine = "core/graph float32"

// Model is an open model.
type Reference struct {
	Digest  string // SHA-256 of the file, sha256:…
	program *engine.Program
	inputs  []onnx.Value
	outputs []string
}

// Open opens the model at path. All its inputs and outputs must be 32-bit floats;
// an open dimension of an input is one, as a compiler takes it. External data lies
// beside the file.
func OpenReference(ctx context.Context, path string) (*Reference, error) {
	_, digest, err := fsx.Digest(path)
	if err != nil {
		return nil, err
	}
	m, err := admit.File(path, admit.Options{CheckOptions: engine.Checks(), Open: admit.Folder(filepath.Dir(path), nil)})
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	p, err := engine.Compile(ctx, m, engine.Options{Threads: 1})
	if err = errors.Join(err, m.Close()); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	r := &Reference{Digest: digest, program: p, inputs: p.Inputs(), outputs: p.Outputs()}
	for _, v := range r.inputs {
		if _, err := inputShape(v); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return r, nil
}

// shape is the shape of an input.
func inputShape(v onnx.Value) ([]int, error) {
	if v.Type.DType != onnx.FLOAT || !v.Type.Ranked {
		return nil, fmt.Errorf("reference: the input %q is no tensor of 32-bit floats", v.Name)
	}
	out := []int{}
	for _, d := range v.Type.Dims {
		switch {
		case d.Param != "" || d.Value < 0:
			out = append(out, 1)
		case d.Value < 1 || d.Value > math.MaxInt32:
			return nil, fmt.Errorf("reference: the input %q has the shape %v", v.Name, v.Type.Dims)
		default:
			out = append(out, int(d.Value))
		}
	}
	return out, nil
}

// Close gives the model back.
func (m *Reference) Close() error { return m.program.Close() }

// Run computes one sample: the elements of the inputs in the model's order, and
// of the outputs in theirs.
func (m *Reference) Run(ctx context.Context, in [][]float32) ([][]float32, error) {
	if len(in) != len(m.inputs) {
		return nil, fmt.Errorf("reference: %d inputs, the model has %d", len(in), len(m.inputs))
	}
	given := map[string]engine.Tensor{}
	for i, v := range m.inputs {
		dims, err := inputShape(v)
		if err != nil {
			return nil, err
		}
		given[v.Name] = engine.Tensor{Type: onnx.FLOAT, Shape: dims, Data: Bytes(in[i])}
	}
	results, err := m.program.Run(ctx, given)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	var out [][]float32
	for _, name := range m.outputs {
		t := results[name]
		if t.Type != onnx.FLOAT {
			return nil, fmt.Errorf("reference: the output %q is no tensor of 32-bit floats", name)
		}
		out = append(out, Floats(t.Data))
	}
	return out, nil
}

// Floats reads 32-bit floats, little endian; bytes that are no whole one are
// left out.
func Floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// Bytes writes them.
func Bytes(v []float32) []byte {
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}
