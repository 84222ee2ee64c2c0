package infer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// Options is how a model is loaded.
type Options struct {
	// Threads is how many threads compute; 0 means [pool.Default].
	Threads int
	// Adapters change the model, one after the other.
	Adapters []AdapterOptions
	// MergeAdapters adds the adapters to the weights, which become float32
	// where they are changed: exact, and as quick to compute as without, but
	// large. Otherwise the changes stand beside the weights.
	MergeAdapters bool
}

// AdapterOptions is an adapter to be applied.
type AdapterOptions struct {
	// Path of a GGUF file or of a PEFT folder.
	Path string
	// Scale is its strength; 0 means 1.
	Scale float32
}

// Model is the weights of a decoder, ready to compute. It may be used by many
// sessions at a time; their computations take turns.
type Model struct {
	cfg  Config
	file *gguf.File // nil unless loaded from one

	embedding  embedding
	positions  []float32 // Context×C, added to the embeddings, or none
	layers     []layer
	outputNorm norm   // C
	output     linear // C → V

	embeddingScale float32
	attentionScale float32 // what q·k is multiplied by
	act            arch.Activation

	ropeShort, ropeLong []float32 // D/2 divisors of RoPE's frequencies, or none

	mu      sync.Mutex // held while computing
	threads *pool.Pool
	work    work
	closed  bool

	pace  pace  // of the model as a draft
	trade trade // of the model that reads what was looked up

	fingerprint   [sha256.Size]byte
	fingerprinted bool
}

// ErrClosed says that a model was used after its Close.
var ErrClosed = errors.New("the model is closed")

// layer is one block of the decoder. What an architecture does without is
// empty: a norm without gains does nothing.
type layer struct {
	attentionNorm norm     // C
	query         linear   // C → H·D
	key, value    linear   // C → G·D
	queryNorm     headNorm // of each head, or all
	keyNorm       headNorm
	attentionOut  linear // H·D → C
	attentionPost norm   // C, of what is added
	rotation      int    // which of the session's rotations, -1: none
	window        int    // positions that are seen, 0: all

	hiddenNorm norm // C
	feed       feed // C → C
	router     linear
	experts    []feed // of which the router chooses, instead of feed
	hiddenPost norm   // C, of what is added
}

// feed is a feed-forward layer: down(act(up·x)), or down(act(gate·x) ⊙ up·x).
type feed struct {
	gate, up linear // C → F
	down     linear // F → C
}

// linear is y = x·Wᵀ + bias, with the changes of adapters.
type linear struct {
	weight  *panel.Matrix
	bias    []float32 // N, or none
	changes []change
	name    string // of the tensor
	expert  int    // which of the tensor's
}

func (l linear) bytes() int {
	if l.weight == nil {
		return 0
	}
	return l.weight.Bytes()
}

func (f feed) bytes() int { return f.gate.bytes() + f.up.bytes() + f.down.bytes() }

// embedding is the rows of token vectors, V × C.
type embedding struct {
	typ  tensor.Type
	data []byte
}

// row writes the vector of a token.
func (e embedding) row(dst []float32, token int32) {
	n := e.typ.RowBytes(len(dst))
	quant.Dequantize(dst, e.data[int(token)*n:(int(token)+1)*n], e.typ)
}

// Tensors is where weights come from, by GGUF's names: a *[gguf.File] or
// [Memory].
type Tensors interface {
	Tensor(name string) (gguf.Tensor, bool)
	Names() []string
}

// Memory is a set of float32 tensors by GGUF's names, such as a checkpoint
// that is being trained.
type Memory map[string]Array

// Array is a tensor in memory.
type Array struct {
	Dims []int // the contiguous dimension first
	Data []float32
}

// Names lists the tensors, sorted.
func (m Memory) Names() []string { return slices.Sorted(maps.Keys(m)) }

// Tensor gives a copy of a tensor as GGUF has it.
func (m Memory) Tensor(name string) (gguf.Tensor, bool) {
	a, ok := m[name]
	if !ok {
		return gguf.Tensor{}, false
	}
	data := make([]byte, 4*len(a.Data))
	quant.Quantize(data, a.Data, tensor.F32)
	return gguf.Tensor{Name: name, Type: tensor.F32, Dims: a.Dims, Size: int64(len(data)), Data: data}, true
}

// Load maps the GGUF file at path, checks its shape, and packs its weights.
func Load(path string, opt Options) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("loading a model: %w", err)
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

// New makes a model of the given shape out of tensors. Each tensor is held
// against the shape before it is used; one of another size is an error that
// names it and both sizes, and so is one that the shape has no use for. The data of the token embedding is kept, the rest
// is copied.
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
	m.load(&l)
	l.checkAdapters()
	if l.err != nil {
		m.threads.Close()
		return nil, l.err
	}
	m.work.init(m)
	return m, nil
}

// Config is the shape of the model.
func (m *Model) Config() Config { return m.cfg }

// Embed gives the vectors that tokens are read as, n × C for n tokens: fed by
// [Session.FeedVectors] they are what the tokens are.
func (m *Model) Embed(tokens []int32) ([]float32, error) {
	m.mu.Lock() // the embedding lies in the file, which Close unmaps
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	c := m.cfg.Width
	out := make([]float32, len(tokens)*c)
	for i, t := range tokens {
		if t < 0 || int(t) >= m.cfg.Vocab {
			return nil, fmt.Errorf("token %d is not one of the %d of the vocabulary", t, m.cfg.Vocab)
		}
		m.embed(out[i*c:(i+1)*c], t)
	}
	return out, nil
}

// embed writes the vector that a token is read as.
func (m *Model) embed(dst []float32, token int32) {
	m.embedding.row(dst, token)
	if m.embeddingScale != 1 {
		tensor.Scale(dst, m.embeddingScale)
	}
}

// File is the GGUF file the model was loaded from, for its other metadata; nil
// when it was not. It is open until Close.
func (m *Model) File() *gguf.File { return m.file }

// Threads is how many threads compute.
func (m *Model) Threads() int { return m.threads.Threads() }

// WeightBytes is the memory that is read for each token that is generated.
func (m *Model) WeightBytes() int {
	n := m.output.bytes()
	for i := range m.layers {
		y := &m.layers[i]
		for _, w := range []linear{y.query, y.key, y.value, y.attentionOut, y.router} {
			n += w.bytes()
		}
		n += y.feed.bytes()
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
