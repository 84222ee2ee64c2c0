package infer

import (
	"math"
	"slices"

	"mm-abi.org/mm/core/tensor"
)

// routeGroups chooses the experts of row t by scores, σ or softmax of the
// router's products, with the layer's bias, from the best groups (DeepSeek-V3,
// arXiv 2412.19437). Their weights are the scores without the bias.
func (w *work) routeGroups(t int, y *layer, logits []float32) {
	c := &w.m.cfg
	if c.ExpertSigmoid {
		for e, v := range logits {
			logits[e] = float32(1 / (1 + math.Exp(-float64(v))))
		}
	} else {
		tensor.Scale(logits, 1/tensor.ExpSum(logits, logits, tensor.Max(logits)))
	}
	w.scores = append(w.scores[:0], logits...)
	if y.routerBias != nil {
		tensor.Add(w.scores, y.routerBias)
	}
	w.dropGroups()
	sum := float32(0)
	if c.ExpertSigmoid {
		sum = 1e-20
	}
	w.picks = w.picks[:0]
	for range c.ExpertsUsed {
		best := bestOf(w.scores)
		if best < 0 {
			break
		}
		w.scores[best] = float32(math.Inf(-1))
		w.picks = append(w.picks, best)
		w.chosen[best] = append(w.chosen[best], choice{t, logits[best]})
		sum += logits[best]
	}
	if c.ExpertSum {
		sum = 1
	}
	w.weighExperts(sum)
}

// bestOf returns the index of the largest finite score, the first of several, or
// -1.
func bestOf(scores []float32) int {
	best := -1
	for e, v := range scores {
		if v > float32(math.Inf(-1)) && (best < 0 || v > scores[best]) {
			best = e
		}
	}
	return best
}

// dropGroups sets the scores of experts outside of the best groups to -Inf.
func (w *work) dropGroups() {
	c := &w.m.cfg
	if c.ExpertGroups <= 1 {
		return
	}
	size := c.Experts / c.ExpertGroups
	w.bests = w.bests[:0]
	for group := range slices.Chunk(w.scores, size) {
		first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
		for _, v := range group {
			switch {
			case v > first:
				first, second = v, first
			case v > second:
				second = v
			}
		}
		if c.ExpertSigmoid && size > 1 {
			first += second
		}
		w.bests = append(w.bests, first)
	}
	kept := make([]bool, c.ExpertGroups)
	for range c.GroupsUsed {
		if best := bestOf(w.bests); best >= 0 {
			kept[best], w.bests[best] = true, float32(math.Inf(-1))
		}
	}
	for e := range w.scores {
		if !kept[e/size] {
			w.scores[e] = float32(math.Inf(-1))
		}
	}
}
