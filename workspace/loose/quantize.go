package loose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/qdq"
)

// QuantOptions configures Quantize.
type QuantOptions struct {
	qdq.WeightOptions
	Golden Golden
}

// Golden selects the inputs on which the drift is measured. The zero value measures
// nothing.
type Golden struct {
	Inputs   map[string]string // .npy files by input; a model with several inputs requires all
	Samples  int               // sets of noise, without Inputs
	Shapes   map[string][]int  // of inputs with dynamic shapes
	Seed     uint64
	MaxDrift float64 // 1 minus the cosine of the worst output; 0: unlimited
}

// Quantized describes a quantization.
type Quantized struct {
	Weights       []qdq.Weight
	Before, After int64          // bytes of the quantized weights
	Outputs       []drift.Output // if the drift was measured
}

// Report returns the printed form.
func (q Quantized) Report() *QuantReport {
	r := &QuantReport{Weights: len(q.Weights), Before: q.Before, After: q.After, Outputs: []DriftReport{}}
	for _, o := range q.Outputs {
		r.Outputs = append(r.Outputs, DriftReport{Name: o.Name, Cosine: o.Cosine, MaxAbs: o.MaxAbs, Agree: o.Agree, Rows: o.Rows})
	}
	return r
}

// maxArray is the size limit of a .npy file, in bytes.
const maxArray = 1 << 30

// Quantize quantizes the weights of a checked model to 8-bit integers and measures
// the drift of its outputs. If the drift exceeds the limit, the error is a
// diag.List about file.
func Quantize(ctx context.Context, file string, m *onnx.Model, opt QuantOptions) (*onnx.Model, Quantized, error) {
	small, weights, err := qdq.QuantizeWeights(m, opt.WeightOptions)
	if err != nil {
		return nil, Quantized{}, err
	}
	q := Quantized{Weights: weights}
	for _, w := range weights {
		q.Before, q.After = q.Before+w.Before, q.After+w.After
	}
	inputs, err := opt.Golden.inputs(m)
	if err != nil || len(inputs) == 0 {
		return small, q, err
	}
	if q.Outputs, err = drift.Measure(ctx, m, small, inputs, drift.Options{Graph: engine.Options{}}); err != nil {
		return nil, q, err
	}
	if d := drift.Drift(q.Outputs); opt.Golden.MaxDrift > 0 && d > opt.Golden.MaxDrift {
		var list diag.List
		list.Add(diag.DriftMissed, diag.Pos{File: file}, fmt.Sprintf("drift is %.6f, the limit is %g%s", d, opt.Golden.MaxDrift, worst(q.Outputs)), diag.DriftMissed.Fix())
		return nil, q, list.Err()
	}
	return small, q, nil
}

func worst(outputs []drift.Output) string {
	for _, o := range outputs {
		if 1-o.Cosine == drift.Drift(outputs) {
			return fmt.Sprintf(": output %q, cosine %.6f, largest error %.4g, %d of %d rows agree", o.Name, o.Cosine, o.MaxAbs, o.Agree, o.Rows)
		}
	}
	return ""
}

// inputs reads or generates the inputs.
func (g Golden) inputs(m *onnx.Model) ([]map[string]engine.Tensor, error) {
	if len(g.Inputs) > 0 {
		in := make(map[string]engine.Tensor)
		for name, file := range g.Inputs {
			data, err := fsx.ReadFile(file, maxArray)
			if err != nil {
				return nil, err
			}
			if in[name], err = drift.Read(data); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
		return []map[string]engine.Tensor{in}, nil
	}
	var all []map[string]engine.Tensor
	for i := range g.Samples {
		in, err := drift.Noise(m, g.Shapes, g.Seed+uint64(i))
		if err != nil {
			return nil, err
		}
		all = append(all, in)
	}
	return all, nil
}

// ErrExists reports that the output file exists.
var ErrExists = errors.New("file exists")

// Write writes a model to path atomically. If path exists, the error is ErrExists
// unless force is set.
func Write(path string, m *onnx.Model, force bool) (int64, error) {
	if info, err := os.Stat(path); err == nil {
		switch {
		case !info.Mode().IsRegular():
			return 0, fmt.Errorf("%s: not a regular file", path)
		case !force:
			return 0, fmt.Errorf("%s: %w", path, ErrExists)
		}
	}
	n := int64(0)
	err := fsx.Replace(path, 0o644, func(w io.Writer) (err error) {
		n, err = onnx.Write(w, m)
		return err
	})
	return n, err
}
