package op

// The families: a kernel for each type that an operator takes.
var (
	arithmetics = family{binary(arithmetic[float32]), binary(arithmetic[float64]), binary(arithmetic[int8]), binary(arithmetic[int16]), binary(arithmetic[int32]), binary(arithmetic[int64]), binary(arithmetic[uint8]), binary(arithmetic[uint16]), binary(arithmetic[uint32]), binary(arithmetic[uint64])}
	comparison  = family{compare[float32], compare[float64], compare[int8], compare[int16], compare[int32], compare[int64], compare[uint8], compare[uint16], compare[uint32], compare[uint64]}
	bits8       = family{nil, nil, bitwise[int8], bitwise[int16], bitwise[int32], bitwise[int64], bitwise[uint8], bitwise[uint16], bitwise[uint32], bitwise[uint64]}
	inverses    = family{nil, nil, bitwiseNot[int8], bitwiseNot[int16], bitwiseNot[int32], bitwiseNot[int64], bitwiseNot[uint8], bitwiseNot[uint16], bitwiseNot[uint32], bitwiseNot[uint64]}
	powers      = family{power[float32], power[float64], power[int8], power[int16], power[int32], power[int64], power[uint8], power[uint16], power[uint32], power[uint64]}
	reals       = family{real[float32], real[float64]}
	plains      = family{plain[float32], plain[float64], plain[int8], plain[int16], plain[int32], plain[int64], plain[uint8], plain[uint16], plain[uint32], plain[uint64]}
	clips       = family{clip[float32], clip[float64], clip[int8], clip[int16], clip[int32], clip[int64], clip[uint8], clip[uint16], clip[uint32], clip[uint64]}
	prelus      = family{prelu[float32], prelu[float64], nil, nil, prelu[int32], prelu[int64], nil, nil, prelu[uint32], prelu[uint64]}
	tests       = family{test[float32], test[float64]}
	ramps       = family{ramp[float32], ramp[float64], nil, ramp[int16], ramp[int32], ramp[int64]}
	reductions  = family{reduction[float32], reduction[float64], reduction[int8], reduction[int16], reduction[int32], reduction[int64], reduction[uint8], reduction[uint16], reduction[uint32], reduction[uint64]}
	arguments   = family{argument[float32], argument[float64], argument[int8], argument[int16], argument[int32], argument[int64], argument[uint8], argument[uint16], argument[uint32], argument[uint64]}
	topKs       = family{topK[float32], topK[float64], topK[int8], topK[int16], topK[int32], topK[int64], topK[uint8], topK[uint16], topK[uint32], topK[uint64]}
	cumulates   = family{cumulate[float32], cumulate[float64], nil, nil, cumulate[int32], cumulate[int64], nil, nil, cumulate[uint32], cumulate[uint64]}
	products    = family{nil, slow[float64], nil, nil, slow[int32], slow[int64], nil, nil, slow[uint32], slow[uint64]}
	pools       = family{pooling[float32], pooling[float64], pooling[int8], nil, nil, nil, pooling[uint8]}
	einsums     = family{einsum[float32], einsum[float64], nil, nil, einsum[int32], einsum[int64]}
	globals     = family{globalPool[float32], globalPool[float64]}
)

// table holds every operator of ai.onnx that is claimed.
var table = func() map[string]operator {
	t := make(map[string]operator)
	all := func(o operator, names ...string) {
		for _, n := range names {
			t[n] = o
		}
	}
	for name := range functions {
		t[name] = operator{run: reals.by(0), since: 6, min: 1, max: 1}
	}
	all(operator{run: reals.by(0), since: 6, min: 1, max: 1}, "LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid", "ThresholdedRelu", "Shrink", "Swish", "Gelu")
	all(operator{run: plains.by(0), since: 6, min: 1, max: 1}, "Relu", "Neg", "Abs", "Sign")
	all(operator{run: arithmetics.by(0), since: 7, min: 2, max: 2}, "Add", "Sub", "Mul", "Div", "Mod")
	all(operator{run: arithmetics.by(0), since: 6, min: 1, max: many}, "Min", "Max", "Sum", "Mean")
	all(operator{run: comparison.by(0), since: 7, min: 2, max: 2}, "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
	t["Equal"] = operator{run: equal, since: 7, min: 2, max: 2}
	all(operator{run: logic, since: 7, min: 2, max: 2}, "And", "Or", "Xor")
	all(operator{run: bits8.by(0), since: 7, min: 2, max: 2}, "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
	t["BitwiseNot"] = operator{run: inverses.by(0), since: 18, min: 1, max: 1}
	t["Not"] = operator{run: not, since: 1, min: 1, max: 1}
	t["Pow"] = operator{run: powers.by(0), since: 7, min: 2, max: 2}
	t["Clip"] = operator{run: clips.by(0), since: 6, min: 1, max: 3}
	t["PRelu"] = operator{run: prelus.by(0), since: 7, min: 2, max: 2}
	all(operator{run: tests.by(0), since: 9, min: 1, max: 1}, "IsNaN", "IsInf")
	movements(t, all)
	all(operator{run: truth, since: 1, min: 1, max: 2}, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
	all(operator{run: arguments.by(0), since: 1, min: 1, max: 1}, "ArgMax", "ArgMin")
	t["TopK"] = operator{run: topKs.by(0), since: 1, min: 1, max: 2}
	all(operator{run: cumulates.by(0), since: 11, min: 2, max: 2}, "CumSum", "CumProd")
	all(operator{run: softmax, since: 1, min: 1, max: 1}, "Softmax", "LogSoftmax", "Hardmax")
	t["MatMul"] = operator{run: matmul, since: 1, min: 2, max: 2}
	t["Gemm"] = operator{run: gemm, since: 7, min: 2, max: 3}
	t["Einsum"] = operator{run: einsums.by(0), since: 12, min: 1, max: 8}
	t["Conv"] = operator{run: convolve, since: 1, min: 2, max: 3}
	t["ConvTranspose"] = operator{run: convTranspose, since: 1, min: 2, max: 3}
	all(operator{run: pools.by(0), since: 1, min: 1, max: 1}, "MaxPool", "AveragePool", "LpPool")
	all(operator{run: globals.by(0), since: 1, min: 1, max: 1}, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
	t["ImageScaler"] = operator{run: imageScaler, since: 1, min: 1, max: 1}
	t["BatchNormalization"] = operator{run: batchNorm, since: 7, min: 5, max: 5}
	all(operator{run: groupNorm, since: 6, min: 3, max: 3}, "InstanceNormalization", "GroupNormalization")
	all(operator{run: layerNorm, since: 17, min: 2, max: 3}, "LayerNormalization", "RMSNormalization")
	t["LRN"] = operator{run: lrn, since: 1, min: 1, max: 1}
	t["LpNormalization"] = operator{run: lpNorm, since: 1, min: 1, max: 1}
	all(operator{run: recurrent, since: 7, min: 3, max: 8}, "LSTM", "GRU", "RNN")
	t["NonMaxSuppression"] = operator{run: suppress, since: 10, min: 2, max: 5}
	all(operator{run: quantize, since: 10, min: 2, max: 3, raw: true}, "QuantizeLinear")
	all(operator{run: dequantize, since: 10, min: 2, max: 3, raw: true}, "DequantizeLinear")
	t["DynamicQuantizeLinear"] = operator{run: dynamicQuantize, since: 11, min: 1, max: 1, raw: true}
	t["MatMulInteger"] = operator{run: matmulInteger, since: 10, min: 2, max: 4, raw: true}
	t["ConvInteger"] = operator{run: convInteger, since: 10, min: 2, max: 4, raw: true}
	t["QLinearMatMul"] = operator{run: qlinear, since: 10, min: 8, max: 8, raw: true}
	t["QLinearConv"] = operator{run: qlinear, since: 10, min: 8, max: 9, raw: true}
	return t
}()

// movements adds the operators that take elements of any type as they are.
func movements(t map[string]operator, all func(operator, ...string)) {
	one := func(run Kernel, since int64, names ...string) {
		all(operator{run: run, since: since, min: 1, max: 1, raw: true}, names...)
	}
	one(identity, 1, "Identity")
	one(castTo, 6, "Cast")
	one(shapeOf, 1, "Shape")
	one(size, 1, "Size")
	one(flatten, 1, "Flatten")
	one(transpose, 1, "Transpose")
	one(constantOfShape, 9, "ConstantOfShape")
	one(eye, 9, "EyeLike")
	one(nonZero, 9, "NonZero")
	one(depthToSpace, 1, "DepthToSpace")
	one(spaceToDepth, 1, "SpaceToDepth")
	two := func(run Kernel, least int, since int64, names ...string) {
		all(operator{run: run, since: since, min: least, max: 2, raw: true}, names...)
	}
	two(castTo, 2, 15, "CastLike")
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
	t["Constant"] = operator{run: constant, since: 1, raw: true}
	t["Range"] = operator{run: ramps.by(0), since: 11, min: 3, max: 3}
	t["Where"] = operator{run: where, since: 9, min: 3, max: 3, raw: true}
	t["Concat"] = operator{run: concat, since: 4, min: 1, max: many, raw: true}
	t["Slice"] = operator{run: slice, since: 1, min: 1, max: 5, raw: true}
	t["Pad"] = operator{run: pad, since: 2, min: 1, max: 4, raw: true}
	t["OneHot"] = operator{run: oneHot, since: 9, min: 3, max: 3, raw: true}
	all(operator{run: scatterElements, since: 9, min: 3, max: 3, raw: true}, "ScatterElements", "Scatter")
	t["ScatterND"] = operator{run: scatterND, since: 11, min: 3, max: 3, raw: true}
	t["Resize"] = operator{run: resize, since: 10, min: 1, max: 4}
	t["Upsample"] = operator{run: resize, since: 7, min: 1, max: 2}
	t["Dropout"] = operator{run: dropout, since: 7, min: 1, max: 3, raw: true}
	t["If"] = operator{run: branch, since: 1, min: 1, max: 1, raw: true}
	t["Loop"] = operator{run: loop, since: 1, min: 0, max: many, raw: true}
}
