package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// moved writes a float model near the Q4_1 model at from: each weight is anywhere within
// its rounding step. The loss of a single file depends on the luck of rounding as well as
// on the method; many models separate the two. Also, the weights of a published Q4_1 model
// are on a grid of sixteen values and interact with other grids as trained weights would
// not.
func moved(from, to string, seed uint64) error {
	f, err := gguf.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	var kvs []gguf.KV
	for _, kv := range f.KVs {
		if kv.Key != gguf.KeyFileType && kv.Key != gguf.KeyQuantizationVersion {
			kvs = append(kvs, kv)
		}
	}
	var sources []gguf.Source
	for i, t := range f.Tensors {
		sources = append(sources, gguf.Source{Name: t.Name, Type: tensor.F32, Dims: t.Dims, Data: &mover{f, t, rand.New(rand.NewPCG(seed, uint64(i)))}})
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = gguf.Write(out, kvs, sources)
	return errors.Join(err, out.Close())
}

type mover struct {
	file   *gguf.File
	tensor gguf.Tensor
	rng    *rand.Rand
}

// WriteTo writes the tensor with moved weights.
func (m *mover) WriteTo(w io.Writer) (int64, error) {
	t := m.tensor
	src := m.file.Section(t)
	in, x, out := make([]byte, t.Type.RowBytes(t.Dims[0])), make([]float32, t.Dims[0]), make([]byte, 4*t.Dims[0])
	written := int64(0)
	for range t.Rows() {
		if _, err := io.ReadFull(src, in); err != nil {
			return written, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		quant.Dequantize(x, in, t.Type)
		if t.Type == tensor.Q4_1 {
			for i := range x {
				step := tensor.F16ToF32(binary.LittleEndian.Uint16(in[i/32*20:]))
				x[i] += step * (m.rng.Float32() - 0.5)
			}
		}
		quant.Quantize(out, x, tensor.F32)
		n, err := w.Write(out)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
