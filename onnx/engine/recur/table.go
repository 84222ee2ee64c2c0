package recur

import "mm-abi.org/mm/onnx/engine/kernel"

// Operators are the operators of this package.
func Operators() kernel.Operators {
	t := kernel.Operators{}
	t.All(kernel.Operator{Run: recurrent, Since: 7, Min: 3, Max: 8}, "LSTM", "GRU", "RNN")
	return t
}
