package image

import "mm-abi.org/mm/onnx/engine/kernel"

// A Family holds a kernel for each type of an operator.
var (
	pools   = kernel.Family{pooling[float32], pooling[float64], pooling[int8], nil, nil, nil, pooling[uint8]}
	globals = kernel.Family{globalPool[float32], globalPool[float64]}
)

// Operators returns the operators of this package.
func Operators() kernel.Operators {
	t := kernel.Operators{
		"Conv":              {Run: convolve, Since: 1, Min: 2, Max: 3},
		"ConvTranspose":     {Run: convTranspose, Since: 1, Min: 2, Max: 3},
		"ConvInteger":       {Run: convInteger, Since: 10, Min: 2, Max: 4, Raw: true},
		"QLinearConv":       {Run: qlinearConv, Since: 10, Min: 8, Max: 9, Raw: true},
		"NonMaxSuppression": {Run: suppress, Since: 10, Min: 2, Max: 5},
		"Resize":            {Run: resize, Since: 10, Min: 1, Max: 4},
		"GridSample":        {Run: gridSample, Since: 16, Min: 2, Max: 2},
		"AffineGrid":        {Run: affineGrid, Since: 20, Min: 2, Max: 2},
		"RoiAlign":          {Run: roiAlign, Since: 10, Min: 3, Max: 3},
		"Upsample":          {Run: resize, Since: 7, Min: 1, Max: 2},
	}
	t.All(kernel.Operator{Run: pools.By(0), Since: 1, Min: 1, Max: 1}, "MaxPool", "AveragePool", "LpPool")
	t.All(kernel.Operator{Run: globals.By(0), Since: 1, Min: 1, Max: 1}, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
	return t
}
