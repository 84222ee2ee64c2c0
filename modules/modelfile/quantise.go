package modelfile

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
	"mm-abi.org/mm/onnx/weights"
)

// QuantOptions for Quantise.
type QuantOptions struct {
	weights.Options
	Golden Golden
}

// Golden says on which inputs the drift is measured. The zero value measures
// none.
type Golden struct {
	Inputs   map[string]string // files of .npy, by input; a model of several inputs needs all
	Samples  int               // sets of noise, where there are no Inputs; 0: none
	Shapes   map[string][]int  // of inputs that the model leaves open
	Seed     uint64
	MaxDrift float64 // 1 less the cosine of the worst output; 0: any
}

// Quantised is what Quantise has done.
type Quantised struct {
	Weights       []weights.Weight
	Before, After int64          // bytes of those weights
	Outputs       []drift.Output // as far as the drift was measured
}

// maxArray bounds a .npy file, in bytes.
const maxArray = 1 << 30

// Quantise makes the weights of a checked model 8-bit integers and measures
// what that does to its results. More drift than is allowed is a diag.List in
// the error; file is for its message.
func Quantise(ctx context.Context, file string, m *onnx.Model, opt QuantOptions) (*onnx.Model, Quantised, error) {
	small, weights, err := weights.Int8(m, opt.Options)
	if err != nil {
		return nil, Quantised{}, err
	}
	q := Quantised{Weights: weights}
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
		list.Add(diag.DriftMissed, diag.Pos{File: file}, fmt.Sprintf("drift %.6f, at most %g is allowed%s", d, opt.Golden.MaxDrift, worst(q.Outputs)), diag.DriftMissed.Fix())
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

// inputs reads or makes up the inputs.
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

// ErrExists says that there is a file already where one was to be written.
var ErrExists = errors.New("exists already")

// Write writes a model to path, whole or not at all. A file that is there is
// ErrExists, unless force replaces it.
func Write(path string, m *onnx.Model, force bool) (int64, error) {
	if info, err := os.Stat(path); err == nil {
		switch {
		case !info.Mode().IsRegular():
			return 0, fmt.Errorf("%s is no regular file", path)
		case !force:
			return 0, fmt.Errorf("%s %w", path, ErrExists)
		}
	}
	n := int64(0)
	err := fsx.Replace(path, 0o644, func(w io.Writer) (err error) {
		n, err = onnx.Write(w, m)
		return err
	})
	return n, err
}
