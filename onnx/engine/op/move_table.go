package op

import "mm-abi.org/mm/onnx/engine/kernel"

// ramps holds Range for each type.
var ramps = kernel.Family{ramp[float32], ramp[float64], nil, ramp[int16], ramp[int32], ramp[int64]}

// moves returns the operators of this package. They accept elements of any
// type.
func moves() kernel.Operators {
	t := kernel.Operators{}
	one := func(run kernel.Func, since int64, names ...string) {
		t.All(kernel.Operator{Run: run, Since: since, Min: 1, Max: 1, Raw: true}, names...)
	}
	one(identity, 1, "Identity")
	one(shapeOf, 1, "Shape")
	one(size, 1, "Size")
	one(flatten, 1, "Flatten")
	one(transpose, 1, "Transpose")
	one(constantOfShape, 9, "ConstantOfShape")
	one(eye, 9, "EyeLike")
	one(nonZero, 9, "NonZero")
	one(depthToSpace, 1, "DepthToSpace")
	one(spaceToDepth, 1, "SpaceToDepth")
	two := func(run kernel.Func, least int, since int64, names ...string) {
		t.All(kernel.Operator{Run: run, Since: since, Min: least, Max: 2, Raw: true}, names...)
	}
	two(reshape, 1, 1, "Reshape")
	two(squeeze, 1, 1, "Squeeze")
	two(unsqueeze, 1, 1, "Unsqueeze")
	two(expand, 2, 8, "Expand")
	two(tile, 2, 6, "Tile")
	two(split, 1, 2, "Split")
	two(gather, 2, 1, "Gather")
	two(gatherElements, 2, 11, "GatherElements")
	two(gatherND, 2, 11, "GatherND")
	two(compress, 2, 9, "Compress")
	two(reverse, 2, 10, "ReverseSequence")
	two(triangle, 1, 14, "Trilu")
	two(centerCropPad, 2, 18, "CenterCropPad")
	one(bitCast, 26, "BitCast")
	t["Unique"] = kernel.Operator{Run: uniques.By(0), Since: 11, Min: 1, Max: 1}
	t["TensorScatter"] = kernel.Operator{Run: tensorScatter, Since: 24, Min: 2, Max: 3, Raw: true}
	t["Constant"] = kernel.Operator{Run: constant, Since: 1, Raw: true}
	t["Range"] = kernel.Operator{Run: ramps.By(0), Since: 11, Min: 3, Max: 3}
	t["Where"] = kernel.Operator{Run: where, Since: 9, Min: 3, Max: 3, Raw: true}
	t["Concat"] = kernel.Operator{Run: concat, Since: 4, Min: 1, Max: kernel.Many, Raw: true}
	t["Slice"] = kernel.Operator{Run: slice, Since: 1, Min: 1, Max: 5, Raw: true}
	t["Pad"] = kernel.Operator{Run: pad, Since: 2, Min: 1, Max: 4, Raw: true}
	t["OneHot"] = kernel.Operator{Run: oneHot, Since: 9, Min: 3, Max: 3, Raw: true}
	t.All(kernel.Operator{Run: scatterElements, Since: 9, Min: 3, Max: 3, Raw: true}, "ScatterElements", "Scatter")
	t["ScatterND"] = kernel.Operator{Run: scatterND, Since: 11, Min: 3, Max: 3, Raw: true}
	t["Dropout"] = kernel.Operator{Run: dropout, Since: 7, Min: 1, Max: 3, Raw: true}
	return t
}
