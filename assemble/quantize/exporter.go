// Package quantize rewrites GGUF files in another precision, tensor by tensor in
// bounded memory: as the exporter of language models ([Exporter]) and of a single
// file ([Rewrite]). Rounding can use an importance matrix, read from a file or
// measured by mm's engine on a text, factors for its columns (AWQ), or the
// products of the inputs (GPTQ). A file that already has the requested precision
// is used unchanged.
package quantize

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
)

// Exporter exports GGUF files. A precision is one of abi.Precisions or a supported
// recipe of llama.cpp, such as Q6_K.
type Exporter struct {
	Threads int // of calibration; if zero, the number of CPUs
}

// generation is part of every cache key. It changes when the output for an input
// changes.
const generation = 5

// aliases maps the common precisions to recipes.
var aliases = map[string]string{
	string(abi.FP32): "F32", string(abi.FP16): "F16", string(abi.BF16): "BF16", string(abi.Int8): "Q8_0", string(abi.Int4): "Q4_K_M",
}

// listed maps a recipe to the precision in quant.supported that allows it: a module
// that supports four bits supports recipes that keep more of each weight. Others
// must be listed by name.
var listed = map[string]abi.DType{
	"F32": abi.FP32, "F16": abi.FP16, "BF16": abi.BF16, "Q8_0": abi.Int8, "Q6_K": abi.Int4, "Q5_1": abi.Int4, "Q5_0": abi.Int4,
	"Q5_K_M": abi.Int4, "Q5_K_S": abi.Int4, "Q4_K_M": abi.Int4, "Q4_K_S": abi.Int4, "Q4_1": abi.Int4, "Q4_0": abi.Int4, "IQ4_NL": abi.Int4,
	"IQ4_XS": abi.Int4,
}

// Recipe returns the recipe of a precision, ignoring case; int4 is Q4_K_M.
func Recipe(precision string) (quant.Recipe, error) {
	if name, ok := aliases[strings.ToLower(precision)]; ok {
		precision = name
	}
	if r, err := quant.ParseRecipe(strings.ToUpper(precision)); err == nil {
		return r, nil
	}
	return quant.ParseRecipe(precision) // returns the error
}

// Format implements assemble.Exporter.
func (Exporter) Format() abi.Format { return abi.GGUF }

// Check refuses a module without GGUF, an unknown or unlisted precision, and
// rewriting a model in several files.
func (x Exporter) Check(m *modules.Manifest, e builds.Export) diag.List {
	var list diag.List
	if m.Entry(abi.GGUF) == "" {
		list.Add(diag.NotExported, diag.Pos{}, m.ID()+" exports no gguf", "add export.gguf to its manifest")
		return list
	}
	opt, err := optionsOf(e)
	if err != nil {
		list.Add(diag.BadExport, diag.Pos{}, err.Error(), "gguf takes imatrix, a file of the module, separator and windows")
	}
	list = append(list, x.checkMethod(e, opt)...)
	if opt.Imatrix != "" && !slices.Contains(m.Paths(), opt.Imatrix) {
		list.Add(diag.BadExport, diag.Pos{}, fmt.Sprintf("options.imatrix: %q is not a file of %s", opt.Imatrix, m.ID()), "list it under files of the module")
	}
	if e.Precision == "" {
		if opt.Imatrix != "" {
			list.Add(diag.BadExport, diag.Pos{}, "options.imatrix without quant has no effect", "set quant, or remove it")
		}
		return list
	}
	recipe, err := Recipe(e.Precision)
	if err != nil {
		list.Add(diag.QuantUnknown, diag.Pos{}, err.Error(), "use a recipe, or one of "+strings.Join(abi.Precisions(), ", "))
		return list
	}
	if q := m.Quant; q != nil && !allowed(q.Supported, e.Precision, recipe.Name) {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s does not list %s; it lists %s", m.ID(), e.Precision, strings.Join(q.Supported, ", ")), "")
	}
	if n := len(m.Export[abi.GGUF].With); n > 0 {
		list.Add(diag.ExportFailed, diag.Pos{}, fmt.Sprintf("%s is split into %d files, which cannot be rewritten", m.ID(), n+1), "remove quant from the export, or join the files")
	}
	return list
}

// checkMethod refuses a method without its data.
func (x Exporter) checkMethod(e builds.Export, opt exportOptions) (list diag.List) {
	if e.Method == "" && e.Imatrix == "" && e.Calibration == "" {
		return nil
	}
	if e.Imatrix != "" && opt.Imatrix != "" {
		list.Add(diag.BadExport, diag.Pos{}, "conflicting imatrix (a file next to the graph) and options.imatrix (a file of the module)", "remove one of them")
	}
	how := Calibration{Method: Method(e.Method), Windows: opt.Windows}
	if err := how.Method.Needs(e.Imatrix != "" || opt.Imatrix != "", e.Calibration != ""); err != nil {
		list.Add(diag.BadExport, diag.Pos{}, err.Error(), "add imatrix: FILE or calibration: TEXT, a file next to the graph")
	}
	return list
}

// exportOptions are the options exports.TARGET.gguf.options.
type exportOptions struct {
	// Imatrix is the path of an importance matrix in the module.
	Imatrix string `json:"imatrix"`
	// Separator and Windows control how texts are read, as in [Calibration].
	Separator string `json:"separator"`
	Windows   int    `json:"windows"`
}

func optionsOf(e builds.Export) (opt exportOptions, err error) {
	if e.Options == nil {
		return opt, nil
	}
	d := json.NewDecoder(bytes.NewReader(e.Options))
	d.DisallowUnknownFields()
	if err := d.Decode(&opt); err != nil {
		return opt, fmt.Errorf("options: %w", err)
	}
	if opt.Windows < 0 {
		return opt, fmt.Errorf("options: windows is %d", opt.Windows)
	}
	return opt, nil
}

// allowed reports whether a list of precisions allows a recipe: by the given name,
// the recipe's name, or a precision that covers it.
func allowed(supported []string, precision, recipe string) bool {
	for _, word := range []string{strings.ToLower(precision), recipe, string(listed[recipe])} {
		if slices.Contains(supported, word) {
			return true
		}
	}
	return false
}

// Export writes the model in the requested precision; without one, its files are
// unchanged.
func (x Exporter) Export(ctx context.Context, m *resolve.Module, e builds.Export, out export.Sink) (layers []artifact.Layer, notes []string, err error) {
	if e.Precision == "" {
		return asItIs(m, out)
	}
	recipe, err := Recipe(e.Precision)
	if err != nil {
		return nil, nil, err
	}
	blob, src, err := out.Open(ctx, m, m.Manifest.Entry(abi.GGUF))
	if err != nil {
		return nil, nil, err
	}
	defer blob.Close()
	name := fileName(m)
	from := src.Descriptor.Digest.String()
	how, err := calibration(ctx, m, e, out)
	if err != nil {
		return nil, nil, err
	}
	key := fmt.Sprintf("gguf %d %s %s %s", generation, from, recipe.Name, name)
	if by := how.String(); by != "" {
		key += " " + by
	}
	if layers, notes, ok := out.Recall(ctx, key); ok {
		return annotated(layers, from, how), notes, nil
	}
	file, err := gguf.Read(blob, src.Descriptor.Size)
	if err != nil {
		return nil, nil, err
	}
	opt, done, err := x.options(ctx, out.Store.BlobPath(src.Descriptor), how)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	opt.Recipe = recipe
	c := newConversion(file, opt)
	defer c.close()
	src.Path = name
	if !c.asItIs() {
		if err := c.prepare(ctx); err != nil {
			return nil, nil, err
		}
		if err := out.Store.RoomFor(c.size()); err != nil {
			return nil, nil, err
		}
		if src, err = out.Write(ctx, name, func(w io.Writer) error { return c.write(ctx, w) }); err != nil {
			return nil, nil, err
		}
	}
	layers, notes = []artifact.Layer{src}, c.notes()
	out.Remember(key, layers, notes)
	return annotated(layers, from, how), notes, nil
}

// size returns the number of bytes of the converted tensors.
func (c *conversion) size() (n int64) {
	for _, t := range c.file.Tensors {
		n += int64(c.typeOf(t).RowBytes(t.Dims[0])) * (int64(t.Elements()) / int64(t.Dims[0]))
	}
	return n
}

// calibration reads the files of an export: those next to the graph, and an
// importance matrix in the module.
func calibration(ctx context.Context, m *resolve.Module, e builds.Export, out export.Sink) (how Calibration, err error) {
	opt, err := optionsOf(e)
	if err != nil {
		return how, err
	}
	how = Calibration{Method: Method(e.Method), Separator: opt.Separator, Windows: opt.Windows}
	switch {
	case e.Imatrix != "":
		how.Imatrix, err = out.ReadFile(e.Imatrix)
	case opt.Imatrix != "":
		how.Imatrix, err = moduleFile(ctx, m, opt.Imatrix, out)
	}
	if err == nil && e.Calibration != "" {
		how.Text, err = out.ReadFile(e.Calibration)
	}
	return how, err
}

// moduleFile reads an importance matrix in a module.
func moduleFile(ctx context.Context, m *resolve.Module, path string, out export.Sink) (*export.GraphFile, error) {
	f, layer, err := out.Open(ctx, m, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkTextSize(path, layer.Descriptor.Size); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxText))
	return &export.GraphFile{Path: path, Digest: layer.Descriptor.Digest.String(), Data: data}, err
}

// options returns the conversion options for the model at path; done frees them.
func (x Exporter) options(ctx context.Context, path string, how Calibration) (opt ConvertOptions, done func() error, err error) {
	done = func() error { return nil }
	if how.Text == nil && (how.Method == "" || how.Method == Nearest) {
		if how.Imatrix == nil {
			return opt, done, nil
		}
		if !IsText(how.Imatrix.Data) {
			opt.Importance, err = ReadImatrix(how.Imatrix)
			return opt, done, err
		}
	}
	return learn(ctx, path, how, Options{Threads: x.Threads})
}

// annotated adds annotations about the calibration to layers, unless they are the
// module's unchanged file.
func annotated(layers []artifact.Layer, from string, how Calibration) []artifact.Layer {
	notes := map[string]string{}
	if how.Method != "" {
		notes[abi.AnnotationMethod] = string(how.Method)
	}
	if f := how.Imatrix; f != nil {
		notes[abi.AnnotationImatrix] = f.Digest // of the text, if measured on one
	}
	if f := how.Text; f != nil {
		notes[abi.AnnotationText] = f.Digest
	}
	for i := range layers {
		if len(notes) > 0 && layers[i].Descriptor.Digest.String() != from {
			layers[i].Annotations = maps.Clone(notes)
		}
	}
	return layers
}

// fileName returns the name of a module's model in a target.
func fileName(m *resolve.Module) string { return m.Manifest.Name + ".gguf" }

// asItIs exports the unchanged files of the module: a single file under the
// module's name, several under their own names, by which they refer to each other.
func asItIs(m *resolve.Module, out export.Sink) (layers []artifact.Layer, notes []string, err error) {
	files := m.Manifest.Export[abi.GGUF].Files()
	for _, path := range files {
		l, err := out.Layer(m, path)
		if err != nil {
			return nil, nil, err
		}
		if len(files) == 1 {
			l.Path = fileName(m)
		}
		layers = append(layers, l)
	}
	return layers, nil, nil
}
