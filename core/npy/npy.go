// Package npy reads NumPy's array files (numpy.lib.format, versions 1 to 3): a
// header of text and then the elements.
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
)

// magic starts a file.
const magic = "\x93NUMPY"

// maxHeader bounds the text before the elements, in bytes.
const maxHeader = 1 << 16

// Array is what a file holds.
type Array struct {
	Descr string // type of the elements as NumPy spells it: <f4, <i8, |u1, |b1, …
	Shape []int
	Data  []byte // the elements in row-major order, little endian; aliases the file
}

// header is the dictionary that NumPy writes, keys in their order.
var header = regexp.MustCompile(`^\{'descr': '([<|=][a-z]\d{1,2})', 'fortran_order': (False|True), 'shape': \(([0-9, ]*)\), ?\} *\n?$`)

// Parse reads a file in memory. Big-endian, columns-first and structured
// arrays are errors, and so are elements of another number than the shape's.
func Parse(b []byte) (Array, error) {
	a, err := parse(b)
	if err != nil {
		return Array{}, fmt.Errorf("npy: %w", err)
	}
	return a, nil
}

func parse(b []byte) (Array, error) {
	if !bytes.HasPrefix(b, []byte(magic)) || len(b) < 12 {
		return Array{}, errors.New("no array file of NumPy")
	}
	size, at := int64(binary.LittleEndian.Uint16(b[8:])), int64(10)
	switch b[6] {
	case 1:
	case 2, 3:
		size, at = int64(binary.LittleEndian.Uint32(b[8:])), 12
	default:
		return Array{}, fmt.Errorf("version %d is not known", b[6])
	}
	if size > maxHeader || size > int64(len(b))-at {
		return Array{}, errors.New("the header is cut off")
	}
	m := header.FindSubmatch(b[at : at+size])
	if m == nil {
		return Array{}, fmt.Errorf("the header %q is of no array of little-endian numbers", b[at:at+size])
	}
	if string(m[2]) == "True" {
		return Array{}, errors.New("the array is stored columns first; numpy.ascontiguousarray turns it")
	}
	a := Array{Descr: strings.Replace(string(m[1]), "=", "<", 1), Data: b[at+size:]}
	width, err := strconv.Atoi(a.Descr[2:])
	if err != nil || width == 0 {
		return Array{}, fmt.Errorf("elements of the type %s", a.Descr)
	}
	n := uint64(width)
	for part := range strings.SplitSeq(string(m[3]), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		d, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return Array{}, fmt.Errorf("the dimension %q", part)
		}
		a.Shape = append(a.Shape, int(d))
		hi, lo := bits.Mul64(n, d)
		if n = lo; hi != 0 || n > math.MaxInt64 {
			return Array{}, fmt.Errorf("the shape %s overflows", m[3])
		}
	}
	if uint64(len(a.Data)) != n {
		return Array{}, fmt.Errorf("%d bytes for %s %v, which needs %d", len(a.Data), a.Descr, a.Shape, n)
	}
	return a, nil
}
