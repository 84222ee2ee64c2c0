package loss

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// CTC is connectionist temporal classification (Graves et al., 2006): -log of
// the probability that the rows of y [T, V], as logits, spell labels, summed over
// all ways to place them in order among blanks and repetitions, in nats; dy
// [T, V] is set. Where T rows cannot hold the labels, which takes one row each
// and one more between equal neighbours, it is +Inf and dy zero. It panics where
// a label or the blank lies outside, or a label is the blank.
func CTC[F tensor.Float](y, dy nn.Matrix[F], labels []int32, blank int, scale F) float64 {
	same(y, dy)
	for _, l := range append([]int32{int32(blank)}, labels...) {
		if l < 0 || int(l) >= y.Cols {
			panic(fmt.Sprintf("loss: label %d of %d", l, y.Cols))
		}
	}
	c := newAlignments(y, labels, blank)
	total := c.forward()
	if math.IsInf(total, -1) {
		dy.Zero()
		return math.Inf(1)
	}
	c.backward()
	share := make([]float64, y.Cols)
	for t := range y.Rows {
		clear(share)
		for s, label := range c.states {
			if l := c.ahead[t][s] + c.behind[t][s] - total; l > math.Inf(-1) {
				share[label] += math.Exp(l)
			}
		}
		for k, p := range share {
			dy.Row(t)[k] = scale * F(math.Exp(c.log[t][k])-p)
		}
	}
	return -total
}

// alignments are the ways to spell labels: states are the labels with blanks
// around them.
type alignments struct {
	states        []int
	blank         int
	log           [][]float64 // [T][V]: logarithms of the probabilities
	ahead, behind [][]float64 // [T][states]: of all ways to a state at a row, with it, and from it on, without it
}

func newAlignments[F tensor.Float](y nn.Matrix[F], labels []int32, blank int) *alignments {
	c := &alignments{blank: blank, states: []int{blank}}
	for _, l := range labels {
		if int(l) == blank {
			panic("loss: a label is the blank")
		}
		c.states = append(c.states, int(l), blank)
	}
	for t := range y.Rows {
		c.log = append(c.log, logSoftmax(y.Row(t)))
		c.ahead = append(c.ahead, impossible(len(c.states)))
		c.behind = append(c.behind, impossible(len(c.states)))
	}
	return c
}

func impossible(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Inf(-1)
	}
	return x
}

func logSoftmax[F tensor.Float](x []F) []float64 {
	out, most, sum := make([]float64, len(x)), math.Inf(-1), 0.0
	for _, v := range x {
		most = max(most, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	for i, v := range x {
		out[i] = float64(v) - most - math.Log(sum)
	}
	return out
}

// from is the first state that may lie before s: two back where that is another
// label, so that the blank between may be left out.
func (c *alignments) from(s int) int {
	if s >= 2 && c.states[s] != c.blank && c.states[s] != c.states[s-2] {
		return s - 2
	}
	return max(s-1, 0)
}

// forward gives the logarithm of the probability of all ways.
func (c *alignments) forward() float64 {
	last := len(c.states) - 1
	for t, log := range c.log {
		for s, label := range c.states {
			before := math.Inf(-1)
			switch {
			case t == 0 && s <= 1:
				before = 0
			case t > 0:
				for i := c.from(s); i <= s; i++ {
					before = addLog(before, c.ahead[t-1][i])
				}
			}
			c.ahead[t][s] = before + log[label]
		}
	}
	end := c.ahead[len(c.log)-1]
	if last == 0 {
		return end[0]
	}
	return addLog(end[last], end[last-1])
}

func (c *alignments) backward() {
	last, T := len(c.states)-1, len(c.log)
	for s := max(last-1, 0); s <= last; s++ {
		c.behind[T-1][s] = 0
	}
	for t := T - 2; t >= 0; t-- {
		for s, label := range c.states {
			ways := c.behind[t+1][s] + c.log[t+1][label]
			for i := c.from(s); i <= s; i++ {
				c.behind[t][i] = addLog(c.behind[t][i], ways)
			}
		}
	}
}

// addLog is log(eᵃ + eᵇ).
func addLog(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// Greedy reads the likeliest label of every row of y [T, V], repetitions taken
// as one and blanks left out.
func Greedy[F tensor.Float](y nn.Matrix[F], blank int) []int32 {
	var out []int32
	before := blank
	for t := range y.Rows {
		best := 0
		for k, v := range y.Row(t) {
			if v > y.Row(t)[best] {
				best = k
			}
		}
		if best != before && best != blank {
			out = append(out, int32(best))
		}
		before = best
	}
	return out
}
