package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
)

// SessionOptions configures a session.
type SessionOptions struct {
	// Context is the limit of positions. If zero, it is the model's training
	// context, at most 8192. It may exceed the training context.
	Context int
	// KV is the storage type of keys and values: "f32", "f16" or "q8_0". If
	// empty, the default is f16.
	KV string
	// Hidden retains the state of every position for [Session.Hidden]: C
	// float32 each.
	Hidden bool
}

// defaultContext limits the memory used by default.
const defaultContext = 8192

// Session is a text being read and generated. It is not safe for concurrent
// use; sessions of one model are independent.
type Session struct {
	m       *Model
	context int
	cache   *kvCache
	turns   []rotation

	tokens []int32   // fed so far; vector for a vector
	blocks []block   // grids and positions that see each other
	logits []float32 // V, of the last position
	valid  bool      // logits are those of the last position
	state  state     // of layers that have one
	lookup lookup    // index of tokens, up to the generated text

	input    [1]Input // of Feed
	current  reading  // of feed
	readings [1]*reading
	wake     chan bool
	presence presence // guarded by the schedule
	shared   int      // positions of the last feed that others computed
	text     []int32  // memory of a reading's text

	// If the memory of keys and values is limited:
	users    atomic.Int32 // calls that read or generate
	hold     sync.Mutex   // held while the chunks change, except by a reading
	lost     bool         // the chunks were preempted; guarded by the model's mu
	fixed    bool         // they cannot be computed again; likewise
	admitted uint64       // likewise

	observer   Observer
	keepHidden bool
	hidden     []float32 // C for each position, from position unseen on
	unseen     int       // positions from a snapshot
}

// vector marks a position without a token, which is never reused.
const vector int32 = -1

// ErrNoLogits reports that nothing was fed to continue from.
var ErrNoLogits = errors.New("no logits to continue from")

// ErrContext reports that the session has no room for the input.
var ErrContext = errors.New("context is full")

// NewSession returns an empty session.
func (m *Model) NewSession(opt SessionOptions) (*Session, error) {
	if opt.Context == 0 {
		opt.Context = min(m.cfg.Context, defaultContext)
	}
	most := arch.MaxContext
	if m.positions != nil {
		most = m.cfg.Context // there are no further position vectors
	}
	if opt.Context < 1 || opt.Context > most {
		return nil, fmt.Errorf("bad context: got %d positions, want 1 to %d", opt.Context, most)
	}
	typ := tensor.F16
	if opt.KV != "" {
		t, err := tensor.ParseType(strings.ToUpper(opt.KV))
		if err != nil || !kvSupported(t) {
			return nil, fmt.Errorf("unknown type of keys and values %q, want f32, f16 or q8_0", opt.KV)
		}
		typ = t
	}
	cache, err := newCache(m.cacheShape(), typ)
	if err != nil {
		return nil, err
	}
	s := &Session{m: m, context: opt.Context, cache: cache, state: state{size: memory(&m.cfg)}, keepHidden: opt.Hidden, fixed: opt.Hidden, wake: make(chan bool, 1)}
	divisors := m.ropeShort
	if opt.Context > m.cfg.Rope.OriginalContext {
		divisors = m.ropeLong
	}
	s.turns = rotations(m.cfg, divisors)
	return s, nil
}

// cacheShape returns the layout of the keys and values of a session.
func (m *Model) cacheShape() cacheShape {
	c := &m.cfg
	s := cacheShape{Layers: c.AttentionLayers(), Heads: c.KVHeads, Dim: c.HeadDim}
	if c.LocalHeadDim > 0 {
		s.LocalHeads, s.LocalDim = c.LocalKVHeads, c.LocalHeadDim
		for i := range c.Layers {
			if c.KeysOf(i) == i {
				s.Local = append(s.Local, c.WindowOf(i) > 0)
			}
		}
	}
	if m.cfg.Latent != nil {
		s.Latent = m.cfg.Latent.Rank
	}
	return s
}

// rotations returns a model's rotations: one for all layers and, if it differs,
// one for layers with a window.
func rotations(c Config, divisors []float32) []rotation {
	if c.Rope.Dims == 0 {
		return nil
	}
	all := make([]rotation, 1, 2)
	all[0].theta, all[0].scale = c.Rope.Frequencies(divisors)
	all[0].axis = c.Rope.Axes()
	if c.Local != nil {
		var local rotation
		local.theta, local.scale = c.Local.Frequencies(nil)
		all = append(all, local)
	}
	return all
}

// Model returns the model of the session.
func (s *Session) Model() *Model { return s.m }

// Len returns the number of positions fed.
func (s *Session) Len() int { return len(s.tokens) }

// Context returns the limit of positions.
func (s *Session) Context() int { return s.context }

// Tokens returns the tokens fed, with -1 for a vector. The slice is valid until
// the session changes.
func (s *Session) Tokens() []int32 { return s.tokens }

// Logits returns the model's unnormalized log probabilities, V of them, for the
// next token, or nil if nothing was fed since the start or since Truncate. The
// slice is valid until the session changes.
func (s *Session) Logits() []float32 {
	if !s.valid {
		return nil
	}
	return s.logits
}

// Recall recomputes Logits after a Truncate, by computing the last position
// again. It is an error if the session is empty or the last position is a
// vector. The positions do not change.
func (s *Session) Recall(ctx context.Context) error {
	n := len(s.tokens)
	if s.valid {
		return nil
	}
	if n == 0 || s.tokens[n-1] == vector {
		return fmt.Errorf("%w: the last of the %d positions is a vector", ErrNoLogits, n)
	}
	if s.state.size > 0 {
		return s.recall(ctx, s.tokens[n-1])
	}
	s.users.Add(1)
	defer s.users.Add(-1)
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.closed {
		return ErrClosed
	}
	if s.restore(&s.current) {
		s.m.mu.Unlock()
		s.readings[0] = &s.current
		err := s.m.read(ctx, s.readings[:], s.wake)
		s.m.mu.Lock()
		return err
	}
	if mutualAt(s.blocks, n-1) != nil {
		return fmt.Errorf("%w: the last of the %d positions is seen by earlier ones", ErrNoLogits, n)
	}
	s.cache.Own(n - 1)
	s.m.embed(s.m.work.input(1), s.tokens[n-1])
	last := span{cache: s.cache, turns: s.turns, tokens: s.tokens[n-1:], first: n - 1, rows: 1, keep: 1}
	if next := int32(s.Next()) - 1; int(next) != n-1 {
		last.places = []place{{next, next, next}}
	}
	if err := s.m.forward(ctx, newPass(nil, last)); err != nil {
		return err
	}
	s.logits = append(s.logits[:0], s.m.work.logits.row(0, s.m.cfg.Vocab)...)
	s.valid = true
	return nil
}

// Truncate discards the positions from n on; Logits is then nil, unless nothing
// was discarded. A grid and positions that see each other are discarded as a
// whole.
func (s *Session) Truncate(n int) {
	if n >= len(s.tokens) {
		return
	}
	s.cut(max(n, 0))
}

// cut discards the positions from n on, of which there may be none.
func (s *Session) cut(n int) {
	for i, b := range s.blocks {
		if n < b.end() {
			s.blocks = s.blocks[:i]
			if n > b.first {
				n = b.first
			}
			break
		}
	}
	if s.state.size > 0 {
		s.hold.Lock()
		from := s.state.cut(n)
		s.hold.Unlock()
		if slices.Contains(s.tokens[from:n], vector) {
			n = from // vectors cannot be computed again
			s.blocks = slices.DeleteFunc(s.blocks, func(b block) bool { return n < b.end() })
		}
	}
	s.tokens = s.tokens[:n]
	s.lookup.cut(n)
	s.hold.Lock()
	s.cache.Release(n)
	s.hold.Unlock()
	s.valid = false
	s.cutHidden(n)
}

// cutHidden discards the hidden states from position n on, of which there may be none.
func (s *Session) cutHidden(n int) {
	s.unseen = min(s.unseen, n)
	if s.keepHidden {
		s.hidden = s.hidden[:min(len(s.hidden), (n-s.unseen)*s.m.cfg.Width)]
	}
}

// Hidden returns the states after the output norm of the positions from ≤ i <
// to, (to-from) × C, the input of the output matrix. The session must retain
// them and have computed them: positions of a snapshot have none. The slice is
// a copy. If a model has states, a feed that fails may discard those that it computes again;
// the next feed computes them.
func (s *Session) Hidden(from, to int) ([]float32, error) {
	if !s.keepHidden {
		return nil, errors.New("session does not retain hidden states")
	}
	c := s.m.cfg.Width
	if end := s.unseen + len(s.hidden)/c; from < s.unseen || to < from || to > end {
		return nil, fmt.Errorf("hidden states %d to %d out of range: have %d to %d", from, to, s.unseen, end)
	}
	return slices.Clone(s.hidden[(from-s.unseen)*c : (to-s.unseen)*c]), nil
}

// Feed reads tokens. It fails for a token outside the vocabulary, without room
// for all of them ([ErrContext]), and on cancellation; the session is then
// unchanged, except that Logits may be nil.
func (s *Session) Feed(ctx context.Context, tokens []int32) error {
	s.input[0] = Input{Tokens: tokens}
	return s.feed(ctx, s.input[:], 1, nil)
}

// FeedVectors reads positions as vectors instead of token embeddings, such as
// an image's: n × C numbers for n positions. Errors are those of Feed.
func (s *Session) FeedVectors(ctx context.Context, vectors []float32) error {
	return s.feed(ctx, []Input{{Vectors: vectors}}, 1, nil)
}

// feed reads inputs. It passes the logits of the last keep rows to each, in
// order; those of the last row become the session's.
func (s *Session) feed(ctx context.Context, in []Input, keep int, each func(row int, logits []float32)) error {
	r := &s.current // a step of decoding allocates nothing
	if err := s.reading(r, in, keep, each); err != nil || r.rows == 0 {
		return err
	}
	s.readings[0] = r
	return s.m.read(ctx, s.readings[:], s.wake)
}
