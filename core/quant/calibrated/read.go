package calibrated

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
)

const (
	sums, counts = ".in_sum2", ".counts"

	keyType     = "general.type"
	keyDatasets = "imatrix.datasets"
	keyChunks   = "imatrix.chunk_count"
	keySize     = "imatrix.chunk_size"
	typeName    = "imatrix"
)

// ReadImatrix reads an importance matrix of size bytes, in either of the
// formats of llama.cpp's tools/imatrix (version 0.5). It verifies that names
// are unique and that numbers are finite and not negative.
//
// The newer format is GGUF: general.type is "imatrix", and each matrix has the
// F32 tensors NAME.in_sum2, columns × experts, and NAME.counts, 1 × experts.
// The older one, called .dat or .imatrix, holds little-endian i32 and f32:
//
//	n, then n entries: i32 length, name, i32 calls, i32 values, f32 values[]
//	i32 chunks, i32 length, name of the text (both optional)
//
// where a value divided by calls is the mean of the squares.
func ReadImatrix(r io.ReaderAt, size int64) (*Imatrix, error) {
	if size > maxFile {
		return nil, fmt.Errorf("imatrix: file size %d exceeds %d bytes", size, maxFile)
	}
	var magic [4]byte
	_, err := r.ReadAt(magic[:], 0)
	var m *Imatrix
	switch {
	case err != nil && !errors.Is(err, io.EOF):
	case bytes.Equal(magic[:], []byte("GGUF")):
		m, err = readGGUF(r, size)
	default:
		m, err = readPlain(r, size)
	}
	if err != nil {
		return nil, fmt.Errorf("imatrix: %w", err)
	}
	return m, nil
}

func readGGUF(r io.ReaderAt, size int64) (*Imatrix, error) {
	f, err := gguf.Read(r, size)
	if err != nil {
		return nil, err
	}
	if kind, err := gguf.GetOr(f, keyType, ""); err != nil || kind != typeName {
		return nil, fmt.Errorf("not an importance matrix: %s is %q, want %q", keyType, kind, typeName)
	}
	m := &Imatrix{Entries: make(map[string]Entry)}
	if m.Datasets, err = gguf.GetOr(f, keyDatasets, []string(nil)); err != nil {
		return nil, err
	}
	if m.Chunks, err = gguf.GetOr(f, keyChunks, uint32(0)); err != nil {
		return nil, err
	}
	if m.Size, err = gguf.GetOr(f, keySize, uint32(0)); err != nil {
		return nil, err
	}
	for _, t := range f.Tensors {
		name, ok := strings.CutSuffix(t.Name, sums)
		if !ok {
			if name, ok = strings.CutSuffix(t.Name, counts); !ok {
				continue // written by a later version
			}
			if _, ok := f.Tensor(name + sums); !ok {
				return nil, fmt.Errorf("%s: counts without sums", name)
			}
			continue
		}
		n, ok := f.Tensor(name + counts)
		if !ok {
			return nil, fmt.Errorf("%s: sums without counts", name)
		}
		var e Entry
		if e.Sums, err = numbers(f, t); err != nil {
			return nil, err
		}
		if e.Counts, err = numbers(f, n); err != nil {
			return nil, err
		}
		if err := e.check(name); err != nil {
			return nil, err
		}
		m.Entries[name] = e
	}
	if len(m.Entries) == 0 || len(m.Entries) > maxEntries {
		return nil, fmt.Errorf("entry count: got %d, want 1 to %d", len(m.Entries), maxEntries)
	}
	return m, nil
}

// numbers reads an F32 tensor.
func numbers(f *gguf.File, t gguf.Tensor) ([]float32, error) {
	if t.Type != tensor.F32 {
		return nil, fmt.Errorf("tensor %s: got type %v, want F32", t.Name, t.Type)
	}
	b := make([]byte, t.Size) // within the file: gguf.Read verifies it
	if _, err := io.ReadFull(f.Section(t), b); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return floats(b), nil
}

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// readPlain reads the older format.
func readPlain(r io.ReaderAt, size int64) (*Imatrix, error) {
	b := &plain{r: io.NewSectionReader(r, 0, size), left: size}
	n := b.count("entries", 12, maxEntries)
	m := &Imatrix{Entries: make(map[string]Entry)}
	for i := range n {
		name := string(b.bytes(b.count("name bytes", 1, maxName)))
		calls := b.number()
		e := Entry{Counts: []float32{float32(calls)}}
		e.Sums = floats(b.bytes(4 * b.count("values", 4, maxFile/4)))
		if b.err == nil && calls < 0 {
			b.err = fmt.Errorf("entry %q: negative call count %d", name, calls)
		}
		if b.err == nil {
			b.err = e.check(name)
		}
		if b.err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w", i+1, n, b.err)
		}
		if _, duplicate := m.Entries[name]; duplicate {
			return nil, fmt.Errorf("duplicate entry %q", name)
		}
		if calls == 0 { // llama.cpp uses the values unscaled
			e.Counts[0] = 1
		}
		m.Entries[name] = e
	}
	if b.err == nil && len(m.Entries) == 0 {
		b.err = errors.New("no entries")
	}
	if b.err == nil && b.left > 0 {
		chunks := b.number()
		m.Chunks = uint32(max(chunks, 0))
		if b.err == nil && b.left > 0 {
			if n := b.number(); n > 0 && b.err == nil {
				m.Datasets = []string{string(b.bytes(b.within(int(n), "dataset name bytes", 1, 1<<16)))}
			}
		}
		if b.err == nil && b.left > 0 {
			b.err = fmt.Errorf("%d trailing bytes", b.left)
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	return m, nil
}

// plain reads the older format and keeps the first error.
type plain struct {
	r    io.Reader
	left int64
	err  error
}

// bytes reads n bytes.
func (p *plain) bytes(n int) []byte {
	if p.err != nil {
		return nil
	}
	if int64(n) > p.left {
		p.err = fmt.Errorf("file truncated: %d bytes missing", int64(n)-p.left)
		return nil
	}
	b := make([]byte, n)
	if _, p.err = io.ReadFull(p.r, b); p.err != nil {
		return nil
	}
	p.left -= int64(n)
	return b
}

func (p *plain) number() int32 {
	b := p.bytes(4)
	if b == nil {
		return 0
	}
	return int32(binary.LittleEndian.Uint32(b))
}

// count reads a count of items, each of at least size bytes.
func (p *plain) count(what string, size, most int) int {
	return p.within(int(p.number()), what, size, most)
}

func (p *plain) within(n int, what string, size, most int) int {
	if p.err == nil && (n < 0 || n > most || int64(n)*int64(size) > p.left) {
		p.err = fmt.Errorf("%d %s exceed %d remaining bytes or the limit %d", n, what, p.left, most)
	}
	if p.err != nil {
		return 0
	}
	return n
}
