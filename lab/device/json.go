package device

import (
	"encoding/json"
	"errors"
	"fmt"

	"mm-abi.org/mm/internal/fsx"
)

// object reads {"NAME": numbers, …}. If the document is not an object, ok is false.
func (r reader) object(path string) (set [][]float32, ok bool, err error) {
	data, err := fsx.ReadFile(path, maxBytes)
	if err != nil {
		return nil, false, err
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return nil, false, nil
	}
	for _, t := range r.graph.Inputs {
		raw, found := all[t.Name]
		if !found {
			return nil, true, fmt.Errorf("missing input %q, the graph has %s", t.Name, r.names())
		}
		v, err := flat(raw)
		if err != nil {
			return nil, true, fmt.Errorf("%q: %w", t.Name, err)
		}
		one, err := fitted(t, v)
		if err != nil {
			return nil, true, err
		}
		set = append(set, one)
		delete(all, t.Name)
	}
	for name := range all {
		return nil, true, fmt.Errorf("unknown input %q, the graph has %s", name, r.names())
	}
	return set, true, nil
}

// numbers reads a list of numbers, or nested lists.
func numbers(path string) ([]float64, error) {
	data, err := fsx.ReadFile(path, maxBytes)
	if err != nil {
		return nil, err
	}
	return flat(data)
}

// flat returns the numbers of nested lists, row by row. Lists of the same depth must have
// the same length.
func flat(data []byte) ([]float64, error) {
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	var out []float64
	var lengths []int // by depth, -1 for a number
	var walk func(v any, depth int) error
	walk = func(v any, depth int) error {
		length := -1
		list, ok := v.([]any)
		if ok {
			length = len(list)
		}
		if depth == len(lengths) {
			lengths = append(lengths, length)
		}
		if lengths[depth] != length {
			return errors.New("lists of one depth differ in length")
		}
		for _, x := range list {
			if err := walk(x, depth+1); err != nil {
				return err
			}
		}
		if x, number := v.(float64); number {
			out = append(out, x)
		} else if !ok {
			return fmt.Errorf("%v is not a number", v)
		}
		return nil
	}
	return out, walk(tree, 0)
}
