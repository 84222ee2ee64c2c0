package compile

import (
	"errors"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
)

// Calibration returns the inputs at places or, without any, noise of the given shapes,
// NAME=1x3x224x224. Floats can be compared on noise; integers require representative
// inputs. open opens the model.
func Calibration(opt Options, places, dims []string, open func(path string) (*onnx.Model, error)) (sets []map[string]engine.Tensor, err error) {
	switch {
	case len(places) > 0 && len(dims) > 0:
		return nil, diag.Usagef("--shape and --calibrate exclude each other: calibration inputs have shapes")
	case len(places) > 0:
		return Samples(opt.Model, places)
	case opt.Precision != FP16:
		return nil, diag.Usagef("--precision %s requires --calibrate: the ranges are measured on its inputs", opt.Precision)
	}
	shapes := map[string][]int{}
	for _, text := range dims {
		name, shape, err := onnx.ParseShape(text)
		if err != nil {
			return nil, diag.Usagef("--shape %s: %w", text, err)
		}
		shapes[name] = shape
	}
	m, err := open(opt.Model)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	in, err := drift.Noise(m, shapes, 0)
	if err != nil {
		return nil, diag.Hinted(err, "set the shape with --shape NAME=1x3x224x224, or inputs with --calibrate")
	}
	return []map[string]engine.Tensor{in}, nil
}
