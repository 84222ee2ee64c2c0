package export

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/resolve"
)

// recipes are the GGUF recipes of the precisions.
var recipes = map[abi.DType]string{
	abi.FP32: "F32", abi.FP16: "F16", abi.BF16: "BF16", abi.Int8: "Q8_0", abi.Int4: "Q4_K_M",
}

// GGUF writes a language model's weights in the precision of opt; without one
// they stay as they are.
func GGUF(ctx context.Context, m *resolve.Module, opt Options) (Exported, error) {
	src, err := layer(m, "gguf")
	if err != nil {
		return Exported{}, err
	}
	var recipe quant.Recipe // of no name: none
	if opt.Quant != "" {
		if recipe, err = quant.ParseRecipe(recipes[opt.Quant]); err != nil {
			return Exported{}, err
		}
	}
	key := fmt.Sprintf("gguf %d %s %s", generation, src.Descriptor.Digest, recipe.Name)
	if e, ok := opt.recall(ctx, key, abi.MediaWeight); ok {
		return e, nil
	}
	blob, err := opt.Store.OpenBlob(ctx, src.Descriptor)
	if err != nil {
		return Exported{}, err
	}
	defer blob.Close()
	file, err := gguf.Read(blob, src.Descriptor.Size)
	if err != nil {
		return Exported{}, err
	}
	c := &conversion{file: file, recipe: recipe, model: modelOf(file)}
	var out Exported
	if recipe.Name == "" {
		return Exported{Descriptor: src.Descriptor}, nil
	}
	if c.asItIs() {
		out.Descriptor = src.Descriptor
	} else if out.Descriptor, err = opt.store(ctx, c); err != nil {
		return Exported{}, err
	}
	out.Notes = c.notes()
	opt.remember(key, out)
	return out, nil
}

// Convert rewrites the GGUF file in r by a recipe such as "Q4_K_M" and tells
// which tensors fell back to another type.
func Convert(ctx context.Context, r io.ReaderAt, size int64, recipe string, w io.Writer) (notes []string, err error) {
	file, err := gguf.Read(r, size)
	if err != nil {
		return nil, err
	}
	c := &conversion{file: file, model: modelOf(file)}
	if c.recipe, err = quant.ParseRecipe(recipe); err != nil {
		return nil, err
	}
	b := bufio.NewWriterSize(w, 1<<20)
	if err := c.write(ctx, b); err != nil {
		return nil, err
	}
	return c.notes(), b.Flush()
}

// Recipe is the GGUF recipe of a precision: int4 is Q4_K_M.
func Recipe(quant abi.DType) (string, bool) {
	name, ok := recipes[quant]
	return name, ok
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
	return quant.Model{Layers: int(layers), Tied: !head}
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

// store writes the converted file beside the cache and takes it into the
// store.
func (o Options) store(ctx context.Context, c *conversion) (desc ocispec.Descriptor, err error) {
	if o.Cache != "" {
		if err := os.MkdirAll(o.Cache, 0o755); err != nil {
			return desc, err
		}
	}
	tmp, err := os.CreateTemp(o.Cache, "export-*")
	if err != nil {
		return desc, err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	w := bufio.NewWriterSize(tmp, 1<<20)
	if err := c.write(ctx, w); err != nil {
		return desc, err
	}
	if err := w.Flush(); err != nil {
		return desc, err
	}
	if err := tmp.Close(); err != nil {
		return desc, err
	}
	return o.Store.AddFile(ctx, tmp.Name(), registry.AddOptions{MediaType: abi.MediaWeight, Link: true})
}

func (c *conversion) write(ctx context.Context, w io.Writer) error {
	var sources []gguf.Source
	for _, t := range c.file.Tensors {
		to := c.recipe.Type(t.Name, t.Dims, c.model)
		if t.Type != to && (!quant.CanDequantize(t.Type) || !quant.CanQuantize(to)) {
			return fmt.Errorf("tensor %s is %s, which cannot be written as %s", t.Name, gguf.TensorTypeName(t.Type), to)
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
