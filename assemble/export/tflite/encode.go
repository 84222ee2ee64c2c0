package tflite

import (
	"crypto/sha256"
	"fmt"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Encode returns the model as a file. Equal models have equal bytes.
func (m *Model) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("tflite: %w", err)
	}
	size := 1 << 16
	for i := range m.Tensors {
		size += len(m.Tensors[i].Data) + 256
	}
	e := &encoder{b: flatbuffers.NewBuilder(size), seen: map[[sha256.Size]byte]int{}}
	return e.model(m), nil
}

// encoder writes a FlatBuffer from its end to its start: parts come before the
// tables that refer to them.
type encoder struct {
	b       *flatbuffers.Builder
	buffers []flatbuffers.UOffsetT // buffer 0 is the empty one of tensors without data
	seen    map[[sha256.Size]byte]int
	codes   []key
}

// key is an entry of the model's table of operators.
type key struct {
	code    Code
	version int
}

func (e *encoder) model(m *Model) []byte {
	e.buffers = append(e.buffers, e.buffer(nil))
	metadata := e.metadata(m)
	subgraphs := e.offsets([]flatbuffers.UOffsetT{e.graph(m)})
	signatures := e.offsets([]flatbuffers.UOffsetT{e.signature(m)})
	codes := e.operatorCodes()
	buffers := e.offsets(e.buffers)
	description := e.b.CreateString(m.Description)
	e.b.StartObject(8)
	e.b.PrependUint32Slot(modelVersion, 3, 0)
	e.b.PrependUOffsetTSlot(modelCodes, codes, 0)
	e.b.PrependUOffsetTSlot(modelSubgraphs, subgraphs, 0)
	e.b.PrependUOffsetTSlot(modelDescription, description, 0)
	e.b.PrependUOffsetTSlot(modelBuffers, buffers, 0)
	e.b.PrependUOffsetTSlot(modelMetadata, metadata, 0)
	e.b.PrependUOffsetTSlot(modelSignatures, signatures, 0)
	root := e.b.EndObject()
	e.b.FinishWithFileIdentifier(root, []byte("TFL3"))
	return e.b.FinishedBytes()
}

// buffer writes a buffer whose data are aligned to 16 bytes, as kernels require.
func (e *encoder) buffer(data []byte) flatbuffers.UOffsetT {
	var at flatbuffers.UOffsetT
	if len(data) > 0 {
		e.b.Prep(16, len(data))
		at = e.b.CreateByteVector(data)
	}
	e.b.StartObject(3)
	e.b.PrependUOffsetTSlot(bufferData, at, 0)
	return e.b.EndObject()
}

func (e *encoder) metadata(m *Model) flatbuffers.UOffsetT {
	var list []flatbuffers.UOffsetT
	for _, entry := range m.Metadata {
		e.buffers = append(e.buffers, e.buffer([]byte(entry.Value)))
		name := e.b.CreateString(entry.Key)
		e.b.StartObject(2)
		e.b.PrependUOffsetTSlot(metadataName, name, 0)
		e.b.PrependUint32Slot(metadataBuffer, uint32(len(e.buffers)-1), 0)
		list = append(list, e.b.EndObject())
	}
	return e.offsets(list)
}

func (e *encoder) graph(m *Model) flatbuffers.UOffsetT {
	var tensors, operators []flatbuffers.UOffsetT
	for i := range m.Tensors {
		tensors = append(tensors, e.tensor(&m.Tensors[i]))
	}
	for i := range m.Operators {
		operators = append(operators, e.operator(&m.Operators[i]))
	}
	ops, values := e.offsets(operators), e.offsets(tensors)
	in, out := e.ints(places(m.Inputs)), e.ints(places(m.Outputs))
	name := e.b.CreateString("main")
	e.b.StartObject(6)
	e.b.PrependUOffsetTSlot(graphTensors, values, 0)
	e.b.PrependUOffsetTSlot(graphInputs, in, 0)
	e.b.PrependUOffsetTSlot(graphOutputs, out, 0)
	e.b.PrependUOffsetTSlot(graphOperators, ops, 0)
	e.b.PrependUOffsetTSlot(graphName, name, 0)
	return e.b.EndObject()
}

func places(ports []Port) (list []int) {
	for _, p := range ports {
		list = append(list, p.Tensor)
	}
	return list
}

func (e *encoder) tensor(t *Tensor) flatbuffers.UOffsetT {
	index := 0
	if t.Data != nil {
		index = e.shared(t.Data)
	}
	quantization := e.quantization(t)
	name, shape := e.b.CreateString(t.Name), e.ints(t.Shape)
	e.b.StartObject(10)
	e.b.PrependUOffsetTSlot(tensorShape, shape, 0)
	e.b.PrependInt8Slot(tensorType, int8(t.Type), 0)
	e.b.PrependUint32Slot(tensorBuffer, uint32(index), 0)
	e.b.PrependUOffsetTSlot(tensorName, name, 0)
	e.b.PrependUOffsetTSlot(tensorQuantization, quantization, 0)
	return e.b.EndObject()
}

// shared returns the buffer of the data; tensors with equal data share one.
func (e *encoder) shared(data []byte) int {
	sum := sha256.Sum256(data)
	index, ok := e.seen[sum]
	if !ok {
		e.buffers = append(e.buffers, e.buffer(data))
		index = len(e.buffers) - 1
		e.seen[sum] = index
	}
	return index
}

func (e *encoder) quantization(t *Tensor) flatbuffers.UOffsetT {
	n := len(t.Scales)
	if n == 0 {
		return 0
	}
	e.b.StartVector(4, n, 4)
	for _, s := range slices.Backward(t.Scales) {
		e.b.PrependFloat32(s)
	}
	scales := e.b.EndVector(n)
	e.b.StartVector(8, n, 8)
	for range n {
		e.b.PrependInt64(0)
	}
	zeros := e.b.EndVector(n)
	e.b.StartObject(7)
	e.b.PrependUOffsetTSlot(quantScale, scales, 0)
	e.b.PrependUOffsetTSlot(quantZero, zeros, 0)
	e.b.PrependInt32Slot(quantAxis, int32(t.Axis), 0)
	return e.b.EndObject()
}

func (e *encoder) operator(o *Operator) flatbuffers.UOffsetT {
	k := key{o.Code, max(1, o.Version)}
	index := slices.Index(e.codes, k)
	if index < 0 {
		index = len(e.codes)
		e.codes = append(e.codes, k)
	}
	kind := o.Code.options()
	var options flatbuffers.UOffsetT
	if kind != 0 {
		options = e.options(o.Options)
	}
	in, out := e.ints(o.Inputs), e.ints(o.Outputs)
	e.b.StartObject(9)
	e.b.PrependUint32Slot(operatorCode, uint32(index), 0)
	e.b.PrependUOffsetTSlot(operatorInputs, in, 0)
	e.b.PrependUOffsetTSlot(operatorOutputs, out, 0)
	e.b.PrependByteSlot(operatorOptionsType, kind, 0)
	e.b.PrependUOffsetTSlot(operatorOptions, options, 0)
	return e.b.EndObject()
}

// options writes a table of options. A field is written even if it equals the
// default, which depends on the table.
func (e *encoder) options(list []Option) flatbuffers.UOffsetT {
	e.b.StartObject(16)
	for _, o := range list {
		switch v := o.Value.(type) {
		case bool:
			e.b.PrependBool(v)
		case int8:
			e.b.PrependInt8(v)
		case int32:
			e.b.PrependInt32(v)
		case float32:
			e.b.PrependFloat32(v)
		default:
			panic(fmt.Sprintf("tflite: option of type %T", v))
		}
		e.b.Slot(o.Slot)
	}
	return e.b.EndObject()
}

func (e *encoder) operatorCodes() flatbuffers.UOffsetT {
	var list []flatbuffers.UOffsetT
	for _, k := range e.codes {
		e.b.StartObject(4)
		e.b.PrependInt8Slot(codeDeprecated, int8(min(k.code, 127)), 0)
		e.b.PrependInt32Slot(codeVersion, int32(k.version), 1)
		e.b.PrependInt32Slot(codeBuiltin, int32(k.code), 0)
		list = append(list, e.b.EndObject())
	}
	return e.offsets(list)
}

// signature names the inputs and the outputs for callers.
func (e *encoder) signature(m *Model) flatbuffers.UOffsetT {
	in, out := e.ports(m.Inputs), e.ports(m.Outputs)
	name := e.b.CreateString("serving_default")
	e.b.StartObject(5)
	e.b.PrependUOffsetTSlot(signatureInputs, in, 0)
	e.b.PrependUOffsetTSlot(signatureOutputs, out, 0)
	e.b.PrependUOffsetTSlot(signatureKey, name, 0)
	e.b.PrependUint32Slot(signatureGraph, 0, 0)
	return e.b.EndObject()
}

func (e *encoder) ports(list []Port) flatbuffers.UOffsetT {
	var all []flatbuffers.UOffsetT
	for _, p := range list {
		name := e.b.CreateString(p.Name)
		e.b.StartObject(2)
		e.b.PrependUOffsetTSlot(mapName, name, 0)
		e.b.PrependUint32Slot(mapTensor, uint32(p.Tensor), 0)
		all = append(all, e.b.EndObject())
	}
	return e.offsets(all)
}

func (e *encoder) ints(list []int) flatbuffers.UOffsetT {
	e.b.StartVector(4, len(list), 4)
	for _, v := range slices.Backward(list) {
		e.b.PrependInt32(int32(v))
	}
	return e.b.EndVector(len(list))
}

func (e *encoder) offsets(list []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	e.b.StartVector(4, len(list), 4)
	for _, at := range slices.Backward(list) {
		e.b.PrependUOffsetT(at)
	}
	return e.b.EndVector(len(list))
}
