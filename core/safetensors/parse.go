package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"mm-abi.org/mm/internal/fsx"
)

const metadataKey = "__metadata__"

// headerSize decodes the length of the header of a file of the given size.
func headerSize(b []byte, size int64) (int64, error) {
	if size < 8 {
		return 0, fmt.Errorf("file too short: got %d bytes", size)
	}
	n := binary.LittleEndian.Uint64(b)
	switch {
	case n > maxHeader && fsx.Sniff(b) != fsx.Unknown:
		return 0, fmt.Errorf("not a safetensors file: got %s", fsx.Sniff(b))
	case n > maxHeader:
		return 0, fmt.Errorf("header too large: got %d bytes, want at most %d", n, maxHeader)
	case n > uint64(size-8):
		return 0, fmt.Errorf("file truncated: header of %d bytes, %d left in the file", n, size-8)
	}
	return int64(n), nil
}

// Layout returns the size of the file with a header, which includes its length, and its
// tensors without data.
func Layout(head []byte) (int64, []Tensor, error) {
	n, err := headerSize(head, int64(len(head)))
	if err == nil && int(n) != len(head)-8 {
		err = fmt.Errorf("header size mismatch: got %d bytes, want %d", len(head)-8, n)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("safetensors: %w", err)
	}
	f, err := parse(head[8:], -1)
	if err != nil {
		return 0, nil, fmt.Errorf("safetensors: %w", err)
	}
	size := int64(len(head))
	for _, t := range f.Tensors {
		size += t.Size
	}
	return size, f.Tensors, nil
}

// parse reads the header of a file of the given size and checks it. A size of -1
// is that of its tensors.
func parse(header []byte, size int64) (*File, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, errors.New("header does not begin with {")
	}
	if !utf8.Valid(header) {
		return nil, errors.New("header is not valid UTF-8")
	}
	p := &parser{dec: json.NewDecoder(bytes.NewReader(header))}
	p.dec.UseNumber()
	f := &File{names: make(map[string]int)}
	if err := p.file(f); err != nil {
		return nil, err
	}
	start := int64(8 + len(header))
	if size < 0 {
		size = start
		for _, t := range f.Tensors {
			if t.Size > math.MaxInt64-size {
				return nil, errors.New("the tensors exceed 2^63 bytes")
			}
			size += t.Size
		}
	}
	return f, f.place(start, size)
}

// place checks that the tensors cover the data without gap or overlap, and
// makes their offsets absolute.
func (f *File) place(start, size int64) error {
	slices.SortFunc(f.Tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Name, b.Name))
	})
	at := int64(0)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.Offset != at {
			return fmt.Errorf("tensor %q: got offset %d, want %d: gaps and overlaps are not allowed", t.Name, t.Offset, at)
		}
		if t.Size > size-start-at {
			return fmt.Errorf("tensor %q: %d bytes at %d exceed the data of %d bytes", t.Name, t.Size, at, size-start)
		}
		at += t.Size
		t.Offset += start
		f.names[t.Name] = i
	}
	if at != size-start {
		return fmt.Errorf("data size mismatch: tensors take %d bytes, got %d", at, size-start)
	}
	return nil
}

// parser reads the header token by token, because encoding/json accepts
// duplicate keys.
type parser struct{ dec *json.Decoder }

// file reads the header; offsets remain relative to the data.
func (p *parser) file(f *File) error {
	err := p.object("header", func(name string) error {
		if name == metadataKey {
			f.Metadata = make(map[string]string)
			return p.object(metadataKey, func(key string) error {
				value, err := p.string(metadataKey + "." + key)
				f.Metadata[key] = value
				return err
			})
		}
		t, err := p.tensor(name)
		if err != nil {
			return err
		}
		return f.add(t)
	})
	if err != nil {
		return err
	}
	// Spaces may pad the header; nothing else may follow.
	if _, err := p.dec.Token(); err != io.EOF {
		return errors.New("trailing data after the header's object")
	}
	return nil
}

func (f *File) add(t Tensor) error {
	if len(f.Tensors) == maxTensors {
		return fmt.Errorf("more than %d tensors", maxTensors)
	}
	f.Tensors = append(f.Tensors, t)
	return nil
}

// tensor reads one tensor's entry.
func (p *parser) tensor(name string) (Tensor, error) {
	t := Tensor{Name: name}
	if name == "" {
		return t, errors.New("empty tensor name")
	}
	what := "tensor " + strconv.Quote(name)
	var begin, end int64
	found := 0
	err := p.object(what, func(key string) error {
		var err error
		found++
		switch key {
		case "dtype":
			var s string
			s, err = p.string(what + ".dtype")
			t.DType = DType(s)
		case "shape":
			t.Shape = []int{}
			err = p.numbers(what+".shape", maxDims, func(n int64) { t.Shape = append(t.Shape, int(n)) })
		case "data_offsets":
			var at []int64
			err = p.numbers(what+".data_offsets", 2, func(n int64) { at = append(at, n) })
			if err == nil && len(at) != 2 {
				return fmt.Errorf("%s.data_offsets: got %d numbers, want 2", what, len(at))
			}
			if err == nil {
				begin, end = at[0], at[1]
			}
		default:
			return fmt.Errorf("%s: unknown key %q", what, key)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	if found != 3 {
		return t, fmt.Errorf("%s: missing dtype, shape or data_offsets", what)
	}
	if end < begin {
		return t, fmt.Errorf("%s: ends at %d before it begins at %d", what, end, begin)
	}
	t.Offset, t.Size = begin, end-begin
	need, err := sizeOf(t.DType, t.Shape)
	if err != nil {
		return t, fmt.Errorf("%s: %w", what, err)
	}
	if need != t.Size {
		return t, fmt.Errorf("%s: size mismatch of %s %v: got %d bytes, want %d", what, t.DType, t.Shape, t.Size, need)
	}
	return t, nil
}

// sizeOf returns the number of bytes of a tensor.
func sizeOf(d DType, shape []int) (int64, error) {
	total := d.bits()
	if total == 0 {
		return 0, fmt.Errorf("unknown dtype %q", d)
	}
	empty := false
	for _, n := range shape {
		if n == 0 { // the other dimensions must not overflow
			empty = true
			continue
		}
		hi, lo := bits.Mul64(total, uint64(n))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v of %s exceeds 2^63 bits", shape, d)
		}
		total = lo
	}
	if empty {
		return 0, nil
	}
	if total%8 != 0 {
		return 0, fmt.Errorf("shape %v of %s is not a multiple of 8 bits", shape, d)
	}
	return int64(total / 8), nil
}

// object reads an object and calls do for each key, with the decoder before its
// value. A duplicate key is an error.
func (p *parser) object(what string, do func(key string) error) error {
	if err := p.delim(what, '{'); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for p.dec.More() {
		tok, err := p.token(what)
		if err != nil {
			return err
		}
		key := tok.(string) // the decoder allows nothing else here
		if seen[key] {
			return fmt.Errorf("%s: duplicate key %q", what, key)
		}
		seen[key] = true
		if err := do(key); err != nil {
			return err
		}
	}
	return p.delim(what, '}')
}

// token reads one JSON token; the end of the header is an error.
func (p *parser) token(what string) (json.Token, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, short(err))
	}
	return tok, nil
}

func (p *parser) delim(what string, want json.Delim) error {
	tok, err := p.token(what)
	if err != nil {
		return err
	}
	if tok != want {
		return fmt.Errorf("%s: got %v, want %v", what, tok, want)
	}
	return nil
}

func (p *parser) string(what string) (string, error) {
	tok, err := p.token(what)
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("%s: got %v, want a string", what, tok)
	}
	return s, nil
}

// numbers reads an array of at most limit non-negative integers.
func (p *parser) numbers(what string, limit int, do func(int64)) error {
	if err := p.delim(what, '['); err != nil {
		return err
	}
	for n := 0; p.dec.More(); n++ {
		tok, err := p.token(what)
		if err != nil {
			return err
		}
		if n == limit {
			return fmt.Errorf("%s: more than %d numbers", what, limit)
		}
		num, ok := tok.(json.Number)
		if !ok {
			return fmt.Errorf("%s: got %q, want a number", what, tok)
		}
		v, err := strconv.ParseInt(num.String(), 10, 64)
		if err != nil || v < 0 {
			return fmt.Errorf("%s: got %s, want an integer below 2^63", what, num)
		}
		do(v)
	}
	return p.delim(what, ']')
}

// short reports a premature end of the header as io.ErrUnexpectedEOF.
func short(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
