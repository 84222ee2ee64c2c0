package kernel

import (
	"unsafe"

	"mm-abi.org/mm/core/tensor"
)

// Strided copies the elements of src at offset + Σ index·stride, in row-major
// order of the shape, to dst. The caller has checked the bounds.
func (c *Call) Strided(dst, src *Array, shape []int, offset int, stride []int) {
	if dst.Len() == 0 {
		return
	}
	w := merged(shape, stride)
	w.offset = offset
	switch Size(src.Type) {
	case 1:
		walk(c, &w, raws[uint8](dst), raws[uint8](src))
	case 2:
		walk(c, &w, raws[uint16](dst), raws[uint16](src))
	case 4:
		if w.turned >= 0 {
			c.turn(&w, Elements[float32](dst), Elements[float32](src))
			return
		}
		walk(c, &w, raws[uint32](dst), raws[uint32](src))
	default:
		walk(c, &w, raws[uint64](dst), raws[uint64](src))
	}
}

// raws returns the elements as unsigned integers of their size.
func raws[T uint8 | uint16 | uint32 | uint64](a *Array) []T { return Elements[T](a) }

// journey is a walk over elements: shape and strides of the source, without
// dimensions of 1 and with mergeable dimensions merged.
type journey struct {
	rank          int
	shape, stride [MaxRank]int
	offset        int // of the first element
	turned        int // the outer dimension of stride 1 if the last has another stride; -1
}

func merged(shape, stride []int) journey {
	w := journey{turned: -1}
	for i, d := range shape {
		if d == 1 {
			continue
		}
		if k := w.rank - 1; k >= 0 && w.stride[k] == stride[i]*d {
			w.shape[k] *= d
			w.stride[k] = stride[i]
			continue
		}
		w.shape[w.rank], w.stride[w.rank] = d, stride[i]
		w.rank++
	}
	if w.rank == 0 {
		w.rank, w.shape[0], w.stride[0] = 1, 1, 1
	}
	for i := range w.rank - 1 {
		if w.stride[w.rank-1] != 1 && w.stride[i] == 1 {
			w.turned = i
		}
	}
	return w
}

// walk copies rows along the last dimension.
func walk[T uint8 | uint16 | uint32 | uint64](c *Call, w *journey, dst, src []T) {
	last := w.rank - 1
	n, step := w.shape[last], w.stride[last]
	c.Each(len(dst)/n, n, func(_, lo, hi int) {
		var index [MaxRank]int
		at := w.seek(&index, last, lo)
		for r := lo; r < hi; r++ {
			row := dst[r*n : (r+1)*n]
			switch step {
			case 1:
				copy(row, src[at:])
			case 0:
				v := src[at]
				for i := range row {
					row[i] = v
				}
			default:
				for i, p := 0, at; i < len(row); i, p = i+1, p+step {
					row[i] = src[p]
				}
			}
			at = w.next(&index, last, at)
		}
	})
}

// seek sets the indices of the first dimensions to those of row r, and returns
// the row's first element.
func (w *journey) seek(index *[MaxRank]int, dims, r int) (at int) {
	at = w.offset
	for i := dims - 1; i >= 0; i-- {
		index[i] = r % w.shape[i]
		at += index[i] * w.stride[i]
		r /= w.shape[i]
	}
	return at
}

// next advances by one row.
func (w *journey) next(index *[MaxRank]int, dims, at int) int {
	for i := dims - 1; i >= 0; i-- {
		index[i]++
		at += w.stride[i]
		if index[i] < w.shape[i] {
			return at
		}
		at -= index[i] * w.stride[i]
		index[i] = 0
	}
	return at
}

// turn transposes the planes of the last dimension and the one of stride 1.
func (c *Call) turn(w *journey, dst, src []float32) {
	t, last := w.turned, w.rank-1
	to := journey{rank: w.rank} // the destination
	size := 1
	for i := last; i >= 0; i-- {
		to.shape[i], to.stride[i] = w.shape[i], size
		size *= w.shape[i]
	}
	rows, cols, lds, ldd := w.shape[last], w.shape[t], w.stride[last], to.stride[t]
	if lds < cols { // overlapping rows of the source
		walk(c, w, unsigned(dst), unsigned(src))
		return
	}
	long, short := max(rows, cols), min(rows, cols)
	part := max(8, Grain/short&^7)
	parts := (long + part - 1) / part
	from, into := journey{offset: w.offset}, journey{} // the other dimensions
	for i := range w.rank {
		if i != t && i != last {
			from.shape[from.rank], from.stride[from.rank] = w.shape[i], w.stride[i]
			into.shape[into.rank], into.stride[into.rank] = w.shape[i], to.stride[i]
			from.rank++
			into.rank++
		}
	}
	c.Each(len(dst)/(rows*cols)*parts, short*min(part, long), func(_, lo, hi int) {
		var index [MaxRank]int
		for r := lo; r < hi; r++ {
			k := r % parts * part
			n := min(part, long-k)
			s, d := from.seek(&index, from.rank, r/parts), into.seek(&index, into.rank, r/parts)
			if cols == long {
				tensor.Transpose(dst[d+k*ldd:], ldd, src[s+k:], lds, rows, n)
			} else {
				tensor.Transpose(dst[d+k:], ldd, src[s+k*lds:], lds, n, cols)
			}
		}
	})
}

// unsigned returns the bits of numbers.
func unsigned(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// Take creates an output of the elements of src at the given indices; index -1
// selects fill, which is nil for zero.
func (c *Call) Take(src *Array, shape []int, index func(i int) int, fill *Array) error {
	out, err := c.Result(0, src.Type, shape...)
	if err != nil {
		return err
	}
	switch Size(src.Type) {
	case 1:
		pick(c, raws[uint8](out), raws[uint8](src), index, filling[uint8](fill))
	case 2:
		pick(c, raws[uint16](out), raws[uint16](src), index, filling[uint16](fill))
	case 4:
		pick(c, raws[uint32](out), raws[uint32](src), index, filling[uint32](fill))
	default:
		pick(c, raws[uint64](out), raws[uint64](src), index, filling[uint64](fill))
	}
	return nil
}

func filling[T uint8 | uint16 | uint32 | uint64](a *Array) (v T) {
	if a != nil && a.Len() > 0 {
		v = raws[T](a)[0]
	}
	return v
}

func pick[T any](c *Call, dst, src []T, index func(i int) int, fill T) {
	c.Each(len(dst), 4, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			if k := index(i); k >= 0 {
				dst[i] = src[k]
			} else {
				dst[i] = fill
			}
		}
	})
}
