package qnnfile

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
)

// View describes a file.
type View struct {
	File     string        `json:"file"`
	Format   Format        `json:"format"`
	Bytes    int64         `json:"bytes"`
	Contexts []ContextView `json:"contexts"`

	LiteRT *LiteRTView `json:"litert,omitempty"`
	ONNX   *ONNXView   `json:"epcontext,omitempty"`
	DLC    *DLCView    `json:"dlc,omitempty"`
}

// ContextView describes a context.
type ContextView struct {
	Name       string      `json:"name"`
	File       string      `json:"file"`
	Offset     int64       `json:"offset"`
	Bytes      int64       `json:"bytes"`
	Metadata   int64       `json:"metadata_bytes"`
	BlobOffset int64       `json:"blob_offset"`
	BlobBytes  int64       `json:"blob_bytes"`
	Unread     string      `json:"unread,omitempty"`
	Schema     uint32      `json:"schema"`
	Backend    string      `json:"backend"`
	Build      string      `json:"build"`
	Core       string      `json:"core_api"`
	API        string      `json:"backend_api"`
	Blob       string      `json:"blob_version"`
	SoCModel   uint32      `json:"soc_model"`
	SoCs       []string    `json:"socs"`
	Arch       string      `json:"arch"`
	Memory     int64       `json:"memory_bytes"` // approximate memory for loading
	Shared     []Port      `json:"shared_tensors"`
	Graphs     []GraphView `json:"graphs"`
}

// GraphView describes a graph of a context.
type GraphView struct {
	Name    string      `json:"name"`
	Used    bool        `json:"used"` // by the opened file
	Inputs  []Port      `json:"inputs"`
	Outputs []Port      `json:"outputs"`
	Updates int         `json:"updates"` // tensors that can be updated
	Memory  *MemoryView `json:"memory,omitempty"`
}

// MemoryView is the memory of a graph, in bytes.
type MemoryView struct {
	VTCM         uint32 `json:"vtcm"`
	SpillFill    uint64 `json:"spill_fill"`
	Optimisation uint32 `json:"optimisation"`
	HVXThreads   uint64 `json:"hvx_threads"`
	IO           uint64 `json:"io,omitempty"`
	OpData       uint64 `json:"op_data,omitempty"`
	Constants    uint64 `json:"constants,omitempty"`
	DDR          uint64 `json:"ddr,omitempty"`
	SharedBytes  uint64 `json:"shared,omitempty"`
}

// Port describes an input or an output.
type Port struct {
	Name    string     `json:"name"`
	ID      uint32     `json:"id"`
	DType   string     `json:"dtype"`
	Shape   []uint32   `json:"shape"`
	Bytes   int64      `json:"bytes"` // -1: unknown
	Version int        `json:"version"`
	Dynamic []bool     `json:"dynamic,omitempty"`
	Quant   *PortQuant `json:"quantisation,omitempty"`
}

// PortQuant is the quantization of a port: the value is (q + offset) · scale.
type PortQuant struct {
	Encoding string    `json:"encoding"`
	Axis     int32     `json:"axis"`
	Bits     uint32    `json:"bits"`
	Scales   []float32 `json:"scales"`
	Offsets  []int32   `json:"offsets"`
}

// LiteRTView holds the properties of a LiteRT model.
type LiteRTView struct {
	Manufacturer string         `json:"manufacturer,omitempty"`
	SoC          string         `json:"soc,omitempty"`
	MinRuntime   string         `json:"min_runtime,omitempty"`
	Metadata     []string       `json:"metadata"`
	Subgraphs    []SubgraphView `json:"subgraphs"`
	Dispatches   []DispatchView `json:"dispatches"`
	Left         []Left         `json:"left"` // operators that run on the CPU
}

// SubgraphView describes the ports of a subgraph.
type SubgraphView struct {
	Name    string   `json:"name"`
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
}

// DispatchView describes an operator that runs a compiled part.
type DispatchView struct {
	Subgraph int    `json:"subgraph"`
	Operator int    `json:"operator"`
	Graph    string `json:"graph"`
	Offset   int64  `json:"offset"`
	Bytes    int64  `json:"bytes"`
}

// Left counts an operator that was not compiled.
type Left struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Left returns the operators outside of the contexts; it is never nil.
func (f *File) Left() []Left {
	switch f.Format {
	case LiteRT:
		return litertView(f.litert).Left
	case EPContext:
		return f.onnxView().Left
	}
	return []Left{}
}

// ONNXView holds the properties of an ONNX model.
type ONNXView struct {
	Inputs  []string   `json:"inputs"`
	Outputs []string   `json:"outputs"`
	Nodes   []NodeView `json:"nodes"`
	Left    []Left     `json:"left"`
}

// NodeView describes a node with a context.
type NodeView struct {
	Name     string   `json:"name"`
	Graph    string   `json:"graph"`
	Source   string   `json:"source"`
	SDK      string   `json:"sdk"`
	Main     bool     `json:"main"`
	Embedded bool     `json:"embedded"`
	File     string   `json:"file,omitempty"`
	Differs  []string `json:"differs"` // differences from its context
}

// DLCView holds the properties of a container.
type DLCView struct {
	Version   string      `json:"version"`
	Tool      string      `json:"tool"`
	Converter string      `json:"converter"`
	Graphs    []string    `json:"graphs"`
	Entries   []EntryView `json:"entries"`
}

// EntryView is a file in a container.
type EntryView struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Inspect describes the file at path.
func Inspect(path string, chips htp.Chips) (View, error) {
	f, err := Open(path)
	if err != nil {
		return View{}, err
	}
	v := f.view(chips)
	return v, f.Close()
}

func (f *File) view(chips htp.Chips) View {
	v := View{File: f.Path, Format: f.Format, Bytes: f.Bytes, Contexts: []ContextView{}}
	for _, p := range f.Parts {
		if !p.shares {
			v.Contexts = append(v.Contexts, f.contextView(p, chips))
		}
	}
	switch f.Format {
	case LiteRT:
		v.LiteRT = litertView(f.litert)
	case EPContext:
		v.ONNX = f.onnxView()
	case DLC:
		d := f.dlc
		v.DLC = &DLCView{Version: d.Version.String(), Tool: d.Tool, Converter: d.Converter, Graphs: filled(d.Graphs), Entries: []EntryView{}}
		for _, e := range d.Entries {
			v.DLC.Entries = append(v.DLC.Entries, EntryView{e.Name, e.Size})
		}
	}
	return v
}

// filled returns list, or an empty one if it is nil: JSON then shows [].
func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// used returns the graphs of a part that the file uses, including those of nodes
// that share it; nil for all.
func (f *File) used(p Part) []string {
	var out []string
	for _, o := range f.Parts {
		if o.data == p.data {
			out = append(out, o.Graphs...)
		}
	}
	return out
}

func (f *File) contextView(p Part, chips htp.Chips) ContextView {
	c := p.Context
	v := ContextView{Name: p.Name, File: p.File, Offset: p.Offset, Bytes: p.Size, Metadata: c.Metadata, BlobOffset: c.BlobOffset, BlobBytes: c.BlobSize, Unread: c.Unread,
		Schema: c.Schema, Backend: c.Backend.String(), Build: c.Build, Core: c.Core.String(), API: c.API.String(), Blob: c.Blob.String(), SoCModel: c.SoC, SoCs: []string{}, Arch: c.Arch.String(),
		Memory: htp.Need(c), Shared: ports(c.Tensors), Graphs: []GraphView{}}
	if c.SoC != 0 {
		v.SoCs = filled(chips.Names(c.SoC))
	}
	used := f.used(p)
	for _, g := range c.Graphs {
		gv := GraphView{Name: g.Name, Used: len(used) == 0 || slices.Contains(used, g.Name), Inputs: ports(g.Inputs), Outputs: ports(g.Outputs), Updates: len(g.Updates)}
		if m := g.Memory; m != nil {
			gv.Memory = &MemoryView{m.VTCM, m.SpillFill, m.Optimization, m.HVXThreads, m.IO, m.OpData, m.Constants, m.DDR, m.Shared}
		}
		v.Graphs = append(v.Graphs, gv)
	}
	return v
}

func ports(tensors []htp.Tensor) []Port {
	out := []Port{}
	for _, t := range tensors {
		n, ok := t.Bytes()
		if !ok {
			n = -1
		}
		p := Port{Name: t.Name, ID: t.ID, DType: t.DType.String(), Shape: filled(t.Dims), Bytes: n, Version: t.Version, Dynamic: t.Dynamic}
		if q := t.Quant; q.Encoding != htp.Unquantized {
			p.Quant = &PortQuant{q.Encoding.String(), q.Axis, q.Bits, finite(q.Scales), filled(q.Offsets)}
		}
		out = append(out, p)
	}
	return out
}

// finite replaces values that JSON cannot represent by 0; Check reports them.
func finite(scales []float32) []float32 {
	out := []float32{}
	for _, s := range scales {
		if s-s != 0 {
			s = 0
		}
		out = append(out, s)
	}
	return out
}

func litertView(m *htp.LiteRT) *LiteRTView {
	v := &LiteRTView{MinRuntime: m.MinRuntime, Metadata: filled(m.Metadata), Subgraphs: []SubgraphView{}, Dispatches: []DispatchView{}, Left: []Left{}}
	if m.Stamp != nil {
		v.Manufacturer, v.SoC = m.Stamp.Manufacturer, m.Stamp.SoC
	}
	texts := func(list []htp.LiteRTTensor) []string {
		out := []string{}
		for _, t := range list {
			out = append(out, strings.ReplaceAll(fmt.Sprintf("%s %s %v", t.Name, t.DType, t.Dims), " -1", " ?"))
		}
		return out
	}
	for _, g := range m.Subgraphs {
		v.Subgraphs = append(v.Subgraphs, SubgraphView{g.Name, texts(g.Inputs), texts(g.Outputs)})
	}
	for _, d := range m.Dispatches {
		v.Dispatches = append(v.Dispatches, DispatchView{d.Subgraph, d.Operator, d.Graph, d.Offset, d.Size})
	}
	for _, o := range m.Left() {
		v.Left = append(v.Left, Left(o))
	}
	return v
}

func (f *File) onnxView() *ONNXView {
	v := &ONNXView{Inputs: []string{}, Outputs: []string{}, Nodes: []NodeView{}, Left: []Left{}}
	for _, x := range f.onnx.Inputs {
		v.Inputs = append(v.Inputs, value(x))
	}
	for _, x := range f.onnx.Outputs {
		v.Outputs = append(v.Outputs, value(x))
	}
	for _, o := range f.onnx.Left {
		v.Left = append(v.Left, Left(o))
	}
	for _, p := range f.Parts {
		n := p.node
		nv := NodeView{Name: n.Name, Graph: n.Graph, Source: n.Source, SDK: n.SDK, Main: n.Main, Embedded: n.Embed, File: n.File, Differs: []string{}}
		for _, d := range n.Compare(p.Context) {
			nv.Differs = append(nv.Differs, differs(d.What, d.Node, d.Context))
		}
		v.Nodes = append(v.Nodes, nv)
	}
	return v
}

func differs(what, node, context string) string {
	return fmt.Sprintf("%s: %s in the model, %s in the context", what, node, context)
}

func value(v onnx.Value) string {
	s := v.Name
	if v.Type.Kind == onnx.TensorKind {
		s += fmt.Sprintf(" %s", v.Type.DType)
		if v.Type.Ranked {
			s += fmt.Sprintf(" %v", v.Type.Dims)
		}
	}
	return s
}
