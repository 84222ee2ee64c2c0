package tflite

// Type is the type of a tensor's elements, with the schema's numbers.
type Type int8

// The types that the exporter writes.
const (
	Float32 Type = 0
	Float16 Type = 1
	Int32   Type = 2
	Uint8   Type = 3
	Int64   Type = 4
	Bool    Type = 6
	Int8    Type = 9
)

// size returns the size of an element in bytes.
func (t Type) size() int {
	switch t {
	case Float32, Int32:
		return 4
	case Float16:
		return 2
	case Int64:
		return 8
	}
	return 1
}

// Code is a built-in operator, with the schema's numbers.
type Code int32

// The operators that the exporter writes.
const (
	Add            Code = 0
	PoolAverage    Code = 1
	Concatenation  Code = 2
	Conv           Code = 3
	DepthwiseConv  Code = 4
	Dequantize     Code = 6
	Floor          Code = 8
	FullyConnected Code = 9
	Logistic       Code = 14
	PoolMax        Code = 17
	Mul            Code = 18
	Relu           Code = 19
	Relu6          Code = 21
	Reshape        Code = 22
	ResizeBilinear Code = 23
	Softmax        Code = 25
	Tanh           Code = 28
	Pad            Code = 34
	Gather         Code = 36
	Transpose      Code = 39
	Mean           Code = 40
	Sub            Code = 41
	Div            Code = 42
	StridedSlice   Code = 45
	Exp            Code = 47
	Cast           Code = 53
	Maximum        Code = 55
	Minimum        Code = 57
	Neg            Code = 59
	PadV2          Code = 60
	Sin            Code = 66
	Log            Code = 73
	Sum            Code = 74
	Sqrt           Code = 75
	Rsqrt          Code = 76
	Pow            Code = 78
	ReduceMax      Code = 82
	ResizeNearest  Code = 97
	LeakyRelu      Code = 98
	SquaredDiff    Code = 99
	Abs            Code = 101
	Cos            Code = 108
	Elu            Code = 111
	HardSwish      Code = 117
	BatchMatMul    Code = 126
	Gelu           Code = 150
	Less           Code = 58
	Greater        Code = 61
	Transposed     Code = 67 // TRANSPOSE_CONV
	Tile           Code = 69
	Equal          Code = 71
	NotEqual       Code = 72
	LogicalOr      Code = 84
	LogicalAnd     Code = 86
	LogicalNot     Code = 87
	ReduceMin      Code = 89
	Mirror         Code = 100 // MIRROR_PAD
	Ceil           Code = 104
	Round          Code = 116
	Select         Code = 123 // SELECT_V2
)

// options returns the number of an operator's table of options in the schema's
// union; 0 for none.
func (c Code) options() byte {
	switch c {
	case Conv:
		return 1
	case DepthwiseConv:
		return 2
	case PoolAverage, PoolMax:
		return 5
	case FullyConnected:
		return 8
	case Softmax:
		return 9
	case Concatenation:
		return 10
	case Add:
		return 11
	case ResizeBilinear:
		return 15
	case Reshape:
		return 17
	case Mul:
		return 21
	case Pad:
		return 22
	case PadV2:
		return 43
	case Gather:
		return 23
	case Transpose:
		return 26
	case Transposed:
		return 49
	case Mirror:
		return 77
	case Mean, Sum, ReduceMax, ReduceMin:
		return 27
	case Sub:
		return 28
	case Div:
		return 29
	case StridedSlice:
		return 32
	case Cast:
		return 37
	case ResizeNearest:
		return 74
	case LeakyRelu:
		return 75
	case BatchMatMul:
		return 101
	case Gelu:
		return 116
	}
	return 0
}

// The fields of tables that the exporter writes, by their slots.
const (
	modelVersion, modelCodes, modelSubgraphs, modelDescription, modelBuffers, modelMetadata, modelSignatures = 0, 1, 2, 3, 4, 6, 7

	codeDeprecated, codeVersion, codeBuiltin = 0, 2, 3

	graphTensors, graphInputs, graphOutputs, graphOperators, graphName = 0, 1, 2, 3, 4

	tensorShape, tensorType, tensorBuffer, tensorName, tensorQuantization = 0, 1, 2, 3, 4

	quantScale, quantZero, quantAxis = 2, 3, 6

	operatorCode, operatorInputs, operatorOutputs, operatorOptionsType, operatorOptions = 0, 1, 2, 3, 4

	bufferData = 0

	signatureInputs, signatureOutputs, signatureKey, signatureGraph = 0, 1, 2, 4

	mapName, mapTensor = 0, 1

	metadataName, metadataBuffer = 0, 1
)
