package onnxfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train/net"
)

// maxCount is the largest integer up to which float32 is exact for all
// integers.
const maxCount = 1 << 24

// Read copies weights from a model written by [Model] to n: those with the same
// name and shape, exactly or from float16. It returns the names of the tensors
// read; the others are unchanged. To undo the writer's transpositions, it
// writes a network of the same shape whose weights count from 0.
func Read(n *net.Net[float32], m *onnx.Model) ([]string, error) {
	places, err := counting(n)
	if err != nil {
		return nil, err
	}
	held := map[string]*onnx.Tensor{}
	m.EachTensor(func(t *onnx.Tensor) { held[t.Name] = t })
	var read []string
	for _, w := range n.Params().Tensors() {
		place := places[w.Name]
		t := held[w.Name]
		if t == nil {
			t = held[w.Name+half]
		}
		if place == nil || t == nil || !slices.Equal(t.Dims, place.dims) {
			continue
		}
		values, err := numbers(t)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		if len(values) != len(place.index) {
			return nil, fmt.Errorf("tensor %s: %d numbers, want %d", t.Name, len(values), len(place.index))
		}
		for i, at := range place.index {
			w.Data[at] = values[i]
		}
		read = append(read, w.Name)
	}
	return read, nil
}

// ReadFile copies weights from the ONNX file at path as [Read] does. It is an
// error if the file has none of them.
func ReadFile(n *net.Net[float32], path string) error {
	m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: onnx.CheckOptions{MinOpset: Opset, MaxOpset: Opset}, Open: onnx.FolderOpener(filepath.Dir(path), nil)})
	if err != nil {
		return err
	}
	read, err := Read(n, m)
	if err == nil && len(read) == 0 {
		err = errors.New("no tensor has a name and shape of the network")
	}
	if err = errors.Join(err, m.Close()); err != nil {
		return fmt.Errorf("initializing from %s: %w", path, err)
	}
	return nil
}

// where describes a weight in a file: its dimensions there and, for each
// number, its index in the network.
type where struct {
	dims  []int64
	index []int
}

// countable reports an error if float32 does not have all integers up to n.
func countable(n int) error {
	if n > maxCount {
		return fmt.Errorf("size %d, want at most %d", n, maxCount)
	}
	return nil
}

// counting writes a network like n whose weights are their indices.
func counting(n *net.Net[float32]) (map[string]*where, error) {
	like, err := net.New[float32](n.Config())
	if err != nil {
		return nil, err
	}
	for _, w := range like.Params().Tensors() {
		if err := countable(len(w.Data)); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", w.Name, err)
		}
		for i := range w.Data {
			w.Data[i] = float32(i)
		}
	}
	m, err := Model(like, Options{})
	if err != nil {
		return nil, err
	}
	all := map[string]*where{}
	m.EachTensor(func(t *onnx.Tensor) {
		if t.DType != onnx.FLOAT {
			return
		}
		values, fault := numbers(t)
		if fault != nil {
			err = fault
			return
		}
		index := make([]int, len(values))
		for i, v := range values {
			index[i] = int(v)
		}
		all[t.Name] = &where{t.Dims, index}
	})
	return all, err
}

// numbers returns the elements of a float tensor.
func numbers(t *onnx.Tensor) ([]float32, error) {
	raw, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	switch t.DType {
	case onnx.FLOAT:
		out := make([]float32, len(raw)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		return out, nil
	case onnx.FLOAT16:
		out := make([]float32, len(raw)/2)
		tensor.FromF16(out, raw)
		return out, nil
	}
	return nil, fmt.Errorf("type %s, want float32 or float16", t.DType)
}
