package control

import "mm-abi.org/mm/onnx/engine/kernel"

// Operators are the operators of this package.
func Operators() kernel.Operators {
	return kernel.Operators{
		"If":   {Run: branch, Since: 1, Min: 1, Max: 1, Raw: true},
		"Loop": {Run: loop, Since: 1, Min: 0, Max: kernel.Many, Raw: true},
	}
}
