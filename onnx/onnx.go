// Package onnx reads, checks and writes ONNX models without a protobuf runtime:
// onnx.proto has a dozen messages, and a validator needs more information about
// the bytes than generated code has.
//
// [Open] maps a file and [Parse] reads one in memory. The resulting [Model]
// holds the graph's structure; weights are not copied: Tensor.Raw and similar
// fields alias the file. [Model.Check] applies the rules that can be decided
// from the file alone (external data, opsets, custom operators, tensor sizes,
// names). [Write] encodes a model deterministically; with the constructors of
// this package it builds small models from scratch, and [Model.Cut] extracts a
// part of a large one. [Admit] checks a model completely before any engine reads it:
// it applies every check to the model and to the files of its external data, and maps
// those files; the caller decides which files the model may name and where they are.
//
// The reader is stricter than protobuf: a singular field that appears twice is
// an error. Parsers differ in whether they merge or replace, so a check of one
// interpretation does not hold for the other.
package onnx

import (
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/core/mmap"
)

// Limits on a model.
const (
	maxFile  = math.MaxInt32 // bytes; the limit of protobuf
	maxDepth = 32            // graphs within graphs, types within types
	maxName  = 1 << 16       // bytes of one name
	// minBudget plus 16 bytes for each byte of the file is the memory that the
	// structure of a model may take. Real models need a fraction of it.
	minBudget = 16 << 20
)

// oversized reports whether a file of n bytes exceeds maxFile.
func oversized(n int64) bool { return n > maxFile }

// ErrPointer reports that a file is a Git LFS pointer instead of the model.
var ErrPointer = errors.New("a Git LFS pointer, not a model: fetch the real file")

// ErrLimit reports that a file exceeds a limit: its size, the depth of its
// graphs, the length of a name, or the memory of its structure.
var ErrLimit = errors.New("limit exceeded")

// Model is a ModelProto.
type Model struct {
	IRVersion       int64
	Opsets          []Opset
	Producer        string
	ProducerVersion string
	Domain          string
	Version         int64
	Doc             string
	Metadata        []Entry
	Graph           Graph
	Functions       []Function
	// Training holds the graphs of training_info.
	Training []Graph
	// Unknown counts fields that onnx.proto 1.23 does not define.
	Unknown int

	m        *mmap.Map
	attached []attachment
	size     int64
}

// Opset is a version of a domain's operators; the domain "" is ai.onnx.
type Opset struct {
	Domain  string
	Version int64
}

// Entry is one key and value of metadata.
type Entry struct{ Key, Value string }

// Graph is a GraphProto.
type Graph struct {
	Name  string
	Doc   string
	Nodes []Node
	// Inputs are the inputs of the graph. Before IR version 4 they included
	// initializers, which [Model.Inputs] excludes.
	Inputs       []Value
	Outputs      []Value
	Initializers []Tensor
	Sparse       []SparseTensor
	// Values describe intermediate results.
	Values []Value
}

// Node is one application of an operator. An empty input name is an omitted
// input.
type Node struct {
	Name, Op, Domain string
	Inputs, Outputs  []string
	Attributes       []Attribute
	Doc              string
	Overload         string
}

// AttributeType selects the field of an Attribute that holds its value.
type AttributeType int32

// The attribute types, with onnx.proto's numbers.
const (
	AttrFloat         AttributeType = 1
	AttrInt           AttributeType = 2
	AttrString        AttributeType = 3
	AttrTensor        AttributeType = 4
	AttrGraph         AttributeType = 5
	AttrFloats        AttributeType = 6
	AttrInts          AttributeType = 7
	AttrStrings       AttributeType = 8
	AttrTensors       AttributeType = 9
	AttrGraphs        AttributeType = 10
	AttrSparseTensor  AttributeType = 11
	AttrSparseTensors AttributeType = 12
	AttrType          AttributeType = 13
	AttrTypes         AttributeType = 14
)

// Attribute is a named constant of a node.
type Attribute struct {
	Name string
	Type AttributeType
	// Ref names the attribute of the enclosing function that holds the value.
	Ref     string
	Doc     string
	Float   float32
	Int     int64
	String  []byte // aliases the file
	Tensor  *Tensor
	Graph   *Graph
	Sparse  *SparseTensor
	Floats  []float32
	Ints    []int64
	Strings [][]byte
	Tensors []Tensor
	Graphs  []Graph
	Sparses []SparseTensor
	Types   []Type // one if AttrType
}

// Value names an input, an output or an intermediate result.
type Value struct {
	Name string
	Type Type
	Doc  string
}

// Kind is the kind of a Type.
type Kind uint8

// The kinds of types. A value without a type has NoKind.
const (
	NoKind Kind = iota
	TensorKind
	SequenceKind
	MapKind
	OptionalKind
	SparseKind
	OpaqueKind
)

// Type is a TypeProto.
type Type struct {
	Kind  Kind
	DType DType // of a tensor's elements, of a map's keys
	// Dims are a tensor's dimensions if Ranked; otherwise even their number is
	// unknown.
	Dims   []Dim
	Ranked bool
	Elem   *Type // of sequences, maps and optionals
}

// Dim is a dimension: a number, a name, or unknown if Param is "" and Value is
// [Unknown].
type Dim struct {
	Value int64
	Param string
}

// Unknown is the Value of a dimension that is not a number.
const Unknown = int64(-1)

// String formats a dimension.
func (d Dim) String() string {
	switch {
	case d.Param != "":
		return d.Param
	case d.Value == Unknown:
		return "?"
	}
	return fmt.Sprint(d.Value)
}

// Tensor is a TensorProto. Its elements are in one of Raw, typed fields
// ([Tensor.Bytes] returns either in one format), Strings or External.
type Tensor struct {
	Name  string
	DType DType
	Dims  []int64
	Doc   string
	// Raw is raw_data, little endian; it aliases the file. nil if absent.
	Raw []byte
	// Strings are string_data; they alias the file.
	Strings [][]byte
	// External describes elements outside the file; nil otherwise.
	External *External

	typed  [][]byte // packed payloads of the typed field
	field  int      // its number in TensorProto; 0 for none
	fields int      // number of raw_data and typed fields that are present
}

// External is external_data, unchecked.
type External struct{ Entries []Entry }

// SparseTensor is a SparseTensorProto.
type SparseTensor struct {
	Values, Indices Tensor
	Dims            []int64
}

// Function is a FunctionProto: an operator defined by nodes.
type Function struct {
	Name, Domain, Overload string
	Inputs, Outputs        []string
	Attributes             []string    // names without a default
	Defaults               []Attribute // names with a default
	Nodes                  []Node
	Opsets                 []Opset
	Doc                    string
}

// Open maps the model at path. Close unmaps it.
func Open(path string) (*Model, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	model, err := Parse(m.Data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.Close())
	}
	model.m = m
	return model, nil
}

// Close unmaps the files, including external data; data that aliases them is
// invalid afterwards. For a model that was not opened by Open and has no
// attached files, Close does nothing.
func (m *Model) Close() error {
	var errs []error
	for _, a := range m.attached {
		errs = append(errs, a.Close())
	}
	if m.m != nil {
		errs = append(errs, m.m.Close())
	}
	return errors.Join(errs...)
}

// Share returns a copy of the model for changes. It uses the same files, which
// remain the original's to close.
func (m *Model) Share() *Model {
	out := *m
	out.m, out.attached = nil, nil
	return &out
}

// Size returns the number of bytes that the model was read from.
func (m *Model) Size() int64 { return m.size }

// Inputs returns the graph's inputs except those with an initializer.
func (m *Model) Inputs() []Value {
	constant := make(map[string]bool)
	for _, t := range m.Graph.Initializers {
		constant[t.Name] = true
	}
	for _, t := range m.Graph.Sparse {
		constant[t.Values.Name] = true
	}
	var out []Value
	for _, v := range m.Graph.Inputs {
		if !constant[v.Name] {
			out = append(out, v)
		}
	}
	return out
}

// Operators counts the nodes of each operator, by domain and name, including
// subgraphs and functions. The domain ai.onnx is "".
func (m *Model) Operators() map[[2]string]int {
	count := make(map[[2]string]int)
	m.walk(visitor{node: func(_ *place, n *Node) { count[[2]string{canonical(n.Domain), n.Op}]++ }})
	return count
}

// Parameters returns the number of elements in initializers and constants.
func (m *Model) Parameters() int64 {
	total := int64(0)
	m.walk(visitor{tensor: func(_ *place, t *Tensor) {
		if n, ok := elements(t.Dims); ok && total+n >= total {
			total += n
		}
	}})
	return total
}

// EachNode calls f for every node, including those in subgraphs, functions and
// training graphs.
func (m *Model) EachNode(f func(*Node)) {
	m.walk(visitor{node: func(_ *place, n *Node) { f(n) }})
}

// EachTensor calls f for every tensor, including those in attributes.
func (m *Model) EachTensor(f func(*Tensor)) {
	m.walk(visitor{tensor: func(_ *place, t *Tensor) { f(t) }})
}

// canonical returns "" for the default domain.
func canonical(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}
