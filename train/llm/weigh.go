package llm

import (
	"fmt"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Weigh computes the factor of each sequence's loss in the gradient, given the
// sequences' losses in nats: the derivative of a loss that is a function of the
// sums alone, such as that of a pair of answers. It is called once per batch.
type Weigh func(nats, factors []float64)

// TrainWeighted runs the batch forward, calls weigh with the sum of the losses
// of each sequence, and runs it backward: the gradient is that of Σ
// factor·nats. If add is set, the weight gradients are added to those of the step's earlier batches,
// otherwise they replace them. The result is bit-identical for any number of
// threads.
func (p *Pass[F]) TrainWeighted(b Batch[F], weigh Weigh, add bool) error {
	if b.EmbedGrads != nil {
		return fmt.Errorf("weighted training has no gradients of injected rows")
	}
	if err := p.load(b); err != nil {
		return err
	}
	p.begin(add)
	each(p.pool, p.B, p.run.losses)
	if p.factors == nil {
		p.factors = make([]float64, p.B)
	}
	weigh(p.loss, p.factors)
	each(p.pool, p.B, p.run.weighted)
	each(p.pool, p.grads.Len(), p.run.columns)
	p.model.Reduce(p.spread)
	if p.lowest < 0 {
		p.embedGrads()
	}
	return nil
}

// Losses runs the batch forward only and stores the sum of the losses of each
// sequence, in nats, in nats.
func (p *Pass[F]) Losses(b Batch[F], nats []float64) error {
	if len(nats) != p.B {
		return fmt.Errorf("size mismatch: %d losses, want %d", len(nats), p.B)
	}
	_, err := p.Loss(b)
	copy(nats, p.loss)
	return err
}

// lossSequences runs sequences forward and replaces their logits by the
// gradient of their losses.
func (p *Pass[F]) lossSequences(thread, from, to int) {
	for s := from; s < to; s++ {
		lo, hi := s*p.T, (s+1)*p.T
		p.forward(&p.works[thread], lo, hi)
		p.loss[s] = p.differentiate(lo, hi)
	}
}

// differentiate computes the head and replaces the logits by the gradient of
// the loss, whose sum it returns.
func (p *Pass[F]) differentiate(lo, hi int) (sum float64) {
	for ; lo < hi; lo += nn.RowBlock {
		end := min(lo+nn.RowBlock, hi)
		p.head.Forward(lo, end, false) // final [T, C] → logits [T, V]
		for t := lo; t < end; t++ {
			logits, target := p.head.Y.Row(t), int(p.batch.Targets[t]) // [V]
			if p.batch.Best != nil && target >= 0 {
				p.batch.Best[t] = argmax(logits)
			}
			if target < 0 {
				clear(logits)
				continue
			}
			sum += float64(tensor.CrossEntropy(logits, target, 1))
		}
	}
	return sum
}

// weightedSequences runs sequences backward from the gradient of their losses,
// times their factors.
func (p *Pass[F]) weightedSequences(thread, from, to int) {
	for s := from; s < to; s++ {
		w, lo, hi, factor := &p.works[thread], s*p.T, (s+1)*p.T, F(p.factors[s])
		clear(p.spread[s])
		for t := lo; t < hi; t++ {
			if p.batch.Targets[t] >= 0 {
				tensor.ScaleBy(p.head.Y.Row(t), factor)
			}
		}
		for first := lo; first < hi; first += nn.RowBlock {
			end := min(first+nn.RowBlock, hi)
			p.head.Backward(w.dn.Part(first-lo, end-lo), first, end, true) // [T, V] → dn [T, C]
		}
		p.backward(w, p.spread[s], lo, hi)
	}
}
