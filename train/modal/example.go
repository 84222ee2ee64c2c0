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
	entries, waits := make([]entry, k*n), p.waits()
	for i := range entries {
		entries[i].r = nn.NewRandom(nn.Mix(p.recipe.Seed, uint64(p.next+i)))
		entries[i].i, entries[i].unseen = p.next+i, waits
		if entries[i].supply = p.train.draw(entries[i].r); entries[i].supply == documents {
			entries[i].document, entries[i].done = p.document(), true
		}
	}
	p.next += len(entries)
	var mu sync.Mutex
	p.pool.For(len(entries), 1, pool.Func(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			if e := p.make(&entries[i]); e != nil {
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
		terms += p.fill(to, entries[b*n:(b+1)*n])
	}
	return terms, nil
}

// waits reports whether encoders and projectors do not train in the next step.
func (p *Perception) waits() bool {
	return p.next < p.recipe.Wait*p.recipe.BatchSize*p.recipe.Accumulate
}

// entry is an example prepared for a batch.
type entry struct {
	r      *nn.Random
	i      int
	supply int
	document
	item
	modality Medium // "" for a document without media
	done     bool
	unseen   bool // no encoder uses it
}

// make makes example i.
func (p *Perception) make(m *entry) error {
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
	if p.recipe.Data.Contrast > 0 && e.Modality != Video {
		m.caption = e.Caption
	}
	if m.unseen || s.cached(m.key) {
		return nil
	}
	if e.Modality == Video {
		m.item, err = s.video(e.Frames)
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

// fill puts examples into a batch and counts the targets.
func (p *Perception) fill(b *batch, all []entry) (terms int) {
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

// look computes the vectors of the batch's items.
func (p *Perception) look(b *batch) error {
	videos, err := p.videos(b)
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
	b.Embeds = append(b.Embeds, videos...)
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
