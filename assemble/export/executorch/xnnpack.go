package executorch

import (
	"encoding/binary"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"
)

// delegateID names the backend that computes delegates.
const delegateID = "XnnpackBackend"

// The start of a delegate: zeros in the place of an identifier, the magic, its own
// size, and the places of the graph and of the constants, which are elsewhere.
const (
	delegateMagic = "XH00"
	delegateSize  = 30
	delegateHead  = 32 // aligned
	xnnIdentifier = "XN01"
)

// The types of XNNPACK's values.
const (
	xnnFloat32   = 1
	xnnFloat16   = 2
	xnnPerOutput = 6 // int8 with a scale for each output channel
)

// The members of the union of nodes.
const (
	xnnAdd = 1 + iota
	xnnFullyConnected
	xnnSoftmax
	xnnSigmoid
	xnnTranspose
	xnnClamp
	xnnConv
	xnnDivide
	xnnResizeBilinear
	xnnPad
	xnnAvgPool
	xnnMinimum
	xnnDepthwise
	xnnMaxPool
	xnnMultiply
	xnnSubtract
	xnnFloor
	xnnConvert
	xnnGlobalAvgPool
	xnnReshape
	xnnArgMaxPool
	xnnSquareRoot
	xnnCeiling
	xnnHardSwish
	xnnLeakyRelu
	xnnMaximum
	xnnNegate
	xnnSquare
	xnnElu
	xnnAbs
	xnnPRelu
	xnnConcat2
	xnnConcat3
	xnnConcat4
	xnnSlice
	xnnAttention
	xnnBatchMatMul
	xnnConcat5
	xnnConvTranspose
	xnnReciprocalRoot
	xnnLog
	xnnGelu
	xnnTanh
	xnnExp
	xnnSin
	xnnCopy
	xnnCos
)

// Flags of nodes.
const (
	xnnTransposeB = 0x01
	xnnKeepDims   = 0x40
	xnnAligned    = 0x08 // corners
)

// noValue is the id of an absent value.
const noValue = math.MaxUint32

// xnnValue is a tensor of a delegate: an external one, a constant, or one between
// nodes.
type xnnValue struct {
	dtype  int16
	dims   []int
	data   int // index of a constant from 1 on, 0 for none
	scales int // index of the constant of scales, 0 for none
	count  int // of scales, one for each index of the first dimension
}

// xnnNode is an operation: the fields of its table in order.
type xnnNode struct {
	kind   byte
	fields []any // uint32, float32, or []int for a list
	limits *[2]float32
}

// xnnConstant refers to data of the program.
type xnnConstant struct {
	key  string
	size int
}

// xnn is a graph of XNNPACK.
type xnn struct {
	values          []xnnValue
	nodes           []xnnNode
	constants       []xnnConstant
	inputs, outputs []uint32
}

func (x *xnn) value(v xnnValue) uint32 {
	x.values = append(x.values, v)
	return uint32(len(x.values) - 1)
}

func (x *xnn) node(kind byte, fields ...any) {
	x.nodes = append(x.nodes, xnnNode{kind: kind, fields: fields})
}

// clamp limits a value.
func (x *xnn) clamp(from, to uint32, low, high float32) {
	x.nodes = append(x.nodes, xnnNode{xnnClamp, []any{from, to, uint32(0)}, &[2]float32{low, high}})
}

// bytes returns the data of the delegate.
func (x *xnn) bytes() []byte {
	graph := x.graph()
	out := make([]byte, delegateHead+aligned(len(graph)))
	copy(out[4:], delegateMagic)
	binary.LittleEndian.PutUint16(out[8:], delegateSize)
	binary.LittleEndian.PutUint32(out[10:], delegateHead)
	binary.LittleEndian.PutUint32(out[14:], uint32(len(graph)))
	binary.LittleEndian.PutUint32(out[18:], uint32(len(out)))
	copy(out[delegateHead:], graph)
	return out
}

func aligned(n int) int { return (n + segmentAlign - 1) / segmentAlign * segmentAlign }

// graph returns the FlatBuffer of the graph.
func (x *xnn) graph() []byte {
	e := &encoder{b: flatbuffers.NewBuilder(1 << 10)}
	var nodes, values, places []flatbuffers.UOffsetT
	for _, n := range x.nodes {
		nodes = append(nodes, e.xnnNode(n))
	}
	externs := map[uint32]extern{}
	for i, id := range x.inputs {
		externs[id] = extern{uint32(i), 1}
	}
	for i, id := range x.outputs {
		externs[id] = extern{uint32(len(x.inputs) + i), 2}
	}
	for id, v := range x.values {
		values = append(values, e.xnnValue(v, uint32(id), externs))
	}
	places = append(places, e.xnnPlace(xnnConstant{})) // index 0 is reserved
	for _, c := range x.constants {
		places = append(places, e.xnnPlace(c))
	}
	version := e.b.CreateString("0")
	list, all, constants := e.tables(nodes), e.tables(values), e.tables(places)
	in, out := e.ids(x.inputs), e.ids(x.outputs)
	e.b.StartObject(9)
	e.b.PrependUOffsetTSlot(0, version, 0)
	e.b.PrependUOffsetTSlot(1, list, 0)
	e.b.PrependUOffsetTSlot(2, all, 0)
	e.b.PrependUint32Slot(3, uint32(len(externs)), 0)
	e.b.PrependUOffsetTSlot(4, in, 0)
	e.b.PrependUOffsetTSlot(5, out, 0)
	e.b.PrependUOffsetTSlot(8, constants, 0)
	root := e.b.EndObject()
	e.b.FinishWithFileIdentifier(root, []byte(xnnIdentifier))
	return e.b.FinishedBytes()
}

// extern is the place of a value among the arguments of the call, and its flag.
type extern struct{ id, flag uint32 }

func (e *encoder) ids(list []uint32) flatbuffers.UOffsetT {
	var out []int
	for _, id := range list {
		out = append(out, int(id))
	}
	return e.ints(out)
}

// xnnPlace writes a reference to a constant.
func (e *encoder) xnnPlace(c xnnConstant) flatbuffers.UOffsetT {
	key, offset := e.b.CreateString(c.key), uint64(math.MaxUint64)
	if c.key == "" {
		offset = 0
	}
	e.b.StartObject(3)
	e.b.PrependUint64Slot(0, offset, 0)
	e.b.PrependUint64Slot(1, uint64(c.size), 0)
	e.b.PrependUOffsetTSlot(2, key, 0)
	return e.b.EndObject()
}

// xnnNode writes an operation.
func (e *encoder) xnnNode(n xnnNode) flatbuffers.UOffsetT {
	lists := map[int]flatbuffers.UOffsetT{}
	for i, f := range n.fields {
		if list, ok := f.([]int); ok {
			lists[i] = e.ints(list)
		}
	}
	e.b.StartObject(len(n.fields))
	for i, f := range n.fields {
		switch v := f.(type) {
		case uint32:
			e.b.PrependUint32Slot(i, v, 0)
		case float32:
			e.b.PrependFloat32Slot(i, v, 0)
		default:
			e.b.PrependUOffsetTSlot(i, lists[i], 0)
		}
	}
	at, limits := e.b.EndObject(), flatbuffers.UOffsetT(0)
	if n.limits != nil {
		e.b.StartObject(2)
		e.b.PrependFloat32Slot(0, n.limits[0], 0)
		e.b.PrependFloat32Slot(1, n.limits[1], 0)
		limits = e.b.EndObject()
	}
	e.b.StartObject(4)
	e.b.PrependByteSlot(0, n.kind, 0)
	e.b.PrependUOffsetTSlot(1, at, 0)
	e.b.PrependUOffsetTSlot(3, limits, 0)
	return e.b.EndObject()
}

// xnnValue writes a tensor.
func (e *encoder) xnnValue(v xnnValue, id uint32, externs map[uint32]extern) flatbuffers.UOffsetT {
	const plain, quantized = 1, 2 // members of the union
	dims := e.ints(v.dims)
	external, ok := externs[id]
	if !ok {
		external.id = noValue
	}
	e.b.StartObject(7)
	e.b.PrependInt16Slot(0, v.dtype, 0)
	e.b.PrependUint32Slot(1, uint32(len(v.dims)), 0)
	e.b.PrependUOffsetTSlot(2, dims, 0)
	e.b.PrependUint32Slot(3, uint32(v.data), 0)
	e.b.PrependUint32Slot(4, external.id, 0)
	e.b.PrependUint32Slot(5, external.flag, 0)
	e.b.PrependUint32Slot(6, id, 0)
	kind, at := byte(plain), e.b.EndObject()
	if v.scales > 0 {
		kind, at = quantized, e.xnnQuantized(v, at)
	}
	e.b.StartObject(2)
	e.b.PrependByteSlot(0, kind, 0)
	e.b.PrependUOffsetTSlot(1, at, 0)
	return e.b.EndObject()
}

// xnnQuantized writes a tensor with its scales.
func (e *encoder) xnnQuantized(v xnnValue, tensor flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	const byChannel = 1 // the member of the union
	none := e.ints(nil)
	e.b.StartObject(4)
	e.b.PrependUOffsetTSlot(0, none, 0)
	e.b.PrependUint32Slot(2, uint32(v.scales), 0)
	e.b.PrependUint32Slot(3, uint32(v.count), 0)
	params := e.b.EndObject()
	e.b.StartObject(3)
	e.b.PrependUOffsetTSlot(0, tensor, 0)
	e.b.PrependByteSlot(1, byChannel, 0)
	e.b.PrependUOffsetTSlot(2, params, 0)
	return e.b.EndObject()
}
