package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
)

// SessionOptions is how a session is held.
type SessionOptions struct {
	// Context is how many positions the session may have; 0 means what the
	// model was trained for, but at most 8192. More than the model was
	// trained for is taken as it is.
	Context int
	// KV is how keys and values are stored: "f32", "f16" or "q8_0"; "" means
	// f16.
	KV string
	// Hidden keeps the state of every position for [Session.Hidden]: C float32
	// each.
	Hidden bool
}

// defaultContext bounds the memory that is taken unasked.
const defaultContext = 8192

// Session is one text in the course of being read and written. It is not safe
// for concurrent use; sessions of one model are independent.
type Session struct {
	m       *Model
	context int
	cache   *kvCache
	turns   []rotation

	tokens []int32   // fed so far; vector where a vector was
	logits []float32 // V, of the last position
	known  bool      // logits are those of the last position
	lookup lookup    // in tokens, as far as text was generated

	observer   Observer
	keepHidden bool
	hidden     []float32 // C a position, from position unseen on
	unseen     int       // positions that came from a snapshot
}

// vector stands for a position that was no token, which is never reused.
const vector int32 = -1

// ErrNoLogits says that there is nothing to continue from.
var ErrNoLogits = errors.New("nothing was fed to continue from")

// ErrContext says that a session has no room for what was to be fed.
var ErrContext = errors.New("the context is full")

// NewSession begins an empty session.
func (m *Model) NewSession(opt SessionOptions) (*Session, error) {
	if opt.Context == 0 {
		opt.Context = min(m.cfg.Context, defaultContext)
	}
	most := arch.MaxContext
	if m.positions != nil {
		most = m.cfg.Context // there are no more vectors for positions
	}
	if opt.Context < 1 || opt.Context > most {
		return nil, fmt.Errorf("a context of %d positions: it must be 1 to %d", opt.Context, most)
	}
	typ := tensor.F16
	if opt.KV != "" {
		t, err := tensor.ParseType(strings.ToUpper(opt.KV))
		if err != nil || !kvSupported(t) {
			return nil, fmt.Errorf("keys and values cannot be stored as %q: known are f32, f16, q8_0", opt.KV)
		}
		typ = t
	}
	cache, err := newCache(cacheShape{Layers: m.cfg.Layers, Heads: m.cfg.KVHeads, Dim: m.cfg.HeadDim}, typ)
	if err != nil {
		return nil, err
	}
	s := &Session{m: m, context: opt.Context, cache: cache, keepHidden: opt.Hidden}
	divisors := m.ropeShort
	if opt.Context > m.cfg.Rope.OriginalContext {
		divisors = m.ropeLong
	}
	s.turns = rotations(m.cfg, divisors)
	return s, nil
}

// rotations are those of a model: of all layers and, where it is another, of
// layers with a window.
func rotations(c Config, divisors []float32) []rotation {
	if c.Rope.Dims == 0 {
		return nil
	}
	all := make([]rotation, 1, 2)
	all[0].theta, all[0].scale = c.Rope.Frequencies(divisors)
	if c.Local != nil {
		var local rotation
		local.theta, local.scale = c.Local.Frequencies(nil)
		all = append(all, local)
	}
	return all
}

// Model is the model the session runs on.
func (s *Session) Model() *Model { return s.m }

// Len is the number of positions fed.
func (s *Session) Len() int { return len(s.tokens) }

// Context is the number of positions there is room for.
func (s *Session) Context() int { return s.context }

// Tokens are the tokens fed, -1 where a vector was. The slice is valid until
// the session changes.
func (s *Session) Tokens() []int32 { return s.tokens }

// Logits are the model's unnormalised log probabilities, V of them, for the
// token after the last one fed; nil when nothing was fed since the beginning
// or since Truncate. The slice is valid until the session changes.
func (s *Session) Logits() []float32 {
	if !s.known {
		return nil
	}
	return s.logits
}

// Recall makes Logits known again after a Truncate, by computing the last
// position once more. A session that is empty has none, and a vector cannot
// be read again: both are errors. The positions stay as they are.
func (s *Session) Recall(ctx context.Context) error {
	n := len(s.tokens)
	if s.known {
		return nil
	}
	if n == 0 || s.tokens[n-1] == vector {
		return fmt.Errorf("%w: the last of the %d positions is no token", ErrNoLogits, n)
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.closed {
		return ErrClosed
	}
	s.m.embed(s.m.work.input(1), s.tokens[n-1])
	if err := s.m.forward(ctx, pass{cache: s.cache, turns: s.turns, first: n - 1, rows: 1, keep: 1}); err != nil {
		return err
	}
	s.logits = append(s.logits[:0], s.m.work.logits.row(0, s.m.cfg.Vocab)...)
	s.known = true
	return nil
}

// Truncate forgets the positions from n on; Logits is nil afterwards, unless
// that was nothing.
func (s *Session) Truncate(n int) {
	if n >= len(s.tokens) {
		return
	}
	s.cut(max(n, 0))
}

// cut leaves n positions, of which there are at least as many.
func (s *Session) cut(n int) {
	s.tokens = s.tokens[:n]
	s.lookup.cut(n)
	s.cache.Release(n)
	s.known = false
	s.unseen = min(s.unseen, n)
	if s.keepHidden {
		s.hidden = s.hidden[:(n-s.unseen)*s.m.cfg.Width]
	}
}

// Hidden gives the states of the positions from ≤ i < to behind the output
// norm, (to-from) × C, which the output matrix makes logits of. The session
// must keep them, and have computed them itself: positions of a snapshot have
// none. The slice is a copy.
func (s *Session) Hidden(from, to int) ([]float32, error) {
	if !s.keepHidden {
		return nil, errors.New("the session keeps no hidden states")
	}
	if from < s.unseen || to < from || to > len(s.tokens) {
		return nil, fmt.Errorf("hidden states of the positions %d to %d: those of %d to %d are known", from, to, s.unseen, len(s.tokens))
	}
	c := s.m.cfg.Width
	return slices.Clone(s.hidden[(from-s.unseen)*c : (to-s.unseen)*c]), nil
}

// Feed reads tokens. It is an error when one is not in the vocabulary, or
// when there is no room for all of them ([ErrContext]); then, and when ctx
// ends before they are read, the session is as it was, except that Logits may
// be nil.
func (s *Session) Feed(ctx context.Context, tokens []int32) error {
	for _, t := range tokens {
		if t < 0 || int(t) >= s.m.cfg.Vocab {
			return fmt.Errorf("token %d is not one of the %d of the vocabulary", t, s.m.cfg.Vocab)
		}
	}
	return s.feed(ctx, input{tokens: tokens, rows: len(tokens)}, 1, nil)
}

// FeedVectors reads positions that are given as vectors in place of token
// embeddings, such as an image's: n × C numbers for n positions. Errors are
// those of Feed.
func (s *Session) FeedVectors(ctx context.Context, vectors []float32) error {
	c := s.m.cfg.Width
	if len(vectors)%c != 0 {
		return fmt.Errorf("%d numbers are no whole number of vectors of %d", len(vectors), c)
	}
	return s.feed(ctx, input{vectors: vectors, rows: len(vectors) / c}, 1, nil)
}

// input is tokens, or vectors of C numbers.
type input struct {
	tokens  []int32
	vectors []float32
	rows    int
}

// feed reads the rows of in. The logits of the last keep rows go to each, in
// order; those of the last row become the session's.
func (s *Session) feed(ctx context.Context, in input, keep int, each func(row int, logits []float32)) error {
	if in.rows > s.context-len(s.tokens) {
		return fmt.Errorf("%w: %d positions of %d are in use, %d more are wanted", ErrContext, len(s.tokens), s.context, in.rows)
	}
	if in.rows == 0 {
		return nil
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.closed {
		return ErrClosed
	}
	before := len(s.tokens)
	s.known = false
	s.cache.Reserve(before + in.rows)
	kept := 0
	for from := 0; from < in.rows; from += maxBatch {
		to := min(from+maxBatch, in.rows)
		s.load(in, from, to)
		// Rows whose logits are wanted are the last of the whole input.
		kept = max(0, min(to-from, to-(in.rows-keep)))
		p := pass{
			cache: s.cache, turns: s.turns,
			first: before + from, rows: to - from, keep: kept, observer: s.observer,
		}
		if s.keepHidden {
			at := len(s.hidden)
			s.hidden = slices.Grow(s.hidden, p.rows*s.m.cfg.Width)[:at+p.rows*s.m.cfg.Width]
			p.hidden = s.hidden[at:]
		}
		if err := s.m.forward(ctx, p); err != nil {
			s.cut(before)
			return err
		}
		for i := range kept {
			if each != nil {
				each(to-kept+i, s.m.work.logits.row(i, s.m.cfg.Vocab))
			}
		}
	}
	if keep > 0 {
		s.logits = append(s.logits[:0], s.m.work.logits.row(kept-1, s.m.cfg.Vocab)...)
		s.known = true
	}
	return nil
}

// load puts rows from to to of in into the model's input and remembers the
// tokens.
func (s *Session) load(in input, from, to int) {
	c := s.m.cfg.Width
	x := s.m.work.input(to - from)
	if in.tokens == nil {
		copy(x, in.vectors[from*c:to*c])
		for range to - from {
			s.tokens = append(s.tokens, vector)
		}
		return
	}
	for i, t := range in.tokens[from:to] {
		s.m.embed(x[i*c:(i+1)*c], t)
		s.tokens = append(s.tokens, t)
	}
}
