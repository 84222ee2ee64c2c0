package kernel

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"mm-abi.org/mm/onnx"
)

// MaxRank bounds the number of dimensions of an array.
const MaxRank = 16

// ErrMemory reports that an array exceeds the limit of its arena.
var ErrMemory = errors.New("memory limit of the graph exceeded")

// Elem lists the Go types of elements.
type Elem interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool
}

// Array is a tensor. Its shape and elements must not change once another node
// can read it.
type Array struct {
	Type  onnx.DType
	Shape []int

	n     int
	words []uint64 // the elements, aligned for any of their types
	buf   *buffer  // nil if no arena reuses the memory

	first buffer         // the target of buf in the first array of its memory
	dims  [shortRank]int // the target of Shape, if large enough
}

// shortRank is the highest rank for which an array is one allocation.
const shortRank = 6

// reshape sets the shape to a copy.
func (a *Array) reshape(shape []int) {
	if len(shape) > shortRank {
		a.Shape = slices.Clone(shape)
		return
	}
	a.Shape = a.dims[:copy(a.dims[:], shape):len(shape)]
}

// buffer is memory that several arrays may share.
type buffer struct {
	words []uint64
	refs  int
}

// sizes lists the bytes of an element of the supported types.
var sizes = [...]int{
	onnx.FLOAT: 4, onnx.DOUBLE: 8, onnx.FLOAT16: 2, onnx.BFLOAT16: 2, onnx.BOOL: 1,
	onnx.INT8: 1, onnx.INT16: 2, onnx.INT32: 4, onnx.INT64: 8,
	onnx.FLOAT8E4M3FN: 1, onnx.FLOAT8E4M3FNUZ: 1, onnx.FLOAT8E5M2: 1, onnx.FLOAT8E5M2FNUZ: 1, onnx.FLOAT8E8M0: 1,
	onnx.UINT4: 1, onnx.INT4: 1, onnx.FLOAT4E2M1: 1, onnx.UINT2: 1, onnx.INT2: 1,
	onnx.UINT8: 1, onnx.UINT16: 2, onnx.UINT32: 4, onnx.UINT64: 8,
}

// Size returns the bytes of an element; 0 for an unsupported type.
func Size(t onnx.DType) int {
	if t < 0 || int(t) >= len(sizes) {
		return 0
	}
	return sizes[t]
}

// Count returns the product of dimensions. It returns an error if one is
// negative, they are too many, or the product exceeds 2³¹.
func Count(shape []int) (int, error) {
	if len(shape) > MaxRank {
		return 0, fmt.Errorf("got %d dimensions, want at most %d", len(shape), MaxRank)
	}
	n, empty := uint64(1), false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension in shape %v", shape)
		}
		if d == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt32 {
			return 0, fmt.Errorf("shape %v has more than 2³¹ elements", shape)
		}
		n = lo
	}
	if empty {
		return 0, nil
	}
	return int(n), nil
}

// Len returns the number of elements.
func (a *Array) Len() int { return a.n }

// Rank returns the number of dimensions.
func (a *Array) Rank() int { return len(a.Shape) }

// Dim returns the size of dimension i; negative i count from the end.
func (a *Array) Dim(i int) int {
	if i < 0 {
		i += len(a.Shape)
	}
	return a.Shape[i]
}

// Of returns the elements as T, which must have their size; otherwise it
// panics.
func Elements[T Elem](a *Array) []T {
	var v T
	if int(unsafe.Sizeof(v)) != Size(a.Type) {
		panic("kernel: element size mismatch")
	}
	if a.n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&a.words[0])), a.n)
}

// Bytes returns the elements, little endian; they alias the array. Types of less
// than 8 bits have one byte for each.
func (a *Array) Bytes() []byte {
	if a.n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&a.words[0])), a.n*Size(a.Type))
}

// View returns the same elements with another shape of equal size.
func (a *Array) View(shape []int) *Array {
	n, err := Count(shape)
	if err != nil || n != a.n {
		panic("kernel: view size mismatch")
	}
	if a.buf != nil {
		a.buf.refs++
	}
	v := &Array{Type: a.Type, n: a.n, words: a.words, buf: a.buf}
	v.reshape(shape)
	return v
}

// Hollow returns an array of the same type and shape without elements, which
// must not be accessed.
func (a *Array) Hollow() *Array {
	v := &Array{Type: a.Type, n: a.n}
	v.reshape(a.Shape)
	return v
}

// Arena creates arrays and reuses their memory. It is not safe for concurrent
// use.
type Arena struct {
	// Limit is the maximum of bytes alive at a time; 0: no limit.
	Limit int64

	live, peak int64
	kept       int64
	free       map[int][][]uint64
}

// New returns an array with unspecified elements, all of which the caller must
// set. An array beyond the limit is ErrMemory.
func (m *Arena) New(t onnx.DType, shape ...int) (*Array, error) {
	size := Size(t)
	if size == 0 {
		return nil, fmt.Errorf("unsupported array type %s", t)
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
		return nil, fmt.Errorf("%s %v in addition to %d bytes: %w, %d bytes", t, slices.Clone(shape), m.live+m.kept, ErrMemory, m.Limit)
	}
	m.live += bytes
	m.peak = max(m.peak, m.live+m.kept)
	if list := m.free[class]; len(list) > 0 {
		a.words, m.free[class] = list[len(list)-1], list[:len(list)-1]
	} else {
		a.words = make([]uint64, class)
	}
	a.first = buffer{words: a.words, refs: 1}
	a.buf = &a.first
	return a, nil
}

// Keep counts memory that a kernel holds in addition to arrays, such as packed
// weights. It is never released. Exceeding the limit is ErrMemory.
func (m *Arena) Keep(bytes int64) error {
	if m.Limit > 0 && m.live+m.kept+bytes > m.Limit {
		return fmt.Errorf("%d bytes of packed weights in addition to %d bytes: %w, %d bytes", bytes, m.live+m.kept, ErrMemory, m.Limit)
	}
	m.kept += bytes
	m.peak = max(m.peak, m.live+m.kept)
	return nil
}

// Zeros returns an array of zeros.
func (m *Arena) Zeros(t onnx.DType, shape ...int) (*Array, error) {
	a, err := m.New(t, shape...)
	if err == nil {
		clear(a.words)
	}
	return a, err
}

// Release releases an array; its memory is reused once no other array shares
// it.
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

// Discard releases an array whose memory must not be reused.
func (m *Arena) Discard(a *Array) { m.drop(a) }

// drop releases an array and returns its memory if no other array shares it.
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

// Trim leaves the released memory to the garbage collector.
func (m *Arena) Trim() { m.free = nil }

// Live returns the number of bytes that are alive.
func (m *Arena) Live() int64 { return m.live }

// Rewind resets the bytes alive to an earlier result of Live: arrays created
// since and not released are left to the garbage collector.
func (m *Arena) Rewind(live int64) { m.live = live }

// Peak returns the maximum number of bytes that were alive.
func (m *Arena) Peak() int64 { return m.peak }

// classOf rounds a number of words up, by at most an eighth, so that similar
// sizes share buffers.
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
			return nil, fmt.Errorf("dimensions %v are too large", t.Dims)
		}
		shape[i] = int(d)
	}
	if Size(t.DType) == 0 {
		return nil, fmt.Errorf("unsupported tensor type %s", t.DType)
	}
	data, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	return m.FromBytes(t.DType, shape, data)
}

// FromBytes copies elements in the format of raw_data. A bool other than 0 and
// 1 becomes 1.
func (m *Arena) FromBytes(t onnx.DType, shape []int, data []byte) (*Array, error) {
	n, err := Count(shape)
	if err != nil {
		return nil, err
	}
	if len(data) != rawSize(t, n) {
		return nil, fmt.Errorf("size mismatch: got %d bytes for %s %v", len(data), t, shape)
	}
	a, err := m.New(t, shape...)
	if err != nil {
		return nil, err
	}
	unpack(a, data)
	if t == onnx.BOOL {
		for i, v := range a.Bytes() {
			a.Bytes()[i] = min(v, 1)
		}
	}
	return a, nil
}
