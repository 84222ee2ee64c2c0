package coreml

import (
	"fmt"
	"math"
	"slices"
)

// DType is the type of a tensor's elements, with the numbers of MIL.proto.
type DType int32

// The types that the exporter writes.
const (
	Bool    DType = 1
	String  DType = 2
	Float16 DType = 10
	Float32 DType = 11
	Int8    DType = 21
	Int32   DType = 23
	Int4    DType = 25
	Uint8   DType = 31
)

// String returns the name of the type in manifests.
func (t DType) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("type %d", int32(t))
}

var typeNames = map[DType]string{
	Bool: "bool", String: "string", Float16: "float16", Float32: "float32", 12: "float64", 13: "bfloat16",
	Int8: "int8", 22: "int16", Int32: "int32", 24: "int64", Int4: "int4", Uint8: "uint8", 32: "uint16", 33: "uint32", 35: "uint4",
}

// name returns the operand of cast.
func (t DType) name() string {
	switch t {
	case Float16:
		return "fp16"
	case Float32:
		return "fp32"
	}
	return t.String()
}

// bits returns the size of an element, 0 for strings.
func (t DType) bits() int {
	switch t {
	case Float32, Int32:
		return 32
	case Float16:
		return 16
	case Int8, Uint8, Bool:
		return 8
	case Int4:
		return 4
	}
	return 0
}

// Type is the type of a tensor; an empty shape is a scalar.
type Type struct {
	DType DType
	Shape []int
}

func (t Type) elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Value is a named tensor of the program.
type Value struct {
	Name string
	Type Type
}

// mainFunction is the name of the function of a program with one.
const mainFunction = "main"

// Program is an ML program: its first function, and more over the same weights.
type Program struct {
	Description string
	Metadata    []Entry
	Function
	More    []*Function
	weights weights
}

// Function is a list of operations. States are tensors that the runtime holds from one
// call to the next.
type Function struct {
	Name       string // if empty, main
	Inputs     []Value
	States     []Value
	Outputs    []Value
	Operations []Operation
}

// functions returns all functions.
func (p *Program) functions() []*Function { return append([]*Function{&p.Function}, p.More...) }

// stateful reports whether the program has states or several functions, which iOS 18
// was the first to have.
func (p *Program) stateful() bool { return len(p.States) > 0 || len(p.More) > 0 }

// Entry is a key of the metadata with its value.
type Entry struct{ Key, Value string }

// Operation is a step of a function. Attributes are constants. An output without a type
// is the name of an operation that has none.
type Operation struct {
	Type       string
	Inputs     []Input
	Given      []Attribute // parameters that are constants without an operation
	Attributes []Attribute
	Output     Value
}

// Input binds a parameter of an operation to values of the program; several are a
// tuple.
type Input struct {
	Name   string
	Values []string
}

// Attribute is a named constant of an operation.
type Attribute struct {
	Name  string
	Const Const
}

// Const is a constant: one of the slices, or, if Blob is set, an entry of the file
// of weights.
type Const struct {
	Type   Type
	Floats []float32
	Ints   []int32
	Bools  []bool
	Bytes  []byte // of the types without another field
	Text   string
	Blob   uint64 // offset of the entry
}

// check refuses what Apple's tools accept, or fail to explain: a value without a
// producer, a name that occurs twice, an open dimension, constants that do not fill
// their shape.
func (p *Program) check() error {
	for _, f := range p.functions() {
		if err := f.check(); err != nil {
			return err
		}
	}
	return nil
}

func (f *Function) check() error {
	types := make(map[string]Type)
	add := func(v Value) error {
		if _, twice := types[v.Name]; twice || v.Name == "" {
			return fmt.Errorf("the name %q occurs twice", v.Name)
		}
		for _, d := range v.Type.Shape {
			if d < 1 || d > math.MaxInt32 {
				return fmt.Errorf("%q: bad dimension in the shape %v", v.Name, v.Type.Shape)
			}
		}
		types[v.Name] = v.Type
		return nil
	}
	for _, v := range f.Inputs {
		if err := add(v); err != nil {
			return err
		}
		if v.Type.DType != Float32 && v.Type.DType != Float16 && v.Type.DType != Int32 {
			return fmt.Errorf("input %q: %s is not a type of inputs", v.Name, v.Type.DType)
		}
	}
	for _, v := range f.States {
		if err := add(v); err != nil {
			return err
		}
		if v.Type.DType != Float16 {
			return fmt.Errorf("state %q: %s is not a type of states", v.Name, v.Type.DType)
		}
	}
	for _, o := range f.Operations {
		for _, in := range o.Inputs {
			for _, name := range in.Values {
				if _, ok := types[name]; !ok {
					return fmt.Errorf("%s %q: %s is %q, which is not computed before it", o.Type, o.Output.Name, in.Name, name)
				}
			}
		}
		if o.Type == "write_state" {
			state, data := types[o.Inputs[0].Values[0]], types[o.Inputs[1].Values[0]]
			if state.DType != data.DType || !slices.Equal(state.Shape, data.Shape) {
				return fmt.Errorf("state %q: got %v, want %v", o.Inputs[0].Values[0], data, state)
			}
		}
		for _, a := range slices.Concat(o.Given, o.Attributes) {
			if err := a.Const.check(); err != nil {
				return fmt.Errorf("%s %q: %s: %w", o.Type, o.Output.Name, a.Name, err)
			}
		}
		if err := add(o.Output); err != nil {
			return err
		}
	}
	for _, v := range f.Outputs {
		if t, ok := types[v.Name]; !ok || t.DType != v.Type.DType || fmt.Sprint(t.Shape) != fmt.Sprint(v.Type.Shape) {
			return fmt.Errorf("output %q: got %v, want %v", v.Name, t, v.Type)
		}
	}
	return nil
}

// check compares the number of elements with the shape.
func (c *Const) check() error {
	if c.Blob != 0 || c.Type.DType == String {
		return nil
	}
	want, got := c.Type.elements(), 0
	switch {
	case c.Floats != nil:
		got = len(c.Floats)
	case c.Ints != nil:
		got = len(c.Ints)
	case c.Bools != nil:
		got = len(c.Bools)
	default:
		got = len(c.Bytes) * 8 / max(1, c.Type.DType.bits())
	}
	if got != want {
		return fmt.Errorf("wrong number of elements: got %d, want %d", got, want)
	}
	return nil
}
