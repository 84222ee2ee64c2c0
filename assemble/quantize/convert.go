package quantize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/calibrated"
	"mm-abi.org/mm/core/tensor"
)

// ConvertOptions configures Convert.
type ConvertOptions struct {
	Recipe quant.Recipe
	// Importance weights the columns; if nil, all are equal.
	Importance *calibrated.Imatrix
	// Scale searches for factors that make matrices easier to round, and moves them
	// to where their inputs are produced (AWQ). It requires Importance.
	Scale bool
	// Hessian returns Σ x·xᵀ over the inputs x of a matrix, which is then rounded
	// to preserve its products (GPTQ). If it is nil, or returns nil, elements are
	// rounded independently.
	Hessian func(ctx context.Context, name string) ([]float32, error)
	// Threads is the number of threads; if 0, [pool.Default].
	Threads int
}

// Convert rewrites the GGUF file in r. The notes list tensors that fell back to
// another type.
func Convert(ctx context.Context, r io.ReaderAt, size int64, opt ConvertOptions, w io.Writer) (notes []string, err error) {
	file, err := gguf.Read(r, size)
	if err != nil {
		return nil, err
	}
	return rewriteTo(ctx, file, opt, func(kvs []gguf.KV, sources []gguf.Source) error {
		_, err := gguf.Write(w, kvs, sources)
		return err
	})
}

// rewriteTo passes the converted metadata and tensors to write.
func rewriteTo(ctx context.Context, file *gguf.File, opt ConvertOptions, write func([]gguf.KV, []gguf.Source) error) (notes []string, err error) {
	c := newConversion(file, opt)
	defer c.close()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	sources, err := c.sources(ctx)
	if err != nil {
		return nil, err
	}
	if err := write(c.metadata(), sources); err != nil {
		return nil, err
	}
	return c.notes(), nil
}

// conversion holds the state of a conversion.
type conversion struct {
	ConvertOptions
	file  *gguf.File
	model quant.Model
	pool  *pool.Pool

	factors map[string]calibrated.Factors
}

func newConversion(file *gguf.File, opt ConvertOptions) *conversion {
	model := modelOf(file)
	model.Importance = opt.Importance != nil
	return &conversion{ConvertOptions: opt, file: file, model: model, pool: pool.New(opt.Threads)}
}

// prepare searches for factors.
func (c *conversion) prepare(ctx context.Context) (err error) {
	if !c.Scale {
		return nil
	}
	if c.Importance == nil {
		return errors.New("factors require an importance matrix")
	}
	c.factors, err = calibrated.SearchFactors(ctx, c.file, c.typeOf, c.Importance, c.pool)
	return err
}

func (c *conversion) close() { c.pool.Close() }

func modelOf(f *gguf.File) quant.Model {
	arch, _ := gguf.Get[string](f, gguf.KeyArchitecture)
	layers, _ := gguf.GetOr[uint32](f, gguf.KeyBlockCount.In(arch), 0)
	_, head := f.Tensor("output.weight")
	heads, _ := gguf.GetOr[uint32](f, gguf.KeyHeadCount.In(arch), 1)
	keys := heads
	if all, err := f.PerLayer(gguf.KeyHeadCountKV.In(arch), int(layers)); err == nil && len(all) > 0 {
		keys = all[0] // as llama.cpp
	}
	experts, _ := gguf.GetOr[uint32](f, gguf.ArchKey("expert_count").In(arch), 0)
	m := quant.Model{Layers: int(layers), Tied: !head, Group: int(heads / max(1, keys)), Experts: int(experts), Falcon: arch == "falcon"}
	for i := range m.Layers {
		m.Attends = append(m.Attends, slices.ContainsFunc([]string{"attn_v", "attn_qkv", "attn_kv_b"}, func(part string) bool {
			_, there := f.Tensor(fmt.Sprintf("blk.%d.%s.weight", i, part))
			return there
		}))
	}
	return m
}

// typeOf returns the type of a tensor after conversion.
func (c *conversion) typeOf(t gguf.Tensor) tensor.Type { return c.Recipe.Type(t.Name, t.Dims, c.model) }

// asItIs reports whether every tensor already has its type.
func (c *conversion) asItIs() bool {
	return !slices.ContainsFunc(c.file.Tensors, func(t gguf.Tensor) bool { return t.Type != c.typeOf(t) })
}

// notes describes the tensors that fell back to another type because their row
// length is not divisible by the block size.
func (c *conversion) notes() []string {
	count := map[string]int{}
	for _, t := range c.file.Tensors {
		dims := slices.Clone(t.Dims)
		dims[0] = (dims[0] + 255) / 256 * 256
		want, got := c.Recipe.Type(t.Name, dims, c.model), c.typeOf(t)
		if want != got {
			count[fmt.Sprintf("%s, because %s needs row lengths divisible by %d (got %d)", got, want, want.BlockSize(), t.Dims[0])]++
		}
	}
	var notes []string
	for _, what := range slices.Sorted(maps.Keys(count)) {
		notes = append(notes, fmt.Sprintf("%d tensors use %s", count[what], what))
	}
	return notes
}

func (c *conversion) sources(ctx context.Context) (sources []gguf.Source, err error) {
	for _, t := range c.file.Tensors {
		to := c.typeOf(t)
		if t.Type != to && (!quant.CanDequantize(t.Type) || !quant.CanQuantize(to)) {
			return nil, fmt.Errorf("tensor %s: cannot convert %s to %s", t.Name, t.Type, to)
		}
		sources = append(sources, gguf.Source{Name: t.Name, Type: to, Dims: t.Dims, Data: &rows{ctx: ctx, conversion: c, tensor: t, to: to}})
	}
	return sources, nil
}

func (c *conversion) write(ctx context.Context, w io.Writer) error {
	sources, err := c.sources(ctx)
	if err == nil {
		_, err = gguf.Write(w, c.metadata(), sources)
	}
	return err
}

// metadata returns the file's metadata with the new file type.
func (c *conversion) metadata() []gguf.KV {
	kvs := slices.DeleteFunc(slices.Clone(c.file.KVs), func(kv gguf.KV) bool {
		return kv.Key == gguf.KeyFileType || kv.Key == gguf.KeyQuantizationVersion
	})
	at := 1 // after general.architecture, which readers expect first
	if len(kvs) == 0 {
		at = 0
	}
	return slices.Insert(kvs, at, gguf.KV{Key: gguf.KeyFileType, Value: c.Recipe.FileType}, gguf.KV{Key: gguf.KeyQuantizationVersion, Value: uint32(2)})
}

// chunk is the approximate number of elements converted at a time.
const chunk = 1 << 18

// rows converts a tensor, a bounded number of rows at a time.
type rows struct {
	*conversion
	ctx    context.Context
	tensor gguf.Tensor
	to     tensor.Type
}

// WriteTo implements io.WriterTo. NaN and infinity before or after quantization
// are errors.
func (r *rows) WriteTo(w io.Writer) (int64, error) {
	src := r.file.Section(r.tensor)
	factors := r.factors[r.tensor.Name]
	encode, err := r.encoder()
	if err != nil {
		return 0, err
	}
	unchanged := r.tensor.Type == r.to && encode == nil && factors.Columns == nil && factors.Rows == nil
	row := r.tensor.Dims[0]
	total := r.tensor.Rows()
	// A row of more than 2^18 elements is converted completely: it is still much
	// smaller than the tensor, and gguf has checked its bounds.
	n := max(1, min(total, chunk/row))
	from, to := r.tensor.Type.RowBytes(row), r.to.RowBytes(row)
	in, values, out := make([]byte, from*n), make([]float32, row*n), make([]byte, to*n)
	written := int64(0)
	for done := 0; done < total; done += n {
		if err := r.ctx.Err(); err != nil {
			return written, err
		}
		n = min(n, total-done)
		if _, err := io.ReadFull(src, in[:from*n]); err != nil {
			return written, fmt.Errorf("tensor %s: %w", r.tensor.Name, err)
		}
		var fault atomic.Pointer[error]
		check := func(data []byte, t tensor.Type, lo int, format string) bool {
			if err := quant.Finite(data, t); err != nil {
				err = fmt.Errorf(format, r.tensor.Name, done+lo, err)
				fault.CompareAndSwap(nil, &err)
				return false
			}
			return true
		}
		r.pool.For(n, 16, pool.Func(func(_, lo, hi int) {
			if !check(in[lo*from:hi*from], r.tensor.Type, lo, "tensor %s: from row %d on, %w") {
				return
			}
			if unchanged {
				copy(out[lo*to:hi*to], in[lo*from:hi*from])
				return
			}
			quant.Dequantize(values[lo*row:hi*row], in[lo*from:hi*from], r.tensor.Type)
			scale(values[lo*row:hi*row], row, done+lo, factors)
			if encode != nil {
				encode(out[lo*to:hi*to], values[lo*row:hi*row], done+lo)
			} else {
				quant.Fit(out[lo*to:hi*to], values[lo*row:hi*row], r.to)
			}
			check(out[lo*to:hi*to], r.to, lo, "tensor %s: as "+r.to.String()+", from row %d on, %w")
		}))
		if err := fault.Load(); err != nil {
			return written, *err
		}
		k, err := w.Write(out[:to*n])
		written += int64(k)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// encoder returns a function that quantizes rows, the first of which is row first
// of the tensor.
func (r *rows) encoder() (func(dst []byte, x []float32, first int), error) {
	factors := r.factors[r.tensor.Name]
	if len(r.tensor.Dims) < 2 || !quant.CanWeigh(r.to) || r.tensor.Type == r.to && factors.Columns == nil && factors.Rows == nil {
		return nil, nil
	}
	if factor, err := r.factor(); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", r.tensor.Name, err)
	} else if factor != nil {
		return func(dst []byte, x []float32, _ int) { factor.Quantize(dst, x, r.to) }, nil
	}
	if r.Importance == nil {
		return nil, nil
	}
	row, matrices := r.tensor.Dims[0], 1
	for _, d := range r.tensor.Dims[2:] {
		matrices *= d
	}
	means, err := r.Importance.Means(r.tensor.Name, row, matrices)
	if err != nil || means == nil {
		return nil, err
	}
	if factors.Columns != nil {
		for i, f := range factors.Columns {
			means[i] /= f * f
		}
	}
	size, height := r.to.RowBytes(row), r.tensor.Dims[1]
	return func(dst []byte, x []float32, first int) {
		for i := 0; i*row < len(x); i++ {
			m := (first + i) / height * row
			quant.QuantizeWeighted(dst[i*size:(i+1)*size], x[i*row:(i+1)*row], means[m:m+row], r.to)
		}
	}, nil
}

// factor returns the rounder of a matrix, or nil to round elements independently.
func (r *rows) factor() (*calibrated.Rounder, error) {
	if r.Hessian == nil || len(r.tensor.Dims) != 2 {
		return nil, nil
	}
	h, err := r.Hessian(r.ctx, r.tensor.Name)
	if err != nil || h == nil {
		return nil, err
	}
	n := r.tensor.Dims[0]
	if columns := r.factors[r.tensor.Name].Columns; columns != nil { // inputs are divided by them
		h = slices.Clone(h)
		for i, a := range columns {
			for j, b := range columns {
				h[i*n+j] /= a * b
			}
		}
	}
	return calibrated.NewRounder(h, n, r.pool)
}

// scale multiplies rows, the first of which is row first of the tensor.
func scale(x []float32, row, first int, by calibrated.Factors) {
	if by.Columns == nil && by.Rows == nil {
		return
	}
	for i := 0; i*row < len(x); i++ {
		part := x[i*row : (i+1)*row]
		if by.Rows != nil {
			tensor.Scale(part, by.Rows[first+i])
		}
		for j, f := range by.Columns {
			part[j] *= f
		}
	}
}
