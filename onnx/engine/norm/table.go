package norm

import "mm-abi.org/mm/onnx/engine/kernel"

// Operators are the operators of this package.
func Operators() kernel.Operators {
	t := kernel.Operators{
		"ImageScaler":        {Run: imageScaler, Since: 1, Min: 1, Max: 1},
		"BatchNormalization": {Run: batchNorm, Since: 7, Min: 5, Max: 5},
		"LRN":                {Run: lrn, Since: 1, Min: 1, Max: 1},
		"LpNormalization":    {Run: lpNorm, Since: 1, Min: 1, Max: 1},
	}
	t.All(kernel.Operator{Run: groupNorm, Since: 6, Min: 3, Max: 3}, "InstanceNormalization", "GroupNormalization")
	t.All(kernel.Operator{Run: layerNorm, Since: 17, Min: 2, Max: 3}, "LayerNormalization", "RMSNormalization")
	return t
}
