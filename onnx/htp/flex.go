package htp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The FlexBuffer types used in options.
const (
	flexInt    = 1
	flexUint   = 2
	flexString = 5
	flexMap    = 9
)

// maxKeys is the limit of entries of an options map.
const maxKeys = 64

var errFlex = errors.New("options are not a FlexBuffer")

// flex is a FlexBuffer. Offsets point backwards: values precede their offsets,
// and the root is at the end.
type flex []byte

// word reads the n-byte number at an offset, n being 1, 2, 4 or 8.
func (f flex) word(at, n int) (uint64, error) {
	if at < 0 || n > len(f) || at > len(f)-n {
		return 0, fmt.Errorf("%w: %d bytes at %d exceed %d", errFlex, n, at, len(f))
	}
	switch n {
	case 1:
		return uint64(f[at]), nil
	case 2:
		return uint64(binary.LittleEndian.Uint16(f[at:])), nil
	case 4:
		return uint64(binary.LittleEndian.Uint32(f[at:])), nil
	}
	return binary.LittleEndian.Uint64(f[at:]), nil
}

// back follows the n-byte offset at a position.
func (f flex) back(at, n int) (int, error) {
	v, err := f.word(at, n)
	if err == nil && v > uint64(at) {
		err = fmt.Errorf("%w: bad offset %d at %d", errFlex, v, at)
	}
	if err != nil {
		return 0, err
	}
	return at - int(v), nil
}

// key reads the NUL-terminated string at a position.
func (f flex) key(at int) (string, error) {
	for end := at; end < len(f); end++ {
		if f[end] == 0 {
			return string(f[at:end]), nil
		}
	}
	return "", fmt.Errorf("%w: unterminated key", errFlex)
}

// text reads the string at a position, whose length is in the n bytes before
// it.
func (f flex) text(at, n int) (string, error) {
	size, err := f.word(at-n, n)
	if err == nil && size > uint64(len(f)-at) {
		err = fmt.Errorf("%w: bad string of %d bytes at %d", errFlex, size, at)
	}
	if err != nil {
		return "", err
	}
	s := string(f[at : at+int(size)])
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("%w: invalid UTF-8", errFlex)
	}
	return s, nil
}

// options reads a map of numbers and strings; other values are skipped.
func options(b []byte) (numbers map[string]uint64, texts map[string]string, err error) {
	f := flex(b)
	if len(f) < 3 {
		return nil, nil, fmt.Errorf("%w: got %d bytes", errFlex, len(f))
	}
	width, packed := int(f[len(f)-1]), f[len(f)-2]
	if width != 1 && width != 2 && width != 4 && width != 8 || packed>>2 != flexMap {
		return nil, nil, fmt.Errorf("%w: root type %d of %d bytes, want a map", errFlex, packed>>2, width)
	}
	values, err := f.back(len(f)-2-width, width)
	if err != nil {
		return nil, nil, err
	}
	w := 1 << (packed & 3)
	count, err1 := f.word(values-w, w)
	keyWidth, err2 := f.word(values-2*w, w)
	keys, err3 := f.back(values-3*w, w)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, nil, err
	}
	if count > maxKeys || keyWidth != 1 && keyWidth != 2 && keyWidth != 4 && keyWidth != 8 {
		return nil, nil, fmt.Errorf("%w: bad map of %d entries with %d-byte keys", errFlex, count, keyWidth)
	}
	numbers, texts = map[string]uint64{}, map[string]string{}
	for i := range int(count) {
		at, err := f.back(keys+i*int(keyWidth), int(keyWidth))
		if err != nil {
			return nil, nil, err
		}
		key, err := f.key(at)
		if err != nil {
			return nil, nil, err
		}
		typ, err := f.word(values+int(count)*w+i, 1)
		if err != nil {
			return nil, nil, err
		}
		if err := f.value(key, values+i*w, w, typ, numbers, texts); err != nil {
			return nil, nil, err
		}
	}
	return numbers, texts, nil
}

// value stores one entry. A duplicate key is an error: either choice would be a
// guess.
func (f flex) value(key string, at, w int, typ uint64, numbers map[string]uint64, texts map[string]string) error {
	_, number := numbers[key]
	_, text := texts[key]
	if number || text {
		return fmt.Errorf("%w: duplicate key %q", errFlex, key)
	}
	switch typ >> 2 {
	case flexInt, flexUint:
		v, err := f.word(at, w)
		if err == nil && typ>>2 == flexInt && v>>(8*w-1) == 1 {
			err = fmt.Errorf("%w: negative value of %q", errFlex, key)
		}
		if err != nil {
			return err
		}
		numbers[key] = v
	case flexString:
		to, err := f.back(at, w)
		if err != nil {
			return err
		}
		s, err := f.text(to, 1<<(typ&3))
		if err != nil {
			return err
		}
		texts[key] = s
	}
	return nil
}
