package product

import "mm-abi.org/mm/onnx/engine/kernel"

// The families: a kernel for each type that an operator takes.
var (
	products = kernel.Family{nil, slow[float64], nil, nil, slow[int32], slow[int64], nil, nil, slow[uint32], slow[uint64]}
	einsums  = kernel.Family{einsum[float32], einsum[float64], nil, nil, einsum[int32], einsum[int64]}
)

// Operators are the operators of this package.
func Operators() kernel.Operators {
	return kernel.Operators{
		"MatMul": {Run: MatMul, Since: 1, Min: 2, Max: 2},
		"Gemm":   {Run: gemm, Since: 7, Min: 2, Max: 3},
		"Einsum": {Run: einsums.By(0), Since: 12, Min: 1, Max: 8},
	}
}
