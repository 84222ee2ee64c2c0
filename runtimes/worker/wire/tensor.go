package wire

import (
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/runtimes"
)

// Tensors lays out tensors as a payload, by name; nothing is copied.
func Tensors(in map[string]runtimes.Tensor) (list []Tensor, payload [][]byte) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t := in[name]
		list = append(list, Tensor{name, t.Type, t.Shape, len(t.Data)})
		payload = append(payload, t.Data)
	}
	return list, payload
}

// Unpacked is what Tensors laid out; the data aliases the payload, each tensor
// with room for itself only.
func Unpacked(list []Tensor, payload []byte) (map[string]runtimes.Tensor, error) {
	out := make(map[string]runtimes.Tensor, min(len(list), 1024))
	for _, t := range list {
		if t.Bytes < 0 || t.Bytes > len(payload) {
			return nil, fmt.Errorf("tensor %s has %d bytes of %d", t.Name, t.Bytes, len(payload))
		}
		if _, twice := out[t.Name]; twice {
			return nil, fmt.Errorf("tensor %s comes twice", t.Name)
		}
		got := runtimes.Tensor{Type: t.Type, Shape: t.Shape, Data: payload[:t.Bytes:t.Bytes]}
		if err := got.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		out[t.Name], payload = got, payload[t.Bytes:]
	}
	if len(payload) != 0 {
		return nil, fmt.Errorf("%d bytes that belong to no tensor", len(payload))
	}
	return out, nil
}
