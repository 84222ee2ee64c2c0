// [NPU] exports functions and cores as contexts compiled for the NPU of a
// chip.
//
// A function's ONNX file is compiled by a [Compiler] for the chip of the export.
// The module's golden inputs golden/INPUT.npy determine the shapes; with
// golden/*.npz, which are further sets of inputs, they also provide the ranges for
// quantization and the inputs for the run in emulation. The compiler's record is
// stored next to the context; its SDK, chip, source and cosine are also annotations
// of the layer, so that the signed manifest contains them. Results are cached by
// module, chip, precision and SDK: Qualcomm's compiler may write other bytes for
// the same large model.
//
// A core's context is a pass of the complete model over one position, compiled from
// its GGUF file, which the target ships unchanged: tokens and embeddings are read
// from it. A second context may process several positions of a prompt at a time.
//
// A module that contains contexts is exported unchanged.

package compile

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
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/registry/artifact"
)

// Job is a model to compile.
type Job struct {
	Model     string            // paths of .npy files by input
	Golden    map[string]string // paths of .npy files by input
	More      []string          // paths of .npz files with further sets of inputs
	Chip      htp.Chip
	Precision string // if empty, fp16
	Keep      []string
	MinCosine *float64 // minimum cosine with mm's own engine, 0 for any; if nil, the default of the precision
	Out       string   // path of the context to write, in its own folder

	Language  bool        // a language model, which has no golden inputs
	Window    int         // of a language model, in positions; 0: the compiler's default
	Layers    window.Span // of a language model; zero: all
	Positions int         // processed at a time; 0: the compiler's default
}

// Compiler compiles models; assemble/compile implements it.
type Compiler interface {
	// SDK returns the build of the SDK, or why it is not available.
	SDK(ctx context.Context) (string, error)
	// Precisions returns the supported precisions.
	Precisions() []string
	// Compile writes job.Out and returns the record as JSON.
	Compile(ctx context.Context, job Job) (record []byte, err error)
}

// NPU exports contexts.
type NPU struct {
	// Compiler compiles the models. If nil, only modules with contexts are
	// exported.
	Compiler Compiler
	// Chips is the table of chips; if nil, the built-in one.
	Chips htp.Chips
}

// generation is part of every cache key. It changes when the output for an input
// changes.
const generation = 2

// Format implements assemble.Exporter.
func (NPU) Format() abi.Format { return abi.QNN }

// options are the options exports.TARGET.qnn.options.
type options struct {
	SoC       string   `json:"soc"` // SM8750
	Keep      []string `json:"keep"`
	MinCosine *float64 `json:"min_cosine"`
	Window    int      `json:"window"`    // of a core, in positions
	Layers    span     `json:"layers"`    // of a core, such as 1:3; mm computes the others
	Positions int      `json:"positions"` // of a core, in a second context for prompts; 0 or 1: none
}

// span is a range of layers in options.
type span struct{ window.Span }

// UnmarshalText parses FIRST:END.
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
		return opt, fmt.Errorf("options: min_cosine is %v, want 0 (any) to 1", *c)
	}
	if opt.Window < 0 || opt.Positions < 0 {
		return opt, fmt.Errorf("options: window is %d and positions is %d, want at least 0", opt.Window, opt.Positions)
	}
	return opt, nil
}

// precompiled reports whether a module contains contexts that are exported
// unchanged.
func precompiled(m *modules.Manifest, e builds.Export) bool {
	return m.Entry(abi.QNN) != "" && e.Options == nil && e.Precision == ""
}

// chip returns the chip of an export.
func (x NPU) chip(opt options) (htp.Chip, error) {
	chips := x.Chips
	if chips == nil {
		chips = htp.KnownChips()
	}
	if opt.SoC == "" {
		return htp.Chip{}, errors.New("missing chip")
	}
	chip, ok := chips.Named(opt.SoC)
	if !ok {
		return chip, fmt.Errorf("unknown chip %q", opt.SoC)
	}
	return chip, nil
}

// Check refuses a module without ONNX or golden inputs, and an unknown chip or
// precision.
func (x NPU) Check(m *modules.Manifest, e builds.Export) diag.List {
	var list diag.List
	if precompiled(m, e) {
		return list
	}
	if from := source(m); m.Entry(from) == "" {
		list.Add(diag.NotExported, diag.Pos{}, fmt.Sprintf("%s exports no %s to compile", m.ID(), from), fmt.Sprintf("add export.%s to its manifest", from))
		return list
	}
	opt, err := optionsOf(e)
	var chip htp.Chip
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
		list.Add(diag.ExportFailed, diag.Pos{}, "no compiler for NPUs is available", "")
		return list
	}
	if known := x.Compiler.Precisions(); e.Precision != "" && !slices.Contains(known, e.Precision) {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s as %s: unsupported precision, want one of %s", m.ID(), e.Precision, strings.Join(known, ", ")), "")
	}
	if language(m) {
		return append(list, checkLanguage(m, e, opt)...)
	}
	if n := len(m.Export[abi.ONNX].With); n > 0 {
		list.Add(diag.ExportFailed, diag.Pos{}, fmt.Sprintf("%s is split into %d files, but a context is compiled from one", m.ID(), n+1), "")
	}
	for _, in := range m.Inputs {
		if path := golden(in.Name); !slices.Contains(m.Paths(), path) {
			list.Add(diag.ExportFailed, diag.Pos{}, fmt.Sprintf("%s lacks %s, which determines its shapes", m.ID(), path), "add the file to the module, and its files")
		}
	}
	return list
}

// language reports whether a module is a language model.
func language(m *modules.Manifest) bool { return m.Type == abi.Core || m.Type == abi.DraftCore }

// source returns the format from which a module is compiled.
func source(m *modules.Manifest) abi.Format {
	if language(m) {
		return abi.GGUF
	}
	return abi.ONNX
}

// checkLanguage refuses options that language models do not support.
func checkLanguage(m *modules.Manifest, e builds.Export, opt options) (list diag.List) {
	if e.Precision != "" && e.Precision != floats {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s as %s: a language model requires %s", m.ID(), e.Precision, floats), "")
	}
	if len(opt.Keep) > 0 {
		list.Add(diag.BadExport, diag.Pos{}, "options: keep has no effect on a language model", "remove it")
	}
	if m.Tokens != nil && opt.Window > m.Tokens.MaxSeq && m.Tokens.MaxSeq > 0 {
		list.Add(diag.BadExport, diag.Pos{}, fmt.Sprintf("options: window is %d, but max_seq of %s is %d", opt.Window, m.ID(), m.Tokens.MaxSeq), "use a smaller window")
	}
	return list
}

// floats is the precision of language models, and the default.
const floats = "fp16"

func golden(input string) string { return "golden/" + input + ".npy" }

// sets returns the module's further sets of golden inputs, sorted.
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
func (x NPU) Export(ctx context.Context, m *resolve.Module, e builds.Export, out export.Sink) (layers []artifact.Layer, notes []string, err error) {
	if precompiled(m.Manifest, e) {
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

// gate returns the minimum cosine for a cache key.
func gate(opt options) string {
	if opt.MinCosine == nil {
		return "as the precision"
	}
	return fmt.Sprint(*opt.MinCosine)
}

// compile creates the contexts and their records, in order.
func (x NPU) compile(ctx context.Context, job Job, name string, out export.Sink) (layers []artifact.Layer, err error) {
	first, err := x.compileOne(ctx, job.pass(1), name, out)
	if err != nil || !job.Language || job.Positions < 2 {
		return first, err
	}
	second, err := x.compileOne(ctx, job, fmt.Sprintf("%s.%d", name, job.Positions), out)
	return append(first, second...), err
}

// pass returns the job of the context that processes n positions at a time.
func (j Job) pass(n int) Job {
	if j.Language {
		j.Positions = n
	}
	return j
}

// compileOne creates a context and its record.
func (x NPU) compileOne(ctx context.Context, job Job, name string, out export.Sink) (layers []artifact.Layer, err error) {
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

// maxRecord is the size limit of a record, in bytes.
const maxRecord = 1 << 20

func checkRecordSize(n int64) error {
	if n > maxRecord {
		return fmt.Errorf("record too large: got %d bytes, the limit is %d", n, maxRecord)
	}
	return nil
}

// record is the part of a compiler's record for annotations.
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

// annotated annotates contexts from their records, and returns notes about the
// cosine and the operators in floats.
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

var errNoRecord = errors.New("context without its record")

// annotate annotates a context from the record that follows it.
func annotate(ctx context.Context, layers []artifact.Layer, out export.Sink) (notes []string, err error) {
	if err := checkRecordSize(layers[1].Descriptor.Size); err != nil {
		return nil, err
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
	notes = append(notes, fmt.Sprintf("%s in %s: cosine %v with mm's own engine, in emulation", layers[0].Path, r.Precision, r.Cosine))
	for _, k := range r.Kept {
		notes = append(notes, fmt.Sprintf("%d of %s stay floats: %s", len(k.Nodes), k.Op, k.Why))
	}
	return notes, nil
}
