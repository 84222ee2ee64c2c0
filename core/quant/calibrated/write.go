package calibrated

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
)

// Write writes the newer format. Its output is deterministic.
func (m *Imatrix) Write(w io.Writer) error {
	kvs := []gguf.KV{
		{Key: keyType, Value: typeName},
		{Key: keyDatasets, Value: append([]string{}, m.Datasets...)},
		{Key: keyChunks, Value: m.Chunks},
		{Key: keySize, Value: m.Size},
	}
	var tensors []gguf.Source
	for _, name := range m.Names() {
		e := m.Entries[name]
		if err := e.check(name); err != nil {
			return fmt.Errorf("imatrix: %w", err)
		}
		n := len(e.Counts)
		tensors = append(tensors,
			gguf.Source{Name: name + sums, Type: tensor.F32, Dims: []int{len(e.Sums) / n, n}, Data: gguf.Bytes(bytesOf(e.Sums))},
			gguf.Source{Name: name + counts, Type: tensor.F32, Dims: []int{1, n}, Data: gguf.Bytes(bytesOf(e.Counts))})
	}
	_, err := gguf.Write(w, kvs, tensors)
	return err
}

// WritePlain writes the older format, which has one count for each tensor: the
// values of experts are rescaled to a common count; experts without rows get 1.
func (m *Imatrix) WritePlain(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	var scratch []byte
	put := func(n int) { b.Write(binary.LittleEndian.AppendUint32(scratch[:0], uint32(int32(n)))) }
	put(len(m.Entries))
	size := float64(max(m.Size, 1))
	for _, name := range m.Names() {
		e := m.Entries[name]
		if err := e.check(name); err != nil {
			return fmt.Errorf("imatrix: %w", err)
		}
		most := float64(slices.Max(e.Counts))
		calls := math.Ceil(most / size)
		if calls == 0 || calls > math.MaxInt32 || len(e.Sums) > math.MaxInt32 {
			return fmt.Errorf("imatrix: entry %q: the older format cannot represent %v rows", name, most)
		}
		means, err := m.Means(name, len(e.Sums)/len(e.Counts), len(e.Counts))
		if err != nil {
			return err
		}
		for i := range means {
			means[i] *= float32(calls)
		}
		put(len(name))
		b.WriteString(name)
		put(int(calls))
		put(len(means))
		b.Write(bytesOf(means))
	}
	put(int(min(m.Chunks, math.MaxInt32)))
	var text string
	if len(m.Datasets) > 0 {
		text = m.Datasets[len(m.Datasets)-1]
	}
	put(len(text))
	b.WriteString(text)
	return b.Flush()
}

func bytesOf(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
