package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// npyMagic starts a NumPy array file (numpy.lib.format).
const npyMagic = "\x93NUMPY"

// npyHeader is the header of an array of little-endian uint16 in one dimension.
var npyHeader = regexp.MustCompile(`^\{'descr': '<u2', 'fortran_order': (?:False|True), 'shape': \((\d{1,18}),\), \} *\n$`)

// payload is the ids of a token file: all of it, or the array in a .npy.
func payload(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte(npyMagic)) {
		return b, nil
	}
	if len(b) < 12 {
		return nil, errors.New("the .npy header is cut off")
	}
	var size, at int
	switch b[6] {
	case 1:
		size, at = int(binary.LittleEndian.Uint16(b[8:])), 10
	case 2, 3:
		size, at = int(binary.LittleEndian.Uint32(b[8:])), 12
	default:
		return nil, fmt.Errorf(".npy version %d is unknown", b[6])
	}
	if size > len(b)-at {
		return nil, errors.New("the .npy header is cut off")
	}
	m := npyHeader.FindSubmatch(b[at : at+size])
	if m == nil {
		return nil, errors.New("the .npy is no one-dimensional array of little-endian uint16")
	}
	n, err := strconv.Atoi(string(m[1]))
	data := b[at+size:]
	if err != nil || n != len(data)/2 || len(data)%2 != 0 {
		return nil, fmt.Errorf("the .npy declares %s ids and holds %d bytes", m[1], len(data))
	}
	return data, nil
}
