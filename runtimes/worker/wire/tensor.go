package wire

import (
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/runtimes"
)

// align is the alignment of tensors in a room: a cache line, sufficient for all vector
// instructions.
const align = 64

// Fit returns the bytes that tensors take in a room.
func Fit(in map[string]runtimes.Tensor) int64 {
	n := int64(0)
	for _, t := range in {
		n += up(int64(len(t.Data)))
	}
	return n
}

func up(n int64) int64 { return (n + align - 1) &^ (align - 1) }

// Tensors lays out tensors in the order of their names: from a position of the room
// while they fit, by calls of put, and the others in the payload, without copying.
func Tensors(in map[string]runtimes.Tensor, room *Room, from int64, put func(at int64, data []byte) error) (list []Tensor, payload [][]byte, err error) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t := in[name]
		to := Tensor{Name: name, Type: t.Type, Shape: t.Shape, Bytes: len(t.Data)}
		if n := up(int64(len(t.Data))); room != nil && n > 0 && n <= room.Size-from {
			to.Shared, to.At = true, from
			if err := put(from, t.Data); err != nil {
				return nil, nil, fmt.Errorf("tensor %s: %w", name, err)
			}
			from += n
		} else {
			payload = append(payload, t.Data)
		}
		list = append(list, to)
	}
	return list, payload, nil
}

// Unpacked returns the tensors laid out by Tensors. Data of the payload is aliased,
// with its capacity limited to each tensor; take returns bytes of the room, and is
// called only within its bounds and for at most its size in total.
func Unpacked(list []Tensor, payload []byte, room *Room, take func(at, n int64) ([]byte, error)) (map[string]runtimes.Tensor, error) {
	left := int64(0)
	if room != nil {
		left = room.Size
	}
	out := make(map[string]runtimes.Tensor, min(len(list), 1024))
	for _, t := range list {
		if _, twice := out[t.Name]; twice {
			return nil, fmt.Errorf("duplicate tensor %s", t.Name)
		}
		got := runtimes.Tensor{Type: t.Type, Shape: t.Shape}
		n := int64(t.Bytes)
		switch {
		case t.Shared:
			if room == nil || n < 0 || n > left || t.At < 0 || t.At > room.Size-n {
				return nil, fmt.Errorf("tensor %s: %d bytes at %d do not fit a room with %d left", t.Name, n, t.At, left)
			}
			left -= n
			var err error
			if got.Data, err = take(t.At, n); err != nil {
				return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
			}
		case n < 0 || n > int64(len(payload)):
			return nil, fmt.Errorf("tensor %s: bad size %d of %d bytes", t.Name, t.Bytes, len(payload))
		default:
			got.Data, payload = payload[:n:n], payload[n:]
		}
		if err := got.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		out[t.Name] = got
	}
	if len(payload) != 0 {
		return nil, fmt.Errorf("%d trailing bytes", len(payload))
	}
	return out, nil
}
