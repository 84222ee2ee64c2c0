package loose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// View describes a model file.
type View struct {
	File       string           `json:"file"`
	Format     abi.Format       `json:"format"`
	Bytes      int64            `json:"bytes"`
	Parameters int64            `json:"parameters"`
	Weights    map[string]int64 `json:"weights"` // bytes by element type
	Producer   string           `json:"producer,omitempty"`
	Metadata   []Entry          `json:"metadata"`

	ONNX *ONNX `json:"onnx,omitempty"`
	GGUF *GGUF `json:"gguf,omitempty"`
	// Exported describes a file for another runtime.
	Exported *Exported `json:"exported,omitempty"`

	Runs     bool      `json:"runs"`              // mm's engine runs it
	Refusals []string  `json:"refusals"`          // why not
	Faults   diag.List `json:"diagnostics"`       // of the file
	Quant    string    `json:"quant,omitempty"`   // precision of most weights, as in manifests
	License  string    `json:"license,omitempty"` // from the metadata
}

// Entry is a key of the metadata with its value.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// ONNX holds the properties of an ONNX file.
type ONNX struct {
	IRVersion    int64        `json:"ir_version"`
	Inputs       []Port       `json:"inputs"`
	Outputs      []Port       `json:"outputs"`
	Opsets       []Opset      `json:"opsets"`
	Operators    []Operator   `json:"operators"`
	Functions    []string     `json:"functions"`
	Quantization Quantization `json:"quantisation"`
	External     []string     `json:"external"`              // files that the model names
	MinRuntime   string       `json:"min_runtime,omitempty"` // the oldest supported ONNX Runtime
	Nodes        []Node       `json:"nodes,omitempty"`       // of the main graph, in order
}

// Node is a node of a graph, with the tensors for cutting.
type Node struct {
	Op      string `json:"op"`
	Outputs []Port `json:"outputs"`
}

// Port is an input or an output. A dimension is a number, a name, or "?".
type Port struct {
	Name   string   `json:"name"`
	Kind   string   `json:"kind"` // tensor, sequence, map, optional, sparse, opaque, untyped
	DType  string   `json:"dtype,omitempty"`
	Shape  []string `json:"shape"`
	Ranked bool     `json:"ranked"` // the rank is known
}

// Opset is a version of the operators of a domain.
type Opset struct {
	Domain  string `json:"domain"`
	Version int64  `json:"version"`
}

// Operator counts the nodes with an operator.
type Operator struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	Count  int    `json:"count"`
}

// Quantization describes the quantization of weights and activations.
type Quantization struct {
	Forms       []string `json:"forms"`
	Weights     []string `json:"weights"`
	Activations []string `json:"activations"`
	PerAxis     bool     `json:"per_axis"`
}

// GGUF holds the properties of a GGUF file.
type GGUF struct {
	Version      uint32 `json:"version"`
	Architecture string `json:"architecture"`
	Context      int64  `json:"context,omitempty"`
	Tokenizer    string `json:"tokenizer,omitempty"`
	Vocabulary   int    `json:"vocabulary,omitempty"`
	Tensors      int    `json:"tensors"`
	Pieces       int    `json:"pieces,omitempty"` // files, if more than one
}

// Inspect describes the file at path, which must have a known Format. If the file
// is malformed, the error is a diag.List.
func Inspect(ctx context.Context, path string) (View, error) {
	info, err := os.Stat(path)
	if err != nil {
		return View{}, err
	}
	v := View{File: path, Format: Format(path), Bytes: info.Size(), Metadata: []Entry{}, Refusals: []string{}, Faults: diag.List{}}
	switch v.Format {
	case abi.ONNX:
		err = v.onnx(ctx, path)
	case abi.GGUF:
		err = v.gguf(path)
	case abi.TFLite:
		err = v.tflite(path)
	case abi.ExecuTorch:
		err = v.executorch(path)
	case abi.CoreML:
		err = v.coreml(path)
	case abi.OpenVINO:
		err = v.openvino(path)
	default:
		err = fmt.Errorf("%s: unsupported extension, want one of %s", path, strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
	}
	return v, err
}

func (v *View) onnx(ctx context.Context, path string) error {
	faults, err := Check(ctx, path, Options{})
	if err != nil {
		return err
	}
	m, err := onnx.Open(path)
	if err != nil {
		return faults.Err()
	}
	defer m.Close()
	v.Faults = append(v.Faults, faults...)
	v.Parameters, v.Weights, v.Quant = m.Parameters(), onnx.WeightBytes(m), onnx.Precision(m)
	v.Producer = m.Producer
	if m.ProducerVersion != "" {
		v.Producer += " " + m.ProducerVersion
	}
	for _, e := range m.Metadata {
		v.Metadata = append(v.Metadata, Entry(e))
		if e.Key == "license" || e.Key == "licence" {
			v.License = e.Value
		}
	}
	q := onnx.QuantizationOf(m)
	o := &ONNX{IRVersion: m.IRVersion, Inputs: ports(m.Inputs()), Outputs: ports(m.Graph.Outputs), Opsets: []Opset{}, Operators: []Operator{}, Functions: []string{},
		External: filled(m.Externals()), MinRuntime: onnx.MinRuntime(m),
		Quantization: Quantization{filled(q.Forms), filled(q.Weights), filled(q.Activations), q.PerAxis}}
	for _, s := range m.Opsets {
		o.Opsets = append(o.Opsets, Opset{domain(s.Domain), s.Version})
	}
	for key, n := range m.Operators() {
		o.Operators = append(o.Operators, Operator{domain(key[0]), key[1], n})
	}
	slices.SortFunc(o.Operators, func(a, b Operator) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), -cmp.Compare(a.Count, b.Count), cmp.Compare(a.Name, b.Name))
	})
	for _, f := range m.Functions {
		o.Functions = append(o.Functions, domain(f.Domain)+"."+f.Name)
	}
	o.Nodes = nodes(&m.Graph)
	v.ONNX = o
	v.refusals(m, path)
	return ctx.Err()
}

// refusals records why mm's engine does not run a model. Weights are not read.
func (v *View) refusals(m *onnx.Model, path string) {
	for _, p := range m.Check((Options{Core: true}).checks(path).CheckOptions) {
		if !p.Warning {
			v.Refusals = append(v.Refusals, p.String())
		}
	}
	if err := engine.Claims(m); err != nil && len(v.Refusals) == 0 {
		v.Refusals = strings.Split(err.Error(), "\n")
	}
	v.Runs = len(v.Refusals) == 0
}

// domain returns the name of a domain, with the default spelled out.
func domain(d string) string { return cmp.Or(d, "ai.onnx") }

func filled(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// kinds maps kinds of types to their names.
var kinds = map[onnx.Kind]string{
	onnx.NoKind: "untyped", onnx.TensorKind: "tensor", onnx.SequenceKind: "sequence", onnx.MapKind: "map",
	onnx.OptionalKind: "optional", onnx.SparseKind: "sparse", onnx.OpaqueKind: "opaque",
}

// nodes returns the nodes of a graph with the declared types of their outputs.
func nodes(g *onnx.Graph) []Node {
	types := map[string]onnx.Value{}
	for _, v := range slices.Concat(g.Values, g.Outputs) {
		types[v.Name] = v
	}
	var out []Node
	for _, n := range g.Nodes {
		var values []onnx.Value
		for _, name := range n.Outputs {
			if name == "" {
				continue
			}
			v := types[name]
			v.Name = name
			values = append(values, v)
		}
		out = append(out, Node{n.Op, ports(values)})
	}
	return out
}

func ports(values []onnx.Value) []Port {
	out := []Port{}
	for _, v := range values {
		p := Port{Name: v.Name, Kind: kinds[v.Type.Kind], Shape: []string{}, Ranked: v.Type.Ranked}
		if v.Type.DType.Known() {
			p.DType = v.Type.DType.String()
		}
		for _, d := range v.Type.Dims {
			p.Shape = append(p.Shape, d.String())
		}
		out = append(out, p)
	}
	return out
}

func (v *View) gguf(path string) error {
	f, err := gguf.Open(path)
	if err == nil {
		defer f.Close()
		err = f.Check()
	}
	if err != nil {
		if pe := (*os.PathError)(nil); errors.As(err, &pe) {
			return err
		}
		var list diag.List
		list.Add(diag.WeightsFault, diag.Pos{File: path}, err.Error(), "fetch or export the file again")
		return list.Err()
	}
	v.Bytes = f.Size()
	g := &GGUF{Version: f.Version, Tensors: len(f.Tensors)}
	if n := f.Pieces(); n > 1 {
		g.Pieces = n
	}
	v.Weights = make(map[string]int64)
	most := ""
	for _, t := range f.Tensors {
		name := t.Type.String()
		v.Parameters += int64(t.Elements())
		if v.Weights[name] += t.Size; v.Weights[name] > v.Weights[most] || most == "" {
			most = name
		}
	}
	v.Quant = most
	g.Architecture, _ = gguf.GetOr(f, gguf.KeyArchitecture, "")
	if n, err := gguf.Get[uint32](f, gguf.KeyContextLength.In(g.Architecture)); err == nil {
		g.Context = int64(n)
	}
	g.Tokenizer, _ = gguf.GetOr(f, gguf.KeyTokenizerModel, "")
	if tokens, err := f.Strings(gguf.KeyTokens); err == nil {
		g.Vocabulary = tokens.Len()
	}
	v.License, _ = gguf.GetOr(f, "general.license", "")
	for _, kv := range f.KVs {
		if s, ok := kv.Value.(string); ok && len(s) <= 200 {
			v.Metadata = append(v.Metadata, Entry{kv.Key, s})
		}
	}
	v.GGUF = g
	if _, err := infer.CheckFile(f); err != nil {
		v.Refusals = append(v.Refusals, err.Error())
	}
	if template, err := gguf.GetOr(f, gguf.KeyChatTemplate, ""); err == nil && template != "" {
		if _, err := chat.Parse(template); err != nil {
			v.Refusals = append(v.Refusals, err.Error()+" (mm run --raw continues the prompt without it)")
		}
	}
	v.Runs = len(v.Refusals) == 0
	return nil
}
