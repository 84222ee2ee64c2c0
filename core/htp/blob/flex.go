package blob

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The types of a FlexBuffer that options are made of.
const (
	flexInt    = 1
	flexUint   = 2
	flexString = 5
	flexMap    = 9
)

// maxKeys is the most entries of a map of options.
const maxKeys = 64

var errFlex = errors.New("the options are no FlexBuffer")

// flex is a FlexBuffer: its values lie before the offsets that lead to them,
// its root stands at the end. Offsets lead backwards.
type flex []byte

// word reads the n bytes at an offset, n being 1, 2, 4 or 8.
func (f flex) word(at, n int) (uint64, error) {
	if at < 0 || n > len(f) || at > len(f)-n {
		return 0, fmt.Errorf("%w: %d bytes at %d of %d", errFlex, n, at, len(f))
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

// back follows the offset of n bytes that stands at a place.
func (f flex) back(at, n int) (int, error) {
	v, err := f.word(at, n)
	if err == nil && v > uint64(at) {
		err = fmt.Errorf("%w: an offset of %d at %d", errFlex, v, at)
	}
	if err != nil {
		return 0, err
	}
	return at - int(v), nil
}

// key reads the text at a place that ends with a NUL.
func (f flex) key(at int) (string, error) {
	for end := at; end < len(f); end++ {
		if f[end] == 0 {
			return string(f[at:end]), nil
		}
	}
	return "", fmt.Errorf("%w: a key without an end", errFlex)
}

// text reads the string at a place, whose length stands in the n bytes before.
func (f flex) text(at, n int) (string, error) {
	size, err := f.word(at-n, n)
	if err == nil && size > uint64(len(f)-at) {
		err = fmt.Errorf("%w: a text of %d bytes at %d", errFlex, size, at)
	}
	if err != nil {
		return "", err
	}
	s := string(f[at : at+int(size)])
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("%w: a text that is no UTF-8", errFlex)
	}
	return s, nil
}

// options reads a map whose values are numbers and texts; others are left out.
func options(b []byte) (numbers map[string]uint64, texts map[string]string, err error) {
	f := flex(b)
	if len(f) < 3 {
		return nil, nil, fmt.Errorf("%w: %d bytes", errFlex, len(f))
	}
	width, packed := int(f[len(f)-1]), f[len(f)-2]
	if width != 1 && width != 2 && width != 4 && width != 8 || packed>>2 != flexMap {
		return nil, nil, fmt.Errorf("%w: the root has the type %d in %d bytes, not a map", errFlex, packed>>2, width)
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
		return nil, nil, fmt.Errorf("%w: a map of %d entries with keys of %d bytes", errFlex, count, keyWidth)
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

// value puts one entry where it belongs. A key that stands twice is an error:
// which of the two counts would be a guess.
func (f flex) value(key string, at, w int, typ uint64, numbers map[string]uint64, texts map[string]string) error {
	_, number := numbers[key]
	_, text := texts[key]
	if number || text {
		return fmt.Errorf("%w: %q stands twice", errFlex, key)
	}
	switch typ >> 2 {
	case flexInt, flexUint:
		v, err := f.word(at, w)
		if err == nil && typ>>2 == flexInt && v>>(8*w-1) == 1 {
			err = fmt.Errorf("%w: %q is negative", errFlex, key)
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
