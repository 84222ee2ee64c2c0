package onnx

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// wireType is the encoding of a protobuf field.
type wireType uint8

const (
	wireVarint  wireType = 0
	wireFixed64 wireType = 1
	wireBytes   wireType = 2
	wireFixed32 wireType = 5
)

// field is one field of a message. value holds a number, data any field with a
// length; data aliases the file.
type field struct {
	num   int
	wire  wireType
	value uint64
	data  []byte
}

// reader walks the fields of messages. budget is the remaining memory of the
// structure in bytes: a message of two bytes can become a struct of hundreds.
type reader struct {
	budget  int
	unknown int
}

// spend takes n bytes from the budget.
func (r *reader) spend(n int) error {
	if r.budget -= n; r.budget < 0 {
		return fmt.Errorf("%w: structure too large for the size of the file", ErrLimit)
	}
	return nil
}

// message calls do for each field of a message. singular has a bit for each
// field number below 64 that may appear only once.
func (r *reader) message(b []byte, singular uint64, do func(f field) error) error {
	seen := uint64(0)
	for len(b) > 0 {
		f, n, err := readField(b)
		if err != nil {
			return err
		}
		b = b[n:]
		if f.num < 64 && singular>>f.num&1 == 1 {
			if seen>>f.num&1 == 1 {
				return fmt.Errorf("field %d appears twice", f.num)
			}
			seen |= 1 << f.num
		}
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

// readField decodes the first field in b and returns its length.
func readField(b []byte) (field, int, error) {
	tag, n := readVarint(b)
	if n == 0 {
		return field{}, 0, errors.New("invalid varint in a field tag")
	}
	f := field{num: int(tag >> 3 & math.MaxInt32), wire: wireType(tag & 7)}
	if tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return f, 0, fmt.Errorf("field number %d is out of range", tag>>3)
	}
	rest := b[n:]
	switch f.wire {
	case wireVarint:
		v, m := readVarint(rest)
		if m == 0 {
			return f, 0, fmt.Errorf("field %d is not a varint", f.num)
		}
		f.value = v
		return f, n + m, nil
	case wireFixed32, wireFixed64:
		size := 4
		if f.wire == wireFixed64 {
			size = 8
		}
		if len(rest) < size {
			return f, 0, fmt.Errorf("field %d needs %d bytes, %d are left", f.num, size, len(rest))
		}
		for i := size - 1; i >= 0; i-- {
			f.value = f.value<<8 | uint64(rest[i])
		}
		f.data = rest[:size:size]
		return f, n + size, nil
	case wireBytes:
		length, m := readVarint(rest)
		if m == 0 {
			return f, 0, fmt.Errorf("length of field %d is not a varint", f.num)
		}
		if length > uint64(len(rest)-m) {
			return f, 0, fmt.Errorf("field %d has %d bytes, %d are left", f.num, length, len(rest)-m)
		}
		end := m + int(length)
		f.data = rest[m:end:end]
		return f, n + end, nil
	}
	return f, 0, fmt.Errorf("field %d has the wire type %d", f.num, f.wire)
}

// readVarint returns a number and its length; length 0 if it is truncated or
// longer than 64 bits.
func readVarint(b []byte) (uint64, int) {
	v := uint64(0)
	for i := 0; i < len(b) && i < 10; i++ {
		if i == 9 && b[i] > 1 {
			return 0, 0
		}
		v |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// is checks a field's wire type.
func (f field) is(w wireType) error {
	if f.wire != w {
		return fmt.Errorf("field %d has the wire type %d, not %d", f.num, f.wire, w)
	}
	return nil
}

// name reads a name.
func (f field) name(dst *string) error {
	if len(f.data) > maxName {
		return fmt.Errorf("%w: name in field %d has %d bytes, want at most %d", ErrLimit, f.num, len(f.data), maxName)
	}
	return f.text(dst)
}

// text reads a string.
func (f field) text(dst *string) error {
	if err := f.is(wireBytes); err != nil {
		return err
	}
	if !utf8.Valid(f.data) {
		return fmt.Errorf("field %d is not valid UTF-8", f.num)
	}
	*dst = string(f.data)
	return nil
}

// int reads a signed number.
func (f field) int(dst *int64) error {
	*dst = int64(f.value)
	return f.is(wireVarint)
}

// int32 reads a signed number of 32 bits; negative ones take ten bytes.
func (f field) int32(dst *int32) error {
	if v := int64(f.value); v < math.MinInt32 || v > math.MaxInt32 {
		return fmt.Errorf("field %d is %d, beyond 32 bits", f.num, v)
	}
	*dst = int32(f.value)
	return f.is(wireVarint)
}

// ints appends repeated numbers, packed or one by one.
func (r *reader) ints(f field, dst *[]int64) error {
	if f.wire == wireVarint {
		*dst = append(*dst, int64(f.value))
		return r.spend(2 * 8)
	}
	if err := f.is(wireBytes); err != nil {
		return err
	}
	for b := f.data; len(b) > 0; {
		v, n := readVarint(b)
		if n == 0 {
			return fmt.Errorf("field %d holds an invalid varint", f.num)
		}
		if err := r.spend(2 * 8); err != nil {
			return err
		}
		*dst = append(*dst, int64(v))
		b = b[n:]
	}
	return nil
}

// floats appends repeated floats, packed or one by one.
func (r *reader) floats(f field, dst *[]float32) error {
	if f.wire != wireBytes && f.wire != wireFixed32 || len(f.data)%4 != 0 {
		return fmt.Errorf("field %d does not hold floats", f.num)
	}
	if err := r.spend(2 * len(f.data)); err != nil {
		return err
	}
	for b := f.data; len(b) > 0; b = b[4:] {
		bits := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		*dst = append(*dst, math.Float32frombits(bits))
	}
	return nil
}
