package modal

import (
	"errors"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/nn"
)

// Batches implements [train.Task].
func (p *Perception) Batches(k int) (terms int, err error) {
	for len(p.batches) < k {
		p.batches = append(p.batches, newBatch(p.recipe.BatchSize, p.recipe.SeqLen))
	}
	n := p.recipe.BatchSize
	made, waits := make([]made, k*n), p.waits()
	for i := range made {
		made[i].r = nn.NewRandom(nn.Mix(p.recipe.Seed, uint64(p.next+i)))
		made[i].i, made[i].unseen = p.next+i, waits
		if made[i].supply = p.train.draw(made[i].r); made[i].supply == documents {
			made[i].document, made[i].done = p.document(), true
		}
	}
	p.next += len(made)
	var mu sync.Mutex
	p.pool.For(len(made), 1, pool.Func(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			if e := p.make(&made[i]); e != nil {
				mu.Lock()
				err = errors.Join(err, e)
				mu.Unlock()
			}
		}
	}))
	if err != nil {
		return 0, err
	}
	for b, to := range p.batches[:k] {
		to.blank = waits
		terms += p.fill(to, made[b*n:(b+1)*n])
	}
	return terms, nil
}

// waits reports whether the coming step is one that encoders and projectors wait
// for.
func (p *Perception) waits() bool {
	return p.next < p.recipe.Wait*p.recipe.BatchSize*p.recipe.Accumulate
}

// made is an example on its way into a batch.
type made struct {
	r      *nn.Random
	i      int
	supply int
	document
	item
	modality Medium // "" of a document without media
	done     bool
	unseen   bool // no encoder takes it
}

// make draws example i.
func (p *Perception) make(m *made) error {
	if m.done {
		return nil
	}
	e, key := p.train.at(m.supply, m.i)
	e.Modality = medium(e)
	m.modality, m.key = e.Modality, key
	s := p.sense(eye(e.Modality))
	var err error
	if m.document, err = p.layout.draw(e, p.recipe.Data, m.r); err != nil {
		return err
	}
	if p.recipe.Data.Words > 0 && e.Modality != Video {
		m.words = p.words.targets(e)
	}
	if m.unseen || s.known(m.key) {
		return nil
	}
	if e.Modality == Video {
		m.item, err = s.film(e.Frames)
		m.key = -1
		return err
	}
	it, err := s.item(e)
	m.data, m.tensor = it.data, it.tensor
	return err
}

func (p *Perception) sense(m Medium) *sense {
	for _, s := range p.senses {
		if s.modality == m {
			return s
		}
	}
	return nil
}

// fill puts examples into a batch and counts what is asked.
func (p *Perception) fill(b *batch, all []made) (terms int) {
	clear(b.items)
	for row := range all {
		m := &all[row]
		b.docs[row] = m.document
		if m.modality != "" {
			m.row, m.as = row, m.modality
			b.items[m.modality] = append(b.items[m.modality], m.item)
		}
	}
	return b.put(p.recipe.SeqLen, p.layout.eos)
}

// look gives the batch the vectors of its items.
func (p *Perception) look(b *batch) error {
	films, err := p.films(b)
	if err != nil {
		return err
	}
	b.Embeds, b.Rows = b.Embeds[:0], b.Rows[:0]
	for _, s := range p.senses {
		items := b.items[s.modality]
		if len(items) == 0 {
			continue
		}
		if !b.blank {
			if err := s.look(p.ctx, items); err != nil {
				return err
			}
		}
		for i, it := range items {
			if b.blank {
				b.Embeds = append(b.Embeds, make([]float32, s.proj.rows()*s.proj.cols())...)
			} else {
				b.Embeds = s.proj.result(b.Embeds, i)
			}
			p.place(b, it)
		}
	}
	b.Embeds = append(b.Embeds, films...)
	for _, it := range b.items[Video] {
		p.place(b, it)
	}
	return nil
}

// place appends the positions of an item's vectors.
func (p *Perception) place(b *batch, it item) {
	first := it.row*p.recipe.SeqLen + b.docs[it.row].first
	for v := range p.layout.places[it.as] {
		b.Rows = append(b.Rows, int32(first+v))
	}
}
