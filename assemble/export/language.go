package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/lower"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/registry/artifact"
)

// Composer is a Form that holds language models: graphs over the same weights and
// caches.
type Composer interface {
	Form
	// Compose writes graphs, the first of which is the entry. The problems are the
	// nodes that cannot be written.
	Compose(graphs []Named, name, precision string) (files []Output, problems []lower.Problem, err error)
}

// Keeper is a Composer for a runtime that holds caches from one pass to the next.
type Keeper interface {
	Composer
	// Keep writes the graphs of Compose with states: inputs by the outputs that replace
	// them. The problems are the nodes that cannot be written.
	Keep(graphs []Named, states map[string]string, name, precision string) (files []Output, problems []lower.Problem, err error)
}

// Named is a graph of a language model, decode or prefill.
type Named struct {
	Name  string
	Graph *lower.Graph
}

// Each writes every graph into files NAME-GRAPH, for a format of one graph a file.
func Each(f Form, graphs []Named, name, precision string) (files []Output, problems []lower.Problem, err error) {
	for _, g := range graphs {
		more, faults, err := f.Files(g.Graph, name+"-"+g.Name, precision)
		if err != nil {
			return nil, nil, err
		}
		files, problems = append(files, more...), append(problems, faults...)
	}
	return files, problems, nil
}

// The graphs of a language model.
const (
	decode  = "decode"  // reads one position
	prefill = "prefill" // reads several
)

// The sizes of a language model without options.
const (
	defaultWindow    = 512
	defaultPositions = 16
)

// LanguageOptions are the options of a language model in exports.TARGET.FORMAT.
type LanguageOptions struct {
	Window    int  `json:"window"`    // positions in the cache
	Positions int  `json:"positions"` // read at a time by prefill
	Stateful  bool `json:"stateful"`  // caches are states of the runtime
}

// sizes returns the options with their defaults for a context.
func (o LanguageOptions) sizes(context int) LanguageOptions {
	o.Window = cmp.Or(o.Window, min(defaultWindow, cmp.Or(context, defaultWindow)))
	o.Positions = cmp.Or(o.Positions, min(defaultPositions, o.Window))
	return o
}

func languageOptionsOf(e builds.Export) (o LanguageOptions, err error) {
	if e.Options == nil {
		return o, nil
	}
	d := json.NewDecoder(bytes.NewReader(e.Options))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("options: %w", err)
	}
	if o.Window < 0 || o.Positions < 0 || o.Window > 0 && o.Positions > o.Window {
		return o, fmt.Errorf("options: got window %d and positions %d, want positions of at most the window", o.Window, o.Positions)
	}
	return o, nil
}

// checkLanguage refuses a language model that the form does not hold.
func (x Lowered) checkLanguage(m *modules.Manifest, e builds.Export) (list diag.List) {
	if _, ok := x.Form.(Composer); !ok || m.Type == abi.Adapter {
		what := "functions only"
		if ok {
			what = "adapters within their core only"
		}
		list.Add(diag.NotLowered, diag.Pos{}, fmt.Sprintf("%s is a language model: %s holds %s", m.ID(), x.Format(), what), "export it as gguf, or list the modules of the export")
		return list
	}
	if m.Entry(abi.GGUF) == "" {
		list.Add(diag.NotExported, diag.Pos{}, fmt.Sprintf("%s exports no gguf, from which %s is written", m.ID(), x.Format()), "add export.gguf to its manifest")
	}
	if precisions := x.Form.Precisions(); e.Precision != "" && !slices.Contains(precisions, e.Precision) {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s as %s: unsupported precision, want one of %s", m.ID(), e.Precision, strings.Join(precisions, ", ")), "")
	}
	o, err := languageOptionsOf(e)
	if err != nil {
		list.Add(diag.BadExport, diag.Pos{}, err.Error(), "write options: {window: 512, positions: 16}")
	} else if m.Tokens != nil && m.Tokens.MaxSeq > 0 && o.Window > m.Tokens.MaxSeq {
		list.Add(diag.BadExport, diag.Pos{}, fmt.Sprintf("options: window is %d, but max_seq of %s is %d", o.Window, m.ID(), m.Tokens.MaxSeq), "use a smaller window")
	}
	if o.Stateful && x.grows() && (o.Window != 0 || o.Positions != 0) {
		list.Add(diag.BadExport, diag.Pos{}, fmt.Sprintf("options: the states of %s grow: got window %d and positions %d, want neither", x.Format(), o.Window, o.Positions), "write options: {stateful: true}")
	}
	if o.Stateful && !x.Stateful() {
		list.Add(diag.BadExport, diag.Pos{}, fmt.Sprintf("options: stateful: %s has no states, its caches are inputs and outputs", x.Format()), "remove the option")
	}
	return list
}

// Stateful reports whether the form has states.
func (x Lowered) Stateful() bool {
	_, keeps := x.Form.(Keeper)
	return x.grows() || keeps
}

// grows reports whether the states of the form grow.
func (x Lowered) grows() bool {
	_, ok := x.Form.(Grower)
	return ok
}

// LanguageRecord describes the files of a language model for the programs that run
// them. Inputs and outputs are in the order of the graphs.
type LanguageRecord struct {
	Model     string   `json:"model"` // digest of the GGUF file
	Adapters  []string `json:"adapters,omitempty"`
	Arch      string   `json:"architecture"`
	Precision string   `json:"precision"`
	Cosine    float64  `json:"cosine"`
	Vocab     int      `json:"vocab"`
	Window    int      `json:"window"`
	Positions int      `json:"positions"` // read at a time by prefill
	Layers    int      `json:"layers"`
	KVHeads   int      `json:"kv_heads"`
	HeadDim   int      `json:"head_dim"`
	Graphs    []string `json:"graphs"`
	Inputs    []string `json:"inputs"`
	Outputs   []string `json:"outputs"`
	Stateful  bool     `json:"stateful,omitempty"` // caches are states of the runtime
	States    []string `json:"states,omitempty"`   // zeros at first, of the shape of caches
	Tokenizer string   `json:"tokenizer"`          // a GGUF file without tensors
}

// exportLanguage exports a core with its adapters merged into its weights: the
// graphs, the tokenizer, and a record.
func (x Lowered) exportLanguage(ctx context.Context, m *resolve.Module, e builds.Export, precision string, out Sink) ([]artifact.Layer, []string, error) {
	from, err := out.Layer(m, m.Manifest.Entry(abi.GGUF))
	if err != nil {
		return nil, nil, err
	}
	o, err := languageOptionsOf(e)
	if err != nil {
		return nil, nil, err
	}
	changes, err := out.changes()
	if err != nil {
		return nil, nil, err
	}
	key := fmt.Sprintf("%s language %d %s %s %+v %s %v", x.Format(), generation, from.Descriptor.Digest, precision, o, m.Manifest.Name, changes)
	layers, notes, ok := out.Recall(ctx, key)
	if !ok {
		if layers, notes, err = x.language(ctx, m, from, out, changes, o, precision); err != nil {
			return nil, nil, err
		}
		out.Remember(key, layers, notes)
	}
	for i := range layers {
		layers[i].Annotations = map[string]string{abi.AnnotationQuant: precision, abi.AnnotationSource: from.Descriptor.Digest.String()}
	}
	return layers, notes, nil
}

// language writes the files of a core.
func (x Lowered) language(ctx context.Context, m *resolve.Module, from artifact.Layer, out Sink, changes []changed, o LanguageOptions, precision string) (layers []artifact.Layer, notes []string, err error) {
	f, err := gguf.Open(out.Store.BlobPath(from.Descriptor))
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s, err := arch.Read(f)
	if err != nil {
		return nil, nil, err
	}
	merged, err := merge(f, s, changes)
	if err != nil {
		return nil, nil, err
	}
	o = o.sizes(s.Context)
	files, record, err := x.WriteLanguage(ctx, merged, m.Manifest.Name, precision, o)
	if err != nil {
		return nil, nil, err
	}
	record.Model = from.Descriptor.Digest.String()
	for _, c := range changes {
		record.Adapters = append(record.Adapters, c.digest)
		notes = append(notes, fmt.Sprintf("%s is merged into the weights of %s", c.name, x.Format()))
	}
	text, err := json.MarshalIndent(record, "", " ")
	if err != nil {
		return nil, nil, err
	}
	files = append(files, Output{Path: m.Manifest.Name + ".json", Write: func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	}})
	for _, file := range files {
		l, err := out.Write(ctx, file.Path, file.Write)
		if err != nil {
			return nil, nil, err
		}
		layers = append(layers, l)
	}
	return layers, append(notes, fmt.Sprintf("%s in %s: cosine %s of its weights with the original, by mm's own engine; a window of %d positions", files[0].Path, precision, strconv.FormatFloat(record.Cosine, 'f', 6, 64), record.Window)), nil
}

// WriteLanguage returns the files of a language model, and their record without the
// digests: a graph that reads one position, one that reads several, and the
// tokenizer.
func (x Lowered) WriteLanguage(ctx context.Context, f *gguf.File, name, precision string, o LanguageOptions) ([]Output, LanguageRecord, error) {
	s, err := arch.Read(f)
	if err != nil {
		return nil, LanguageRecord{}, err
	}
	r := LanguageRecord{
		Arch: s.Arch, Precision: precision, Vocab: s.Vocab, Window: o.Window, Positions: o.Positions, Layers: s.Layers, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Tokenizer: name + ".vocab.gguf",
	}
	if grower, ok := x.Form.(Grower); ok && o.Stateful {
		return x.grow(ctx, f, s, grower, name, r)
	}
	sizes := map[string]int{decode: 1, prefill: o.Positions}
	var graphs []Named
	for _, as := range []string{decode, prefill} {
		g, cosine, err := x.languageGraph(ctx, f, s, name, precision, window.StepOptions{Positions: sizes[as], Window: o.Window})
		if err != nil {
			return nil, r, err
		}
		if r.Cosine == 0 || cosine < r.Cosine {
			r.Cosine = cosine
		}
		graphs, r.Graphs = append(graphs, Named{as, g}), append(r.Graphs, as)
	}
	files, problems, err := x.compose(graphs, o, name, &r)
	if err = x.judged(name, precision, r.Cosine, problems, err); err != nil {
		return nil, r, err
	}
	return append(files, vocabulary(f, r.Tokenizer)), r, nil
}

// compose writes the graphs of a language model, with their caches as inputs and
// outputs or as states.
func (x Lowered) compose(graphs []Named, o LanguageOptions, name string, r *LanguageRecord) ([]Output, []lower.Problem, error) {
	states, outputs := map[string]string{}, map[string]bool{}
	if o.Stateful {
		for i := range r.Layers {
			states[window.PastKey(i)], states[window.PastValue(i)] = window.NextKey(i), window.NextValue(i)
			outputs[window.NextKey(i)], outputs[window.NextValue(i)] = true, true
		}
	}
	for _, v := range graphs[0].Graph.Inputs {
		if states[v.Name] != "" {
			r.States = append(r.States, v.Name)
		} else {
			r.Inputs = append(r.Inputs, v.Name)
		}
	}
	for _, v := range graphs[0].Graph.Outputs {
		if !outputs[v.Name] {
			r.Outputs = append(r.Outputs, v.Name)
		}
	}
	if o.Stateful {
		return x.Form.(Keeper).Keep(graphs, states, name, r.Precision)
	}
	return x.Form.(Composer).Compose(graphs, name, r.Precision)
}

// vocabulary is the tokenizer of a model, a GGUF file without tensors.
func vocabulary(f *gguf.File, path string) Output {
	return Output{Path: path, Write: func(w io.Writer) error {
		_, err := gguf.Write(w, f.KVs, nil)
		return err
	}}
}

// languageGraph lowers a language model, and measures it with rounded weights on
// tokens spread over the vocabulary.
func (x Lowered) languageGraph(ctx context.Context, f *gguf.File, s arch.Shape, name, precision string, size window.StepOptions) (*lower.Graph, float64, error) {
	m, err := window.Language(f, size)
	if err != nil {
		return nil, 0, x.unwritten(err, s, name, precision)
	}
	sample := map[string]engine.Tensor{window.Position: {Type: onnx.INT64, Shape: []int{1}, Data: make([]byte, 8)}}
	sample[window.Tokens] = spread(s.Vocab, 1, size.Positions)
	cache := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, s.KVHeads, size.Window, s.HeadDim}, Data: make([]byte, 4*s.KVHeads*size.Window*s.HeadDim)}
	for i := range s.Layers {
		sample[window.PastKey(i)], sample[window.PastValue(i)] = cache, cache
	}
	g, problems, err := lower.Lower(ctx, m, sample)
	if err != nil || len(problems) > 0 {
		return nil, 0, x.judged(name, precision, 0, problems, err)
	}
	cosine, err := measure(ctx, g, precision, sample)
	return g, cosine, err
}

// unwritten returns the error of a model that cannot be written as ONNX.
func (x Lowered) unwritten(err error, s arch.Shape, name, precision string) error {
	if errors.Is(err, window.ErrUnsupported) {
		return x.judged(name, precision, 0, []lower.Problem{{Node: s.Arch, Op: "language model", Reason: err.Error()}}, nil)
	}
	return err
}

// spread returns texts of tokens spread over the vocabulary.
func spread(vocab, texts, positions int) engine.Tensor {
	t := engine.Tensor{Type: onnx.INT64, Shape: []int{texts, positions}}
	for i, n := 0, texts*positions; i < n; i++ {
		t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64((1+i*vocab/n)%vocab))
	}
	return t
}

// changed is an adapter that is merged into a core.
type changed struct {
	name, digest, path string
	scale              float64
}

// String identifies the change in the key of a cached result.
func (c changed) String() string {
	return c.digest + " " + strconv.FormatUint(math.Float64bits(c.scale), 16)
}
