package coreml

import (
	"cmp"
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The version of the specification is that of iOS 16, the first whose programs take
// 16-bit floats and compressed weights; int4, states and several functions need that of iOS 18.
const (
	specification     = 7
	opset             = "CoreML6"
	specificationInt4 = 9
	opsetInt4         = "CoreML8"
)

// message is a protobuf message under construction. Fields are written in the order
// of the calls, so equal programs have equal bytes.
type message []byte

func (m *message) number(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func (m *message) text(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

// message writes a field whose message do builds.
func (m *message) message(field protowire.Number, do func(m *message)) {
	var sub message
	do(&sub)
	m.bytes(field, sub)
}

// entry writes an entry of a map.
func (m *message) entry(field protowire.Number, key string, do func(m *message)) {
	m.message(field, func(m *message) {
		m.text(1, key)
		m.message(2, do)
	})
}

// encode returns the model file.
func (p *Program) encode() []byte {
	version, set := uint64(specification), opset
	if p.int4() || p.stateful() {
		version, set = specificationInt4, opsetInt4
	}
	var m message
	m.number(1, version)
	m.message(2, p.describe)
	m.message(502, func(m *message) {
		m.number(1, 1)
		for _, f := range p.functions() {
			m.entry(2, f.name(), func(m *message) { f.encode(m, set) })
		}
	})
	return m
}

// int4 reports whether weights have 4 bits.
func (p *Program) int4() bool {
	for _, f := range p.functions() {
		for _, o := range f.Operations {
			for _, a := range o.Given {
				if a.Const.Type.DType == Int4 {
					return true
				}
			}
		}
	}
	return false
}

// name returns the name of the function in the file.
func (f *Function) name() string { return cmp.Or(f.Name, mainFunction) }

// describe writes the ModelDescription.
func (p *Program) describe(m *message) {
	if p.stateful() {
		for _, f := range p.functions() {
			m.message(20, func(m *message) {
				m.text(1, f.name())
				f.describe(m, 2, 3, 6)
			})
		}
		m.text(21, p.name())
	} else {
		p.Function.describe(m, 1, 10, 13)
	}
	m.message(100, func(m *message) {
		m.text(1, p.Description)
		for _, e := range p.Metadata {
			m.message(100, func(m *message) {
				m.text(1, e.Key)
				m.text(2, e.Value)
			})
		}
	})
}

// describe writes the FeatureDescriptions of a function.
func (f *Function) describe(m *message, inputs, outputs, states protowire.Number) {
	for _, v := range f.Inputs {
		m.message(inputs, func(m *message) { v.describe(m, false) })
	}
	for _, v := range f.Outputs {
		m.message(outputs, func(m *message) { v.describe(m, false) })
	}
	for _, v := range f.States {
		m.message(states, func(m *message) { v.describe(m, true) })
	}
}

// arrayTypes are the numbers of FeatureTypes.proto.
var arrayTypes = map[DType]uint64{Float32: 65568, Float16: 65552, Int32: 131104}

// describe writes a FeatureDescription.
func (v Value) describe(m *message, state bool) {
	m.text(1, v.Name)
	array := func(m *message) {
		var dims []byte
		for _, d := range v.Type.Shape {
			dims = protowire.AppendVarint(dims, uint64(d))
		}
		m.bytes(1, dims)
		m.number(2, arrayTypes[v.Type.DType])
	}
	m.message(3, func(m *message) {
		if state {
			m.message(8, func(m *message) { m.message(1, array) })
		} else {
			m.message(5, array)
		}
	})
}

func (f *Function) encode(m *message, set string) {
	for _, v := range f.Inputs {
		m.message(1, v.encode)
	}
	for _, v := range f.States {
		m.message(1, func(m *message) {
			m.text(1, v.Name)
			m.message(2, func(m *message) {
				m.message(5, func(m *message) { m.message(1, v.Type.encode) })
			})
		})
	}
	m.text(2, set)
	m.entry(3, set, func(m *message) {
		for _, v := range f.Outputs {
			m.text(2, v.Name)
		}
		for i := range f.Operations {
			m.message(3, f.Operations[i].encode)
		}
	})
}

// encode writes a NamedValueType.
func (v Value) encode(m *message) {
	m.text(1, v.Name)
	m.message(2, v.Type.encode)
}

// encode writes a ValueType.
func (t Type) encode(m *message) {
	m.message(1, func(m *message) {
		m.number(1, uint64(t.DType))
		m.number(2, uint64(len(t.Shape)))
		for _, d := range t.Shape {
			m.message(3, func(m *message) {
				m.message(1, func(m *message) { m.number(1, uint64(d)) })
			})
		}
	})
}

func (o *Operation) encode(m *message) {
	m.text(1, o.Type)
	for _, in := range o.Inputs {
		m.entry(2, in.Name, func(m *message) {
			for _, name := range in.Values {
				m.message(1, func(m *message) { m.text(1, name) })
			}
		})
	}
	for _, a := range o.Given {
		m.entry(2, a.Name, func(m *message) {
			m.message(1, func(m *message) { m.message(2, a.Const.encode) })
		})
	}
	if o.Output.Type.DType != 0 {
		m.message(3, o.Output.encode)
	}
	name := Const{Type: Type{DType: String}, Text: o.Output.Name}
	m.entry(5, "name", name.encode)
	for _, a := range o.Attributes {
		m.entry(5, a.Name, a.Const.encode)
	}
}

// encode writes a Value.
func (c *Const) encode(m *message) {
	m.message(2, c.Type.encode)
	if c.Blob != 0 {
		m.message(5, func(m *message) {
			m.text(1, "@model_path/weights/weight.bin")
			m.number(2, c.Blob)
		})
		return
	}
	m.message(3, func(m *message) { m.message(1, c.tensor) })
}

// tensor writes a TensorValue.
func (c *Const) tensor(m *message) {
	var data []byte
	switch {
	case c.Type.DType == String:
		m.message(4, func(m *message) { m.text(1, c.Text) })
	case c.Floats != nil:
		for _, f := range c.Floats {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
		}
		m.message(1, func(m *message) { m.bytes(1, data) })
	case c.Ints != nil:
		for _, i := range c.Ints {
			data = protowire.AppendVarint(data, uint64(int64(i)))
		}
		m.message(2, func(m *message) { m.bytes(1, data) })
	case c.Bools != nil:
		for _, b := range c.Bools {
			data = protowire.AppendVarint(data, protowire.EncodeBool(b))
		}
		m.message(3, func(m *message) { m.bytes(1, data) })
	default:
		m.message(7, func(m *message) { m.bytes(1, c.Bytes) })
	}
}
