// Package gguf exports language models as GGUF, rewritten in the precision a
// target asks for, tensor by tensor in bounded memory. A file that is in that
// precision already is taken as it is.
package gguf

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/resolve"
)

// Exporter writes GGUF. A precision is one of abi.Precisions or a recipe of
// llama.cpp's that mm has, such as Q6_K.
type Exporter struct{}

// generation is part of every cache key: it changes when other bytes are
// written for the same input.
const generation = 3

// aliases are the recipes of the precisions that every format has.
var aliases = map[string]string{
	string(abi.FP32): "F32", string(abi.FP16): "F16", string(abi.BF16): "BF16", string(abi.Int8): "Q8_0", string(abi.Int4): "Q4_K_M",
}

// listed is the precision whose listing in quant.supported allows a recipe: a
// module that stands four bits stands what keeps more of each weight. What
// keeps less must be listed by its own name.
var listed = map[string]abi.DType{
	"F32": abi.FP32, "F16": abi.FP16, "BF16": abi.BF16, "Q8_0": abi.Int8, "Q6_K": abi.Int4, "Q5_1": abi.Int4, "Q5_0": abi.Int4,
	"Q5_K_M": abi.Int4, "Q5_K_S": abi.Int4, "Q4_K_M": abi.Int4, "Q4_K_S": abi.Int4, "Q4_1": abi.Int4, "Q4_0": abi.Int4, "IQ4_NL": abi.Int4,
	"IQ4_XS": abi.Int4,
}

// Recipe is the recipe of a precision; int4 is Q4_K_M. Case does not count.
func Recipe(precision string) (quant.Recipe, error) {
	if name, ok := aliases[strings.ToLower(precision)]; ok {
		precision = name
	}
	if r, err := quant.ParseRecipe(strings.ToUpper(precision)); err == nil {
		return r, nil
	}
	return quant.ParseRecipe(precision) // for its error
}

// Format is abi.GGUF.
func (Exporter) Format() abi.Format { return abi.GGUF }

// Check refuses a module without GGUF, an unknown precision, one the module
// does not list, and to rewrite a model that is cut into several files.
func (Exporter) Check(m *modules.Manifest, e builds.Export) diag.List {
	var list diag.List
	if m.Entry(abi.GGUF) == "" {
		list.Add(diag.NotExported, diag.Pos{}, m.ID()+" exports no gguf", "add export.gguf to its manifest")
		return list
	}
	if e.Options != nil {
		list.Add(diag.BadExport, diag.Pos{}, "gguf takes no options", "remove them")
	}
	if e.Precision == "" {
		return list
	}
	recipe, err := Recipe(e.Precision)
	if err != nil {
		list.Add(diag.QuantUnknown, diag.Pos{}, err.Error(), "or write one of "+strings.Join(abi.Precisions(), ", "))
		return list
	}
	if q := m.Quant; q != nil && !allowed(q.Supported, e.Precision, recipe.Name) {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s does not list %s; it lists %s", m.ID(), e.Precision, strings.Join(q.Supported, ", ")), "")
	}
	if n := len(m.Export[abi.GGUF].With); n > 0 {
		list.Add(diag.ExportFailed, diag.Pos{}, fmt.Sprintf("%s is in %d files, which mm ships only as they are", m.ID(), n+1), "leave quant out of the export, or join the files")
	}
	return list
}

// allowed reports whether a module that lists the precisions supported may be
// exported by a recipe: it lists the word, the recipe, or what covers it.
func allowed(supported []string, precision, recipe string) bool {
	for _, word := range []string{strings.ToLower(precision), recipe, string(listed[recipe])} {
		if slices.Contains(supported, word) {
			return true
		}
	}
	return false
}

// Export writes the model in the export's precision; without one its files
// stay as they are.
func (Exporter) Export(ctx context.Context, m *resolve.Module, e builds.Export, out export.Sink) ([]registry.Layer, []string, error) {
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
	key := fmt.Sprintf("gguf %d %s %s %s", generation, src.Descriptor.Digest, recipe.Name, name)
	if layers, notes, ok := out.Recall(ctx, key); ok {
		return layers, notes, nil
	}
	file, err := gguf.Read(blob, src.Descriptor.Size)
	if err != nil {
		return nil, nil, err
	}
	c := &conversion{file: file, recipe: recipe, model: modelOf(file)}
	src.Path = name
	if !c.asItIs() {
		if src, err = out.Write(ctx, name, func(w io.Writer) error { return c.write(ctx, w) }); err != nil {
			return nil, nil, err
		}
	}
	layers, notes := []registry.Layer{src}, c.notes()
	out.Remember(key, layers, notes)
	return layers, notes, nil
}

// fileName is what a module's model is called in a target.
func fileName(m *resolve.Module) string { return m.Manifest.Name + ".gguf" }

// asItIs ships the files of the module: one under the module's name, several
// under their own, for they find each other by them.
func asItIs(m *resolve.Module, out export.Sink) (layers []registry.Layer, notes []string, err error) {
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

// Convert rewrites the GGUF file in r by a recipe and tells which tensors fell
// back to another type.
func Convert(ctx context.Context, r io.ReaderAt, size int64, recipe quant.Recipe, w io.Writer) (notes []string, err error) {
	file, err := gguf.Read(r, size)
	if err != nil {
		return nil, err
	}
	c := &conversion{file: file, recipe: recipe, model: modelOf(file)}
	b := bufio.NewWriterSize(w, 1<<20)
	if err := c.write(ctx, b); err != nil {
		return nil, err
	}
	return c.notes(), b.Flush()
}

// conversion is a GGUF file on its way to another precision.
type conversion struct {
	file   *gguf.File
	recipe quant.Recipe
	model  quant.Model
}

func modelOf(f *gguf.File) quant.Model {
	arch, _ := gguf.Get[string](f, gguf.KeyArchitecture)
	layers, _ := gguf.GetOr[uint32](f, gguf.KeyBlockCount.In(arch), 0)
	_, head := f.Tensor("output.weight")
	heads, _ := gguf.GetOr[uint32](f, gguf.KeyHeadCount.In(arch), 1)
	keys, _ := gguf.GetOr(f, gguf.KeyHeadCountKV.In(arch), heads)
	return quant.Model{Layers: int(layers), Tied: !head, Group: int(heads / max(1, keys))}
}

// asItIs reports whether every tensor has its type already.
func (c *conversion) asItIs() bool {
	return !slices.ContainsFunc(c.file.Tensors, func(t gguf.Tensor) bool {
		return t.Type != c.recipe.Type(t.Name, t.Dims, c.model)
	})
}

// notes tells which tensors fell back to another type because a row of theirs
// is no whole number of blocks.
func (c *conversion) notes() []string {
	fell := map[string]int{}
	for _, t := range c.file.Tensors {
		dims := slices.Clone(t.Dims)
		dims[0] = (dims[0] + 255) / 256 * 256
		want, got := c.recipe.Type(t.Name, dims, c.model), c.recipe.Type(t.Name, t.Dims, c.model)
		if want != got {
			fell[fmt.Sprintf("%s instead of %s, rows of %d", got, want, t.Dims[0])]++
		}
	}
	var notes []string
	for _, what := range slices.Sorted(maps.Keys(fell)) {
		notes = append(notes, fmt.Sprintf("%d tensors as %s", fell[what], what))
	}
	return notes
}

func (c *conversion) write(ctx context.Context, w io.Writer) error {
	var sources []gguf.Source
	for _, t := range c.file.Tensors {
		to := c.recipe.Type(t.Name, t.Dims, c.model)
		if t.Type != to && (!quant.CanDequantize(t.Type) || !quant.CanQuantize(to)) {
			return fmt.Errorf("tensor %s is %s, which cannot be written as %s", t.Name, t.Type, to)
		}
		sources = append(sources, gguf.Source{Name: t.Name, Type: to, Dims: t.Dims, Data: &rows{ctx: ctx, file: c.file, tensor: t, to: to}})
	}
	_, err := gguf.Write(w, c.metadata(), sources)
	return err
}

// metadata is the file's own with the new file type.
func (c *conversion) metadata() []gguf.KV {
	kvs := slices.DeleteFunc(slices.Clone(c.file.KVs), func(kv gguf.KV) bool {
		return kv.Key == gguf.KeyFileType || kv.Key == gguf.KeyQuantizationVersion
	})
	at := 1 // behind general.architecture, where readers expect it first
	if len(kvs) == 0 {
		at = 0
	}
	return slices.Insert(kvs, at, gguf.KV{Key: gguf.KeyFileType, Value: c.recipe.FileType}, gguf.KV{Key: gguf.KeyQuantizationVersion, Value: uint32(2)})
}

// chunk is about how many elements are converted at a time.
const chunk = 1 << 18

// rows streams one tensor from its type to another, a bounded number of rows
// at a time.
type rows struct {
	ctx    context.Context
	file   *gguf.File
	tensor gguf.Tensor
	to     tensor.Type
}

// WriteTo writes the whole tensor.
func (r *rows) WriteTo(w io.Writer) (int64, error) {
	src := r.file.Section(r.tensor)
	if r.tensor.Type == r.to {
		return io.Copy(w, src)
	}
	row := r.tensor.Dims[0]
	total := 1
	for _, d := range r.tensor.Dims[1:] {
		total *= d
	}
	// A row of over 2^18 elements is converted whole: it is still far less
	// than the tensor, and gguf has checked that it is in the file.
	n := max(1, min(total, chunk/row))
	in := make([]byte, r.tensor.Type.RowBytes(row)*n)
	values := make([]float32, row*n)
	out := make([]byte, r.to.RowBytes(row)*n)
	written := int64(0)
	for done := 0; done < total; done += n {
		if err := r.ctx.Err(); err != nil {
			return written, err
		}
		n = min(n, total-done)
		if _, err := io.ReadFull(src, in[:r.tensor.Type.RowBytes(row)*n]); err != nil {
			return written, fmt.Errorf("tensor %s: %w", r.tensor.Name, err)
		}
		quant.Dequantize(values[:row*n], in[:r.tensor.Type.RowBytes(row)*n], r.tensor.Type)
		quant.Quantize(out[:r.to.RowBytes(row)*n], values[:row*n], r.to)
		k, err := w.Write(out[:r.to.RowBytes(row)*n])
		written += int64(k)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
