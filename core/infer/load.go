package infer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// Options configures the loading of a model.
type Options struct {
	// Threads is the number of threads. If zero, the default is [pool.Default].
	Threads int
	// Adapters change the model, in order.
	Adapters []AdapterOptions
	// MergeAdapters adds the adapters to the weights. Changed weights become
	// float32: exact, and as fast as without adapters, but large. Otherwise
	// changes are applied next to the weights.
	MergeAdapters bool
	// Prefixes is the memory in bytes of the keys and values that are kept for
	// sessions whose text begins the same. If zero, the default is 128 MiB; if
	// negative, no session shares any.
	Prefixes int
	// KVMemory limits the memory in bytes of the keys and values of all
	// sessions. Sessions wait for room, or compute their text again; each must
	// be closed. If zero, they are not limited.
	KVMemory int
}

// AdapterOptions selects an adapter.
type AdapterOptions struct {
	// Path of a GGUF file or of a PEFT folder.
	Path string
	// Scale is its strength. If zero, the default is 1.
	Scale float32
}

// Model holds the weights of a decoder. Many sessions may use it concurrently:
// their computations share passes.
type Model struct {
	cfg  Config
	file *gguf.File // nil unless loaded from a file

	embedding  *embedding
	positions  []float32 // Context×C, added to the embeddings, or nil
	altup      *altup    // of numbers of each token for each layer, or nil
	many       bool      // several residual streams
	layers     []layer
	inputNorm  norm   // C, of the embeddings
	outputNorm norm   // C
	output     linear // C → V

	embeddingScale float32
	attentionScale float32 // factor of q·k
	act            arch.Activation
	slopes         []float32 // H, of scores by the distance, or nil
	gates          bool      // of the results of heads, by queries

	ropeShort, ropeLong []float32 // D/2 divisors of RoPE's frequencies, or nil

	schedule schedule
	prefixes prefixes // guarded by mu
	farthest float64

	// Guarded by mu.
	kvLimit  int
	holders  []*Session // that hold keys and values, by admission; if limited
	admitted uint64     // sessions

	mu      sync.Mutex // held while computing
	threads *pool.Pool
	work    work
	spans   []span // of the pass
	closed  bool

	pace  pace  // of the model as a draft
	trade trade // of the model with lookup

	fingerprint   [sha256.Size]byte
	fingerprinted bool
}

// ErrClosed reports the use of a model after Close.
var ErrClosed = errors.New("model is closed")

// layer is a block of the decoder. Parts that an architecture lacks are empty:
// a norm without gains does nothing.
type layer struct {
	attentionNorm norm     // C
	query         linear   // C → H·D, or twice as many with gates
	key, value    linear   // C → G·D
	queryNorm     headNorm // of each head, or of all
	keyNorm       headNorm
	sinks         []float32 // H, scores without a value, or nil
	mixer         *mixer    // instead of attention, or nil
	dim, keyHeads int       // D and G of the layer
	values        int       // of a head in the cache
	slot          int       // of its keys and values in the cache
	lone          bool      // one half: attention, a state or feed-forward
	shares        bool      // they are those of an earlier layer
	valueNorm     norm      // D, of the values of each head
	latent        *latent   // compression of queries, keys and values, or nil
	attentionOut  linear    // H·D → C
	attentionPost norm      // C, of the result
	rotation      int       // index of the session's rotation; -1: none
	window        int       // visible positions; 0: all

	hiddenNorm norm      // C
	feed       feed      // C → C; with experts, an additional one for every position
	sharedGate []float32 // C, of feed next to experts, or nil
	router     linear
	routerBias []float32 // E, added to the scores that choose experts, or nil
	experts    []feed    // experts that the router chooses from, instead of feed
	hiddenPost norm      // C, of the result

	routerNorm, expertNorm norm      // C, of the inputs of router and experts next to feed
	densePost, expertPost  norm      // C, of the results of feed and experts
	expertScales           []float32 // E, factors of the experts' weights, or nil

	cutoff float32   // of gates, or arch.Dense
	wide   int       // F of the layer
	scale  []float32 // one factor of the result, or nil

	altup *altupLayer // of several residual streams, or nil
}

// feed is a feed-forward layer: down(act(up·x)), or down(act(gate·x) ⊙ up·x).
type feed struct {
	gate, up linear // C → F
	down     linear // F → C
	curve    *curve // the activation XIELU, or nil
}

// linear computes y = x·Wᵀ + bias, with the changes of adapters.
type linear struct {
	weight  *panel.Matrix
	bias    []float32 // N, or nil
	changes []change
	name    string // of the tensor
	expert  int    // index within the tensor
}

func (l linear) bytes() int {
	if l.weight == nil {
		return 0
	}
	return l.weight.Bytes()
}

func (f feed) bytes() int { return f.gate.bytes() + f.up.bytes() + f.down.bytes() }

// embedding holds a vector of each token, V × C.
type embedding struct {
	typ     tensor.Type
	data    []byte
	release func(data []byte) // drops pages of a mapped file; nil: not mapped
	read    atomic.Uint32     // vectors
}

// embeddedVectors is the number of vectors that are read before their pages are dropped
// from memory. For each one the system maps 64 KiB of the file, which for a large
// vocabulary would make most of the embedding resident in addition to its packed copy.
const embeddedVectors = 256

// row writes the vector of a token.
func (e *embedding) row(dst []float32, token int32) {
	n := e.typ.RowBytes(len(dst))
	quant.Dequantize(dst, e.data[int(token)*n:(int(token)+1)*n], e.typ)
	if e.read.Add(1)%embeddedVectors == 0 && e.release != nil {
		e.release(e.data)
	}
}

// Tensors is a source of weights by GGUF names: such as a *[gguf.File].
type Tensors interface {
	Tensor(name string) (gguf.Tensor, bool)
	Names() []string
}

// Load maps the GGUF file at path, checks its shape, and packs its weights.
func Load(path string, opt Options) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("loading the model: %w", err)
	}
	cfg, err := ReadConfig(f)
	if err == nil {
		f.WillNeed() // all of it is packed
		var m *Model
		if m, err = New(cfg, f, opt); err == nil {
			m.file = f
			return m, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("loading %s: %w", path, err), f.Close())
}

// New builds a model of the given shape from tensors. Each tensor is checked
// against the shape before use; an error names a tensor of another size with
// both sizes, or a tensor that the shape does not use. The data of the token
// embedding is retained, the rest is copied.
func New(cfg Config, tensors Tensors, opt Options) (*Model, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if err := cfg.CheckTensors(tensors.Names()); err != nil {
		return nil, err
	}
	adapters, err := openAdapters(cfg, opt.Adapters)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, threads: pool.New(opt.Threads)}
	l := loader{tensors: tensors, threads: m.threads, adapters: adapters, merge: opt.MergeAdapters}
	if file, ok := tensors.(*gguf.File); ok {
		l.arena.Release = file.Release
	}
	m.load(&l)
	l.checkAdapters()
	if l.err != nil {
		m.threads.Close()
		return nil, l.err
	}
	m.work.init(m)
	m.schedule.init()
	m.farthest = farthest(&m.cfg)
	m.kvLimit = opt.KVMemory
	m.prefixes.limit = opt.Prefixes
	if opt.Prefixes == 0 {
		m.prefixes.limit = defaultPrefixes
	}
	if opt.KVMemory > 0 {
		m.prefixes.limit = min(m.prefixes.limit, opt.KVMemory)
	}
	return m, nil
}

// Config returns the shape of the model.
func (m *Model) Config() Config { return m.cfg }

// Embed returns the vectors of tokens, n × C for n tokens:
// [Session.FeedVectors] of them equals Feed of the tokens, except that vectors have
// the numbers of token 0 for each layer if the model has such numbers (Gemma 3n).
func (m *Model) Embed(tokens []int32) ([]float32, error) {
	m.mu.Lock() // the embedding is in the file, which Close unmaps
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	c := m.cfg.Width
	out := make([]float32, len(tokens)*c)
	for i, t := range tokens {
		if t < 0 || int(t) >= m.cfg.Vocab {
			return nil, fmt.Errorf("token %d out of range: vocabulary has %d", t, m.cfg.Vocab)
		}
		m.embed(out[i*c:(i+1)*c], t)
	}
	return out, nil
}

// embed writes the input vector of a token.
func (m *Model) embed(dst []float32, token int32) {
	m.embedding.row(dst, token)
	if m.embeddingScale != 1 {
		tensor.Scale(dst, m.embeddingScale)
	}
}

// File returns the GGUF file the model was loaded from, for its other metadata,
// or nil. It is open until Close.
func (m *Model) File() *gguf.File { return m.file }

// Threads returns the number of threads.
func (m *Model) Threads() int { return m.threads.Threads() }

// WeightBytes returns the memory read for each generated token.
func (m *Model) WeightBytes() int {
	n := m.output.bytes() + m.altup.bytes()
	for i := range m.layers {
		y := &m.layers[i]
		for _, w := range []linear{y.query, y.key, y.value, y.attentionOut, y.router} {
			n += w.bytes()
		}
		n += y.feed.bytes() + y.latent.bytes() + y.mixer.bytes() + y.altup.bytes()
		if len(y.experts) > 0 {
			n += m.cfg.ExpertsUsed * y.experts[0].bytes()
		}
	}
	return n
}

// Close stops the threads and unmaps the file. Sessions must not be used
// afterwards; a second Close does nothing.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.threads.Close()
	if m.file != nil {
		return m.file.Close()
	}
	return nil
}
