package product

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// small reads integers of 2, 4 or 8 bits, the first of a byte in its lowest
// bits.
type small struct {
	data []uint8
	bits int
}

func (s small) at(i int) uint8 {
	per := 8 / s.bits
	return s.data[i/per] >> (i % per * s.bits) & (1<<s.bits - 1)
}

// bytes returns the number of bytes of n integers.
func (s small) bytes(n int) int { return (n*s.bits + 7) / 8 }

// blocks is a matrix of n rows of k small integers with a scale and a zero point
// for each block of a row.
type blocks struct {
	small
	n, k, size, count int // count blocks of size integers in a row
	scales            []float32
	zeros             []uint8   // packed by row; nil
	offsets           []float32 // zero points as floats; nil
	group             []int32   // the block of each column; nil
}

// blockSizes bounds block_size.
const (
	minBlock = 16
	maxBlock = 1 << 16
)

// nbits reads the weights of MatMulNBits.
func nbits(c *kernel.Call) (*blocks, error) {
	b := &blocks{n: c.Int("N", 0), k: c.Int("K", 0), size: c.Int("block_size", 0)}
	b.bits = c.Int("bits", 4)
	if b.bits != 2 && b.bits != 4 && b.bits != 8 {
		return nil, fmt.Errorf("%d bits are not supported, want 2, 4 or 8", b.bits)
	}
	if b.n < 1 || b.k < 1 || b.n > math.MaxInt32 || b.k > math.MaxInt32 || b.size < minBlock || b.size > maxBlock || b.size&(b.size-1) != 0 {
		return nil, fmt.Errorf("out of range: N %d, K %d, block_size %d", b.n, b.k, b.size)
	}
	b.count = (b.k + b.size - 1) / b.size
	if err := c.Want(onnx.UINT8, 1); err != nil {
		return nil, err
	}
	floats, err := c.Floats(0, 2, 5)
	if err != nil {
		return nil, err
	}
	b.data, b.scales = kernel.Elements[uint8](c.In[1]), floats[1]
	for i, want := range map[int]int{1: b.n * b.count * b.bytes(b.size), 2: b.n * b.count, 5: b.n} {
		if err := c.Lengths(want, i); err != nil {
			return nil, err
		}
	}
	if err := b.zeroPoints(c); err != nil {
		return nil, err
	}
	return b, b.groups(c)
}

func (b *blocks) zeroPoints(c *kernel.Call) error {
	z := c.Input(3)
	switch {
	case z == nil:
	case z.Type == onnx.UINT8 && z.Len() == b.n*b.bytes(b.count):
		b.zeros = kernel.Elements[uint8](z)
	case z.Type == onnx.FLOAT && z.Len() == b.n*b.count:
		b.offsets = kernel.Elements[float32](z)
	default:
		return fmt.Errorf("zero points: got %s %v for %d rows of %d blocks", z.Type, z.Shape, b.n, b.count)
	}
	return nil
}

func (b *blocks) groups(c *kernel.Call) error {
	g := c.Input(4)
	if g == nil {
		return nil
	}
	if c.Input(3) != nil { // ONNX Runtime takes the zero points of pairs of blocks in another order
		return fmt.Errorf("g_idx with zero points is not supported")
	}
	if g.Type != onnx.INT32 || g.Len() < b.k {
		return fmt.Errorf("g_idx: got %s %v, want %d of int32", g.Type, g.Shape, b.k)
	}
	b.group = kernel.Elements[int32](g)
	for _, v := range b.group[:b.k] {
		if v < 0 || int(v) >= b.count {
			return fmt.Errorf("g_idx: block %d of %d", v, b.count)
		}
	}
	return nil
}

// zero returns the zero point of a block of a row.
func (b *blocks) zero(row, block int) float32 {
	switch {
	case b.offsets != nil:
		return b.offsets[row*b.count+block]
	case b.zeros != nil:
		return float32(small{b.zeros[row*b.bytes(b.count):], b.bits}.at(block))
	}
	return float32(int(1) << (b.bits - 1))
}

// row writes the numbers of a row.
func (b *blocks) row(dst []float32, row int) {
	packed := small{b.data[row*b.count*b.bytes(b.size):], b.bits}
	if b.group != nil {
		for i := range dst {
			k := int(b.group[i])
			dst[i] = (float32(packed.at(i)) - b.zero(row, k)) * b.scales[row*b.count+k]
		}
		return
	}
	var table [256]float32
	for k := range b.count {
		part := dst[k*b.size : min((k+1)*b.size, b.k)]
		zero, by := b.zero(row, k), b.scales[row*b.count+k]
		if b.bits == 4 {
			for v := range 16 {
				table[v] = (float32(v) - zero) * by
			}
			for i, v := range packed.data[k*b.size/2:][:len(part)/2] {
				part[2*i], part[2*i+1] = table[v&15], table[v>>4]
			}
			if n := len(part) - 1; n%2 == 0 {
				part[n] = table[packed.at(k*b.size+n)]
			}
			continue
		}
		for i := range part {
			part[i] = (float32(packed.at(k*b.size+i)) - zero) * by
		}
	}
}

// matMulNBits multiplies by the transpose of a matrix of blocks, which is
// unpacked row by row.
func matMulNBits(c *kernel.Call) error {
	b, err := nbits(c)
	if err != nil {
		return err
	}
	x := c.In[0]
	if x.Rank() == 0 || x.Dim(-1) != b.k {
		return fmt.Errorf("shape mismatch: %v by the transpose of %d×%d", x.Shape, b.n, b.k)
	}
	shape := append(append([]int(nil), x.Shape[:x.Rank()-1]...), b.n)
	out, err := c.Result(0, onnx.FLOAT, shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	rows, err := c.Arena.New(onnx.FLOAT, len(c.Lanes), b.k)
	if err != nil {
		return err
	}
	defer c.Arena.Release(rows)
	o, xs, room := kernel.Elements[float32](out), kernel.Elements[float32](x), kernel.Elements[float32](rows)
	var bias []float32
	if a := c.Input(5); a != nil {
		bias = kernel.Elements[float32](a)
	}
	m := x.Len() / b.k
	if b.nibbles() {
		return b.multiplyNibbles(c, o, xs, bias)
	}
	c.Each(b.n, b.k*(m+4), func(thread, lo, hi int) {
		row := room[thread*b.k : (thread+1)*b.k]
		for j := lo; j < hi; j++ {
			b.row(row, j)
			for i := range m {
				v := tensor.Dot(row, xs[i*b.k:(i+1)*b.k])
				if bias != nil {
					v += bias[j]
				}
				o[i*b.n+j] = v
			}
		}
	})
	return nil
}

// gatherBlocks computes GatherBlockQuantized on bytes: rows of the data, of
// which the last dimension is in blocks.
func gatherBlocks(c *kernel.Call) error {
	data, scales, z := c.In[0], c.In[2], c.Input(3)
	if data.Type == onnx.INT4 || data.Type == onnx.UINT4 {
		return gatherSmall(c)
	}
	b := &blocks{size: c.Int("block_size", 128)}
	b.bits = c.Int("bits", 4)
	if data.Type != onnx.UINT8 || scales.Type != onnx.FLOAT || z != nil && z.Type != onnx.UINT8 {
		return fmt.Errorf("unsupported types %s and %s", data.Type, scales.Type)
	}
	if b.bits != 4 && b.bits != 8 || b.size < minBlock || b.size > maxBlock || b.size&(b.size-1) != 0 {
		return fmt.Errorf("unsupported: %d bits in blocks of %d", b.bits, b.size)
	}
	n := data.Rank()
	if n < 2 || scales.Rank() != n {
		return fmt.Errorf("shape mismatch: data %v, scales %v", data.Shape, scales.Shape)
	}
	gathered, err := kernel.Axis(c.Int("gather_axis", 0), n)
	if err != nil {
		return err
	}
	quantized, err := kernel.Axis(c.Int("quantize_axis", 1), n)
	if err != nil || gathered != 0 || quantized != n-1 {
		return fmt.Errorf("unsupported: gather_axis %d and quantize_axis %d of %v: %v", gathered, quantized, data.Shape, err)
	}
	b.k, b.n = data.Shape[n-1]*8/b.bits, kernel.Product(data.Shape[:n-1])
	b.count = (b.k + b.size - 1) / b.size
	if scales.Len() != b.n*b.count || z != nil && z.Len() != b.n*b.bytes(b.count) || kernel.Product(scales.Shape[:n-1]) != b.n {
		return fmt.Errorf("shape mismatch: %d rows of %d blocks, scales %v", b.n, b.count, scales.Shape)
	}
	b.data, b.scales = kernel.Elements[uint8](data), kernel.Elements[float32](scales)
	if z != nil {
		b.zeros = kernel.Elements[uint8](z)
	}
	return b.gather(c, data.Shape)
}

// gather writes the rows that the indices select along the first dimension.
func (b *blocks) gather(c *kernel.Call, shape []int) error {
	index, err := c.Integers(1)
	if err != nil {
		return err
	}
	for i, v := range index {
		if index[i], err = kernel.Axis(v, shape[0]); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	result := append([]int(nil), c.In[1].Shape...)
	result = append(append(result, shape[1:len(shape)-1]...), b.k)
	out, err := c.Result(0, onnx.FLOAT, result...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o, each := kernel.Elements[float32](out), kernel.Product(shape[1:len(shape)-1])
	c.Each(len(index)*each, b.k, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			b.exact(o[r*b.k:(r+1)*b.k], index[r/each]*each+r%each)
		}
	})
	return nil
}

// exact writes a row whose blocks are not padded.
func (b *blocks) exact(dst []float32, row int) {
	packed := small{b.data[row*b.bytes(b.k):], b.bits}
	for i := range dst {
		k := i / b.size
		dst[i] = (float32(packed.at(i)) - b.zero(row, k)) * b.scales[row*b.count+k]
	}
}
