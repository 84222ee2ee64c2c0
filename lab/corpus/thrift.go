package corpus

import (
	"encoding/binary"
	"errors"
)

// Limits of a thrift structure: its nesting, and the items of its lists, for
// each of which a decoder allocates memory.
const (
	maxNesting = 32
	maxItems   = 1 << 18
)

// errThrift reports a malformed structure.
var errThrift = errors.New("malformed thrift structure")

// thrift walks a structure in thrift's compact protocol without allocating what
// its lengths claim.
type thrift struct {
	b     []byte
	at    int
	items int
	// number is called for integers and booleans in the outer structure and those
	// in it; outer is 0 in the former.
	number func(outer, field int, v int64)
}

// The types of the compact protocol.
const (
	tStop = iota
	tTrue
	tFalse
	tByte
	tShort
	tInt
	tLong
	tDouble
	tBinary
	tList
	tSet
	tMap
	tStruct
)

func (t *thrift) byte() (byte, error) {
	if t.at >= len(t.b) {
		return 0, errThrift
	}
	t.at++
	return t.b[t.at-1], nil
}

func (t *thrift) varint() (uint64, error) {
	v, n := binary.Uvarint(t.b[t.at:])
	if n <= 0 {
		return 0, errThrift
	}
	t.at += n
	return v, nil
}

func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func (t *thrift) skip(n uint64) error {
	if n > uint64(len(t.b)-t.at) {
		return errThrift
	}
	t.at += int(n)
	return nil
}

// structure walks the structure at t.at.
func (t *thrift) structure(depth, outer int) error {
	if depth > maxNesting {
		return errThrift
	}
	field := 0
	for {
		head, err := t.byte()
		if err != nil {
			return err
		}
		kind := int(head & 15)
		if kind == tStop {
			return nil
		}
		if delta := int(head >> 4); delta > 0 {
			field += delta
		} else {
			v, err := t.varint()
			if err != nil {
				return err
			}
			field = int(int16(zigzag(v)))
		}
		if err := t.value(kind, depth, outer, field); err != nil {
			return err
		}
	}
}

func (t *thrift) value(kind, depth, outer, field int) error {
	note := func(v int64) {
		if t.number != nil && (depth == 1 || depth == 2) {
			t.number(outer, field, v)
		}
	}
	switch kind {
	case tTrue, tFalse:
		note(int64(2 - kind))
	case tByte:
		return t.skip(1)
	case tShort, tInt, tLong:
		v, err := t.varint()
		note(zigzag(v))
		return err
	case tDouble:
		return t.skip(8)
	case tBinary:
		n, err := t.varint()
		if err != nil {
			return err
		}
		return t.skip(n)
	case tList, tSet:
		return t.list(depth)
	case tMap:
		return t.pairs(depth)
	case tStruct:
		return t.structure(depth+1, field)
	default:
		return errThrift
	}
	return nil
}

func (t *thrift) list(depth int) error {
	head, err := t.byte()
	if err != nil {
		return err
	}
	n, kind := uint64(head>>4), int(head&15)
	if n == 15 {
		if n, err = t.varint(); err != nil {
			return err
		}
	}
	return t.repeat(n, depth, kind)
}

func (t *thrift) pairs(depth int) error {
	n, err := t.varint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := t.byte()
	if err != nil {
		return err
	}
	return t.repeat(n, depth, int(kinds>>4), int(kinds&15))
}

// repeat walks n items of the kinds. Booleans take a byte in lists.
func (t *thrift) repeat(n uint64, depth int, kinds ...int) error {
	if n > maxItems || n > uint64(len(t.b)-t.at) || t.items+int(n) > maxItems {
		return errThrift
	}
	t.items += int(n)
	for range n {
		for _, k := range kinds {
			if k == tTrue || k == tFalse {
				k = tByte
			}
			if err := t.value(k, depth+2, 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
