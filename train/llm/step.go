package llm

import (
	"fmt"

	"mm-abi.org/mm/train/nn"
)

// Count returns the number of positions with a target.
func Count(targets []int32) int {
	n := 0
	for _, t := range targets {
		if t >= 0 {
			n++
		}
	}
	return n
}

// Train runs the batch forward and backward and returns the sum of the losses
// in nats over the positions with a target. scale multiplies the loss in the
// gradients: 1/n for a mean over n positions, counted over all batches of a
// step. If add is set, the weight gradients are added to those of the step's
// earlier batches, otherwise they replace them. The result is bit-identical for
// any number of threads.
func (p *Pass[F]) Train(b Batch[F], scale float64, add bool) (float64, error) {
	if err := p.load(b); err != nil {
		return 0, err
	}
	p.scale = F(scale)
	p.begin(add)
	lowest := p.lowest
	if b.EmbedGrads != nil {
		p.lowest = -1
	}
	each(p.pool, p.B, p.run.train)
	each(p.pool, p.grads.Len(), p.run.columns)
	p.model.Reduce(p.spread)
	if p.lowest < 0 {
		p.embedGrads()
	}
	p.lowest = lowest
	return p.sum(), nil
}

// begin prepares the gradients of a batch, which are added to those of earlier
// batches if add is set.
func (p *Pass[F]) begin(add bool) {
	p.add = add
	if add {
		return
	}
	p.model.ClearVectors()
	if !p.model.Config.Tied {
		clear(p.model.embed.Grad) // otherwise the head's product replaces it
	}
}

// Loss runs the batch forward only and returns the sum of the losses in nats.
func (p *Pass[F]) Loss(b Batch[F]) (float64, error) {
	if err := p.load(b); err != nil {
		return 0, err
	}
	each(p.pool, p.B, p.run.eval)
	return p.sum(), nil
}

// sum adds the sequences' losses in order.
func (p *Pass[F]) sum() float64 {
	var s float64
	for _, l := range p.loss {
		s += l
	}
	return s
}

// load checks and stores the batch, which comes from files.
func (p *Pass[F]) load(b Batch[F]) error {
	n, c := p.B*p.T, p.model.Config
	if len(b.Tokens) != n || len(b.Targets) != n || b.Starts != nil && len(b.Starts) != n {
		return fmt.Errorf("batch size mismatch: %d tokens, %d targets, %d starts for %d×%d positions", len(b.Tokens), len(b.Targets), len(b.Starts), p.B, p.T)
	}
	for i := range n {
		if t := b.Tokens[i]; t < 0 || int(t) >= c.Vocab {
			return fmt.Errorf("token %d at position %d out of range, vocabulary size is %d", t, i, c.Vocab)
		}
		if t := b.Targets[i]; int(t) >= c.Vocab {
			return fmt.Errorf("target %d at position %d out of range, vocabulary size is %d", t, i, c.Vocab)
		}
		if b.Starts == nil {
			continue
		}
		if s := int(b.Starts[i]); s < 0 || s > i%p.T || i%p.T > 0 && b.Starts[i] < b.Starts[i-1] {
			return fmt.Errorf("invalid document start %d at position %d of its sequence", s, i%p.T)
		}
	}
	if len(b.Embeds) != len(b.Rows)*c.Dim || b.EmbedGrads != nil && len(b.EmbedGrads) != len(b.Embeds) {
		return fmt.Errorf("%d injected rows with %d embedding and %d gradient elements, want %d each", len(b.Rows), len(b.Embeds), len(b.EmbedGrads), len(b.Rows)*c.Dim)
	}
	if b.Best != nil && len(b.Best) != n {
		return fmt.Errorf("size mismatch: %d likeliest tokens, %d positions", len(b.Best), n)
	}
	fill32(p.entry, -1)
	for i, row := range b.Rows {
		if row < 0 || int(row) >= n || p.entry[row] >= 0 {
			return fmt.Errorf("injected row %d is out of range or a duplicate", row)
		}
		p.entry[row] = int32(i)
	}
	p.batch = b
	return nil
}

func fill32(x []int32, v int32) {
	for i := range x {
		x[i] = v
	}
}

// start returns the index in the sequence at lo at which t's document begins.
func (p *Pass[F]) start(lo, t int) int {
	if p.batch.Starts == nil {
		return 0
	}
	return int(p.batch.Starts[lo+t])
}

// trainSequences is the first half of a step for some sequences, which are
// independent of each other.
func (p *Pass[F]) trainSequences(thread, from, to int) {
	for s := from; s < to; s++ {
		w, lo, hi := &p.works[thread], s*p.T, (s+1)*p.T
		clear(p.spread[s])
		p.forward(w, lo, hi)
		p.loss[s] = p.predict(w.dn, lo, hi)
		p.backward(w, p.spread[s], lo, hi)
	}
}

func (p *Pass[F]) evalSequences(thread, from, to int) {
	for s := from; s < to; s++ {
		lo, hi := s*p.T, (s+1)*p.T
		p.forward(&p.works[thread], lo, hi)
		p.loss[s] = p.predict(nn.Matrix[F]{}, lo, hi)
	}
}

func (p *Pass[F]) stateSequences(thread, from, to int) {
	for s := from; s < to; s++ {
		p.forward(&p.works[thread], s*p.T, (s+1)*p.T)
	}
}

// gradColumns is the second half of a step: panels of weight gradients.
func (p *Pass[F]) gradColumns(thread, from, to int) {
	p.grads.Compute(p.works[thread].panel, from, to, p.add)
}

// States runs the first n sequences of the tokens [B·T] forward and returns the
// output of the last norm, [B·T, C], the input of the head. It is valid until
// the next pass.
func (p *Pass[F]) States(tokens []int32, n int) (nn.Matrix[F], error) {
	if n < 0 || n > p.B {
		return nn.Matrix[F]{}, fmt.Errorf("states of %d sequences, want 0 to %d", n, p.B)
	}
	if err := p.load(Batch[F]{Tokens: tokens, Targets: make([]int32, len(tokens))}); err != nil {
		return nn.Matrix[F]{}, err
	}
	each(p.pool, n, p.run.states)
	return p.final, nil
}
