// Package npy reads and writes NumPy's .npy files (NEP 1) of numeric element
// types.
//
// Declared sizes are compared with the size of the data before anything is
// allocated. Big-endian and Fortran-ordered arrays are converted to
// little-endian row-major order; pickled objects, text and structured types are
// refused.
package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Array holds elements in row-major order, little endian.
type Array struct {
	Type  string // f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, as NumPy calls them
	Shape []int  // empty for a scalar
	Data  []byte
}

const (
	magic     = "\x93NUMPY"
	maxHeader = 1 << 16
	maxRank   = 32
)

// ErrFormat reports that a file is not an .npy file.
var ErrFormat = errors.New("not an .npy file")

// Is reports whether data begins with the magic of an .npy file.
func Is(data []byte) bool { return strings.HasPrefix(string(data[:min(len(data), len(magic))]), magic) }

// size returns the bytes of an element; 0 for an unsupported type.
func size(typ string) int {
	switch typ {
	case "i1", "u1", "b1", "f2", "i2", "u2", "f4", "i4", "u4", "f8", "i8", "u8":
		return int(typ[1] - '0')
	}
	return 0
}

// Decode decodes an .npy file. The array does not alias data.
func Decode(data []byte) (*Array, error) {
	if !Is(data) || len(data) < len(magic)+4 {
		return nil, ErrFormat
	}
	major := data[len(magic)]
	at, length := 10, uint64(binary.LittleEndian.Uint16(data[8:]))
	switch {
	case major == 1:
	case (major == 2 || major == 3) && len(data) >= 12:
		at, length = 12, uint64(binary.LittleEndian.Uint32(data[8:]))
	default:
		return nil, fmt.Errorf("unsupported .npy version: got %d, want 1 to 3", major)
	}
	if length > maxHeader || length > uint64(len(data)-at) {
		return nil, fmt.Errorf(".npy header of %d bytes exceeds the file of %d", length, len(data))
	}
	h, err := parseHeader(string(data[at : at+int(length)]))
	if err != nil {
		return nil, fmt.Errorf("reading the .npy header: %w", err)
	}
	width := size(h.typ)
	want, ok := uint64(width), true
	empty := slices.Contains(h.shape, 0)
	for _, d := range h.shape {
		hi, lo := bits.Mul64(want, uint64(max(d, 1)))
		ok, want = ok && hi == 0, lo
	}
	if empty {
		want, ok = 0, true
	}
	body := data[at+int(length):]
	if !ok || want != uint64(len(body)) {
		return nil, fmt.Errorf("array %s %v: got %d bytes", h.typ, h.shape, len(body))
	}
	a := &Array{Type: h.typ, Shape: h.shape, Data: slices.Clone(body)}
	if h.big && width > 1 {
		for i := 0; i < len(a.Data); i += width {
			slices.Reverse(a.Data[i : i+width])
		}
	}
	if h.fortran && len(h.shape) > 1 {
		a.Data = rowMajor(a.Data, h.shape, width)
	}
	if h.typ == "b1" && slices.ContainsFunc(a.Data, func(b byte) bool { return b > 1 }) {
		return nil, errors.New("bool array: element is neither 0 nor 1")
	}
	return a, nil
}

// rowMajor reorders an array whose first axis varies fastest.
func rowMajor(data []byte, shape []int, width int) []byte {
	out := make([]byte, 0, len(data))
	stride := make([]int, len(shape))
	step := width
	for i, d := range shape {
		stride[i] = step
		step *= d
	}
	index := make([]int, len(shape))
	for from := 0; len(out) < len(data); {
		out = append(out, data[from:from+width]...)
		for axis := len(shape) - 1; axis >= 0; axis-- {
			index[axis]++
			from += stride[axis]
			if index[axis] < shape[axis] {
				break
			}
			from -= index[axis] * stride[axis]
			index[axis] = 0
		}
	}
	return out
}

// header is the dictionary before the elements.
type header struct {
	typ          string
	big, fortran bool
	shape        []int
}

// parseHeader reads a Python dictionary of exactly the three keys.
func parseHeader(text string) (header, error) {
	var h header
	body := strings.TrimRight(text, " \n")
	body, open := strings.CutPrefix(body, "{")
	body, closed := strings.CutSuffix(body, "}")
	if !open || !closed {
		return h, errors.New("not a dictionary")
	}
	seen := map[string]bool{}
	for {
		body = strings.TrimLeft(body, " ")
		if body == "" {
			break
		}
		key, rest, ok := quoted(body)
		if rest, ok = cutColon(rest, ok); !ok {
			return h, fmt.Errorf("invalid key and value %.40q", body)
		}
		if seen[key] {
			return h, fmt.Errorf("duplicate key %q", key)
		}
		seen[key] = true
		var err error
		if body, err = h.value(key, rest); err != nil {
			return h, err
		}
		if body = strings.TrimLeft(body, " "); body != "" {
			if body, ok = strings.CutPrefix(body, ","); !ok {
				return h, fmt.Errorf("got %.40q, want a comma", body)
			}
		}
	}
	if len(seen) != 3 {
		return h, fmt.Errorf("got %d of the keys descr, fortran_order and shape", len(seen))
	}
	return h, nil
}

func cutColon(s string, ok bool) (string, bool) {
	if !ok {
		return s, false
	}
	s, ok = strings.CutPrefix(strings.TrimLeft(s, " "), ":")
	return strings.TrimLeft(s, " "), ok
}

// quoted splits a quoted string from the beginning of s.
func quoted(s string) (text, rest string, ok bool) {
	if s == "" || s[0] != '\'' && s[0] != '"' {
		return "", s, false
	}
	end := strings.IndexByte(s[1:], s[0])
	if end < 0 {
		return "", s, false
	}
	return s[1 : 1+end], s[2+end:], true
}

// value parses the value of a key and returns the rest of s.
func (h *header) value(key, s string) (string, error) {
	switch key {
	case "descr":
		text, rest, ok := quoted(s)
		if !ok || len(text) < 3 || !strings.ContainsRune("<>|=", rune(text[0])) || size(text[1:]) == 0 {
			return "", fmt.Errorf("unsupported element type %.40q: want bool or numbers of 8 to 64 bits", s)
		}
		h.typ, h.big = text[1:], text[0] == '>'
		return rest, nil
	case "fortran_order":
		if rest, ok := strings.CutPrefix(s, "False"); ok {
			return rest, nil
		}
		if rest, ok := strings.CutPrefix(s, "True"); ok {
			h.fortran = true
			return rest, nil
		}
		return "", fmt.Errorf("invalid fortran_order %.20q", s)
	case "shape":
		inner, rest, ok := strings.Cut(s, ")")
		inner, open := strings.CutPrefix(inner, "(")
		if !ok || !open {
			return "", fmt.Errorf("invalid shape %.40q", s)
		}
		parts := strings.Split(inner, ",")
		if last := len(parts) - 1; strings.TrimSpace(parts[last]) == "" {
			parts = parts[:last]
		} else if last == 0 {
			return "", fmt.Errorf("invalid shape (%s): a tuple of one element ends with a comma", inner)
		}
		if len(parts) > maxRank {
			return "", fmt.Errorf("got %d dimensions, want at most %d", len(parts), maxRank)
		}
		for _, p := range parts {
			n, err := strconv.ParseUint(strings.TrimSpace(p), 10, 63)
			if err != nil {
				return "", fmt.Errorf("invalid shape (%.40s)", inner)
			}
			h.shape = append(h.shape, int(n))
		}
		return rest, nil
	}
	return "", fmt.Errorf("unknown key %.40q", key)
}

// Rows returns a matrix of float32 whose rows are slices of one length.
func Rows(rows [][]float32) *Array {
	a := &Array{Type: "f4", Shape: []int{len(rows), 0}}
	for _, row := range rows {
		a.Shape[1] = len(row)
		for _, v := range row {
			a.Data = binary.LittleEndian.AppendUint32(a.Data, math.Float32bits(v))
		}
	}
	return a
}

// Encode encodes a file of version 1. The length of the array's data must match
// its type and shape.
func Encode(a *Array) ([]byte, error) {
	n := size(a.Type)
	if n == 0 {
		return nil, fmt.Errorf("unsupported element type %q", a.Type)
	}
	order := "<"
	if n == 1 {
		order = "|"
	}
	dims := ""
	for _, d := range a.Shape {
		dims += strconv.Itoa(d) + ", "
		n *= d
	}
	if len(a.Shape) > 1 {
		dims = strings.TrimSuffix(dims, ", ")
	} else {
		dims = strings.TrimSuffix(dims, " ")
	}
	if n != len(a.Data) || len(a.Shape) > maxRank {
		return nil, fmt.Errorf("array %s %v: got %d bytes", a.Type, a.Shape, len(a.Data))
	}
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, a.Type, dims)
	const align = 64
	pad := align - (len(magic)+4+len(text)+1)%align
	text += strings.Repeat(" ", pad%align) + "\n"
	b := append([]byte(magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(append(b, text...), a.Data...), nil
}
