package runner

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"sync"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/runtimes"
)

// keeper saves and restores the sequences of one model. The nil keeper keeps nothing.
type keeper struct {
	cache  *SequenceCache
	kind   sequenceKind
	saving chan struct{} // a semaphore
}

// keeper returns the keeper of a loaded model, or nil if nothing is kept.
func (r *Runner) keeper(ctx context.Context, m runtimes.Language) (*keeper, error) {
	c := r.opt.Kept
	if c == nil {
		return nil, nil
	}
	q, err := m.NewSequence(ctx, runtimes.SequenceOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a sequence: %w", err)
	}
	defer q.Close()
	s, ok := q.(runtimes.Saver)
	if !ok {
		c.report(fmt.Errorf("backend %s cannot save sequences: texts are computed again in each process", r.engine.Name()))
		return nil, nil
	}
	if err := s.Save(io.Discard); err != nil { // computes the digest of the weights
		return nil, err
	}
	k := &keeper{cache: c, saving: make(chan struct{}, 1), kind: sequenceKind{
		Build: r.build.Digest, Core: r.build.Assembly.Core.ID(), Engine: r.engine.Name(), KV: string(r.build.Assembly.KV),
		Context: m.Shape().Context, Unit: string(cpu.Use()),
	}}
	if r.opt.Revision != nil {
		k.kind.Revision, err = r.opt.Revision()
	}
	return k, err
}

// noOwner is the owner of sequences that are not kept.
const noOwner = "\x00"

// of returns the digest of the sequences of an owner.
func (k *keeper) of(owner string) [sha256.Size]byte {
	kind := k.kind
	kind.Owner = owner
	return k.cache.sum(kind)
}

// kept is a file that begins with the first n ids of a prompt.
type kept struct {
	name string
	kind [sha256.Size]byte
	n    int
}

// find returns the kept sequence with the longest common beginning with a prompt.
func (k *keeper) find(owner string, in *positions) kept {
	if k == nil || owner == noOwner || len(in.ids) < leastKept {
		return kept{}
	}
	f := kept{kind: k.of(owner)}
	f.name, f.n = k.cache.find(f.kind, in.ids)
	return f
}

// restore makes an empty sequence hold a kept one, unless the engine has most of its beginning
// in memory. If that fails, the text is computed.
func (k *keeper) restore(f kept, in *positions, s *session) {
	if f.n < leastKept {
		return
	}
	if q, ok := s.Sequence.(runtimes.Sharer); ok && q.Reusable(in.ids[:f.n])+leastKept > f.n {
		return
	}
	_ = k.cache.restore(f.name, f.kind, s) // reported
}

// save saves a sequence that is about to be closed.
func (k *keeper) save(ctx context.Context, s *session) {
	if k == nil || s.hidden || s.owner == noOwner {
		return
	}
	if err := k.cache.save(ctx, k.of(s.owner), s); err != nil {
		k.cache.report(fmt.Errorf("keeping a sequence: %w", err))
	}
}

// retire closes a sequence that leaves memory, and saves it meanwhile. If another one
// is being saved, it is only closed: requests do not wait for the disk.
func (r *Runner) retire(s *session) error {
	if r.kept == nil || s.hidden {
		return s.Close()
	}
	select {
	case r.kept.saving <- struct{}{}:
	default:
		return s.Close()
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return s.Close()
	}
	r.saving.Add(1)
	r.mu.Unlock()
	go func() {
		defer r.saving.Done()
		defer func() { <-r.kept.saving }()
		r.kept.save(context.Background(), s)
		if err := s.Close(); err != nil {
			r.kept.cache.report(err)
		}
	}()
	return nil
}

// end waits for the sequences that are being saved and saves the idle ones, the last used first.
func (k *keeper) end(saving *sync.WaitGroup, idle []*session) {
	saving.Wait()
	for _, s := range slices.Backward(idle) {
		k.save(context.Background(), s)
	}
}
