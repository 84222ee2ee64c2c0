// Package qnn exports functions and cores as contexts compiled for the NPU of one
// chip.
//
// A function's ONNX file is compiled by a [Compiler], for the chip that the
// export names, on the golden inputs that the module ships: golden/INPUT.npy for
// each input gives the shapes, and with golden/*.npz, of which each is a set of
// inputs as well, the ranges of integers and what the context is run on in
// emulation. Beside the context lies the compiler's record; what it
// says of the SDK, the chip, the source and the distance is in the layer's
// annotations as well, so that it stands in the signed manifest. A result
// is remembered by module, chip, precision and SDK: Qualcomm's compiler may give
// other bytes for the same large model.
//
// A core's context is one pass of the whole model over a position, compiled of
// its GGUF file, which the target ships beside it as it is: tokens and embeddings
// are read of that. A second context may read prompts, several positions at a
// time.
//
// A module that ships contexts of its own is exported as it is.
package npu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/core/gguf/window"
	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
)

// Job is a model that is to be compiled.
type Job struct {
	Model     string            // path of the ONNX file, of a language model the GGUF file
	Golden    map[string]string // path of an .npy for each input
	More      []string          // paths of .npz, more sets of inputs
	Chip      fit.Chip
	Precision string // "": fp16
	Keep      []string
	MinCosine *float64 // least cosine to our own engine, 0 being any; nil: the compiler's choice by the precision
	Out       string   // path of the context to write, in a folder of its own

	Language  bool        // it is a language model, which has no golden inputs
	Window    int         // of it, in positions; 0: the compiler's choice
	Layers    window.Span // of it, that become a context; none: all
	Positions int         // that are read at a time; 0: the compiler's choice
}

// Compiler compiles ONNX models: assemble/compile.
type Compiler interface {
	// SDK is the build of the SDK that compiles, or why there is none.
	SDK(ctx context.Context) (string, error)
	// Precisions are those that it has.
	Precisions() []string
	// Compile writes job.Out and gives the record, as JSON.
	Compile(ctx context.Context, job Job) (record []byte, err error)
}

// Exporter writes contexts.
type Exporter struct {
	// Compiler is what compiles; nil: only modules that ship contexts are
	// exported.
	Compiler Compiler
	// Chips is the table of chips; nil: that of this release.
	Chips fit.Chips
}

// generation is part of every cache key: it changes when other bytes are
// written for the same input.
const generation = 2

// Format is abi.QNN.
func (Exporter) Format() abi.Format { return abi.QNN }

// options are what exports.TARGET.qnn.options may hold.
type options struct {
	SoC       string   `json:"soc"` // SM8750
	Keep      []string `json:"keep"`
	MinCosine *float64 `json:"min_cosine"`
	Window    int      `json:"window"`    // of a core, in positions
	Layers    span     `json:"layers"`    // of a core, 1:3; the others are computed by mm
	Positions int      `json:"positions"` // of a core, in a second context that reads prompts; 0, 1: none
}

// span is layers as options name them.
type span struct{ window.Span }

// UnmarshalText reads FIRST:END.
func (s *span) UnmarshalText(text []byte) (err error) {
	s.Span, err = window.ParseSpan(string(text))
	return err
}

func optionsOf(e builds.Export) (opt options, err error) {
	if e.Options == nil {
		return opt, nil
	}
	d := json.NewDecoder(bytes.NewReader(e.Options))
	d.DisallowUnknownFields()
	if err = d.Decode(&opt); err != nil {
		return opt, fmt.Errorf("options: %w", err)
	}
	if c := opt.MinCosine; c != nil && !(*c >= 0 && *c <= 1) {
		return opt, fmt.Errorf("options: min_cosine is %v, and it is from 0, which is any, to 1", *c)
	}
	if opt.Window < 0 || opt.Positions < 0 {
		return opt, fmt.Errorf("options: a window of %d, %d positions at a time", opt.Window, opt.Positions)
	}
	return opt, nil
}

// own reports a module that ships contexts, of which nothing else is wanted.
func own(m *modules.Manifest, e builds.Export) bool {
	return m.Entry(abi.QNN) != "" && e.Options == nil && e.Precision == ""
}

// chip is the one that an export is for.
func (x Exporter) chip(opt options) (fit.Chip, error) {
	chips := x.Chips
	if chips == nil {
		chips = fit.KnownChips()
	}
	if opt.SoC == "" {
		return fit.Chip{}, errors.New("no chip is named to compile for")
	}
	chip, ok := chips.Named(opt.SoC)
	if !ok {
		return chip, fmt.Errorf("%q is no chip that is known", opt.SoC)
	}
	return chip, nil
}

// Check refuses a module without ONNX or golden inputs, an unknown chip and an
// unknown precision.
func (x Exporter) Check(m *modules.Manifest, e builds.Export) diag.List {
	var list diag.List
	if own(m, e) {
		return list
	}
	if from := source(m); m.Entry(from) == "" {
		list.Add(diag.NotExported, diag.Pos{}, fmt.Sprintf("%s exports no %s to compile", m.ID(), from), fmt.Sprintf("add export.%s to its manifest", from))
		return list
	}
	opt, err := optionsOf(e)
	var chip fit.Chip
	if err == nil {
		chip, err = x.chip(opt)
	}
	if why, hint := chip.Lacks(e.Precision == "" || e.Precision == floats); err == nil && why != "" {
		list.Add(diag.QNNChip, diag.Pos{}, why, hint)
	}
	if err != nil {
		list.Add(diag.BadExport, diag.Pos{}, err.Error(), "write --export qnn=NAME@SM8750, or options: {soc: SM8750}; mm qnn soc ls lists the chips")
	}
	if x.Compiler == nil {
		list.Add(diag.ExportFailed, diag.Pos{}, "nothing compiles for NPUs here", "")
		return list
	}
	if known := x.Compiler.Precisions(); e.Precision != "" && !slices.Contains(known, e.Precision) {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s as %s: a context is of %s", m.ID(), e.Precision, strings.Join(known, ", ")), "")
	}
	if language(m) {
		return append(list, checkLanguage(m, e, opt)...)
	}
	if n := len(m.Export[abi.ONNX].With); n > 0 {
		list.Add(diag.ExportFailed, diag.Pos{}, fmt.Sprintf("%s is in %d files, and a context is compiled of one", m.ID(), n+1), "")
	}
	for _, in := range m.Inputs {
		if path := golden(in.Name); !slices.Contains(m.Paths(), path) {
			list.Add(diag.ExportFailed, diag.Pos{}, fmt.Sprintf("%s ships no %s to fix its shapes by", m.ID(), path), "add the file to the module, and its files")
		}
	}
	return list
}

// language reports a module that is a language model.
func language(m *modules.Manifest) bool { return m.Type == abi.Core || m.Type == abi.DraftCore }

// source is the format that a module's context is compiled of.
func source(m *modules.Manifest) abi.Format {
	if language(m) {
		return abi.GGUF
	}
	return abi.ONNX
}

// checkLanguage refuses what is not done with language models.
func checkLanguage(m *modules.Manifest, e builds.Export, opt options) (list diag.List) {
	if e.Precision != "" && e.Precision != floats {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s as %s: a context of a language model is of %s", m.ID(), e.Precision, floats), "")
	}
	if len(opt.Keep) > 0 {
		list.Add(diag.BadExport, diag.Pos{}, "options: keep, and nothing of a language model is quantised", "leave it out")
	}
	if m.Tokens != nil && opt.Window > m.Tokens.MaxSeq && m.Tokens.MaxSeq > 0 {
		list.Add(diag.BadExport, diag.Pos{}, fmt.Sprintf("options: a window of %d positions, and %s has %d", opt.Window, m.ID(), m.Tokens.MaxSeq), "take a window of at most that")
	}
	return list
}

// floats is the precision that language models are computed in, and what else
// nobody says another of.
const floats = "fp16"

func golden(input string) string { return "golden/" + input + ".npy" }

// sets are the module's further sets of golden inputs, in the order of their
// paths.
func sets(m *modules.Manifest, language bool) []string {
	if language {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(slices.Values(m.Paths())), func(p string) bool {
		more, err := path.Match("golden/*.npz", p)
		return err != nil || !more
	})
}

// Export compiles the module.
func (x Exporter) Export(ctx context.Context, m *resolve.Module, e builds.Export, out export.Sink) (layers []artifact.Layer, notes []string, err error) {
	if own(m.Manifest, e) {
		return export.NewVerbatim(abi.QNN).Export(ctx, m, e, out)
	}
	opt, err := optionsOf(e)
	if err != nil {
		return nil, nil, err
	}
	chip, err := x.chip(opt)
	if err != nil {
		return nil, nil, err
	}
	sdk, err := x.Compiler.SDK(ctx)
	if err != nil {
		return nil, nil, err
	}
	job := Job{
		Golden: map[string]string{}, Chip: chip, Precision: e.Precision, Keep: opt.Keep, MinCosine: opt.MinCosine,
		Language: language(m.Manifest), Window: opt.Window, Positions: opt.Positions, Layers: opt.Layers.Span,
	}
	from, err := out.Layer(m, m.Manifest.Entry(source(m.Manifest)))
	if err != nil {
		return nil, nil, err
	}
	job.Model = out.Store.BlobPath(from.Descriptor)
	key := fmt.Sprintf("qnn %d %s %d %q %q %v %s %s", generation, from.Descriptor.Digest, chip.Model, e.Precision, opt.Keep, gate(opt), sdk, m.Manifest.Name)
	inputs := m.Manifest.Inputs
	if job.Language {
		key, inputs = fmt.Sprintf("%s language %d %d %v", key, opt.Window, opt.Positions, opt.Layers.Span), nil
	}
	for _, in := range inputs {
		l, err := out.Layer(m, golden(in.Name))
		if err != nil {
			return nil, nil, err
		}
		job.Golden[in.Name] = out.Store.BlobPath(l.Descriptor)
		key += " " + l.Descriptor.Digest.String()
	}
	for _, path := range sets(m.Manifest, job.Language) {
		l, err := out.Layer(m, path)
		if err != nil {
			return nil, nil, err
		}
		job.More = append(job.More, out.Store.BlobPath(l.Descriptor))
		key += " " + l.Descriptor.Digest.String()
	}
	layers, _, ok := out.Recall(ctx, key)
	if !ok {
		if layers, err = x.compile(ctx, job, m.Manifest.Name+"."+strings.ToLower(chip.Name), out); err != nil {
			return nil, nil, err
		}
		out.Remember(key, layers, nil)
	}
	return annotated(ctx, layers, out)
}

// gate is the least cosine as a key has it.
func gate(opt options) string {
	if opt.MinCosine == nil {
		return "as the precision"
	}
	return fmt.Sprint(*opt.MinCosine)
}

// compile makes each context and its record, in this order.
func (x Exporter) compile(ctx context.Context, job Job, name string, out export.Sink) (layers []artifact.Layer, err error) {
	first, err := x.compileOne(ctx, job.pass(1), name, out)
	if err != nil || !job.Language || job.Positions < 2 {
		return first, err
	}
	second, err := x.compileOne(ctx, job, fmt.Sprintf("%s.%d", name, job.Positions), out)
	return append(first, second...), err
}

// pass is the job of the context that reads n positions of a language model at a
// time.
func (j Job) pass(n int) Job {
	if j.Language {
		j.Positions = n
	}
	return j
}

// compileOne makes a context and its record.
func (x Exporter) compileOne(ctx context.Context, job Job, name string, out export.Sink) (layers []artifact.Layer, err error) {
	dir, err := fsx.MkdirTemp("mm-qnn-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fsx.RemoveAll(dir)) }()
	job.Out = filepath.Join(dir, name+".bin")
	record, err := x.Compiler.Compile(ctx, job)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(job.Out)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, file := range []struct {
		path string
		from io.Reader
	}{{name + ".bin", f}, {name + ".json", bytes.NewReader(record)}} {
		l, err := out.Write(ctx, file.path, func(w io.Writer) error {
			_, err := io.Copy(w, file.from)
			return err
		})
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// maxRecord bounds a record, in bytes.
const maxRecord = 1 << 20

// record is what of a compiler's record stands in annotations.
type record struct {
	Source    string  `json:"source"`
	SoC       string  `json:"soc"`
	Arch      string  `json:"arch"`
	SDK       string  `json:"sdk"`
	Precision string  `json:"precision"`
	Cosine    float64 `json:"cosine"`
	MaxAbs    float64 `json:"max_abs"`
	Simulated bool    `json:"simulated"`
	Kept      []struct {
		Op    string   `json:"op"`
		Why   string   `json:"why"`
		Nodes []string `json:"nodes"`
	} `json:"kept"`
}

// annotated notes on each context what its record says, and tells people how
// near it comes and what stayed floats.
func annotated(ctx context.Context, layers []artifact.Layer, out export.Sink) ([]artifact.Layer, []string, error) {
	if len(layers) == 0 || len(layers)%2 != 0 {
		return nil, nil, errNoRecord
	}
	var notes []string
	for i := 0; i < len(layers); i += 2 {
		more, err := annotate(ctx, layers[i:i+2], out)
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, more...)
	}
	return layers, notes, nil
}

var errNoRecord = errors.New("a context without its record")

// annotate notes on a context, which comes before its record, what that says.
func annotate(ctx context.Context, layers []artifact.Layer, out export.Sink) (notes []string, err error) {
	if layers[1].Descriptor.Size > maxRecord {
		return nil, errNoRecord
	}
	f, err := out.Store.OpenBlob(ctx, layers[1].Descriptor)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	var r record
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of the context: %w", err)
	}
	layers[0].Annotations = map[string]string{
		abi.AnnotationQuant: r.Precision, abi.AnnotationSoC: r.SoC, abi.AnnotationArch: r.Arch, abi.AnnotationSDK: r.SDK, abi.AnnotationSource: r.Source,
		abi.AnnotationCosine: strconv.FormatFloat(r.Cosine, 'f', -1, 64), abi.AnnotationSimulated: strconv.FormatBool(r.Simulated),
	}
	layers[1].Annotations = map[string]string{abi.AnnotationQuant: r.Precision, abi.AnnotationSoC: r.SoC}
	notes = append(notes, fmt.Sprintf("%s in %s: cosine %v to our own engine's results, in emulation", layers[0].Path, r.Precision, r.Cosine))
	for _, k := range r.Kept {
		notes = append(notes, fmt.Sprintf("%d of %s stay floats: %s", len(k.Nodes), k.Op, k.Why))
	}
	return notes, nil
}
