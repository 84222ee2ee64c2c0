package drift

import "mm-abi.org/mm/onnx/engine"

const MaxNoise = maxNoise

var Generable = generable

// Cosine returns the cosine of two tensors as vectors; 0 if they cannot be
// compared.
func Cosine(a, b engine.Tensor) float64 {
	var o Output
	if err := o.add(a, b); err != nil {
		return 0
	}
	o.close()
	return o.Cosine
}
