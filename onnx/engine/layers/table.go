// Package layers holds the operators of ONNX that are layers of a network:
// normalization, the recurrent LSTM, GRU and RNN, and If and Loop, which run
// other graphs. [Attention] computes attention in one kernel; onnx/engine
// substitutes it for the operators that a model composes it from.
package layers

import "mm-abi.org/mm/onnx/engine/kernel"

// Operators returns the operators of this package.
func Operators() kernel.Operators {
	t := kernel.Operators{
		"If":                 {Run: branch, Since: 1, Min: 1, Max: 1, Raw: true},
		"Loop":               {Run: loop, Since: 1, Min: 0, Max: kernel.Many, Raw: true},
		"Scan":               {Run: scan, Since: 9, Min: 1, Max: kernel.Many, Raw: true},
		"ImageScaler":        {Run: imageScaler, Since: 1, Min: 1, Max: 1},
		"BatchNormalization": {Run: batchNorm, Since: 7, Min: 5, Max: 5},
		"LRN":                {Run: lrn, Since: 1, Min: 1, Max: 1},
		"LpNormalization":    {Run: lpNorm, Since: 1, Min: 1, Max: 1},
	}
	t.All(kernel.Operator{Run: groupNorm, Since: 6, Min: 3, Max: 3}, "InstanceNormalization", "GroupNormalization")
	t["LinearAttention"] = kernel.Operator{Run: linearAttention, Since: 27, Min: 3, Max: 6}
	t["CausalConvWithState"] = kernel.Operator{Run: causalConv, Since: 27, Min: 2, Max: 4}
	t["RotaryEmbedding"] = kernel.Operator{Run: rotary, Since: 23, Min: 3, Max: 4}
	t["Attention"] = kernel.Operator{Run: standardAttention, Since: 23, Min: 3, Max: 7}
	t["SimplifiedLayerNormalization"] = kernel.Operator{Run: layerNorm, Since: 1, Min: 2, Max: 2} // ONNX Runtime's, in this domain
	t.All(kernel.Operator{Run: layerNorm, Since: 17, Min: 2, Max: 3}, "LayerNormalization", "RMSNormalization")
	t.All(kernel.Operator{Run: recurrent, Since: 7, Min: 3, Max: 8}, "LSTM", "GRU", "RNN")
	return t
}
