// Package npy reads and writes NumPy's .npy files (NEP 1): arrays of numbers of
// any element type that a processor knows.
//
// What is declared is judged against the bytes that are there before anything
// is allocated. Big-endian and Fortran-ordered arrays are put in order; pickled
// objects, text and structures are refused.
package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Array is elements in row-major order, little endian.
type Array struct {
	Type  string // f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, as NumPy calls them
	Shape []int  // none for a single number
	Data  []byte
}

const (
	magic     = "\x93NUMPY"
	maxHeader = 1 << 16
	maxRank   = 32
)

// ErrFormat says that a file is no .npy file.
var ErrFormat = errors.New("no .npy file")

// Is reports whether data begins as a .npy file does.
func Is(data []byte) bool { return strings.HasPrefix(string(data[:min(len(data), len(magic))]), magic) }

// size is the bytes of an element, 0 for a type that is not read.
func size(typ string) int {
	switch typ {
	case "i1", "u1", "b1", "f2", "i2", "u2", "f4", "i4", "u4", "f8", "i8", "u8":
		return int(typ[1] - '0')
	}
	return 0
}

// Decode reads a file. The array does not alias data.
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
		return nil, fmt.Errorf(".npy of version %d: only 1 to 3 are read", major)
	}
	if length > maxHeader || length > uint64(len(data)-at) {
		return nil, fmt.Errorf("a header of %d bytes in a file of %d", length, len(data))
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
		return nil, fmt.Errorf("%s of %v in %d bytes", h.typ, h.shape, len(body))
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
		return nil, errors.New("an array of bool with an element that is neither 0 nor 1")
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
		return h, errors.New("it is no dictionary")
	}
	seen := map[string]bool{}
	for {
		body = strings.TrimLeft(body, " ")
		if body == "" {
			break
		}
		key, rest, ok := quoted(body)
		if rest, ok = cutColon(rest, ok); !ok {
			return h, fmt.Errorf("%.40q is no key and value", body)
		}
		if seen[key] {
			return h, fmt.Errorf("the key %q stands twice", key)
		}
		seen[key] = true
		var err error
		if body, err = h.value(key, rest); err != nil {
			return h, err
		}
		if body = strings.TrimLeft(body, " "); body != "" {
			if body, ok = strings.CutPrefix(body, ","); !ok {
				return h, fmt.Errorf("%.40q stands where a comma belongs", body)
			}
		}
	}
	if len(seen) != 3 {
		return h, fmt.Errorf("it has %d of the keys descr, fortran_order and shape", len(seen))
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

// quoted takes a quoted text off the beginning of s.
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

// value reads the value of a key and gives what stands behind it.
func (h *header) value(key, s string) (string, error) {
	switch key {
	case "descr":
		text, rest, ok := quoted(s)
		if !ok || len(text) < 3 || !strings.ContainsRune("<>|=", rune(text[0])) || size(text[1:]) == 0 {
			return "", fmt.Errorf("elements of %.40q: only numbers of 8 to 64 bits and bool are read", s)
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
		return "", fmt.Errorf("fortran_order is %.20q", s)
	case "shape":
		inner, rest, ok := strings.Cut(s, ")")
		inner, open := strings.CutPrefix(inner, "(")
		if !ok || !open {
			return "", fmt.Errorf("the shape is %.40q", s)
		}
		parts := strings.Split(inner, ",")
		if last := len(parts) - 1; strings.TrimSpace(parts[last]) == "" {
			parts = parts[:last]
		} else if last == 0 {
			return "", fmt.Errorf("the shape (%s) is a number: a list of one ends with a comma", inner)
		}
		if len(parts) > maxRank {
			return "", fmt.Errorf("%d dimensions, the limit is %d", len(parts), maxRank)
		}
		for _, p := range parts {
			n, err := strconv.ParseUint(strings.TrimSpace(p), 10, 63)
			if err != nil {
				return "", fmt.Errorf("the shape (%.40s) is none", inner)
			}
			h.shape = append(h.shape, int(n))
		}
		return rest, nil
	}
	return "", fmt.Errorf("the key %.40q", key)
}

// Encode writes a file of version 1. The array's data must be as long as its
// type and shape say.
func Encode(a *Array) ([]byte, error) {
	n := size(a.Type)
	if n == 0 {
		return nil, fmt.Errorf("elements of %q cannot be written", a.Type)
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
		return nil, fmt.Errorf("%s of %v in %d bytes", a.Type, a.Shape, len(a.Data))
	}
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, a.Type, dims)
	const align = 64
	pad := align - (len(magic)+4+len(text)+1)%align
	text += strings.Repeat(" ", pad%align) + "\n"
	b := append([]byte(magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(append(b, text...), a.Data...), nil
}
