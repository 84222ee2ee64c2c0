// LiteRT models (.tflite) compiled ahead of time for a Qualcomm NPU are
// FlatBuffers of TensorFlow Lite (schema.fbs, version 3) whose compiled parts
// are DISPATCH_OP operators, with QNN context binaries appended. A dispatch
// names its bytecode by an offset from the start of the file in its custom
// options, a FlexBuffer; several may name the same one. [ReadLiteRT] walks
// subgraphs and operators a page at a time and returns the dispatches, the
// operators left for the processor and the stamp of the target chip.

package htp

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits of a model.
const (
	maxSubgraphs  = 1024
	maxDispatches = 4096     // of all subgraphs
	maxOptions    = 64 << 10 // bytes of one operator's options
	maxLiteRTRank = 32
	stampBytes    = 250
)

// LiteRTHead is the number of bytes that [IsLiteRT] needs.
const LiteRTHead = 8

// IsLiteRT reports whether head begins a TensorFlow Lite model.
func IsLiteRT(head []byte) bool { return len(head) >= LiteRTHead && string(head[4:8]) == "TFL3" }

// dispatchCode is the operator name of a compiled part.
const dispatchCode = "DISPATCH_OP"

//go:embed operators.txt
var operators string

// LiteRT describes a model.
type LiteRT struct {
	Size       int64
	Stamp      *Stamp // nil if missing
	MinRuntime string // oldest runtime, as declared
	Metadata   []string
	Subgraphs  []Subgraph
	Dispatches []Dispatch       // of all subgraphs, in order
	Weights    map[string]int64 // bytes of constants by element type
	Parameters int64
}

// Stamp is the target of a compiled model.
type Stamp struct{ Manufacturer, SoC string }

// Subgraph is a graph of a model.
type Subgraph struct {
	Name            string
	Inputs, Outputs []LiteRTTensor
	// Left counts the operators that were not compiled.
	Left []Operator
}

// Operator is an operator and how often a subgraph has it.
type Operator struct {
	Name  string
	Count int
}

// LiteRTTensor is an input or an output of a subgraph. A dimension of -1 is
// open.
type LiteRTTensor struct {
	Name  string
	DType string
	Dims  []int32
}

// Dispatch is an operator that runs a compiled part.
type Dispatch struct {
	Subgraph, Operator int
	Graph              string // name of the graph in the context
	Offset, Size       int64  // of the bytecode in the file
}

// Bytecode is a byte range that one or more dispatches name.
type Bytecode struct {
	Offset, Size int64
	Graphs       []string
}

// Bytecodes returns the distinct bytecodes of a model, sorted by offset.
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

// Left counts the uncompiled operators of all subgraphs by name.
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

// ReadLiteRT reads the model of size bytes in r. It returns [htp.ErrOther] if
// the magic does not match.
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
		return nil, fmt.Errorf("%w: bad TensorFlow Lite magic", ErrOther)
	}
	b := newBuffer(r, 0, size)
	m := &LiteRT{Size: size}
	root := b.Root()
	codes := codes(root)
	for i, t := range root.Tables(fieldSubgraphs) {
		if i == maxSubgraphs {
			b.Fail(fmt.Errorf("too many subgraphs: limit %d", maxSubgraphs))
			break
		}
		w := walk{b: b, r: r, m: m, codes: codes, index: i}
		w.subgraph(t)
		w.weights(root, t)
	}
	m.metadata(b, root, r)
	if err := b.Err(); err != nil {
		return nil, err
	}
	return m, m.overlaps()
}

// overlaps refuses bytecodes that overlap partly. If any two do, two neighbors
// do.
func (m *LiteRT) overlaps() error {
	sorted := slices.Clone(m.Dispatches)
	slices.SortStableFunc(sorted, func(a, b Dispatch) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(sorted); i++ {
		c, d := sorted[i-1], sorted[i]
		same := d.Offset == c.Offset && d.Size == c.Size
		if !same && d.Offset < c.Offset+c.Size {
			return fmt.Errorf("operator %d of subgraph %d: bytecode at %d (%d bytes) overlaps bytecode at %d (%d bytes)", d.Operator, d.Subgraph, d.Offset, d.Size, c.Offset, c.Size)
		}
	}
	return nil
}
