package adapter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// array is a tensor of an adapter, outermost dimension first.
type array struct {
	shape []int
	data  []float32
}

// parts collects the tensors of an adapter by matrix and suffix.
type parts map[string]map[string]array

func (p parts) add(name string, shape []int, data []float32) error {
	for _, suffix := range []string{suffixA, suffixB, suffixMagnitude} {
		base, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		if p[base] == nil {
			p[base] = make(map[string]array)
		}
		if _, twice := p[base][suffix]; twice {
			return fmt.Errorf("duplicate tensor %s", name)
		}
		p[base][suffix] = array{shape, data}
		return nil
	}
	return fmt.Errorf("tensor %s is not part of a LoRA adapter", name)
}

// dora reports whether there is a magnitude.
func (p parts) dora() bool {
	for _, of := range p {
		if _, ok := of[suffixMagnitude]; ok {
			return true
		}
	}
	return false
}

// join combines the parts into changes. scale returns the factor for a matrix
// and its rank.
func (p parts) join(scale func(name string, rank int) (float32, error)) (Adapter, error) {
	if len(p) == 0 {
		return nil, fmt.Errorf("adapter is empty")
	}
	out := make(Adapter)
	for _, base := range slices.Sorted(maps.Keys(p)) {
		a, hasA := p[base][suffixA]
		b, hasB := p[base][suffixB]
		if !hasA || !hasB {
			return nil, fmt.Errorf("%s: missing A or B", base)
		}
		if len(a.shape) != 2 || len(b.shape) != 2 || a.shape[0] != b.shape[1] {
			return nil, fmt.Errorf("%s: shape mismatch of A %v and B %v", base, a.shape, b.shape)
		}
		factor, err := scale(base, a.shape[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", base, err)
		}
		c := Change{
			Rank: a.shape[0], In: a.shape[1], Out: b.shape[0],
			A: a.data, B: b.data, Scale: factor, Magnitude: p[base][suffixMagnitude].data,
		}
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", base, err)
		}
		out[base] = c
	}
	return out, nil
}
