package product

import "mm-abi.org/mm/onnx/engine/kernel"

// A Family holds a kernel for each type of an operator.
var (
	products = kernel.Family{nil, slow[float64], nil, nil, slow[int32], slow[int64], nil, nil, slow[uint32], slow[uint64]}
	einsums  = kernel.Family{einsum[float32], einsum[float64], nil, nil, einsum[int32], einsum[int64]}
)

// Operators returns the operators of this package.
func Operators() kernel.Operators {
	return kernel.Operators{
		"MatMul": {Run: MatMul, Since: 1, Min: 2, Max: 2},
		"Gemm":   {Run: gemm, Since: 7, Min: 2, Max: 3},
		"Einsum": {Run: einsums.By(0), Since: 12, Min: 1, Max: 8},

		"QuantizeLinear":        {Run: quantize, Since: 10, Min: 2, Max: 3, Raw: true},
		"DequantizeLinear":      {Run: dequantize, Since: 10, Min: 2, Max: 3, Raw: true},
		"DynamicQuantizeLinear": {Run: dynamicQuantize, Since: 11, Min: 1, Max: 1, Raw: true},
		"MatMulInteger":         {Run: matmulInteger, Since: 10, Min: 2, Max: 4, Raw: true},
		"QLinearMatMul":         {Run: qlinearMatMul, Since: 10, Min: 8, Max: 8, Raw: true},
	}
}
