package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
)

// npyMagic is the prefix of a NumPy array file (numpy.lib.format).
const npyMagic = "\x93NUMPY"

// npyHeader matches the header of a one-dimensional array of little-endian
// uint16.
var npyHeader = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\{'descr': '<u2', 'fortran_order': (?:False|True), 'shape': \((\d{1,18}),\), \} *\n$`)
})

// payload returns the ids of a token file: all of it, or the array in a .npy.
func payload(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte(npyMagic)) {
		return b, nil
	}
	if len(b) < 12 {
		return nil, errors.New(".npy header truncated")
	}
	var size, at int
	switch b[6] {
	case 1:
		size, at = int(binary.LittleEndian.Uint16(b[8:])), 10
	case 2, 3:
		size, at = int(binary.LittleEndian.Uint32(b[8:])), 12
	default:
		return nil, fmt.Errorf("unknown .npy version %d", b[6])
	}
	if size > len(b)-at {
		return nil, errors.New(".npy header truncated")
	}
	m := npyHeader().FindSubmatch(b[at : at+size])
	if m == nil {
		return nil, errors.New(".npy is not a one-dimensional array of little-endian uint16")
	}
	n, err := strconv.Atoi(string(m[1]))
	data := b[at+size:]
	if err != nil || n != len(data)/2 || len(data)%2 != 0 {
		return nil, fmt.Errorf(".npy size mismatch: %s ids, %d bytes", m[1], len(data))
	}
	return data, nil
}
