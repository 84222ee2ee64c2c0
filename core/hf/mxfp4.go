package hf

import (
	"fmt"
	"io"
	"slices"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// MXFP4 of gpt-oss's folders: blocks of 32 numbers of 4 bits with an exponent,
// in two tensors of bytes.
const (
	blockNumbers = 32
	blockBytes   = blockNumbers / 2
)

// blocks streams matrices of experts as GGUF's MXFP4: each block after its
// exponent, with number i and i+16 in a byte instead of 2i and 2i+1.
type blocks struct {
	numbers, exponents safetensors.Tensor // E×width×n×16 and E×width×n bytes
	source                                // rows of an expert, and which of width they are
	groups             int                // n, blocks of a row
}

// blocksOf returns the source of a tensor of experts from its blocks in the
// folder, or false if it has none.
func (b *builder) blocksOf(name, part string, t arch.Tensor) (gguf.Source, bool) {
	numbers, found := b.find(name + "_blocks")
	exponents, both := b.find(name + "_scales")
	if !found || !both {
		return gguf.Source{}, false
	}
	b.used[numbers.Name], b.used[exponents.Name] = true, true
	s := &blocks{numbers: numbers, exponents: exponents, groups: t.Dims[0] / blockNumbers}
	s.rows, s.step, s.width = t.Dims[1], 1, t.Dims[1]
	if h, ok := b.family.names.halves[part]; ok {
		s.take(h)
	}
	want := []int{t.Dims[2], s.width, s.groups}
	switch {
	case t.Dims[0]%blockNumbers != 0 || !slices.Equal(exponents.Shape, want):
		b.fail("shape mismatch for tensor %s: got %v, want %v", exponents.Name, exponents.Shape, want)
	case !slices.Equal(numbers.Shape, append(want, blockBytes)):
		b.fail("shape mismatch for tensor %s: got %v, want %v", numbers.Name, numbers.Shape, append(want, blockBytes))
	case numbers.DType != safetensors.U8 || exponents.DType != safetensors.U8:
		b.fail("tensors %s and %s: got types %s and %s, want U8", numbers.Name, exponents.Name, numbers.DType, exponents.DType)
	}
	return gguf.Source{Name: t.Name, Type: tensor.MXFP4, Dims: t.Dims, Data: s}, true
}

// WriteTo writes the blocks row by row. Exponents of infinity are errors.
func (s *blocks) WriteTo(w io.Writer) (int64, error) {
	var written int64
	experts := s.exponents.Shape[0]
	row := make([]byte, 0, s.groups*(blockBytes+1))
	for i := range experts * s.rows {
		at := (i/s.rows*s.width + s.first + i%s.rows*s.step) * s.groups
		row = row[:0]
		for g := at; g < at+s.groups; g++ {
			if s.exponents.Data[g] == 0xff {
				return written, fmt.Errorf("tensor %s: exponent %d of a block is not finite", s.exponents.Name, g)
			}
			row = append(row, s.exponents.Data[g])
			row = appendBlock(row, s.numbers.Data[g*blockBytes:(g+1)*blockBytes])
		}
		n, err := w.Write(row)
		if written += int64(n); err != nil {
			return written, err
		}
	}
	return written, nil
}

// appendBlock appends the numbers of a block in GGUF's order.
func appendBlock(dst, src []byte) []byte {
	number := func(i int) byte { return src[i/2] >> (i % 2 * 4) & 15 }
	for i := range blockBytes {
		dst = append(dst, number(i)|number(i+blockBytes)<<4)
	}
	return dst
}
