// Package array holds the tensors that a graph computes with: an element type,
// a shape, and the elements in row-major order.
//
// Arrays are made by an [Arena], which bounds the bytes that are alive and
// takes a buffer back when the last array that shares it is released: the
// sizes of most graphs are the same in each run, so that from the second run
// on nearly nothing is allocated. Shapes that come from files are judged with
// checked arithmetic before anything is allocated for them.
package array

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"mm-abi.org/mm/onnx"
)

// MaxRank bounds the dimensions of an array.
const MaxRank = 16

// ErrMemory says that an array does not fit into the limit of its arena.
var ErrMemory = errors.New("out of the memory that the graph may take")

// Elem are the Go types that elements are seen as.
type Elem interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool
}

// Array is a tensor. Its shape and elements are not to be changed once another
// node has seen it.
type Array struct {
	Type  onnx.DType
	Shape []int

	n     int
	words []uint64 // the elements, aligned for any of their types
	buf   *buffer  // nil for those no arena takes back

	own  buffer         // what buf points to in the first that looks at its memory
	dims [shortRank]int // what Shape points to, if that is enough
}

// shortRank is the rank up to which an array is one allocation.
const shortRank = 6

// reshape sets the shape to a copy.
func (a *Array) reshape(shape []int) {
	if len(shape) > shortRank {
		a.Shape = slices.Clone(shape)
		return
	}
	a.Shape = a.dims[:copy(a.dims[:], shape):len(shape)]
}

// buffer is memory that several arrays may look at.
type buffer struct {
	words []uint64
	refs  int
}

// sizes are the bytes of an element of the types that graphs compute with.
var sizes = [...]int{
	onnx.FLOAT: 4, onnx.DOUBLE: 8, onnx.FLOAT16: 2, onnx.BFLOAT16: 2, onnx.BOOL: 1,
	onnx.INT8: 1, onnx.INT16: 2, onnx.INT32: 4, onnx.INT64: 8,
	onnx.UINT8: 1, onnx.UINT16: 2, onnx.UINT32: 4, onnx.UINT64: 8,
}

// Size is the bytes of an element; 0 for a type that no array has.
func Size(t onnx.DType) int {
	if t < 0 || int(t) >= len(sizes) {
		return 0
	}
	return sizes[t]
}

// Count is the product of dimensions. It is an error when one is negative, or
// they are too many, or the product exceeds 2³¹.
func Count(shape []int) (int, error) {
	if len(shape) > MaxRank {
		return 0, fmt.Errorf("%d dimensions, the limit is %d", len(shape), MaxRank)
	}
	n, empty := uint64(1), false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("the shape %v has a negative dimension", shape)
		}
		if d == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt32 {
			return 0, fmt.Errorf("the shape %v has more than 2³¹ elements", shape)
		}
		n = lo
	}
	if empty {
		return 0, nil
	}
	return int(n), nil
}

// Len is the number of elements.
func (a *Array) Len() int { return a.n }

// Rank is the number of dimensions.
func (a *Array) Rank() int { return len(a.Shape) }

// Dim is the size of dimension i; negative i count from the end.
func (a *Array) Dim(i int) int {
	if i < 0 {
		i += len(a.Shape)
	}
	return a.Shape[i]
}

// Of sees the elements as T, which must have their size: a mistake of the
// caller panics.
func Of[T Elem](a *Array) []T {
	var v T
	if int(unsafe.Sizeof(v)) != Size(a.Type) {
		panic("array: elements of another size")
	}
	if a.n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&a.words[0])), a.n)
}

// Bytes are the elements as raw_data would hold them, little endian; they
// alias the array.
func (a *Array) Bytes() []byte {
	if a.n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&a.words[0])), a.n*Size(a.Type))
}

// View is the same elements with another shape of as many.
func (a *Array) View(shape []int) *Array {
	n, err := Count(shape)
	if err != nil || n != a.n {
		panic("array: a view of another size")
	}
	if a.buf != nil {
		a.buf.refs++
	}
	v := &Array{Type: a.Type, n: a.n, words: a.words, buf: a.buf}
	v.reshape(shape)
	return v
}

// Hollow is an array of the same type and shape without its elements, which
// must not be asked for.
func (a *Array) Hollow() *Array {
	v := &Array{Type: a.Type, n: a.n}
	v.reshape(a.Shape)
	return v
}

// Arena makes arrays and takes their memory back. It is not safe for
// concurrent use.
type Arena struct {
	// Limit is the most bytes alive at a time; 0: no limit.
	Limit int64

	live, peak int64
	kept       int64
	free       map[int][][]uint64
}

// New makes an array whose elements are what happens to be there: its maker
// sets them all. An array beyond the limit is ErrMemory.
func (m *Arena) New(t onnx.DType, shape ...int) (*Array, error) {
	size := Size(t)
	if size == 0 {
		return nil, fmt.Errorf("arrays of %s are not supported", t)
	}
	n, err := Count(shape)
	if err != nil {
		return nil, err
	}
	class := classOf((n*size + 7) / 8)
	a := &Array{Type: t, n: n}
	a.reshape(shape)
	if n == 0 {
		return a, nil
	}
	bytes := int64(class) * 8
	if m.Limit > 0 && m.live+m.kept+bytes > m.Limit {
		return nil, fmt.Errorf("%s %v beside %d bytes of others: %w, %d bytes", t, slices.Clone(shape), m.live+m.kept, ErrMemory, m.Limit)
	}
	m.live += bytes
	m.peak = max(m.peak, m.live+m.kept)
	if list := m.free[class]; len(list) > 0 {
		a.words, m.free[class] = list[len(list)-1], list[:len(list)-1]
	} else {
		a.words = make([]uint64, class)
	}
	a.own = buffer{words: a.words, refs: 1}
	a.buf = &a.own
	return a, nil
}

// Keep counts memory that a kernel holds beside arrays, such as packed
// weights. It is never given back. More than the limit allows is ErrMemory.
func (m *Arena) Keep(bytes int64) error {
	if m.Limit > 0 && m.live+m.kept+bytes > m.Limit {
		return fmt.Errorf("%d bytes of packed weights beside %d bytes of others: %w, %d bytes", bytes, m.live+m.kept, ErrMemory, m.Limit)
	}
	m.kept += bytes
	m.peak = max(m.peak, m.live+m.kept)
	return nil
}

// Zeros makes an array of zeros.
func (m *Arena) Zeros(t onnx.DType, shape ...int) (*Array, error) {
	a, err := m.New(t, shape...)
	if err == nil {
		clear(a.words)
	}
	return a, err
}

// Release gives an array up; its memory is used again when no other array
// looks at it.
func (m *Arena) Release(a *Array) {
	words := m.drop(a)
	if words == nil {
		return
	}
	if m.free == nil {
		m.free = make(map[int][][]uint64)
	}
	m.free[len(words)] = append(m.free[len(words)], words)
}

// Discard gives an array up whose memory nobody is to use again.
func (m *Arena) Discard(a *Array) { m.drop(a) }

// drop gives the memory of an array that no other looks at.
func (m *Arena) drop(a *Array) []uint64 {
	if a == nil || a.buf == nil {
		return nil
	}
	b := a.buf
	a.buf, a.words = nil, nil
	if b.refs--; b.refs > 0 {
		return nil
	}
	words := b.words
	b.words = nil
	m.live -= int64(len(words)) * 8
	return words
}

// Trim leaves the memory that has been taken back to the garbage collector.
func (m *Arena) Trim() { m.free = nil }

// Live is the bytes that are alive.
func (m *Arena) Live() int64 { return m.live }

// Rewind sets the bytes alive back to what Live has said: arrays made since
// and not released are given up to the garbage collector.
func (m *Arena) Rewind(live int64) { m.live = live }

// Peak is the most bytes that were alive at a time.
func (m *Arena) Peak() int64 { return m.peak }

// classOf rounds a number of words up, by an eighth at most, so that sizes
// that differ a little share buffers.
func classOf(words int) int {
	if words < 64 {
		return max(words, 1)
	}
	step := 1 << (bits.Len(uint(words)) - 4)
	return (words + step - 1) &^ (step - 1)
}

// FromTensor copies a tensor of a file.
func (m *Arena) FromTensor(t *onnx.Tensor) (*Array, error) {
	shape := make([]int, len(t.Dims))
	for i, d := range t.Dims {
		if d > math.MaxInt32 {
			return nil, fmt.Errorf("the dimensions %v are too large", t.Dims)
		}
		shape[i] = int(d)
	}
	if Size(t.DType) == 0 {
		return nil, fmt.Errorf("tensors of %s are not supported", t.DType)
	}
	data, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	return m.FromBytes(t.DType, shape, data)
}

// FromBytes copies elements as raw_data holds them. A bool other than 0 and 1
// becomes 1.
func (m *Arena) FromBytes(t onnx.DType, shape []int, data []byte) (*Array, error) {
	n, err := Count(shape)
	if err != nil {
		return nil, err
	}
	if len(data) != n*Size(t) {
		return nil, fmt.Errorf("%d bytes for %s %v", len(data), t, shape)
	}
	a, err := m.New(t, shape...)
	if err != nil {
		return nil, err
	}
	copy(a.Bytes(), data)
	if t == onnx.BOOL {
		for i, v := range a.Bytes() {
			a.Bytes()[i] = min(v, 1)
		}
	}
	return a, nil
}
