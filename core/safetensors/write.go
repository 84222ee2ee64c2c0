package safetensors

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"unicode/utf8"
)

// Source is a tensor to be written.
type Source struct {
	Name  string
	DType DType
	Shape []int
	// Data writes exactly the tensor's bytes, little endian. It is called once.
	Data io.WriterTo
	// Rank places the tensor among those with elements of its width.
	Rank int
}

// Bytes is a tensor's data held in memory.
type Bytes []byte

// WriteTo writes b.
func (b Bytes) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b)
	return int64(n), err
}

// Write writes a file: wider elements first, so that every tensor is aligned,
// then by rank and name. metadata may be nil. Memory use does not depend on the sizes of
// the tensors. Write returns the number of bytes written; after an error the
// output is not a safetensors file.
func Write(w io.Writer, metadata map[string]string, tensors []Source) (int64, error) {
	sorted := slices.Clone(tensors)
	slices.SortStableFunc(sorted, func(a, b Source) int {
		return cmp.Or(cmp.Compare(b.DType.bits(), a.DType.bits()), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Name, b.Name))
	})
	cw := &counter{w: bufio.NewWriterSize(w, 1<<18)}
	if err := write(cw, metadata, sorted); err != nil {
		return cw.n, fmt.Errorf("safetensors: writing: %w", err)
	}
	if err := cw.w.Flush(); err != nil {
		return cw.n, fmt.Errorf("safetensors: writing: %w", err)
	}
	return cw.n, nil
}

func write(w *counter, metadata map[string]string, tensors []Source) error {
	head, sizes, err := header(metadata, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for i, t := range tensors {
		before := w.n
		w.limit = before + sizes[i]
		if _, err := t.Data.WriteTo(w); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if w.n != w.limit {
			return fmt.Errorf("tensor %q: got %d bytes, want %d", t.Name, w.n-before, sizes[i])
		}
	}
	return nil
}

// header encodes everything before the data and returns the sizes of the
// tensors.
func header(metadata map[string]string, tensors []Source) (head []byte, sizes []int64, err error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	if metadata != nil {
		b.WriteString(`"` + metadataKey + `":{`)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, nil, fmt.Errorf("metadata %q is not valid UTF-8", key)
			}
			comma(&b, i)
			quote(&b, key)
			b.WriteByte(':')
			quote(&b, metadata[key])
		}
		b.WriteByte('}')
	}
	seen := make(map[string]bool)
	sizes = make([]int64, len(tensors))
	at := int64(0)
	for i, t := range tensors {
		if t.Name == "" || t.Name == metadataKey || seen[t.Name] || !utf8.ValidString(t.Name) {
			return nil, nil, fmt.Errorf("tensor name %q is empty, reserved, not valid UTF-8 or duplicate", t.Name)
		}
		seen[t.Name] = true
		if t.Data == nil || len(t.Shape) > maxDims || slices.ContainsFunc(t.Shape, func(n int) bool { return n < 0 }) {
			return nil, nil, fmt.Errorf("tensor %q: no data or shape %v out of range", t.Name, t.Shape)
		}
		if sizes[i], err = sizeOf(t.DType, t.Shape); err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if sizes[i] > math.MaxInt64-maxHeader-at-8 {
			return nil, nil, fmt.Errorf("tensor %q: file exceeds 2^63 bytes", t.Name)
		}
		if metadata != nil {
			comma(&b, 1)
		} else {
			comma(&b, i)
		}
		quote(&b, t.Name)
		b.WriteString(`:{"dtype":`)
		quote(&b, string(t.DType))
		b.WriteString(`,"shape":[`)
		for j, n := range t.Shape {
			comma(&b, j)
			fmt.Fprint(&b, n)
		}
		fmt.Fprintf(&b, `],"data_offsets":[%d,%d]}`, at, at+sizes[i])
		at += sizes[i]
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	n := b.Len() - 8
	if n > maxHeader {
		return nil, nil, fmt.Errorf("header too large: got %d bytes, want at most %d", n, maxHeader)
	}
	head = b.Bytes()
	binary.LittleEndian.PutUint64(head, uint64(n))
	return head, sizes, nil
}

func comma(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

// quote writes a JSON string without escaping for HTML.
func quote(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)         // a string cannot fail
	b.Truncate(b.Len() - 1) // the newline
}

// counter counts the bytes written and refuses more than limit, if set.
type counter struct {
	w     *bufio.Writer
	n     int64
	limit int64
}

var errTooMuch = errors.New("data longer than its dtype and shape need")

func (c *counter) Write(p []byte) (int, error) {
	if c.limit > 0 && int64(len(p)) > c.limit-c.n {
		return 0, errTooMuch
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
