// Package imatrix reads and writes importance matrices: for each matrix of a
// model the sum of the squares of what each of its columns was multiplied with,
// over a text. Rounding weights by it spares those that matter.
//
// The files are those of llama.cpp's program of that name (tools/imatrix of
// 0.5), in both forms. The newer one is GGUF: general.type is "imatrix", and
// for each matrix there are the tensors NAME.in_sum2, columns × experts, and
// NAME.counts, 1 × experts, of F32. The older one, called .dat or .imatrix,
// holds little-endian i32 and f32:
//
//	n, then n entries: i32 length, name, i32 calls, i32 values, f32 values[]
//	i32 chunks, i32 length, name of the text (both may be missing)
//
// where a value divided by calls is the mean of the squares. [Read] tells the
// forms apart; what it gives has been checked: names are unique, numbers
// finite and not below zero.
package calibrated

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// The limits of what is read. Each is far above what real models need.
const (
	maxFile    = 1 << 30 // bytes
	maxEntries = 1 << 16
	maxName    = 1 << 10 // bytes
	maxExperts = 1 << 12
)

// Matrix is the importance of the columns of a model's matrices.
type Matrix struct {
	// Entries by the names of the weights, such as "blk.0.attn_q.weight".
	Entries map[string]Entry
	// Datasets are names of the texts.
	Datasets []string
	// Chunks is how many pieces of the text of Size tokens were read.
	Chunks, Size uint32
}

// Entry is what one tensor has seen.
type Entry struct {
	// Sums of squares, columns × experts.
	Sums []float32
	// Counts of rows, one for each expert.
	Counts []float32
}

// Names lists the tensors, sorted.
func (m *Matrix) Names() []string { return slices.Sorted(maps.Keys(m.Entries)) }

// Means gives the mean squares of the columns of a tensor that has experts
// matrices of cols columns, one after the other; 1 for experts that have seen
// nothing. It is nil where nothing is known of the tensor, and an error where
// it has another shape.
func (m *Matrix) Means(name string, cols, experts int) ([]float32, error) {
	e, ok := m.Entries[name]
	if !ok {
		return nil, nil
	}
	if len(e.Sums) != cols*experts {
		return nil, fmt.Errorf("the importance matrix has %d values for %s, which has %d columns", len(e.Sums), name, cols*experts)
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

// check holds an entry to what the package promises.
func (e Entry) check(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name of %d bytes: it must have 1 to %d", len(name), maxName)
	}
	if len(e.Counts) == 0 || len(e.Counts) > maxExperts || len(e.Sums) == 0 || len(e.Sums)%len(e.Counts) != 0 {
		return fmt.Errorf("entry %q has %d values and %d counts", name, len(e.Sums), len(e.Counts))
	}
	for i, v := range e.Sums {
		if !(v >= 0) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("entry %q holds %v at %d: sums of squares are numbers of at least 0", name, v, i)
		}
	}
	for i, v := range e.Counts {
		if !(v >= 0) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("entry %q has the count %v at %d: it must be a number of at least 0", name, v, i)
		}
	}
	return nil
}
