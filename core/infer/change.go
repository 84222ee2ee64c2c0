package infer

import (
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// change is an adapter's change applied next to its matrix:
//
//	LoRA  y += s·B·(A·x)
//	DoRA  y = rowScale ⊙ (y + s·B·(A·x))
type change struct {
	adapter.Change
	rowScale []float32 // N, or none
	lowered  []float32 // T × r, A·x of the pass
}

// openAdapters opens the adapters of the options.
func openAdapters(cfg Config, opts []AdapterOptions) ([]adapter.Adapter, error) {
	var out []adapter.Adapter
	for _, o := range opts {
		a, err := adapter.Open(o.Path, adapter.Model{
			Arch: cfg.Arch, Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, Interleaved: cfg.Reordered(),
		})
		if err != nil {
			return nil, err
		}
		strength := o.Scale
		if strength == 0 {
			strength = 1
		}
		for name, c := range a {
			if a[name], err = c.Scaled(strength); err != nil {
				return nil, fmt.Errorf("%s: %w", o.Path, err)
			}
		}
		out = append(out, a)
	}
	return out, nil
}

// changes returns the adapters' changes of a matrix.
func (l *loader) changes(name string, t gguf.Tensor) ([]change, error) {
	var out []change
	for _, a := range l.adapters {
		c, ok := a[name]
		if !ok || name == arch.TokenEmbedding { // the embedding is not only a factor of products
			continue
		}
		delete(a, name)
		if c.In != t.Dims[0] || c.Out != t.Dims[1] {
			return nil, fmt.Errorf("adapter shape mismatch for tensor %s: got %d × %d, want %d × %d", name, c.In, c.Out, t.Dims[0], t.Dims[1])
		}
		if !quant.CanDequantize(t.Type) {
			return nil, fmt.Errorf("tensor %s: unsupported type %v", name, t.Type)
		}
		out = append(out, change{Change: c})
	}
	for i := range out {
		if out[i].Magnitude == nil {
			continue
		}
		if i > 0 {
			// Its magnitudes refer to the matrix with all earlier changes.
			return nil, fmt.Errorf("tensor %s: a DoRA adapter must be the first", name)
		}
		c := &out[i]
		c.rowScale = make([]float32, c.Out)
		eachRow(t, func(n int, row []float32) {
			c.Row(row, n)
			c.rowScale[n] = c.RowScale(row, n)
		})
	}
	return out, nil
}

// part returns the changes of rows lo to hi of their matrix.
func part(changes []change, lo, hi int) []change {
	if lo == 0 && (len(changes) == 0 || hi == changes[0].Out) {
		return changes
	}
	out := make([]change, len(changes))
	for i, c := range changes {
		c.B, c.Out = c.B[lo*c.Rank:hi*c.Rank], hi-lo
		if c.rowScale != nil {
			c.rowScale = c.rowScale[lo:hi]
		}
		out[i] = c
	}
	return out
}

// checkAdapters reports changes without a matrix.
func (l *loader) checkAdapters() {
	for _, a := range l.adapters {
		for _, name := range slices.Sorted(maps.Keys(a)) {
			l.fail(fmt.Errorf("adapter changes %s, which is not an adaptable matrix of this model", name))
		}
	}
}

// eachRow dequantizes a matrix row by row, reusing row.
func eachRow(t gguf.Tensor, f func(n int, row []float32)) {
	row := make([]float32, t.Dims[0])
	size := t.Type.RowBytes(len(row))
	for n := range t.Dims[1] {
		quant.Dequantize(row, t.Data[n*size:(n+1)*size], t.Type)
		f(n, row)
	}
}

// mergeChanges returns the matrix with its changes, as float32.
func mergeChanges(t gguf.Tensor, changes []change) gguf.Tensor {
	in := t.Dims[0]
	w := make([]float32, in*t.Dims[1])
	eachRow(t, func(n int, row []float32) { copy(w[n*in:], row) })
	for _, c := range changes {
		c.Merge(w)
	}
	t.Type = tensor.F32
	t.Data = make([]byte, 4*len(w))
	quant.Quantize(t.Data, w, tensor.F32)
	return t
}

// lower computes A·x of every change of l, for all rows of the batch.
func (w *work) lower(l *linear, batch *panel.Batch) {
	for i := range l.changes {
		c := &l.changes[i]
		rows := batch.Rows()
		if cap(c.lowered) < rows*c.Rank {
			c.lowered = make([]float32, rows*c.Rank)
		}
		c.lowered = c.lowered[:rows*c.Rank]
		w.m.threads.For(rows, 8, pool.Func(func(_, lo, hi int) {
			for t := lo; t < hi; t++ {
				for r := range c.Rank {
					c.lowered[t*c.Rank+r] = c.Scale * tensor.Dot(c.A[r*c.In:(r+1)*c.In], batch.Row(t))
				}
			}
		}))
	}
}

// add applies a change to part of row t of the product, from column lo on.
func (c *change) add(row []float32, t, lo int) {
	x := c.lowered[t*c.Rank : (t+1)*c.Rank]
	for i := range row {
		n := lo + i
		row[i] += tensor.Dot(c.B[n*c.Rank:(n+1)*c.Rank], x)
	}
	if c.rowScale != nil {
		for i := range row {
			row[i] *= c.rowScale[lo+i]
		}
	}
}
