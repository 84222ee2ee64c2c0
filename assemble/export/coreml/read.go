package coreml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of a package from elsewhere.
const (
	maxManifest   = 1 << 20   // bytes
	maxSpec       = 256 << 20 // bytes of the model file
	maxOperations = 1 << 18
	maxPorts      = 1 << 12
	maxRank       = 32
	maxText       = 1 << 16 // bytes of a name
)

// ErrMalformed reports an invalid package.
var ErrMalformed = errors.New("malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Model describes a model file.
type Model struct {
	Specification int64 // version
	Program       bool  // an ML program, which alone is described further
	Functions     []string
	Opset         string
	Description   string
	Metadata      []Entry
	Inputs        []Value // of the first function, like States and Outputs
	States        []Value
	Outputs       []Value
	Operations    map[string]int // by their names
	Constants     []Constant     // those in the file of weights
}

// Constant is a constant in the file of weights.
type Constant struct {
	Type   Type
	Offset uint64
}

// fields calls do for each field of a message: with its number, or its bytes.
func fields(b []byte, do func(field protowire.Number, number uint64, data []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformed("tag of a field: %v", protowire.ParseError(n))
		}
		b = b[n:]
		var number uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
			if data == nil {
				data = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return malformed("field %d: %v", field, protowire.ParseError(n))
		}
		b = b[n:]
		if err := do(field, number, data); err != nil {
			return err
		}
	}
	return nil
}

// text checks and sets a string.
func text(dst *string, data []byte) error {
	if len(data) > maxText {
		return malformed("text too long: got %d bytes, the limit is %d", len(data), maxText)
	}
	if !utf8.Valid(data) {
		return malformed("text is invalid UTF-8")
	}
	*dst = string(data)
	return nil
}

// parse reads a model file.
func parse(b []byte) (*Model, error) {
	m := &Model{Operations: map[string]int{}}
	err := fields(b, func(field protowire.Number, number uint64, data []byte) error {
		switch field {
		case 1:
			m.Specification = int64(number)
		case 2:
			return m.description(data)
		case 502:
			m.Program = true
			return m.program(data)
		}
		return nil
	})
	return m, err
}

// description reads a ModelDescription.
func (m *Model) description(b []byte) error {
	return fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		if field != 100 {
			return nil
		}
		return fields(data, func(field protowire.Number, _ uint64, data []byte) error {
			switch field {
			case 1:
				return text(&m.Description, data)
			case 100:
				if len(m.Metadata) == maxPorts {
					return malformed("more than %d keys of metadata", maxPorts)
				}
				var e Entry
				m.Metadata = append(m.Metadata, e)
				return m.Metadata[len(m.Metadata)-1].parse(data)
			}
			return nil
		})
	})
}

func (e *Entry) parse(b []byte) error {
	return fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		switch field {
		case 1:
			return text(&e.Key, data)
		case 2:
			return text(&e.Value, data)
		}
		return nil
	})
}

// program reads a Program.
func (m *Model) program(b []byte) error {
	return fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		if field != 2 {
			return nil
		}
		if len(m.Functions) == maxPorts {
			return malformed("more than %d functions", maxPorts)
		}
		name, body, err := mapEntry(data)
		if err != nil {
			return err
		}
		m.Functions = append(m.Functions, name)
		f := Model{Operations: m.Operations, Constants: m.Constants}
		err = f.function(body)
		if m.Constants = f.Constants; len(m.Functions) == 1 {
			m.Opset, m.Inputs, m.States, m.Outputs = f.Opset, f.Inputs, f.States, f.Outputs
		}
		return err
	})
}

// mapEntry reads an entry of a map whose values are messages.
func mapEntry(b []byte) (key string, value []byte, err error) {
	err = fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		switch field {
		case 1:
			return text(&key, data)
		case 2:
			value = data
		}
		return nil
	})
	return key, value, err
}

// function reads a Function: its inputs, and the blocks of its opsets.
func (m *Model) function(b []byte) error {
	return fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		switch field {
		case 1:
			v, state, err := parseValue(data)
			if err == nil && len(m.Inputs)+len(m.States) == maxPorts {
				err = malformed("more than %d inputs", maxPorts)
			}
			if state {
				m.States = append(m.States, v)
			} else {
				m.Inputs = append(m.Inputs, v)
			}
			return err
		case 2:
			return text(&m.Opset, data)
		case 3:
			_, body, err := mapEntry(data)
			if err != nil {
				return err
			}
			return m.block(body)
		}
		return nil
	})
}

// block reads a Block. Blocks within operations are not described.
func (m *Model) block(b []byte) error {
	var names []string
	values, n := map[string]Type{}, 0
	err := fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		switch field {
		case 2:
			var name string
			if len(names) == maxPorts {
				return malformed("more than %d outputs", maxPorts)
			}
			err := text(&name, data)
			names = append(names, name)
			return err
		case 3:
			if n++; n > maxOperations {
				return malformed("more than %d operations", maxOperations)
			}
			return m.operation(data, values)
		}
		return nil
	})
	for _, v := range m.Inputs {
		values[v.Name] = v.Type
	}
	for _, name := range names {
		t, ok := values[name]
		if !ok && err == nil {
			err = malformed("output %q is not computed", name)
		}
		m.Outputs = append(m.Outputs, Value{name, t})
	}
	return err
}

// operation reads an Operation.
func (m *Model) operation(b []byte, values map[string]Type) error {
	var name string
	err := fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		switch field {
		case 1:
			return text(&name, data)
		case 3:
			v, _, err := parseValue(data)
			if len(values) == maxOperations {
				return malformed("more than %d values", maxOperations)
			}
			values[v.Name] = v.Type
			return err
		case 2:
			_, value, err := mapEntry(data)
			if err != nil {
				return err
			}
			return m.argument(value)
		case 5:
			_, value, err := mapEntry(data)
			if err != nil {
				return err
			}
			return m.constant(value)
		}
		return nil
	})
	m.Operations[name]++
	return err
}

// argument reads an Argument, whose bindings may be constants.
func (m *Model) argument(b []byte) error {
	return fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		if field != 1 {
			return nil
		}
		return fields(data, func(field protowire.Number, _ uint64, data []byte) error {
			if field != 2 {
				return nil
			}
			return m.constant(data)
		})
	})
}

// constant reads a Value and keeps it if it is in the file of weights.
func (m *Model) constant(b []byte) error {
	var c Constant
	blob := false
	err := fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		switch field {
		case 2:
			return c.Type.parse(data)
		case 5:
			blob = true
			return fields(data, func(field protowire.Number, number uint64, _ []byte) error {
				if field == 2 {
					c.Offset = number
				}
				return nil
			})
		}
		return nil
	})
	if err != nil || !blob {
		return err
	}
	if len(m.Constants) == maxOperations {
		return malformed("more than %d constants", maxOperations)
	}
	m.Constants = append(m.Constants, c)
	return nil
}

// parseValue reads a NamedValueType, of a tensor or of a state.
func parseValue(b []byte) (v Value, state bool, err error) {
	err = fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		switch field {
		case 1:
			return text(&v.Name, data)
		case 2:
			state, err = v.Type.parseState(data)
			return err
		}
		return nil
	})
	return v, state, err
}

// parseState reads a ValueType that may be a state of a tensor.
func (t *Type) parseState(b []byte) (state bool, err error) {
	err = fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		if field != 5 {
			return nil
		}
		state = true
		return fields(data, func(field protowire.Number, _ uint64, data []byte) error {
			if field != 1 {
				return nil
			}
			return t.parse(data)
		})
	})
	if state || err != nil {
		return state, err
	}
	return false, t.parse(b)
}

// parse reads a ValueType. A dimension of -1 is open; types other than tensors have
// none.
func (t *Type) parse(b []byte) error {
	return fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		if field != 1 {
			return nil
		}
		return fields(data, func(field protowire.Number, number uint64, data []byte) error {
			switch field {
			case 1:
				t.DType = DType(number)
			case 3:
				if len(t.Shape) == maxRank {
					return malformed("more than %d dimensions", maxRank)
				}
				d, err := dimension(data)
				t.Shape = append(t.Shape, d)
				return err
			}
			return nil
		})
	})
}

// dimension reads a Dimension.
func dimension(b []byte) (size int, err error) {
	size = -1
	err = fields(b, func(field protowire.Number, _ uint64, data []byte) error {
		if field != 1 {
			return nil
		}
		size = 0
		return fields(data, func(field protowire.Number, number uint64, _ []byte) error {
			if number > math.MaxInt32 {
				return malformed("dimension of %d", number)
			}
			if field == 1 {
				size = int(number)
			}
			return nil
		})
	})
	return size, err
}

// blob checks the entry of a constant in a file of weights of size bytes and
// returns the number of bytes of its data.
func (c Constant) blob(r io.ReaderAt, size int64) (int64, error) {
	head := make([]byte, weightAlign)
	if c.Offset > math.MaxInt64-weightAlign || int64(c.Offset)+weightAlign > size {
		return 0, malformed("constant at %d exceeds the weights of %d bytes", c.Offset, size)
	}
	if n, err := r.ReadAt(head, int64(c.Offset)); n < len(head) {
		return 0, err
	}
	if magic := binary.LittleEndian.Uint32(head); magic != weightMagic {
		return 0, malformed("no constant at %d: got %#x", c.Offset, magic)
	}
	n, at := binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:])
	if at > uint64(size) || n > uint64(size)-at {
		return 0, malformed("constant at %d: %d bytes at %d exceed the weights of %d bytes", c.Offset, n, at, size)
	}
	want := float64(c.Type.DType.bits()) / 8
	for _, d := range c.Type.Shape {
		want *= float64(d)
	}
	if c.Type.DType.bits() > 0 && math.Ceil(want) != float64(n) {
		return 0, malformed("constant at %d: got %d bytes, want %.0f for %s %v", c.Offset, n, math.Ceil(want), c.Type.DType, c.Type.Shape)
	}
	return int64(n), nil
}
