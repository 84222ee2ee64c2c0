package executorch

import (
	"crypto/sha256"
	"slices"
)

// DType is the type of a tensor's elements, by its number in the format.
type DType int8

// The types of elements.
const (
	Uint8   DType = 0
	Int8    DType = 1
	Int32   DType = 3
	Int64   DType = 4
	Float16 DType = 5
	Float32 DType = 6
	Bool    DType = 11
)

// Size returns the bytes of an element, 0 if the type is not supported.
func (t DType) Size() int {
	switch t {
	case Uint8, Int8, Bool:
		return 1
	case Float16:
		return 2
	case Int32, Float32:
		return 4
	case Int64:
		return 8
	}
	return 0
}

// Program is a file: methods over shared constants.
type Program struct {
	Methods   []*Method
	Constants [][]byte
	Delegates [][]byte // graphs of XNNPACK
	Named     []Named  // constants of the delegates
	seen      map[[sha256.Size]byte]int
	keys      map[string]int // indices of Named
	delegated map[[sha256.Size]byte]int
}

// Named is a constant of delegates.
type Named struct {
	Key  string
	Data []byte
}

// delegate returns the index of a delegate; equal ones are stored once.
func (p *Program) delegate(data []byte) int { return once(&p.Delegates, &p.delegated, data) }

// constant returns the index of the data; equal data are stored once.
func (p *Program) constant(data []byte) int { return once(&p.Constants, &p.seen, data) }

// once returns the index of data in all, to which new data are appended.
func once(all *[][]byte, seen *map[[sha256.Size]byte]int, data []byte) int {
	sum := sha256.Sum256(data)
	if at, ok := (*seen)[sum]; ok {
		return at
	}
	if *seen == nil {
		*seen = map[[sha256.Size]byte]int{}
	}
	*all = append(*all, data)
	(*seen)[sum] = len(*all) - 1
	return len(*all) - 1
}

// Method is an execution plan: values and the calls that compute them.
type Method struct {
	Name            string
	Values          []any // *Tensor, int64, bool, float64, string, Ints, Values or nil
	Inputs, Outputs []int // values
	Operators       []string
	Delegates       []int // of the program
	Calls           []Call
	Arena           int64 // bytes of the memory of computed tensors
}

// Values is an argument of several tensors.
type Values []int

// Ints is an argument of several numbers, which are values as well.
type Ints []int

// Tensor is a value: a constant, or in the arena at Offset.
type Tensor struct {
	Type     DType
	Shape    []int
	Constant int // index of the program's constants, -1 for a computed tensor
	Offset   int64
	storage  *storage
}

// Bytes returns the size of the tensor's data.
func (t *Tensor) Bytes() int64 {
	n := int64(t.Type.Size())
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Call applies an operator to values.
type Call struct {
	Operator int  // index of the method's operators, or of its delegates
	Delegate bool // calls a delegate
	Args     []int
}

// operator returns the index of an operator, such as aten::add.out.
func (m *Method) operator(name string) int {
	at := slices.Index(m.Operators, name)
	if at < 0 {
		at = len(m.Operators)
		m.Operators = append(m.Operators, name)
	}
	return at
}

func (m *Method) add(v any) int {
	m.Values = append(m.Values, v)
	return len(m.Values) - 1
}
