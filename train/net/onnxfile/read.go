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
	"mm-abi.org/mm/onnx/admit"
	"mm-abi.org/mm/train/net"
)

// maxCount is the largest whole number up to which float32 has all.
const maxCount = 1 << 24

// Read takes over the weights that a model which [Model] wrote has of n: those of
// the same name and shape, exact, or as their float16 tells them. It returns the
// names of the tensors that were read; the others stay as they are. Where the
// writer turns a matrix, a net of the same shape whose weights count from 0 tells
// where each number went.
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
			return nil, fmt.Errorf("reading %s: %w", t.Name, err)
		}
		if len(values) != len(place.index) {
			return nil, fmt.Errorf("reading %s: %d numbers, its shape wants %d", t.Name, len(values), len(place.index))
		}
		for i, at := range place.index {
			w.Data[at] = values[i]
		}
		read = append(read, w.Name)
	}
	return read, nil
}

// ReadFile takes over the weights of the ONNX file at path as [Read] does. That it
// has none of n is an error.
func ReadFile(n *net.Net[float32], path string) error {
	m, err := admit.File(path, admit.Options{CheckOptions: onnx.CheckOptions{MinOpset: Opset, MaxOpset: Opset}, Open: admit.Folder(filepath.Dir(path), nil)})
	if err != nil {
		return err
	}
	read, err := Read(n, m)
	if err == nil && len(read) == 0 {
		err = errors.New("no tensor of it has a name and a shape of the network's: it was not exported of one like it")
	}
	if err = errors.Join(err, m.Close()); err != nil {
		return fmt.Errorf("beginning with %s: %w", path, err)
	}
	return nil
}

// where is how a weight lies in a file: its dimensions there, and for each number
// its index in the network.
type where struct {
	dims  []int64
	index []int
}

// counting writes a net like n whose weights are their own indices.
func counting(n *net.Net[float32]) (map[string]*where, error) {
	like, err := net.New[float32](n.Config())
	if err != nil {
		return nil, err
	}
	for _, w := range like.Params().Tensors() {
		if len(w.Data) > maxCount {
			return nil, fmt.Errorf("%s has %d numbers, of which %d can be counted", w.Name, len(w.Data), maxCount)
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

// numbers are the elements of a tensor of floats.
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
	return nil, fmt.Errorf("it is of %s: weights are float32 or float16", t.DType)
}
