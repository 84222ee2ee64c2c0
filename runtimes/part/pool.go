package part

import "fmt"

// Mean is the mean of several lists of vectors, number by number: what stands
// for a film whose frames came to as many vectors each.
func Mean(lists [][]float32) ([]float32, error) {
	if len(lists) == 0 {
		return nil, fmt.Errorf("the mean of nothing")
	}
	sum := make([]float64, len(lists[0]))
	for i, list := range lists {
		if len(list) != len(sum) {
			return nil, fmt.Errorf("frame %d comes to %d numbers, the first one to %d", i, len(list), len(sum))
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

// Halves is the mean of the first half of several lists of vectors, and behind it
// that of the second, which has the one in the middle: a film's order is kept by
// as much. One list stands for both.
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
		err = fmt.Errorf("the first half comes to %d numbers, the second to %d", len(first), len(second))
	}
	return append(first, second...), err
}

// Pool makes at most limit vectors of more by adaptive averaging over their
// order (MM-ABI 1.0 §2.2): of n, vector i of the limit is the mean of those from
// ⌊i·n/limit⌋ to before ⌈(i+1)·n/limit⌉. As many or fewer stay as they are.
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
