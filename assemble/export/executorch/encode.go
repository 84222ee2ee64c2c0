package executorch

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"
)

// The extended header follows the identifier of the FlatBuffer.
const (
	identifier   = "ET12"
	headerMagic  = "eh00"
	headerSize   = 32
	headerAt     = 8
	segmentAlign = 16
)

// The members of the union of values, and of that of instructions.
const (
	kindNull       = 1
	kindInt        = 2
	kindBool       = 3
	kindDouble     = 4
	kindTensor     = 5
	kindString     = 6
	kindInts       = 7
	kindTensors    = 10
	kindKernelCall = 1
	kindDelegation = 2
)

// arena is the memory of computed tensors.
const arena = 1

// WriteTo writes the file. Equal programs have equal bytes.
func (p *Program) WriteTo(w io.Writer) (int64, error) {
	head := p.head()
	base := (len(head) + segmentAlign - 1) / segmentAlign * segmentAlign
	offsets, size := p.offsets()
	binary.LittleEndian.PutUint64(head[headerAt+8:], uint64(len(head)))
	binary.LittleEndian.PutUint64(head[headerAt+16:], uint64(base))
	binary.LittleEndian.PutUint64(head[headerAt+24:], size+p.appended())
	at := int64(0)
	write := func(data []byte) error {
		n, err := w.Write(data)
		at += int64(n)
		return err
	}
	if err := write(append(head, make([]byte, base-len(head))...)); err != nil {
		return at, err
	}
	for i, data := range p.Constants {
		if err := write(append(slices.Clip(data), make([]byte, int(offsets[i+1]-offsets[i])-len(data))...)); err != nil {
			return at, err
		}
	}
	for _, data := range p.segments() {
		if err := write(append(slices.Clip(data), make([]byte, aligned(len(data))-len(data))...)); err != nil {
			return at, err
		}
	}
	return at, nil
}

// offsets returns the places of the constants in their segment, and its size.
func (p *Program) offsets() (list []uint64, size uint64) {
	for _, data := range p.Constants {
		list = append(list, size)
		size += uint64(len(data)+segmentAlign-1) / segmentAlign * segmentAlign
	}
	return append(list, size), size
}

// segments returns those after the constants: delegates, and their own constants.
func (p *Program) segments() [][]byte {
	out := slices.Clone(p.Delegates)
	for _, n := range p.Named {
		out = append(out, n.Data)
	}
	return out
}

// appended returns the size of these segments.
func (p *Program) appended() (size uint64) {
	for _, data := range p.segments() {
		size += uint64(aligned(len(data)))
	}
	return size
}

// head returns the FlatBuffer with an extended header whose sizes are 0.
func (p *Program) head() []byte {
	e := &encoder{b: flatbuffers.NewBuilder(1 << 16)}
	data := e.program(p)
	out := make([]byte, 0, len(data)+headerSize)
	out = binary.LittleEndian.AppendUint32(out, binary.LittleEndian.Uint32(data)+headerSize)
	out = append(out, identifier...)
	out = append(out, headerMagic...)
	out = binary.LittleEndian.AppendUint32(out, headerSize)
	out = append(out, make([]byte, headerSize-8)...)
	return append(out, data[8:]...)
}

// encoder writes a FlatBuffer from its end to its start: parts come before the
// tables that refer to them.
type encoder struct{ b *flatbuffers.Builder }

func (e *encoder) program(p *Program) []byte {
	var methods []flatbuffers.UOffsetT
	for _, m := range p.Methods {
		methods = append(methods, e.method(m))
	}
	plans := e.tables(methods)
	offsets, size := p.offsets()
	segments := e.segments(p, size)
	places := e.longs(append([]uint64{0}, offsets[:len(offsets)-1]...)) // index 0 is reserved
	e.b.StartObject(2)
	e.b.PrependUOffsetTSlot(1, places, 0)
	constants := e.b.EndObject()
	var named []flatbuffers.UOffsetT
	for i, n := range p.Named {
		key := e.b.CreateString(n.Key)
		e.b.StartObject(2)
		e.b.PrependUOffsetTSlot(0, key, 0)
		e.b.PrependUint32Slot(1, uint32(1+len(p.Delegates)+i), 0)
		named = append(named, e.b.EndObject())
	}
	keys := e.tables(named)
	e.b.StartObject(8)
	e.b.PrependUOffsetTSlot(1, plans, 0)
	e.b.PrependUOffsetTSlot(4, segments, 0)
	e.b.PrependUOffsetTSlot(5, constants, 0)
	e.b.PrependUOffsetTSlot(7, keys, 0)
	root := e.b.EndObject()
	e.b.FinishWithFileIdentifier(root, []byte(identifier))
	return e.b.FinishedBytes()
}

// segments writes that of the constants, which comes first, and the others.
func (e *encoder) segments(p *Program, constants uint64) flatbuffers.UOffsetT {
	var list []flatbuffers.UOffsetT
	at := uint64(0)
	add := func(size uint64) {
		e.b.StartObject(2)
		e.b.PrependUint64Slot(0, at, 0)
		e.b.PrependUint64Slot(1, size, 0)
		list = append(list, e.b.EndObject())
	}
	add(constants)
	at = constants
	for _, data := range p.segments() {
		add(uint64(len(data)))
		at += uint64(aligned(len(data)))
	}
	return e.tables(list)
}

// delegate writes a reference to a segment.
func (e *encoder) delegate(at int) flatbuffers.UOffsetT {
	e.b.StartObject(2)
	e.b.PrependInt8Slot(0, 1, 0) // in a segment
	e.b.PrependUint32Slot(1, uint32(1+at), 0)
	data := e.b.EndObject()
	id, specs := e.b.CreateString(delegateID), e.tables(nil)
	e.b.StartObject(3)
	e.b.PrependUOffsetTSlot(0, id, 0)
	e.b.PrependUOffsetTSlot(1, data, 0)
	e.b.PrependUOffsetTSlot(2, specs, 0)
	return e.b.EndObject()
}

func (e *encoder) method(m *Method) flatbuffers.UOffsetT {
	var values, operators, calls []flatbuffers.UOffsetT
	for _, v := range m.Values {
		values = append(values, e.value(v))
	}
	for _, name := range m.Operators {
		operators = append(operators, e.operator(name))
	}
	for _, c := range m.Calls {
		calls = append(calls, e.call(c))
	}
	list := e.tables(calls)
	in, out := e.ints(m.Inputs), e.ints(m.Outputs)
	e.b.StartObject(4)
	e.b.PrependUOffsetTSlot(0, in, 0)
	e.b.PrependUOffsetTSlot(1, out, 0)
	e.b.PrependUOffsetTSlot(2, list, 0)
	chains := e.tables([]flatbuffers.UOffsetT{e.b.EndObject()})
	all, kinds := e.tables(values), e.tables(operators)
	var references []flatbuffers.UOffsetT
	for _, at := range m.Delegates {
		references = append(references, e.delegate(at))
	}
	delegates := e.tables(references)
	in, out = e.ints(m.Inputs), e.ints(m.Outputs)
	sizes := e.longs([]uint64{0, uint64(m.Arena)})
	name := e.b.CreateString(m.Name)
	e.b.StartObject(10)
	e.b.PrependUOffsetTSlot(0, name, 0)
	e.b.PrependUOffsetTSlot(2, all, 0)
	e.b.PrependUOffsetTSlot(3, in, 0)
	e.b.PrependUOffsetTSlot(4, out, 0)
	e.b.PrependUOffsetTSlot(5, chains, 0)
	e.b.PrependUOffsetTSlot(6, kinds, 0)
	e.b.PrependUOffsetTSlot(7, delegates, 0)
	e.b.PrependUOffsetTSlot(8, sizes, 0)
	return e.b.EndObject()
}

func (e *encoder) operator(name string) flatbuffers.UOffsetT {
	kind, overload, _ := strings.Cut(name, ".")
	first, second := e.b.CreateString(kind), e.b.CreateString(overload)
	e.b.StartObject(2)
	e.b.PrependUOffsetTSlot(0, first, 0)
	e.b.PrependUOffsetTSlot(1, second, 0)
	return e.b.EndObject()
}

func (e *encoder) call(c Call) flatbuffers.UOffsetT {
	args := e.ints(c.Args)
	e.b.StartObject(2)
	e.b.PrependInt32(int32(c.Operator))
	e.b.Slot(0)
	e.b.PrependUOffsetTSlot(1, args, 0)
	call := e.b.EndObject()
	e.b.StartObject(2)
	kind := byte(kindKernelCall)
	if c.Delegate {
		kind = kindDelegation
	}
	e.b.PrependByteSlot(0, kind, 0)
	e.b.PrependUOffsetTSlot(1, call, 0)
	return e.b.EndObject()
}

// value writes a value: a member of the union in a table.
func (e *encoder) value(v any) flatbuffers.UOffsetT {
	var kind byte
	var at flatbuffers.UOffsetT
	single := func(k byte, put func()) {
		kind = k
		e.b.StartObject(1)
		put()
		e.b.Slot(0)
		at = e.b.EndObject()
	}
	list := func(k byte, items flatbuffers.UOffsetT) { single(k, func() { e.b.PrependUOffsetT(items) }) }
	switch v := v.(type) {
	case nil:
		kind = kindNull
		e.b.StartObject(0)
		at = e.b.EndObject()
	case int64:
		single(kindInt, func() { e.b.PrependInt64(v) })
	case bool:
		single(kindBool, func() { e.b.PrependBool(v) })
	case float64:
		single(kindDouble, func() { e.b.PrependFloat64(v) })
	case string:
		list(kindString, e.b.CreateString(v))
	case Ints:
		list(kindInts, e.longs(unsigned(v)))
	case Values:
		list(kindTensors, e.ints(v))
	case *Tensor:
		kind, at = kindTensor, e.tensor(v)
	default:
		panic("executorch: value of an unknown type")
	}
	e.b.StartObject(2)
	e.b.PrependByteSlot(0, kind, 0)
	e.b.PrependUOffsetTSlot(1, at, 0)
	return e.b.EndObject()
}

func (e *encoder) tensor(t *Tensor) flatbuffers.UOffsetT {
	order := make([]byte, len(t.Shape))
	for i := range order {
		order[i] = byte(i)
	}
	sizes, dims := e.ints(t.Shape), e.b.CreateByteVector(order)
	var place flatbuffers.UOffsetT
	if t.Constant < 0 {
		e.b.StartObject(3)
		e.b.PrependUint32Slot(0, arena, 0)
		e.b.PrependUint32Slot(1, uint32(t.Offset), 0)
		e.b.PrependUint32Slot(2, uint32(t.Offset>>32), 0)
		place = e.b.EndObject()
	}
	e.b.StartObject(10)
	e.b.PrependInt8(int8(t.Type))
	e.b.Slot(0)
	e.b.PrependUOffsetTSlot(2, sizes, 0)
	e.b.PrependUOffsetTSlot(3, dims, 0)
	e.b.PrependUint32Slot(5, uint32(t.Constant+1), 0)
	e.b.PrependUOffsetTSlot(6, place, 0)
	return e.b.EndObject()
}

func (e *encoder) ints(list []int) flatbuffers.UOffsetT {
	e.b.StartVector(4, len(list), 4)
	for _, v := range slices.Backward(list) {
		e.b.PrependInt32(int32(v))
	}
	return e.b.EndVector(len(list))
}

func unsigned(list []int) []uint64 {
	out := make([]uint64, len(list))
	for i, v := range list {
		out[i] = uint64(v)
	}
	return out
}

func (e *encoder) longs(list []uint64) flatbuffers.UOffsetT {
	e.b.StartVector(8, len(list), 8)
	for _, v := range slices.Backward(list) {
		e.b.PrependUint64(v)
	}
	return e.b.EndVector(len(list))
}

func (e *encoder) tables(list []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	e.b.StartVector(4, len(list), 4)
	for _, at := range slices.Backward(list) {
		e.b.PrependUOffsetT(at)
	}
	return e.b.EndVector(len(list))
}
