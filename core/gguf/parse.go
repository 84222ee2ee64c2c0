package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/fsx"
)

// Minimum sizes of an entry in a file, in bytes.
const (
	minKV     = 8 + 1 + 4 + 1     // key length, key, type, value
	minTensor = 8 + 1 + 4 + 4 + 8 // name length, name, n_dims, type, offset
)

// parse reads and validates the whole header.
func parse(c *cursor) (*File, error) {
	if c.size < 0 || c.size > math.MaxInt64-maxAlignment {
		return nil, fmt.Errorf("file size %d out of range", c.size)
	}
	f := &File{Alignment: defaultAlignment}
	nTensors, nKeys, err := f.preamble(c)
	if err != nil {
		return nil, err
	}
	if err := f.metadata(c, nKeys); err != nil {
		return nil, err
	}
	if err := f.alignment(); err != nil {
		return nil, err
	}
	if err := f.infos(c, nTensors); err != nil {
		return nil, err
	}
	if err := f.place(int64(c.pos), c.size); err != nil {
		return nil, err
	}
	return f, nil
}

// preamble reads magic, version and the two counts.
func (f *File) preamble(c *cursor) (nTensors, nKeys uint64, err error) {
	m, err := c.take(4, "the magic")
	if err != nil {
		return 0, 0, err
	}
	if !bytes.Equal(m, []byte(magic)) {
		if kind := fsx.Sniff(c.buf); kind != fsx.Unknown && kind != fsx.Text {
			return 0, 0, fmt.Errorf("not a GGUF file: got %s", kind)
		}
		return 0, 0, fmt.Errorf("not a GGUF file: bad magic %q", m)
	}
	if f.Version, err = c.u32("the version"); err != nil {
		return 0, 0, err
	}
	switch v := f.Version; {
	case v&0xffff == 0:
		return 0, 0, fmt.Errorf("version %#08x: unsupported big-endian file", v)
	case v == 1:
		return 0, 0, errors.New("unsupported version 1: convert the file again")
	case v > versionLatest:
		return 0, 0, fmt.Errorf("unsupported version %d, latest is %d", v, versionLatest)
	}
	if nTensors, err = c.u64("the tensor count"); err != nil {
		return 0, 0, err
	}
	if nKeys, err = c.u64("the key count"); err != nil {
		return 0, 0, err
	}
	if nTensors > maxTensors {
		return 0, 0, fmt.Errorf("too many tensors: got %d, limit %d", nTensors, maxTensors)
	}
	if nKeys > maxKeys {
		return 0, 0, fmt.Errorf("too many keys: got %d, limit %d", nKeys, maxKeys)
	}
	if need := nTensors*minTensor + nKeys*minKV; need > c.left() {
		return 0, 0, fmt.Errorf("file truncated: %d tensors and %d keys need at least %d bytes, %d left",
			nTensors, nKeys, need, c.left())
	}
	return nTensors, nKeys, nil
}

// metadata reads n entries.
func (f *File) metadata(c *cursor, n uint64) error {
	f.KVs = make([]KV, 0, n)
	f.keys = make(map[string]int, n)
	for i := range n {
		key, err := c.str(fmt.Sprintf("key %d", i), maxKeyBytes)
		if err != nil {
			return err
		}
		if err := checkKey(key); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
		if _, twice := f.keys[key]; twice {
			return fmt.Errorf("duplicate key %s", key)
		}
		id, err := c.u32("the type of key " + key)
		if err != nil {
			return err
		}
		v, err := c.value(id)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		f.keys[key] = len(f.KVs)
		f.KVs = append(f.KVs, KV{key, v})
	}
	return nil
}

// checkKey accepts printable ASCII only, as the format specifies.
func checkKey(key string) error {
	if key == "" {
		return errors.New("empty key")
	}
	if len(key) > maxKeyBytes {
		return fmt.Errorf("key too long: got %d bytes, limit %d", len(key), maxKeyBytes)
	}
	if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("%q is not printable ASCII", key)
	}
	return nil
}

// alignment reads general.alignment, if present.
func (f *File) alignment() error {
	a, err := alignmentOf(f.KVs)
	f.Alignment = a
	return err
}

func alignmentOf(kvs []KV) (int, error) {
	for _, kv := range kvs {
		if kv.Key != KeyAlignment {
			continue
		}
		a, ok := kv.Value.(uint32)
		switch {
		case !ok:
			return 0, fmt.Errorf("key %s: got type %s, want u32", KeyAlignment, TypeName(kv.Value))
		case a == 0 || a&(a-1) != 0:
			return 0, fmt.Errorf("alignment %d is not a power of two", a)
		case a > maxAlignment:
			return 0, fmt.Errorf("alignment %d exceeds %d", a, maxAlignment)
		}
		return int(a), nil
	}
	return defaultAlignment, nil
}

// infos reads n tensor descriptions, with offsets relative to the data.
func (f *File) infos(c *cursor, n uint64) error {
	f.Tensors = make([]Tensor, 0, n)
	f.names = make(map[string]int, n)
	for i := range n {
		t, err := c.info(i)
		if err != nil {
			return err
		}
		if _, twice := f.names[t.Name]; twice {
			return fmt.Errorf("duplicate tensor %q", t.Name)
		}
		f.names[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

// info reads the description of tensor i.
func (c *cursor) info(i uint64) (Tensor, error) {
	var t Tensor
	var err error
	if t.Name, err = c.str(fmt.Sprintf("the name of tensor %d", i), maxTensorName); err != nil {
		return t, err
	}
	if t.Name == "" || strings.ContainsRune(t.Name, 0) {
		return t, fmt.Errorf("tensor %d: name %q is empty or contains a NUL", i, t.Name)
	}
	nDims, err := c.u32("the dimension count of tensor " + t.Name)
	if err != nil {
		return t, err
	}
	if nDims > maxDims {
		return t, fmt.Errorf("tensor %s: got %d dimensions, limit %d", t.Name, nDims, maxDims)
	}
	dims := make([]uint64, nDims)
	for j := range dims {
		if dims[j], err = c.u64("the dimensions of tensor " + t.Name); err != nil {
			return t, err
		}
	}
	id, err := c.u32("the type of tensor " + t.Name)
	if err != nil {
		return t, err
	}
	t.Type = tensor.Type(id)
	if t.Dims, t.Size, err = layout(t.Type, dims); err != nil {
		return t, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	offset, err := c.u64("the offset of tensor " + t.Name)
	if err != nil {
		return t, err
	}
	if offset > math.MaxInt64 {
		return t, fmt.Errorf("tensor %s: offset %d out of range", t.Name, offset)
	}
	t.Offset = int64(offset)
	return t, nil
}

// layout validates dimensions against the type and returns the size in bytes. A
// scalar, without dimensions, gets one dimension of 1.
func layout(typ tensor.Type, dims []uint64) ([]int, int64, error) {
	block, blockBytes, ok := geometry(typ)
	if !ok {
		return nil, 0, fmt.Errorf("unknown element type %d", uint32(typ))
	}
	out, total := []int{1}, uint64(1)
	if len(dims) > 0 {
		out = make([]int, len(dims))
	}
	for i, d := range dims {
		hi, lo := bits.Mul64(total, d)
		if d == 0 || hi != 0 || lo > math.MaxInt64 || d > math.MaxInt {
			return nil, 0, fmt.Errorf("dimension %d is %d in %v, want 1 to 2^63 elements", i, d, dims)
		}
		out[i], total = int(d), lo
	}
	if out[0]%block != 0 {
		return nil, 0, fmt.Errorf("row of %d elements is not a multiple of the block size %d", out[0], block)
	}
	hi, size := bits.Mul64(total/uint64(block), uint64(blockBytes))
	if hi != 0 || size > math.MaxInt64 {
		return nil, 0, fmt.Errorf("dimensions %v exceed 2^63 bytes", dims)
	}
	return out, int64(size), nil
}

// place checks that the tensors fill the data section contiguously and in order
// up to the end of the file, and makes their offsets absolute.
func (f *File) place(headerEnd, size int64) error {
	if len(f.Tensors) == 0 {
		// Writers differ in padding a header without data.
		if size > pad(headerEnd, f.Alignment) {
			return fmt.Errorf("%d extra bytes after the header of a file without tensors", size-headerEnd)
		}
		return nil
	}
	start := pad(headerEnd, f.Alignment)
	at := start
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.Offset != at-start {
			return fmt.Errorf("tensor %s: offset gap or overlap: got %d, want %d", t.Name, t.Offset, at-start)
		}
		if at > size || t.Size > size-at {
			return fmt.Errorf("file truncated: tensor %s has %d bytes at %d, file ends at %d", t.Name, t.Size, at, size)
		}
		t.Offset = at
		at = pad(at+t.Size, f.Alignment)
	}
	if size > at {
		return fmt.Errorf("%d extra bytes after the last tensor", size-at)
	}
	return nil
}

// pad rounds n up to a multiple of align. n is at most a file's size, so the
// sum cannot wrap: parse refuses files within maxAlignment of 2^63.
func pad(n int64, align int) int64 {
	a := int64(align)
	return (n + a - 1) / a * a
}
