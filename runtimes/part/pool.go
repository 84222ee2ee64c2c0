package part

import "fmt"

// Mean returns the elementwise mean of lists of vectors, such as those of the
// frames of a video.
func Mean(lists [][]float32) ([]float32, error) {
	if len(lists) == 0 {
		return nil, fmt.Errorf("mean of an empty list")
	}
	sum := make([]float64, len(lists[0]))
	for i, list := range lists {
		if len(list) != len(sum) {
			return nil, fmt.Errorf("frame %d: got %d numbers, want %d as in the first", i, len(list), len(sum))
		}
		for j, v := range list {
			sum[j] += float64(v)
		}
	}
	out := make([]float32, len(sum))
	for j, v := range sum {
		out[j] = float32(v / float64(len(lists)))
	}
	return out, nil
}

// Halves returns the mean of the first half of lists of vectors, followed by the
// mean of the second half, which includes the middle one. It keeps that much of the
// order of a video's frames. A single list is both halves.
func Halves(lists [][]float32) ([]float32, error) {
	if len(lists) == 1 {
		lists = [][]float32{lists[0], lists[0]}
	}
	first, err := Mean(lists[:len(lists)/2])
	if err != nil {
		return nil, err
	}
	second, err := Mean(lists[len(lists)/2:])
	if err == nil && len(first) != len(second) {
		err = fmt.Errorf("length mismatch of the halves: %d and %d numbers", len(first), len(second))
	}
	return append(first, second...), err
}

// Pool reduces n vectors to limit by adaptive averaging over their order (MM-ABI
// 1.0 §2.2): vector i is the mean of those from ⌊i·n/limit⌋ up to but excluding
// ⌈(i+1)·n/limit⌉. At most limit vectors are returned unchanged.
func Pool(x []float32, width, limit int) []float32 {
	n := len(x) / width
	if n <= limit {
		return x
	}
	out := make([]float32, 0, limit*width)
	sum := make([]float64, width)
	for i := range limit {
		from, to := i*n/limit, ((i+1)*n+limit-1)/limit
		clear(sum)
		for j, v := range x[from*width : to*width] {
			sum[j%width] += float64(v)
		}
		for _, v := range sum {
			out = append(out, float32(v/float64(to-from)))
		}
	}
	return out
}
