package modal

import (
	"math"

	"mm-abi.org/mm/train/nn"
)

// sigmoid is the loss of contrast, at the constants with which SigLIP begins.
var sigmoid = nn.SigLIP{Scale: math.Log(10), Bias: -10}

// contrast adds the gradients of the sigmoid loss between the inputs of a batch and
// their captions: the mean of an input's vectors, and the mean of the core's
// embeddings of the caption. Inputs with equal captions are pairs.
func (p *Perception) contrast(items []item, rows, C int, row func(r int) []float32, grads []float32, weight float64) (loss float64) {
	var of []int // items
	for i, it := range items {
		if it.caption != "" {
			of = append(of, i)
		}
	}
	if len(of) == 0 {
		return 0
	}
	seen, read := nn.Vectors{Data: make([]float32, len(of)*C), C: C}, nn.Vectors{C: C}
	for k, i := range of {
		mean := seen.Data[k*C : (k+1)*C]
		for r := range rows {
			for c, v := range row(i*rows + r) {
				mean[c] += v / float32(rows)
			}
		}
		read.Data = append(read.Data, p.embed(items[i].caption)...)
	}
	g := nn.SigLIPGradients{X: make([]float32, len(seen.Data))}
	same := func(i, j int) bool { return items[of[i]].caption == items[of[j]].caption }
	loss = sigmoid.Loss(seen, read, same, weight*float64(len(of)), &g)
	for k, i := range of {
		for r := range rows {
			at := grads[(i*rows+r)*C : (i*rows+r+1)*C]
			for c, d := range g.X[k*C : (k+1)*C] {
				at[c] += d / float32(rows)
			}
		}
	}
	return loss * float64(len(of))
}
