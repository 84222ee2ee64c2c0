package quantize

import "mm-abi.org/mm/onnx/engine/kernel"

// Operators are the operators of this package.
func Operators() kernel.Operators {
	return kernel.Operators{
		"QuantizeLinear":        {Run: quantize, Since: 10, Min: 2, Max: 3, Raw: true},
		"DequantizeLinear":      {Run: dequantize, Since: 10, Min: 2, Max: 3, Raw: true},
		"DynamicQuantizeLinear": {Run: dynamicQuantize, Since: 11, Min: 1, Max: 1, Raw: true},
		"MatMulInteger":         {Run: matmulInteger, Since: 10, Min: 2, Max: 4, Raw: true},
		"QLinearMatMul":         {Run: qlinearMatMul, Since: 10, Min: 8, Max: 8, Raw: true},
	}
}
