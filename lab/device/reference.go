package device

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// ReferenceEngine names the engine in records.
const ReferenceEngine = "core/graph float32"

// SampleReference is an open ONNX model, computed in 32-bit floats by mm's own engine on the
// processor.
type SampleReference struct {
	Digest  string // SHA-256 of the file, sha256:…
	program *engine.Program
	inputs  []onnx.Value
	outputs []string
}

// OpenReference opens the model at path, from which a context was compiled. Its inputs and
// outputs must be 32-bit floats. Open dimensions of inputs are 1, as for a compiler.
// External data is in the same folder.
func OpenReference(ctx context.Context, path string) (*SampleReference, error) {
	_, digest, err := fsx.Digest(path)
	if err != nil {
		return nil, err
	}
	m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: engine.Checks(), Open: onnx.FolderOpener(filepath.Dir(path), nil)})
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	p, err := engine.Compile(ctx, m, engine.Options{Threads: 1})
	if err = errors.Join(err, m.Close()); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	r := &SampleReference{Digest: digest, program: p, inputs: p.Inputs(), outputs: p.Outputs()}
	for _, v := range r.inputs {
		if _, err := inputShape(v); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return r, nil
}

// inputShape returns the shape of an input.
func inputShape(v onnx.Value) ([]int, error) {
	if v.Type.DType != onnx.FLOAT || !v.Type.Ranked {
		return nil, fmt.Errorf("reference: input %q is not a float32 tensor", v.Name)
	}
	out := []int{}
	for _, d := range v.Type.Dims {
		switch {
		case d.Param != "" || d.Value < 0:
			out = append(out, 1)
		case d.Value < 1 || d.Value > math.MaxInt32:
			return nil, fmt.Errorf("reference: input %q has shape %v", v.Name, v.Type.Dims)
		default:
			out = append(out, int(d.Value))
		}
	}
	return out, nil
}

// Close closes the model.
func (m *SampleReference) Close() error { return m.program.Close() }

// Run computes a sample. Inputs and outputs are in the model's order.
func (m *SampleReference) Run(ctx context.Context, in [][]float32) ([][]float32, error) {
	if len(in) != len(m.inputs) {
		return nil, fmt.Errorf("reference: got %d inputs, want %d", len(in), len(m.inputs))
	}
	inputs := map[string]engine.Tensor{}
	for i, v := range m.inputs {
		dims, err := inputShape(v)
		if err != nil {
			return nil, err
		}
		inputs[v.Name] = engine.Tensor{Type: onnx.FLOAT, Shape: dims, Data: SampleBytes(in[i])}
	}
	results, err := m.program.Run(ctx, inputs)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	var out [][]float32
	for _, name := range m.outputs {
		t := results[name]
		if t.Type != onnx.FLOAT {
			return nil, fmt.Errorf("reference: output %q is not a float32 tensor", name)
		}
		out = append(out, SampleFloats(t.Data))
	}
	return out, nil
}

// SampleFloats decodes 32-bit floats in little endian and ignores a partial one.
func SampleFloats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// SampleBytes encodes 32-bit floats in little endian.
func SampleBytes(v []float32) []byte {
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}
