package hf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// source streams a tensor of stacked parts, each of rows × cols.
type source struct {
	part       string
	dims       []int
	parts      []safetensors.Tensor
	rows, cols int
	from, to   tensor.Type
	transpose  bool // parts are stored as cols × width
	first      int  // row 0 is this one of the width rows of a part
	step       int  // from a row to the next
	width      int
	order      func(i int) int // row i comes from this row of its part; if nil, i
	across     func(i int) int // column i comes from this one; if nil, i
	cut        bool            // some rows are left out
	plus       float32         // added to each number
	logs       bool            // numbers are logarithms of negated ones
}

// divide adds the parts of a tensor of n experts.
func (s *source) divide(t safetensors.Tensor, n int) error {
	if len(t.Shape) < 2 || t.Shape[0] != n || len(t.Data)%n != 0 {
		return fmt.Errorf("shape mismatch for tensor %s: got %v, want %d experts", t.Name, t.Shape, n)
	}
	size := len(t.Data) / n
	for e := range n {
		part := t
		part.Shape, part.Data, part.Offset = t.Shape[1:], t.Data[e*size:(e+1)*size], t.Offset+int64(e*size)
		s.parts = append(s.parts, part)
	}
	return nil
}

// take selects half of the rows of the parts.
func (s *source) take(h half) {
	s.width = 2 * s.rows
	switch {
	case h.turns:
		s.step = 2
		if h.second {
			s.first = 1
		}
	case h.second:
		s.first = s.rows
	}
	s.order = func(i int) int { return s.first + s.step*i }
}

// bufferBytes is the approximate size of a conversion step.
const bufferBytes = 1 << 20

// WriteTo writes the numbers row by row. NaN and infinity are errors.
func (s *source) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for _, p := range s.parts {
		if err := quant.Finite(p.Data, s.from); err != nil {
			return written, fmt.Errorf("tensor %s: %w", p.Name, err)
		}
		n, err := s.write(w, p.Data)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (s *source) write(w io.Writer, data []byte) (int64, error) {
	if s.to == s.from && s.order == nil && s.across == nil && !s.transpose && !s.computes() {
		n, err := w.Write(data)
		return int64(n), err
	}
	size := s.from.BlockBytes()
	batch := max(1, bufferBytes/(4*s.cols))
	raw := make([]byte, 0, batch*s.cols*size)
	var written int64
	for i := 0; i < s.rows; i += batch {
		raw = raw[:0]
		n := min(batch, s.rows-i)
		if s.transpose {
			raw = s.columns(raw, data, i, n, size)
		} else {
			for r := i; r < i+n; r++ {
				from := r
				if s.order != nil {
					from = s.order(r)
				}
				raw = s.row(raw, data[from*s.cols*size:(from+1)*s.cols*size], size)
			}
		}
		m, err := w.Write(s.convert(raw))
		written += int64(m)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// row appends a row of a part.
func (s *source) row(dst, row []byte, size int) []byte {
	if s.across == nil {
		return append(dst, row...)
	}
	for c := range s.cols {
		from := s.across(c)
		dst = append(dst, row[from*size:(from+1)*size]...)
	}
	return dst
}

// columns gathers the columns i to i+n of data as rows.
func (s *source) columns(dst, data []byte, i, n, size int) []byte {
	dst = dst[:n*s.cols*size]
	for c := range s.cols {
		row := data[(c*s.width+s.first+i*s.step)*size:]
		for r := range n {
			copy(dst[(r*s.cols+c)*size:][:size], row[r*s.step*size:])
		}
	}
	return dst
}

// computes reports whether the numbers change, not only their type.
func (s *source) computes() bool { return s.plus != 0 || s.logs }

// convert converts the numbers to the output type.
func (s *source) convert(raw []byte) []byte {
	if s.to == s.from && !s.computes() {
		return raw
	}
	x := make([]float32, len(raw)/s.from.BlockBytes())
	quant.Dequantize(x, raw, s.from)
	if s.plus != 0 {
		for i := range x {
			x[i] += s.plus
		}
	}
	for i := 0; s.logs && i < len(x); i++ {
		x[i] = float32(-math.Exp(float64(x[i])))
	}
	out := make([]byte, len(x)*s.to.BlockBytes())
	quant.Quantize(out, x, s.to)
	return out
}

// values writes float32s.
type values []float32

// WriteTo writes them, little endian.
func (v values) WriteTo(w io.Writer) (int64, error) {
	b := make([]byte, 0, 4*len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	n, err := w.Write(b)
	return int64(n), err
}
