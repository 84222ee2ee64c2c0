// Package litert reads LiteRT models (.tflite) that were compiled ahead of time
// for a Qualcomm NPU: FlatBuffers of TensorFlow Lite whose compiled parts are
// operators called DISPATCH_OP, and QNN context binaries appended behind them.
//
// [ReadLiteRT] walks subgraphs and operators through an io.ReaderAt, a page at a
// time, and gives a [Model]: the dispatches with the bytes of their bytecode,
// the operators that are left for the processor, the stamp that says whom the
// file is for. A dispatch names its bytecode by an offset from the start of the
// file in its custom options, a FlexBuffer; several may name the same one.
// The fields are those of schema.fbs of TensorFlow Lite, version 3.
package blob

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"mm-abi.org/mm/core/htp"
)

// The limits of what is read.
const (
	maxSubgraphs  = 1024
	maxDispatches = 4096     // of all subgraphs
	maxOptions    = 64 << 10 // bytes of one operator's options
	maxLiteRTRank = 32
	stampBytes    = 250
)

// LiteRTHead is how many bytes of a file [IsLiteRT] needs.
const LiteRTHead = 8

// IsLiteRT reports whether a file that begins with head is a TensorFlow Lite model.
func IsLiteRT(head []byte) bool { return len(head) >= LiteRTHead && string(head[4:8]) == "TFL3" }

// dispatchCode is what a compiled part's operator is called.
const dispatchCode = "DISPATCH_OP"

//go:embed operators.txt
var operators string

// Model is what a file is made of.
type LiteRT struct {
	Size       int64
	Stamp      *Stamp // nil where there is none
	MinRuntime string // the oldest runtime, as the file says
	Metadata   []string
	Subgraphs  []Subgraph
	Dispatches []Dispatch // of all subgraphs, in their order
}

// Stamp says whom a model was compiled for.
type Stamp struct{ Manufacturer, SoC string }

// Subgraph is one graph of a model.
type Subgraph struct {
	Name            string
	Inputs, Outputs []LiteRTTensor
	// Left are the operators that were not compiled.
	Left []Operator
}

// Operator is how often a subgraph has an operator.
type Operator struct {
	Name  string
	Count int
}

// Tensor is an input or an output of a subgraph. A dimension of -1 is open.
type LiteRTTensor struct {
	Name  string
	DType string
	Dims  []int32
}

// Dispatch is an operator that runs a compiled part.
type Dispatch struct {
	Subgraph, Operator int
	Graph              string // name of the graph in the context
	Offset, Size       int64  // of the bytecode, in bytes of the file
}

// Bytecode is a run of bytes that one dispatch or several name.
type Bytecode struct {
	Offset, Size int64
	Graphs       []string
}

// Bytecodes lists the bytecode of a model, each once, by where it lies.
func (m *LiteRT) Bytecodes() []Bytecode {
	type named struct {
		offset int64
		graph  string
	}
	var out []Bytecode
	at, seen := make(map[int64]int), make(map[named]bool)
	for _, d := range m.Dispatches {
		i, ok := at[d.Offset]
		if !ok {
			i = len(out)
			at[d.Offset] = i
			out = append(out, Bytecode{Offset: d.Offset, Size: d.Size})
		}
		if n := (named{d.Offset, d.Graph}); !seen[n] {
			seen[n] = true
			out[i].Graphs = append(out[i].Graphs, d.Graph)
		}
	}
	slices.SortFunc(out, func(a, b Bytecode) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

// Left counts the operators of all subgraphs that were not compiled, by name.
func (m *LiteRT) Left() []Operator {
	count := map[string]int{}
	for _, g := range m.Subgraphs {
		for _, o := range g.Left {
			count[o.Name] += o.Count
		}
	}
	return sorted(count)
}

func sorted(count map[string]int) []Operator {
	var out []Operator
	for name, n := range count {
		out = append(out, Operator{name, n})
	}
	slices.SortFunc(out, func(a, b Operator) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ReadLiteRT reads the model that r holds, size bytes from its start. Bytes that do
// not begin as one are [qnn.ErrOther].
func ReadLiteRT(r io.ReaderAt, size int64) (*LiteRT, error) {
	m, err := readLiteRT(r, size)
	if err != nil {
		return nil, fmt.Errorf("tflite: %w", err)
	}
	return m, nil
}

func readLiteRT(r io.ReaderAt, size int64) (*LiteRT, error) {
	head := make([]byte, min(LiteRTHead, max(size, 0)))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	if !IsLiteRT(head) {
		return nil, fmt.Errorf("%w: it does not begin as a TensorFlow Lite model does", htp.ErrOther)
	}
	b := newBuffer(r, 0, size)
	m := &LiteRT{Size: size}
	root := b.Root()
	codes := codes(root)
	for i, t := range root.Tables(fieldSubgraphs) {
		if i == maxSubgraphs {
			b.Fail(fmt.Errorf("more than %d subgraphs", maxSubgraphs))
			break
		}
		w := walk{b: b, r: r, m: m, codes: codes, index: i}
		w.subgraph(t)
	}
	m.metadata(b, root, r)
	if err := b.Err(); err != nil {
		return nil, err
	}
	return m, m.overlaps()
}

// overlaps refuses bytecode that lies partly in another one. Where any does, two
// that follow each other do.
func (m *LiteRT) overlaps() error {
	sorted := slices.Clone(m.Dispatches)
	slices.SortStableFunc(sorted, func(a, b Dispatch) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(sorted); i++ {
		c, d := sorted[i-1], sorted[i]
		same := d.Offset == c.Offset && d.Size == c.Size
		if !same && d.Offset < c.Offset+c.Size {
			return fmt.Errorf("operator %d of subgraph %d: its bytecode at %d, %d bytes, overlaps that at %d, %d bytes", d.Operator, d.Subgraph, d.Offset, d.Size, c.Offset, c.Size)
		}
	}
	return nil
}
