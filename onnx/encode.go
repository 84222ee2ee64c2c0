package onnx

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Write encodes a model. Fields are in the order of their numbers and lists in
// the given order, so the output is deterministic. Weights are not copied:
// memory use does not depend on them. Write returns the number of bytes
// written; a model larger than protobuf's 2 GiB is an error before anything is
// written.
func Write(w io.Writer, m *Model) (int64, error) {
	e := &encoder{}
	e.model(m)
	if oversized(int64(e.size)) {
		return 0, fmt.Errorf("onnx: writing: %d bytes exceed the %d of protobuf", e.size, maxFile)
	}
	n := int64(0)
	for _, part := range e.seal() {
		k, err := w.Write(part)
		n += int64(k)
		if err != nil {
			return n, fmt.Errorf("onnx: writing: %w", err)
		}
	}
	return n, nil
}

// encoder collects a message as parts: newly encoded bytes, and data that it
// references.
type encoder struct {
	parts [][]byte
	buf   []byte // not yet added to parts
	size  int
}

// seal returns all parts.
func (e *encoder) seal() [][]byte {
	if len(e.buf) > 0 {
		e.parts = append(e.parts, e.buf)
		e.buf = nil
	}
	return e.parts
}

func appendVarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func (e *encoder) raw(v uint64) {
	before := len(e.buf)
	e.buf = appendVarint(e.buf, v)
	e.size += len(e.buf) - before
}

func (e *encoder) tag(num int, w wireType) { e.raw(uint64(num)<<3 | uint64(w)) }

// int writes a number; 0, the default, is omitted.
func (e *encoder) int(num int, v int64) {
	if v != 0 {
		e.always(num, v)
	}
}

func (e *encoder) always(num int, v int64) {
	e.tag(num, wireVarint)
	e.raw(uint64(v))
}

// text writes a string; "" is omitted.
func (e *encoder) text(num int, s string) {
	if s != "" {
		e.name(num, s)
	}
}

// name writes a string even if it is empty, as lists need it.
func (e *encoder) name(num int, s string) {
	e.tag(num, wireBytes)
	e.raw(uint64(len(s)))
	e.buf = append(e.buf, s...)
	e.size += len(s)
}

func (e *encoder) names(num int, list []string) {
	for _, s := range list {
		e.name(num, s)
	}
}

// bytes references data; short data is copied, to have few parts.
func (e *encoder) bytes(num int, data []byte) {
	e.tag(num, wireBytes)
	e.raw(uint64(len(data)))
	e.size += len(data)
	if len(data) < 1024 {
		e.buf = append(e.buf, data...)
		return
	}
	e.seal()
	e.parts = append(e.parts, data)
}

// message writes a message encoded by encode.
func (e *encoder) message(num int, encode func(*encoder)) {
	inner := &encoder{}
	encode(inner)
	e.tag(num, wireBytes)
	e.raw(uint64(inner.size))
	e.size += inner.size
	if inner.size < 1024 && len(inner.parts) == 0 {
		e.buf = append(e.buf, inner.buf...)
		return
	}
	e.seal()
	e.parts = append(e.parts, inner.seal()...)
}

func list[T any](e *encoder, num int, items []T, encode func(*encoder, *T)) {
	for i := range items {
		e.message(num, func(inner *encoder) { encode(inner, &items[i]) })
	}
}

func (e *encoder) model(m *Model) {
	e.int(1, m.IRVersion)
	e.text(2, m.Producer)
	e.text(3, m.ProducerVersion)
	e.text(4, m.Domain)
	e.int(5, m.Version)
	e.text(6, m.Doc)
	e.message(7, func(e *encoder) { e.graph(&m.Graph) })
	list(e, 8, m.Opsets, (*encoder).opset)
	list(e, 14, m.Metadata, (*encoder).entry)
	for i := range m.Training {
		e.message(20, func(e *encoder) { e.message(2, func(e *encoder) { e.graph(&m.Training[i]) }) })
	}
	list(e, 25, m.Functions, (*encoder).function)
}

func (e *encoder) opset(o *Opset) {
	e.text(1, o.Domain)
	e.int(2, o.Version)
}

func (e *encoder) entry(en *Entry) {
	e.name(1, en.Key)
	e.name(2, en.Value)
}

func (e *encoder) graph(g *Graph) {
	list(e, 1, g.Nodes, (*encoder).node)
	e.text(2, g.Name)
	list(e, 5, g.Initializers, (*encoder).tensor)
	e.text(10, g.Doc)
	list(e, 11, g.Inputs, (*encoder).value)
	list(e, 12, g.Outputs, (*encoder).value)
	list(e, 13, g.Values, (*encoder).value)
	list(e, 15, g.Sparse, (*encoder).sparse)
}

func (e *encoder) node(n *Node) {
	e.names(1, n.Inputs)
	e.names(2, n.Outputs)
	e.text(3, n.Name)
	e.text(4, n.Op)
	list(e, 5, n.Attributes, (*encoder).attribute)
	e.text(6, n.Doc)
	e.text(7, n.Domain)
	e.text(8, n.Overload)
}

func (e *encoder) attribute(a *Attribute) {
	e.text(1, a.Name)
	if a.Ref == "" {
		e.attributeValue(a)
	}
	e.text(13, a.Doc)
	if a.Ref == "" {
		switch a.Type {
		case AttrType:
			list(e, 14, a.Types, (*encoder).typ)
		case AttrTypes:
			list(e, 15, a.Types, (*encoder).typ)
		}
	}
	e.int(20, int64(a.Type))
	e.text(21, a.Ref)
	if a.Ref == "" && a.Type == AttrSparseTensor && a.Sparse != nil {
		e.message(22, func(e *encoder) { e.sparse(a.Sparse) })
	}
	if a.Ref == "" && a.Type == AttrSparseTensors {
		list(e, 23, a.Sparses, (*encoder).sparse)
	}
}

// attributeValue writes the field of a's type if its number is below 13.
func (e *encoder) attributeValue(a *Attribute) {
	switch a.Type {
	case AttrFloat:
		e.tag(2, wireFixed32)
		e.buf = binary.LittleEndian.AppendUint32(e.buf, math.Float32bits(a.Float))
		e.size += 4
	case AttrInt:
		e.always(3, a.Int)
	case AttrString:
		e.bytes(4, a.String)
	case AttrTensor:
		if a.Tensor != nil {
			e.message(5, func(e *encoder) { e.tensor(a.Tensor) })
		}
	case AttrGraph:
		if a.Graph != nil {
			e.message(6, func(e *encoder) { e.graph(a.Graph) })
		}
	case AttrFloats:
		for _, f := range a.Floats {
			e.tag(7, wireFixed32)
			e.buf = binary.LittleEndian.AppendUint32(e.buf, math.Float32bits(f))
			e.size += 4
		}
	case AttrInts:
		for _, v := range a.Ints {
			e.always(8, v)
		}
	case AttrStrings:
		for _, s := range a.Strings {
			e.bytes(9, s)
		}
	case AttrTensors:
		list(e, 10, a.Tensors, (*encoder).tensor)
	case AttrGraphs:
		list(e, 11, a.Graphs, (*encoder).graph)
	}
}

func (e *encoder) value(v *Value) {
	e.text(1, v.Name)
	if v.Type.Kind != NoKind {
		e.message(2, func(e *encoder) { e.typ(&v.Type) })
	}
	e.text(3, v.Doc)
}

func (e *encoder) typ(t *Type) {
	switch t.Kind {
	case TensorKind, SparseKind:
		num := 1
		if t.Kind == SparseKind {
			num = 8
		}
		e.message(num, func(e *encoder) {
			e.int(1, int64(t.DType))
			if t.Ranked {
				e.message(2, func(e *encoder) { list(e, 1, t.Dims, (*encoder).dim) })
			}
		})
	case SequenceKind, OptionalKind:
		num := 4
		if t.Kind == OptionalKind {
			num = 9
		}
		e.message(num, func(e *encoder) { e.elem(1, t) })
	case MapKind:
		e.message(5, func(e *encoder) {
			e.int(1, int64(t.DType))
			e.elem(2, t)
		})
	case OpaqueKind:
		e.message(7, func(*encoder) {})
	}
}

func (e *encoder) elem(num int, t *Type) {
	if t.Elem != nil {
		e.message(num, func(e *encoder) { e.typ(t.Elem) })
	}
}

func (e *encoder) dim(d *Dim) {
	switch {
	case d.Param != "":
		e.name(2, d.Param)
	case d.Value != Unknown:
		e.always(1, d.Value)
	}
}

func (e *encoder) tensor(t *Tensor) {
	for _, d := range t.Dims {
		e.always(1, d)
	}
	e.int(2, int64(t.DType))
	typed := func(below, above int) {
		if t.field > below && t.field < above {
			for _, chunk := range t.typed {
				e.bytes(t.field, chunk)
			}
		}
	}
	typed(0, stringData)
	for _, s := range t.Strings {
		e.bytes(stringData, s)
	}
	typed(stringData, 8)
	e.text(8, t.Name)
	if t.Raw != nil {
		e.bytes(rawData, t.Raw)
	}
	typed(rawData, 12)
	e.text(12, t.Doc)
	if t.External != nil {
		list(e, 13, t.External.Entries, (*encoder).entry)
		e.int(14, 1)
	}
}

func (e *encoder) sparse(s *SparseTensor) {
	e.message(1, func(e *encoder) { e.tensor(&s.Values) })
	e.message(2, func(e *encoder) { e.tensor(&s.Indices) })
	for _, d := range s.Dims {
		e.always(3, d)
	}
}

func (e *encoder) function(f *Function) {
	e.text(1, f.Name)
	e.names(4, f.Inputs)
	e.names(5, f.Outputs)
	e.names(6, f.Attributes)
	list(e, 7, f.Nodes, (*encoder).node)
	e.text(8, f.Doc)
	list(e, 9, f.Opsets, (*encoder).opset)
	e.text(10, f.Domain)
	list(e, 11, f.Defaults, (*encoder).attribute)
	e.text(13, f.Overload)
}
