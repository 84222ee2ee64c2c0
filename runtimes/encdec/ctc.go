package encdec

import (
	"context"
	"fmt"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// collapsed computes the ids of a model without a decoder (CTC): the best of each step,
// without repetitions and without the id of no text.
func (w *writer) collapsed(ctx context.Context, in map[string]runtimes.Tensor) ([]int32, error) {
	start := time.Now()
	out, err := w.m.function.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	w.out.Encode += time.Since(start)
	t, ok := out[logits]
	if !ok || len(t.Shape) < 2 || t.Shape[len(t.Shape)-1] < int64(w.m.least) {
		return nil, fault(diag.LoopNumber, fmt.Sprintf("got scores of shape %v, want [steps, %d] at least", t.Shape, w.m.least), "")
	}
	scores, err := modality.Numbers(t)
	if err != nil {
		return nil, err
	}
	ids, err := collapse(scores, int(t.Shape[len(t.Shape)-1]), int32(*w.m.spec.Blank))
	if err != nil {
		return nil, err
	}
	if w.begun && len(ids) > 0 {
		if err := w.emit(" "); err != nil {
			return nil, err
		}
	}
	return ids, w.send(w.textOf(ids))
}

// collapse returns the best id of each row of n scores, once for equal neighbors and
// without blanks.
func collapse[T float32 | float64](scores []T, n int, blank int32) ([]int32, error) {
	var ids []int32
	last := blank
	for ; len(scores) >= n; scores = scores[n:] {
		best := int32(0)
		for i, v := range scores[:n] {
			if v != v {
				return nil, fault(diag.LoopNumber, fmt.Sprintf("the score of id %d is NaN", i), "")
			}
			if v > scores[best] {
				best = int32(i)
			}
		}
		if best != last && best != blank {
			ids = append(ids, best)
		}
		last = best
	}
	return ids, nil
}
