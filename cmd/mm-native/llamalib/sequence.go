package llamalib

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
)

// chunk bounds the positions of one computation. The library checks for an abort between
// operations, and one operation on so many positions is short.
const chunk = 128

// aborted is the result of decode after an abort.
const aborted = 2

// vector marks a position that is not a token.
const vector int32 = -1

// sequence is a context of the library with its positions.
type sequence struct {
	m       *model
	handle  uintptr // 0: closed
	context int
	ids     []int32   // positions held, with vector for vectors
	last    []float32 // the vector of the last position, if it is one
	fresh   bool      // the library has the logits of the last position
	hidden  bool      // keep the states of all positions
	states  []float32 // of all positions, after the last norm
	stop    *uint32   // 1 aborts the computation; on the heap, at a fixed address
}

// Len returns the number of positions.
func (s *sequence) Len() int { return len(s.ids) }

// Close frees the context.
func (s *sequence) Close() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.free()
	return nil
}

// free frees the context. The caller holds the model's lock.
func (s *sequence) free() {
	if s.handle != 0 {
		s.m.lib.freeContext(s.handle)
		delete(s.m.open, s)
	}
	s.handle, s.ids, s.fresh, s.states = 0, nil, false, nil
}

// Feed appends positions, all or none.
func (s *sequence) Feed(ctx context.Context, in ...runtimes.Positions) error {
	if s.handle == 0 {
		return runtimes.ErrClosed
	}
	before, rows, width := len(s.ids), 0, s.m.shape.Width
	for _, p := range in {
		if len(p.Tokens) > 0 && len(p.Vectors) > 0 || len(p.Vectors)%width != 0 {
			return fmt.Errorf("bad positions: %d tokens, %d numbers of vectors of width %d", len(p.Tokens), len(p.Vectors), width)
		}
		for _, id := range p.Tokens {
			if id < 0 || int(id) >= s.m.shape.Vocab {
				return fmt.Errorf("token %d out of range: vocabulary of %d", id, s.m.shape.Vocab)
			}
		}
		rows += len(p.Tokens) + len(p.Vectors)/width
	}
	if room := s.context - before; rows > room {
		return fmt.Errorf("%w: context %d, %d positions used, %d more requested", runtimes.ErrFull, s.context, before, rows)
	}
	for _, p := range in {
		if err := s.feed(ctx, p); err != nil {
			return errors.Join(err, s.Truncate(before))
		}
	}
	return nil
}

// feed computes tokens or vectors.
func (s *sequence) feed(ctx context.Context, p runtimes.Positions) error {
	width := s.m.shape.Width
	for tokens := range slices.Chunk(p.Tokens, chunk) {
		if err := s.decode(ctx, tokens, nil, len(tokens)); err != nil {
			return err
		}
		s.ids = append(s.ids, tokens...)
	}
	for v := range slices.Chunk(p.Vectors, chunk*width) {
		n := len(v) / width
		if err := s.decode(ctx, nil, v, n); err != nil {
			return err
		}
		s.ids = append(s.ids, slices.Repeat([]int32{vector}, n)...)
		s.last = append(s.last[:0], v[len(v)-width:]...)
	}
	return nil
}

// decode computes n positions after those held and marks the logits of the last one.
func (s *sequence) decode(ctx context.Context, tokens []int32, vectors []float32, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.handle == 0 {
		return runtimes.ErrClosed
	}
	width := 0
	if vectors != nil {
		width = s.m.shape.Width
	}
	b := s.m.lib.batchInit(int32(n), int32(width), 1)
	defer s.m.lib.batchFree(b)
	b.tokens = int32(n)
	if vectors != nil {
		copy(unsafe.Slice((*float32)(dynlib.Pointer(b.embd)), n*width), vectors)
	} else {
		copy(unsafe.Slice((*int32)(dynlib.Pointer(b.token)), n), tokens)
	}
	positions := unsafe.Slice((*int32)(dynlib.Pointer(b.pos)), n)
	counts := unsafe.Slice((*int32)(dynlib.Pointer(b.seqN)), n)
	ids := unsafe.Slice((*uintptr)(dynlib.Pointer(b.seqID)), n)
	wanted := unsafe.Slice((*int8)(dynlib.Pointer(b.logits)), n)
	for i := range n {
		positions[i], counts[i], wanted[i] = int32(len(s.ids)+i), 1, 0
		if s.hidden {
			wanted[i] = 1
		}
		*(*int32)(dynlib.Pointer(ids[i])) = 0
	}
	wanted[n-1] = 1
	s.fresh = false
	atomic.StoreUint32(s.stop, 0)
	told := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		atomic.StoreUint32(s.stop, 1)
		close(told)
	})
	r := s.m.lib.decode(s.handle, b)
	if !unhook() {
		<-told
	}
	if r != 0 {
		s.m.lib.memoryRemove(s.m.lib.getMemory(s.handle), 0, int32(len(s.ids)), -1)
		if err := ctx.Err(); r == aborted && err != nil {
			return err
		}
		return fmt.Errorf("llama.cpp failed to compute %d positions after %d: code %d", n, len(s.ids), r)
	}
	if s.hidden {
		if err := s.keep(n); err != nil {
			s.m.lib.memoryRemove(s.m.lib.getMemory(s.handle), 0, int32(len(s.ids)), -1)
			return err
		}
	}
	s.fresh = true
	return nil
}

// keep copies the states of the last n computed positions. The caller holds the model's lock.
func (s *sequence) keep(n int) error {
	width := s.m.shape.Width
	s.states = s.states[:len(s.ids)*width]
	for i := range n {
		p := s.m.lib.stateAt(s.handle, int32(i))
		if p == 0 {
			return fmt.Errorf("llama.cpp has no state of position %d", len(s.ids)+i)
		}
		s.states = append(s.states, unsafe.Slice((*float32)(dynlib.Pointer(p)), width)...)
	}
	return nil
}

// Hidden returns the states of positions.
func (s *sequence) Hidden(from, to int) ([]float32, error) {
	switch {
	case s.handle == 0:
		return nil, runtimes.ErrClosed
	case !s.hidden:
		return nil, errors.New("the sequence keeps no hidden states")
	case from < 0 || to < from || to > len(s.ids):
		return nil, fmt.Errorf("hidden states %d to %d out of range: %d positions", from, to, len(s.ids))
	}
	return slices.Clone(s.states[from*s.m.shape.Width : to*s.m.shape.Width]), nil
}

// Truncate drops the positions from n on.
func (s *sequence) Truncate(n int) error {
	if s.handle == 0 {
		return runtimes.ErrClosed
	}
	if n < 0 || n > len(s.ids) {
		return fmt.Errorf("cannot truncate %d positions to %d", len(s.ids), n)
	}
	if n == len(s.ids) {
		return nil
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.handle == 0 {
		return runtimes.ErrClosed
	}
	if !s.m.lib.memoryRemove(s.m.lib.getMemory(s.handle), 0, int32(n), -1) {
		return fmt.Errorf("llama.cpp cannot truncate %d positions to %d", len(s.ids), n)
	}
	s.ids, s.fresh = s.ids[:n], false
	s.last = nil // it belongs to another position
	return nil
}

// recall computes the logits of the last position, if unknown.
func (s *sequence) recall(ctx context.Context) error {
	if s.handle == 0 {
		return runtimes.ErrClosed
	}
	n := len(s.ids)
	if s.fresh {
		return nil
	}
	if n == 0 || s.ids[n-1] == vector && s.last == nil {
		return fmt.Errorf("no logits to continue from: the last of the %d positions is a vector", n)
	}
	again := runtimes.Positions{Tokens: []int32{s.ids[n-1]}}
	if s.ids[n-1] == vector {
		again = runtimes.Positions{Vectors: slices.Clone(s.last)}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Truncate(n - 1); err != nil {
		return err
	}
	return s.feed(ctx, again)
}

// logits copies the logits of the last position, reusing a buffer if there is one.
func (s *sequence) logits(into []float32) ([]float32, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.handle == 0 {
		return nil, runtimes.ErrClosed
	}
	p := s.m.lib.logitsAt(s.handle, -1)
	if p == 0 {
		return nil, errors.New("llama.cpp has no logits of the last position")
	}
	return append(into[:0], unsafe.Slice((*float32)(dynlib.Pointer(p)), s.m.shape.Vocab)...), nil
}

// Logits returns the logits after the last position.
func (s *sequence) Logits(ctx context.Context) ([]float32, error) {
	if err := s.recall(ctx); err != nil {
		return nil, err
	}
	return s.logits(nil)
}

// Generate continues the sequence.
func (s *sequence) Generate(ctx context.Context, opt runtimes.Generation, emit func(id int32) error) (runtimes.Stop, error) {
	if s.handle == 0 {
		return "", runtimes.ErrClosed
	}
	if opt.MaxTokens < 0 {
		return "", fmt.Errorf("negative number of tokens: %d", opt.MaxTokens)
	}
	if opt.Allow != nil {
		if err := opt.Allow.Check(); err != nil {
			return "", err
		}
	}
	sampler, err := sample.New(opt.Options)
	if err != nil {
		return "", err
	}
	if err := s.recall(ctx); err != nil {
		return "", err
	}
	state := int32(0)
	history := slices.Clone(s.ids)
	var x []float32
	for n := 1; ; n++ {
		if x, err = s.logits(x); err != nil {
			return "", err
		}
		if opt.Allow != nil {
			opt.Allow.Mask(state, x)
		}
		id, err := sampler.Sample(x, history)
		if opt.Allow != nil && errors.Is(err, sample.ErrNone) { // the grammar ended
			return runtimes.StopEnd, nil
		}
		if err != nil {
			return "", err
		}
		history = append(history, id)
		if opt.Allow != nil {
			state = opt.Allow.Next(state, id)
		}
		if err := emit(id); err != nil {
			return "", err
		}
		switch {
		case slices.Contains(opt.StopIDs, id):
			return runtimes.StopEnd, nil
		case n == opt.MaxTokens:
			return runtimes.StopLength, nil
		case len(s.ids) == s.context:
			return runtimes.StopContext, nil
		}
		if err := s.feed(ctx, runtimes.Positions{Tokens: []int32{id}}); err != nil {
			return "", err
		}
	}
}
