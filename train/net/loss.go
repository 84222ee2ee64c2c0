// Losses. Each function returns a sum of losses and sets dy, the gradient with
// respect to the output y, multiplied by scale.

package net

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// CrossEntropy returns the sum of -log softmax(y)[target] in nats over the rows
// of y [T, V] with a target. A negative target means none. It sets dy [T, V]
// and panics if a target is out of range.
func CrossEntropy[F tensor.Float](y, dy nn.Matrix[F], targets []int32, scale F) float64 {
	same(y, dy)
	if len(targets) != y.Rows {
		panic(fmt.Sprintf("net: %d targets for %d rows", len(targets), y.Rows))
	}
	sum := 0.0
	for t, target := range targets {
		if target < 0 {
			clear(dy.Row(t))
			continue
		}
		copy(dy.Row(t), y.Row(t))
		sum += float64(tensor.CrossEntropy(dy.Row(t), int(target), scale))
	}
	return sum
}

func same[F tensor.Float](all ...nn.Matrix[F]) {
	for _, m := range all[1:] {
		if m.Rows != all[0].Rows || m.Cols != all[0].Cols {
			panic(fmt.Sprintf("net: shape mismatch: [%d, %d] and [%d, %d]", m.Rows, m.Cols, all[0].Rows, all[0].Cols))
		}
	}
}

// Distance is the loss of one element's error.
type Distance string

// The distances.
const (
	L1    Distance = "l1"    // |e|
	L2    Distance = "l2"    // e²/2
	Huber Distance = "huber" // e²/2 if |e| ≤ 1, otherwise |e| - 1/2 (Huber, 1964)
)

// Regression returns the sum of the distances of the elements of y from target
// and sets dy. All are [T, C]. It panics if d is unknown.
func Regression[F tensor.Float](d Distance, y, target, dy nn.Matrix[F], scale F) float64 {
	same(y, target, dy)
	sum := 0.0
	for t := range y.Rows {
		to, slope := target.Row(t), dy.Row(t)
		for i, v := range y.Row(t) {
			e := float64(v) - float64(to[i])
			value, g := d.at(e)
			sum += value
			slope[i] = scale * F(g)
		}
	}
	return sum
}

// at returns the distance of an error e and its slope.
func (d Distance) at(e float64) (value, slope float64) {
	switch d {
	case L2:
		return e * e / 2, e
	case L1:
		return math.Abs(e), sign(e)
	case Huber:
		if math.Abs(e) <= 1 {
			return e * e / 2, e
		}
		return math.Abs(e) - 0.5, sign(e)
	}
	panic("net: unknown distance " + string(d))
}

func sign(e float64) float64 {
	switch {
	case e > 0:
		return 1
	case e < 0:
		return -1
	}
	return e
}
