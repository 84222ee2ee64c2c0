package arith

import "mm-abi.org/mm/onnx/engine/kernel"

// A Family holds a kernel for each type of an operator.
var (
	arithmetics = kernel.Family{binary(Arithmetic[float32]), binary(Arithmetic[float64]), binary(Arithmetic[int8]), binary(Arithmetic[int16]), binary(Arithmetic[int32]), binary(Arithmetic[int64]), binary(Arithmetic[uint8]), binary(Arithmetic[uint16]), binary(Arithmetic[uint32]), binary(Arithmetic[uint64])}
	comparison  = kernel.Family{compare[float32], compare[float64], compare[int8], compare[int16], compare[int32], compare[int64], compare[uint8], compare[uint16], compare[uint32], compare[uint64]}
	bits8       = kernel.Family{nil, nil, bitwise[int8], bitwise[int16], bitwise[int32], bitwise[int64], bitwise[uint8], bitwise[uint16], bitwise[uint32], bitwise[uint64]}
	inverses    = kernel.Family{nil, nil, bitwiseNot[int8], bitwiseNot[int16], bitwiseNot[int32], bitwiseNot[int64], bitwiseNot[uint8], bitwiseNot[uint16], bitwiseNot[uint32], bitwiseNot[uint64]}
	powers      = kernel.Family{power[float32], power[float64], power[int8], power[int16], power[int32], power[int64], power[uint8], power[uint16], power[uint32], power[uint64]}
	reals       = kernel.Family{scalarFunction[float32], scalarFunction[float64]}
	plains      = kernel.Family{plain[float32], plain[float64], plain[int8], plain[int16], plain[int32], plain[int64], plain[uint8], plain[uint16], plain[uint32], plain[uint64]}
	clips       = kernel.Family{clip[float32], clip[float64], clip[int8], clip[int16], clip[int32], clip[int64], clip[uint8], clip[uint16], clip[uint32], clip[uint64]}
	prelus      = kernel.Family{prelu[float32], prelu[float64], nil, nil, prelu[int32], prelu[int64], nil, nil, prelu[uint32], prelu[uint64]}
	tests       = kernel.Family{test[float32], test[float64]}
	reductions  = kernel.Family{reduction[float32], reduction[float64], reduction[int8], reduction[int16], reduction[int32], reduction[int64], reduction[uint8], reduction[uint16], reduction[uint32], reduction[uint64]}
	arguments   = kernel.Family{argument[float32], argument[float64], argument[int8], argument[int16], argument[int32], argument[int64], argument[uint8], argument[uint16], argument[uint32], argument[uint64]}
	topKs       = kernel.Family{topK[float32], topK[float64], topK[int8], topK[int16], topK[int32], topK[int64], topK[uint8], topK[uint16], topK[uint32], topK[uint64]}
	cumulates   = kernel.Family{cumulate[float32], cumulate[float64], nil, nil, cumulate[int32], cumulate[int64], nil, nil, cumulate[uint32], cumulate[uint64]}
)

// Operators returns the operators of this package.
func Operators() kernel.Operators {
	t := kernel.Operators{
		"Equal":      {Run: equal, Since: 7, Min: 2, Max: 2},
		"BitwiseNot": {Run: inverses.By(0), Since: 18, Min: 1, Max: 1},
		"Not":        {Run: not, Since: 1, Min: 1, Max: 1},
		"Pow":        {Run: powers.By(0), Since: 7, Min: 2, Max: 2},
		"Clip":       {Run: clips.By(0), Since: 6, Min: 1, Max: 3},
		"PRelu":      {Run: prelus.By(0), Since: 7, Min: 2, Max: 2},
		"TopK":       {Run: topKs.By(0), Since: 1, Min: 1, Max: 2},
		"Cast":       {Run: castTo, Since: 6, Min: 1, Max: 1, Raw: true},
		"CastLike":   {Run: castTo, Since: 15, Min: 2, Max: 2, Raw: true},
	}
	t.All(kernel.Operator{Run: random, Since: 1, Raw: true}, "RandomUniform", "RandomNormal")
	t.All(kernel.Operator{Run: random, Since: 1, Min: 1, Max: 1, Raw: true}, "RandomUniformLike", "RandomNormalLike")
	t.All(kernel.Operator{Run: loss, Since: 12, Min: 2, Max: 3}, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
	t["Bernoulli"] = kernel.Operator{Run: bernoulli, Since: 15, Min: 1, Max: 1, Raw: true}
	t["DFT"] = kernel.Operator{Run: dft, Since: 17, Min: 1, Max: 3}
	t["STFT"] = kernel.Operator{Run: stft, Since: 17, Min: 2, Max: 4}
	t["MelWeightMatrix"] = kernel.Operator{Run: melWeights, Since: 17, Min: 5, Max: 5, Raw: true}
	t.All(kernel.Operator{Run: window, Since: 17, Min: 1, Max: 1, Raw: true}, "HannWindow", "HammingWindow", "BlackmanWindow")
	for name := range functions {
		t[name] = kernel.Operator{Run: reals.By(0), Since: 6, Min: 1, Max: 1}
	}
	t.All(kernel.Operator{Run: reals.By(0), Since: 6, Min: 1, Max: 1}, "LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid", "ThresholdedRelu", "Shrink", "Swish", "Gelu")
	t.All(kernel.Operator{Run: plains.By(0), Since: 6, Min: 1, Max: 1}, "Relu", "Neg", "Abs", "Sign")
	t.All(kernel.Operator{Run: arithmetics.By(0), Since: 7, Min: 2, Max: 2}, "Add", "Sub", "Mul", "Div", "Mod")
	t.All(kernel.Operator{Run: arithmetics.By(0), Since: 6, Min: 1, Max: kernel.Many}, "Min", "Max", "Sum", "Mean")
	t.All(kernel.Operator{Run: comparison.By(0), Since: 7, Min: 2, Max: 2}, "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
	t.All(kernel.Operator{Run: logic, Since: 7, Min: 2, Max: 2}, "And", "Or", "Xor")
	t.All(kernel.Operator{Run: bits8.By(0), Since: 7, Min: 2, Max: 2}, "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
	t.All(kernel.Operator{Run: tests.By(0), Since: 9, Min: 1, Max: 1}, "IsNaN", "IsInf")
	t.All(kernel.Operator{Run: truth, Since: 1, Min: 1, Max: 2}, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
	t.All(kernel.Operator{Run: arguments.By(0), Since: 1, Min: 1, Max: 1}, "ArgMax", "ArgMin")
	t.All(kernel.Operator{Run: cumulates.By(0), Since: 11, Min: 2, Max: 2}, "CumSum", "CumProd")
	t.All(kernel.Operator{Run: Softmax, Since: 1, Min: 1, Max: 1}, "Softmax", "LogSoftmax", "Hardmax")
	return t
}
