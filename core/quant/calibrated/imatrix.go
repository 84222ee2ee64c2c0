package calibrated

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Limits on a file. Each is far above what real models need.
const (
	maxFile    = 1 << 30 // bytes
	maxEntries = 1 << 16
	maxName    = 1 << 10 // bytes
	maxExperts = 1 << 12
)

// Imatrix is an importance matrix: for each matrix of a model, the sum of the
// squares of the values that each of its columns was multiplied with over a
// text.
type Imatrix struct {
	// Entries by the names of the weights, such as "blk.0.attn_q.weight".
	Entries map[string]Entry
	// Datasets are the names of the texts.
	Datasets []string
	// Chunks is the number of chunks of Size tokens that were read.
	Chunks, Size uint32
}

// Entry holds the statistics of one tensor.
type Entry struct {
	// Sums of squares, columns × experts.
	Sums []float32
	// Counts of rows, one for each expert.
	Counts []float32
}

// Names returns the sorted names of the tensors.
func (m *Imatrix) Names() []string { return slices.Sorted(maps.Keys(m.Entries)) }

// Means returns the mean squares of the columns of a tensor of experts matrices
// with cols columns each, one matrix after the other; 1 for experts without
// rows. It returns nil if the tensor has no entry, and an error if the entry
// has a different shape.
func (m *Imatrix) Means(name string, cols, experts int) ([]float32, error) {
	e, ok := m.Entries[name]
	if !ok {
		return nil, nil
	}
	if len(e.Sums) != cols*experts {
		return nil, fmt.Errorf("importance matrix of %s: got %d values, want %d", name, len(e.Sums), cols*experts)
	}
	per := len(e.Sums) / len(e.Counts)
	means := make([]float32, len(e.Sums))
	for i, v := range e.Sums {
		means[i] = 1
		if n := e.Counts[i/per]; n > 0 {
			means[i] = v / n
		}
	}
	return means, nil
}

// check verifies the invariants that Read documents.
func (e Entry) check(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("entry name: got %d bytes, want 1 to %d", len(name), maxName)
	}
	if len(e.Counts) == 0 || len(e.Counts) > maxExperts || len(e.Sums) == 0 || len(e.Sums)%len(e.Counts) != 0 {
		return fmt.Errorf("entry %q: %d values for %d counts", name, len(e.Sums), len(e.Counts))
	}
	for i, v := range e.Sums {
		if !(v >= 0) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("entry %q: bad sum of squares %v at %d", name, v, i)
		}
	}
	for i, v := range e.Counts {
		if !(v >= 0) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("entry %q: bad count %v at %d", name, v, i)
		}
	}
	return nil
}
