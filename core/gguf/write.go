package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"mm-abi.org/mm/core/tensor"
)

// Source is a tensor to write.
type Source struct {
	Name string
	Type tensor.Type
	// Dims are in GGUF's order, the contiguous dimension first.
	Dims []int
	// Data writes exactly the tensor's bytes, little endian. It is called once,
	// after all earlier tensors have been written.
	Data io.WriterTo
}

// Bytes is a tensor's data in memory.
type Bytes []byte

// WriteTo writes b.
func (b Bytes) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b)
	return int64(n), err
}

// Write writes a version 3 file: the metadata, then the tensors, in the given
// order, each padded to general.alignment (by default 32 bytes). The same input
// gives the same bytes. Memory use does not depend on the tensors' sizes. It
// returns the number of bytes written; after an error the output is not a valid
// GGUF file.
func Write(w io.Writer, kvs []KV, tensors []Source) (int64, error) {
	bw := &counter{w: bufio.NewWriterSize(w, 1<<18)}
	if err := write(bw, kvs, tensors); err != nil {
		return bw.n, fmt.Errorf("gguf: writing: %w", err)
	}
	if err := bw.w.Flush(); err != nil {
		return bw.n, fmt.Errorf("gguf: writing: %w", err)
	}
	return bw.n, nil
}

func write(w *counter, kvs []KV, tensors []Source) error {
	head, sizes, align, err := header(kvs, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	if len(tensors) == 0 {
		return nil
	}
	zeros := make([]byte, align)
	for i, t := range tensors {
		if _, err := w.Write(zeros[:pad(w.n, align)-w.n]); err != nil {
			return err
		}
		before := w.n
		w.limit = before + sizes[i]
		if _, err := t.Data.WriteTo(w); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		if w.n-before != sizes[i] {
			return fmt.Errorf("tensor %s: got %d bytes, want %d", t.Name, w.n-before, sizes[i])
		}
		w.limit = 0
	}
	_, err = w.Write(zeros[:pad(w.n, align)-w.n])
	return err
}

// header encodes everything before the data and returns the tensors' sizes.
func header(kvs []KV, tensors []Source) (head []byte, sizes []int64, align int, err error) {
	if len(kvs) > maxKeys || len(tensors) > maxTensors {
		return nil, nil, 0, fmt.Errorf("got %d keys and %d tensors, limits %d and %d", len(kvs), len(tensors), maxKeys, maxTensors)
	}
	if align, err = alignmentOf(kvs); err != nil {
		return nil, nil, 0, err
	}
	le := binary.LittleEndian
	head = append(head, magic...)
	head = le.AppendUint32(head, versionLatest)
	head = le.AppendUint64(head, uint64(len(tensors)))
	head = le.AppendUint64(head, uint64(len(kvs)))
	seen := make(map[string]bool)
	for _, kv := range kvs {
		if err := checkKey(kv.Key); err != nil {
			return nil, nil, 0, fmt.Errorf("key: %w", err)
		}
		if seen[kv.Key] {
			return nil, nil, 0, fmt.Errorf("duplicate key %s", kv.Key)
		}
		seen[kv.Key] = true
		head = appendString(head, kv.Key)
		if head, err = appendValue(head, kv.Value); err != nil {
			return nil, nil, 0, fmt.Errorf("key %s: %w", kv.Key, err)
		}
	}
	sizes = make([]int64, len(tensors))
	offset := int64(0)
	clear(seen)
	for i, t := range tensors {
		if seen[t.Name] {
			return nil, nil, 0, fmt.Errorf("duplicate tensor %s", t.Name)
		}
		seen[t.Name] = true
		if head, sizes[i], err = appendInfo(head, t, offset); err != nil {
			return nil, nil, 0, err
		}
		if sizes[i] > math.MaxInt64-maxAlignment-offset {
			return nil, nil, 0, fmt.Errorf("tensor %s: file exceeds 2^63 bytes", t.Name)
		}
		offset = pad(offset+sizes[i], align)
	}
	return head, sizes, align, nil
}

// appendInfo encodes a tensor's description.
func appendInfo(b []byte, t Source, offset int64) ([]byte, int64, error) {
	if t.Name == "" || len(t.Name) > maxTensorName || strings.ContainsRune(t.Name, 0) {
		return nil, 0, fmt.Errorf("bad tensor name %q, want 1 to %d bytes without NUL", t.Name, maxTensorName)
	}
	if len(t.Dims) == 0 || len(t.Dims) > maxDims {
		return nil, 0, fmt.Errorf("tensor %s: got %d dimensions, want 1 to %d", t.Name, len(t.Dims), maxDims)
	}
	dims := make([]uint64, len(t.Dims))
	for i, d := range t.Dims {
		if d < 1 {
			return nil, 0, fmt.Errorf("tensor %s: dimension %d is %d", t.Name, i, d)
		}
		dims[i] = uint64(d)
	}
	_, size, err := layout(t.Type, dims)
	if err != nil {
		return nil, 0, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	if t.Data == nil {
		return nil, 0, fmt.Errorf("tensor %s has no data", t.Name)
	}
	le := binary.LittleEndian
	b = appendString(b, t.Name)
	b = le.AppendUint32(b, uint32(len(dims)))
	for _, d := range dims {
		b = le.AppendUint64(b, d)
	}
	b = le.AppendUint32(b, uint32(t.Type))
	return le.AppendUint64(b, uint64(offset)), size, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue encodes a type and a value.
func appendValue(b []byte, v any) ([]byte, error) {
	id, array := idOf(v)
	if id == idArray {
		return nil, fmt.Errorf("no GGUF type for the Go type %T", v)
	}
	le := binary.LittleEndian
	if !array {
		return appendScalar(le.AppendUint32(b, id), v), nil
	}
	b = le.AppendUint32(b, idArray)
	b = le.AppendUint32(b, id)
	switch v := v.(type) {
	case []uint8:
		return append(le.AppendUint64(b, uint64(len(v))), v...), nil
	case []int8:
		return appendAll(b, v), nil
	case []uint16:
		return appendAll(b, v), nil
	case []int16:
		return appendAll(b, v), nil
	case []uint32:
		return appendAll(b, v), nil
	case []int32:
		return appendAll(b, v), nil
	case []uint64:
		return appendAll(b, v), nil
	case []int64:
		return appendAll(b, v), nil
	case []float32:
		return appendAll(b, v), nil
	case []float64:
		return appendAll(b, v), nil
	case []bool:
		return appendAll(b, v), nil
	case Strings:
		return append(le.AppendUint64(b, uint64(v.n)), v.raw...), nil
	}
	return appendAll(b, v.([]string)), nil
}

func appendAll[T Scalar](b []byte, vs []T) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(vs)))
	for _, v := range vs {
		b = appendScalar(b, v)
	}
	return b
}

func appendScalar(b []byte, v any) []byte {
	le := binary.LittleEndian
	switch v := v.(type) {
	case uint8:
		return append(b, v)
	case int8:
		return append(b, byte(v))
	case bool:
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case uint16:
		return le.AppendUint16(b, v)
	case int16:
		return le.AppendUint16(b, uint16(v))
	case uint32:
		return le.AppendUint32(b, v)
	case int32:
		return le.AppendUint32(b, uint32(v))
	case float32:
		return le.AppendUint32(b, math.Float32bits(v))
	case uint64:
		return le.AppendUint64(b, v)
	case int64:
		return le.AppendUint64(b, uint64(v))
	case float64:
		return le.AppendUint64(b, math.Float64bits(v))
	}
	return appendString(b, v.(string))
}

// counter counts written bytes, up to limit if set.
type counter struct {
	w     *bufio.Writer
	n     int64
	limit int64
}

var errTooMuch = errors.New("more bytes than its type and dimensions need")

func (c *counter) Write(p []byte) (int, error) {
	if c.limit > 0 && int64(len(p)) > c.limit-c.n {
		return 0, errTooMuch
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
